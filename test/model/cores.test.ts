/** Idle cores under every order of their loads and stores, and each of their rules broken in turn. */
import { itAll } from '../rig/setting.ts';
import { type CoresMutation, type CoresSetup, coresProtocol } from './cores.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ pieces, helpers, jobs }: CoresSetup) =>
  `jobs: ${jobs}, pieces of each: ${pieces}, helpers: ${helpers}`;
const { holds, caught, explored } = proofsOf<CoresMutation, CoresSetup>(coresProtocol, inWords);

const one: CoresSetup = { pieces: 2, helpers: 1, jobs: 1 };
const two: CoresSetup = { pieces: 2, helpers: 1, jobs: 2 };

describe('idle cores', function () {
  this.timeout(60_000);
  for (const setup of [one, two]) holds(setup);
  holds({ pieces: 1, helpers: 2, jobs: 2 });
  holds({ pieces: 2, helpers: 2, jobs: 2 }, itAll);
});

describe("idle cores' rules, broken on purpose, are caught", function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of idle cores`));

  caught('pieces looked at and taken in two steps', 'C1', one);
  caught('done counted before the piece', 'C3', one);
  caught('done counted without release', 'C3', one);
  caught('done looked at without acquire', 'C3', one);
  caught('returned when every piece is taken', 'C3', one);
  caught('a job that ends with its call', 'C2', two);
  caught('offered before the input is there', 'C3', one);
  caught('the list looked at outside the lock', 'C4', one);
});
