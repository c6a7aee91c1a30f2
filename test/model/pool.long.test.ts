/**
 * Checks the model of a collector pool's stop and hold (pool.ts). The rules hold in every order of
 * the steps of its collectors, its opener and the closing thread. Each rule broken on purpose is
 * caught.
 */
import { itAll } from '../rig/setting.ts';
import { type PoolMutation, type PoolSetup, poolProtocol } from './pool.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({
  workers,
  holds,
  rows,
  states,
  ends = 0,
  restarts = 0,
  late = false,
}: PoolSetup) =>
  `collectors: ${workers}${states ? '' : ' without a state'}, holds: ${holds}${late ? ', the opener may give up waiting' : ''}, rows: ${rows}, threads that end: ${ends}, restarts: ${restarts}`;
const { holds, caught, explored } = proofsOf<PoolMutation, PoolSetup>(poolProtocol, inWords);

const one: PoolSetup = { workers: 1, holds: 2, rows: 2, states: true };
const stateless: PoolSetup = { ...one, states: false };
const late: PoolSetup = { ...one, late: true };
const ends: PoolSetup = { ...one, holds: 1, ends: 1 };
const again: PoolSetup = { ...ends, ends: 2, restarts: 1 };
const two: PoolSetup = { workers: 2, holds: 1, rows: 1, states: true };

describe('collector pool model: rules hold', () => {
  for (const setup of [one, stateless, late, ends, again]) holds(setup);
  holds(two, itAll);
  holds({ ...two, rows: 0, late: true }, itAll);
  holds({ ...two, rows: 0, ends: 1, restarts: 1 }, itAll);
});

describe('collector pool model: mutations are caught', () => {
  after(() => console.log(`      ${explored()} of pools`));

  caught('the bell read behind the stop word', 'deadlock', one);
  caught('the bell read behind the refusal', 'deadlock', one);
  caught('the bells rung before the stop word', 'deadlock', one);
  caught('a stop that leaves the hold word alone', 'deadlock', one);
  caught('a stop that rings no bell', 'deadlock', one);
  caught('a hold that rings no bell', 'deadlock', one);
  caught('a release that tells nobody', 'deadlock', one);
  caught('stands still while any hold lasts', 'deadlock', one);
  caught('what was told is not kept', 'livelock', stateless);
  caught('answers not numbered', 'Pool-2', late);
  caught('goes on without waiting', 'Pool-2', one);
  caught('those that are gone are waited for', 'deadlock', ends);
  caught('a successor counts as gone', 'Pool-4', again);
});
