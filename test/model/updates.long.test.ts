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
    proves('lag', plain, 'applied behind the draw');
    proves('home', { ...plain, depth: 1 }, 'an update applied a sequence early');
    const dying = { depth: 1, ticks: [2, 3], faults: DEATH } as const;
    proves(
      'twice',
      dying,
      'applied recorded by a store behind',
      'what is applied known to pack alone',
    );
    proves('lag', dying, 'applied recorded by a store before');
  });

  describe('fetching priorities', () => {
    const three = { depth: 1, ticks: [2, 3], silent: [1], manual: [0] } as const;
    proves('home', three, 'Free stored before the priorities are fetched');
    proves('home', three, 'the priorities of manual ticks not fetched');
    proves(
      'home',
      three,
      'spent recorded before the priorities come home',
      'priorities left as the slot held them',
    );
  });

  describe('withdrawing requests', () => {
    const cleared = { depth: 2, ticks: [3, 4], steps: CLEARED, faults: ABORT } as const;
    proves('Slot-3', cleared, 'taken back oldest first', 'taken back while its batch is half made');
    proves('home', cleared, 'taken back to the next sequence');
    proves('livelock', cleared, 'taken back while the run goes on');
    proves('Slot-1', cleared, 'taken back by the client');
    proves('deadlock', cleared, 'no ring: take-back to client');
    proves('Slot-3', cleared, 'the next run begun before the pause is answered');
    proves('Slot-3', cleared, 'the next run begun before every slot is Free');
  });

  describe('closing', () => {
    const closed = { depth: 2, ticks: [2, 3], steps: CLEARED, faults: ABORT } as const;
    proves('twice', plain, 'close applies what is applied');
    proves('order', plain, 'close applies the newest first');
    proves('lost', plain, 'close applies nothing');
    proves('owner', plain, 'close before pack has ended');
    proves('lost', closed, 'close looks at Free slots alone');
    proves('home', closed, 'close before the device is drained');
  });
});
