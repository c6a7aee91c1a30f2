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
    caught('a rank uses only one half of a buffer', 'Exchange-2');
    caught('a rank starts an exchange before it waits for the previous one', 'Exchange-2');
    caught('a rank does not empty the halves that it receives', 'Exchange-2');
    caught('a rank empties a half after it sends the next exchange', 'Exchange-2');
    caught('a rank fills a half before it packs the data', 'Exchange-1');
    caught('a rank sends before the device packs the data', 'Exchange-1', { device: true });
    caught('a rank unpacks on a second stream', 'Exchange-1', { device: true });
  });

  describe('waiting ranks', () => {
    // A rank that continues rings again, so there a lost wake costs only time. These mutations
    // deadlock only if a rank computes for ever.
    caught('a rank rings the reader before it stores the word', 'deadlock', { faults: ['rest'] });
    caught('a rank does not ring the reader', 'deadlock');
    caught('a rank reads its bell after it checks the words', 'deadlock');
    caught('a ringer reads the flag before it increments the bell', 'deadlock', {
      faults: ['rest'],
    });
  });

  describe('ranks that leave', () => {
    caught('a rank reads the state of a sender after its word', 'Exchange-5');
    caught('a rank closes before it sends its last exchange', 'Exchange-6');
    caught('a rank rings all bells before it stores that it left', 'deadlock', {
      faults: ['close'],
    });
    caught('a rank that leaves rings no bell', 'deadlock', { faults: ['close'] });
    caught('a rank that leaves rings no bell', 'deadlock', { faults: ['failure'] });
  });

  describe('failed and lost ranks', () => {
    // A rank sees the failure of its neighbor in the neighbor's state. The failure word is for the
    // ranks that are further away, so these setups are chains.
    const far = { pairs: CHAIN, exchanges: 1, faults: ['failure', 'rest'] } as const;
    caught('a rank checks for a failure before it reads its bell', 'deadlock', far);
    caught('a rank does not check for a failure', 'deadlock', far);
    caught('a rank checks for a failure after it checks the words', 'Exchange-5', {
      faults: ['failure'],
    });
    caught('a rank reads a failure while another rank writes it', 'Exchange-6', {
      faults: ['failure'],
    });
    const missing = {
      pairs: CHAIN,
      exchanges: 2,
      faults: ['close', 'rest'],
      grain: 'hand-over',
    } as const;
    caught('a rank that misses data reports no failure', 'deadlock', missing);
    caught('a rank ignores that a sender is lost', 'livelock', { faults: ['death'] });
    caught('a rank parks without a time limit', 'deadlock', { faults: ['death'] });
  });
});
