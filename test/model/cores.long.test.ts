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

  caught('a thread loads and stores the next piece in two steps', 'CorePool-1', one);
  caught('a thread counts a piece as done before it does the piece', 'CorePool-3', one);
  caught('a thread counts a piece as done without release order', 'CorePool-3', one);
  caught('the caller loads `done` without acquire order', 'CorePool-3', one);
  caught('the caller returns before helpers finish their pieces', 'CorePool-3', one);
  caught('the caller frees the job when its call returns', 'CorePool-2', two);
  caught('the caller offers the job before it writes the input', 'CorePool-3', one);
  caught('a helper checks the list without the lock', 'CorePool-4', one);
  caught('a helper checks for a free place and joins in two steps', 'CorePool-5', few);
});
