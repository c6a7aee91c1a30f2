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

  caught('a collector reads its bell after the stop word', 'deadlock', one);
  caught('a collector reads its bell after the limiter refuses a row', 'deadlock', one);
  caught('the closer rings the bells before it stores the stop word', 'deadlock', one);
  caught('the closer does not change the hold word', 'deadlock', one);
  caught('the closer rings no bell', 'deadlock', one);
  caught('the opener rings no bell for a hold', 'deadlock', one);
  caught('the opener notifies no collector after a release', 'deadlock', one);
  caught('a collector stands still during any hold', 'deadlock', one);
  caught('a collector does not remember the hold that it answered', 'livelock', stateless);
  caught('the opener accepts an answer to an earlier hold', 'Pool-2', late);
  caught('a collector continues after its answer without waiting', 'Pool-2', one);
  caught('the opener waits for collectors that have ended', 'deadlock', ends);
  caught('the opener counts a restarted collector as ended', 'Pool-4', again);
});
