/**
 * Checks the model of the pool of cores (cores.ts). The rules hold in every order of the threads'
 * loads and stores. Each rule broken on purpose is caught.
 */
import { itAll } from '../rig/setting.ts';
import { type CoresMutation, type CoresSetup, coresProtocol } from './cores.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ pieces, helpers, places, jobs }: CoresSetup) =>
  `jobs: ${jobs}, pieces of each: ${pieces}, helpers: ${helpers}, places: ${places}`;
const { holds, caught, explored } = proofsOf<CoresMutation, CoresSetup>(coresProtocol, inWords);

const one: CoresSetup = { pieces: 2, helpers: 1, places: 1, jobs: 1 };
const two: CoresSetup = { pieces: 2, helpers: 1, places: 1, jobs: 2 };
const few: CoresSetup = { pieces: 2, helpers: 2, places: 1, jobs: 1 };

describe('core pool model: rules hold', function () {
  this.timeout(60_000);
  for (const setup of [one, two, few]) holds(setup);
  holds({ pieces: 1, helpers: 2, places: 2, jobs: 2 });
  holds({ pieces: 2, helpers: 2, places: 1, jobs: 2 }, itAll);
  holds({ pieces: 2, helpers: 2, places: 2, jobs: 2 }, itAll);
});

describe('core pool model: mutations are caught', function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of the pool of cores`));

  caught('pieces looked at and taken in two steps', 'CorePool-1', one);
  caught('done counted before the piece', 'CorePool-3', one);
  caught('done counted without release', 'CorePool-3', one);
  caught('done looked at without acquire', 'CorePool-3', one);
  caught('returned when every piece is taken', 'CorePool-3', one);
  caught('a job that ends with its call', 'CorePool-2', two);
  caught('offered before the input is there', 'CorePool-3', one);
  caught('the list looked at outside the lock', 'CorePool-4', one);
  caught('a place looked at and taken in two steps', 'CorePool-5', few);
});
