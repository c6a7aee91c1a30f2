/**
 * Checks the model of the halo exchange between threads (halo.ts). The rules hold in every
 * interleaving. Each rule broken on purpose is caught.
 */
import { itAll, itLong } from '../rig/setting.ts';
import { type HaloMutation, type HaloSetup, haloProtocol } from './halo.ts';
import { proofsOf } from './proofs.ts';

const TWO = [[0, 1]] as const;
const TWICE = [
  [0, 1],
  [0, 1],
] as const;
const ALONE = [[0, 0]] as const;
/** the two outer ranks are connected only through the middle rank */
const CHAIN = [
  [0, 1],
  [1, 2],
] as const;
const CYCLE = [...CHAIN, [2, 0]] as const;
const ALL = ['close', 'failure', 'rest', 'death'] as const;

function inWords(setup: HaloSetup): string {
  const faults = setup.faults?.length
    ? `with ${setup.faults.join(', ')} at any moment`
    : 'without faults';
  const ranks = setup.pairs.map((pair) => pair.join('–')).join(' ');
  return `ranks ${ranks}, ${setup.exchanges} exchanges, ${faults}`;
}

const { holds, caught: caughtIn, explored } = proofsOf(haloProtocol, inWords);
const caught = (broken: HaloMutation, rule: string, more: Partial<HaloSetup> = {}) =>
  caughtIn(broken, rule, { pairs: TWO, exchanges: 3, ...more });

describe('halo exchange model', function () {
  this.timeout(60_000);

  describe('rules hold when every access to shared memory is a step', () => {
    for (const pairs of [TWO, TWICE, ALONE]) {
      holds({ pairs, exchanges: 3 });
      holds({ pairs, exchanges: 3, faults: ALL });
    }
    holds({ pairs: CHAIN, exchanges: 1, faults: ALL }, itLong);
    holds({ pairs: CHAIN, exchanges: 2, faults: ['death'] });
  });

  describe('rules hold for arrays on devices', () => {
    holds({ pairs: TWO, exchanges: 3, device: true });
    holds({ pairs: TWO, exchanges: 3, faults: ALL, device: true });
  });

  describe('rules hold when every bell increment and every park is a step', () => {
    for (const faults of [[], ['close'], ['failure'], ['rest'], ['death']] as const) {
      const wanted = faults[0] === 'failure' ? itLong : faults[0] === 'death' ? itAll : it;
      holds({ pairs: CYCLE, exchanges: 2, faults, grain: 'hand-over' }, wanted);
      holds({ pairs: CYCLE, exchanges: 3, faults, grain: 'hand-over' }, itLong);
    }
    holds({ pairs: CHAIN, exchanges: 2, faults: ALL, grain: 'hand-over' }, itLong);
  });
});

describe('halo exchange model: mutations are caught', function () {
  this.timeout(60_000);

  after(() => console.log(`      ${explored()} of the halo exchange protocol`));

  describe('buffers', () => {
    caught('one half only', 'Exchange-2');
    caught('next exchange started before the last is waited for', 'Exchange-2');
    caught('never emptied', 'Exchange-2');
    caught('emptied after the next exchange is sent', 'Exchange-2');
    caught('filled before it is packed', 'Exchange-1');
    caught('sent before the device has packed', 'Exchange-1', { device: true });
    caught('unpacked on another stream', 'Exchange-1', { device: true });
  });

  describe('waiting ranks', () => {
    // A rank that continues rings again, so there a lost wake costs only time. These mutations
    // deadlock only if a rank computes for ever.
    caught('rung before the word is stored', 'deadlock', { faults: ['rest'] });
    caught('reader not rung', 'deadlock');
    caught('bell read after the look', 'deadlock');
    caught('flag looked at before the count is added', 'deadlock', { faults: ['rest'] });
  });

  describe('ranks that leave', () => {
    caught('state looked at after the word', 'Exchange-5');
    caught('closed before the last exchange is sent', 'Exchange-6');
    caught('rung before it leaves', 'deadlock', { faults: ['close'] });
    caught('nobody rung when it leaves', 'deadlock', { faults: ['close'] });
    caught('nobody rung when it leaves', 'deadlock', { faults: ['failure'] });
  });

  describe('failed and lost ranks', () => {
    // A rank sees the failure of its neighbor in the neighbor's state. The failure word is for the
    // ranks that are further away, so these setups are chains.
    const far = { pairs: CHAIN, exchanges: 1, faults: ['failure', 'rest'] } as const;
    caught('failure looked for before the bell is read', 'deadlock', far);
    caught('failure not looked for', 'deadlock', far);
    caught('failure looked for after the word', 'Exchange-5', { faults: ['failure'] });
    caught('failure looked at while it is written', 'Exchange-6', { faults: ['failure'] });
    const missing = {
      pairs: CHAIN,
      exchanges: 2,
      faults: ['close', 'rest'],
      grain: 'hand-over',
    } as const;
    caught('a rank that misses another tells nobody', 'deadlock', missing);
    caught('a lost rank not looked for', 'livelock', { faults: ['death'] });
    caught('no limit to a park', 'deadlock', { faults: ['death'] });
  });
});
