/**
 * Checks the model of priority updates at a fixed lag (updates.ts). The rules hold in every
 * interleaving. Each rule broken on purpose is caught.
 */
import { itAll, itLong } from '../rig/setting.ts';
import { proofsOf } from './proofs.ts';
import { type UpdatesMutation, type UpdatesSetup, updatesProtocol } from './updates.ts';

function inWords({ depth, ticks, steps = '+', silent = [], faults = [] }: UpdatesSetup): string {
  const abort = faults.includes('abort') ? ', ended at any moment' : '';
  const death = faults.includes('death') ? ', with one death at any moment' : '';
  const none = silent.length > 0 ? `, no priorities of ${silent.join(' and ')}` : '';
  return `depth ${depth}, runs to ${ticks.join(' and ')}, steps ${steps}${none}${abort}${death}`;
}

const { holds, caught, explored } = proofsOf(updatesProtocol, inWords);
const ABORT = ['abort'] as const;
const DEATH = ['death'] as const;
/** Steps are added and cleared, so that some requested batches cannot be drawn. */
const CLEARED = '+-+';

describe('priority update model', function () {
  this.timeout(60_000);

  describe('rules hold in two runs with a pause between the runs', () => {
    for (const depth of [1, 2, 3] as const) {
      holds({ depth, ticks: [depth + 1, depth + 2] });
      holds({ depth, ticks: [depth, depth + 2], silent: [0, depth], faults: DEATH });
    }
  });

  describe('rules hold when requests are withdrawn', () => {
    holds({ depth: 1, ticks: [2, 3], steps: CLEARED, faults: ABORT });
    holds({ depth: 2, ticks: [3, 4], steps: CLEARED, faults: ABORT });
    holds({ depth: 3, ticks: [3, 4], steps: CLEARED, faults: ABORT }, itAll);
    holds({ depth: 1, ticks: [2, 3], steps: CLEARED, faults: ['abort', 'death'] });
    holds(
      { depth: 2, ticks: [2, 4], steps: CLEARED, silent: [0], faults: ['abort', 'death'] },
      itAll,
    );
    holds({ depth: 3, ticks: [2, 4], steps: CLEARED, faults: ['abort', 'death'] }, itLong);
  });
});

describe('priority update model: mutations are caught', function () {
  this.timeout(60_000);

  after(() => console.log(`      ${explored()} of updates of priorities`));

  const plain = { depth: 2, ticks: [2, 3] } as const;
  const proves = (rule: string, setup: UpdatesSetup, ...broken: UpdatesMutation[]) => {
    for (const each of broken) caught(each, rule, setup);
  };

  describe('applying updates', () => {
    proves('lag', plain, 'pack applies the update after the draw');
    proves('home', { ...plain, depth: 1 }, 'pack applies an update one sequence early');
    const dying = { depth: 1, ticks: [2, 3], faults: DEATH } as const;
    proves(
      'twice',
      dying,
      'pack records an applied update by a later store',
      'a successor derives the applied count from the slots',
    );
    proves('lag', dying, 'pack records an applied update by an earlier store');
  });

  describe('fetching priorities', () => {
    const three = { depth: 1, ticks: [2, 3], silent: [1], manual: [0] } as const;
    proves('home', three, 'poll stores Free before it fetches the priorities');
    proves('home', three, 'poll does not fetch the priorities of manual ticks');
    proves(
      'home',
      three,
      'replay records `spent` before the readback of priorities',
      'pack does not reset the priorities of the slot',
    );
  });

  describe('withdrawing requests', () => {
    const cleared = { depth: 2, ticks: [3, 4], steps: CLEARED, faults: ABORT } as const;
    proves(
      'Slot-3',
      cleared,
      'pack takes back the oldest request first',
      'the requester takes back a request during its batch',
    );
    proves('home', cleared, 'pack takes back a request to the next sequence');
    proves('livelock', cleared, 'pack takes back a request during the run');
    proves('Slot-1', cleared, 'the client takes back the requests of pack');
    proves('deadlock', cleared, 'pack does not ring the client after it takes back a request');
    proves('Slot-3', cleared, 'the client begins a run before the pause is answered');
    proves('Slot-3', cleared, 'the client begins a run before every slot is Free');
  });

  describe('closing', () => {
    const closed = { depth: 2, ticks: [2, 3], steps: CLEARED, faults: ABORT } as const;
    proves('twice', plain, 'close() applies updates a second time');
    proves('order', plain, 'close() applies the newest update first');
    proves('lost', plain, 'close() applies no update');
    proves('owner', plain, 'close() does not wait until the threads end');
    proves('lost', closed, 'close() ignores slots that are Requested');
    proves('home', closed, 'close() does not drain the device');
  });
});
