/**
 * Checks the model of the CPU device's executor (executor.ts). The rules hold in every
 * interleaving. Each rule broken on purpose is caught.
 */
import { itAll, itLong } from '../rig/setting.ts';
import { type ExecutorMutation, type ExecutorSetup, executorProtocol } from './executor.ts';
import { proofsOf } from './proofs.ts';

function inWords({ queues, enqueues, pool = 2, attends, waits, helps }: ExecutorSetup): string {
  const others = [
    ...(attends
      ? [attends.until === undefined ? 'an attendant leaves' : `attended until ${attends.until}`]
      : []),
    ...(attends?.times ? [`as ${attends.times}`] : []),
    ...(waits === undefined ? [] : [`a thread waits for ${waits}`]),
    ...(helps ? ['a thread helps for a while'] : []),
  ];
  const ops = queues.map((queue) => queue.join(' ')).join(' | ');
  return [
    ops,
    `enqueued ${enqueues.map((queue) => queue.join('')).join(' and ')}`,
    `pool of ${pool}`,
    ...others,
  ].join(', ');
}
const { holds, caught, explored } = proofsOf<ExecutorMutation, ExecutorSetup>(
  executorProtocol,
  inWords,
);

const alone: ExecutorSetup = { queues: [['r0', 'r1']], enqueues: [[0, 0]], pool: 1 };
/** one queue waits for a point of the other queue */
const across: ExecutorSetup = { queues: [['r0'], ['w0']], enqueues: [[1, 0]] };
/** an op lasts until the other queue has recorded its point */
const lasts: ExecutorSetup = { queues: [['l0'], ['r0']], enqueues: [[0, 1]] };
const attended: ExecutorSetup = {
  queues: [['r0']],
  enqueues: [[0]],
  attends: { until: 0 },
  pool: 1,
};
const leaves: ExecutorSetup = { ...attended, attends: {} };
const busy: ExecutorSetup = { ...lasts, attends: { until: 0 }, pool: 1 };
const twice: ExecutorSetup = { ...busy, attends: { until: 0, times: 2 } };
/** an op that lasts, and that only the pool may run */
const poolOnly: ExecutorSetup = { ...busy, queues: [['h1', 'r0'], ['r1']], enqueues: [[0, 0, 1]] };
const waited: ExecutorSetup = { queues: [['r0']], enqueues: [[0]], waits: 0, pool: 1 };
const helped: ExecutorSetup = { ...alone, helps: true };
const replays: ExecutorSetup = { queues: [['g'], ['g']], enqueues: [[0, 1]], helps: true, pool: 1 };
const inside: ExecutorSetup = { queues: [['G01'], ['w0', 'r1']], enqueues: [[1, 1, 0]] };

describe('CPU device executor model: rules hold', function () {
  this.timeout(120_000);
  for (const setup of [alone, across, lasts, attended, leaves, waited, helped]) holds(setup);
  for (const setup of [busy, twice, poolOnly, replays, inside]) holds(setup, itAll);
  holds({ queues: [['r0'], ['w0', 'r1']], enqueues: [[1, 1, 0]], waits: 0, pool: 1 }, itAll);
  holds(
    { queues: [['n', 'r0']], enqueues: [[0, 0]], attends: { until: 0 }, waits: 0, pool: 1 },
    itLong,
  );
});

describe('CPU device executor model: mutations are caught', function () {
  this.timeout(120_000);
  after(() => console.log(`      ${explored()} of an executor`));

  const proves = (rule: string, setup: ExecutorSetup, ...broken: ExecutorMutation[]) => {
    for (const each of broken) caught(each, rule, setup);
  };
  const sizeable = (rule: string, setup: ExecutorSetup, ...broken: ExecutorMutation[]) => {
    for (const each of broken) caught(each, rule, setup, itAll);
  };
  describe('enqueueing and waking', () => {
    proves(
      'deadlock',
      alone,
      'a thread changes the pool word after it counts the pool',
      'an enqueuer notifies before it pushes the op',
    );
    sizeable('deadlock', busy, 'an enqueuer relies on a busy attendant');
    sizeable('deadlock', twice, 'a thread that attends twice counts itself as busy once');
  });
  describe('thread pool', () => {
    proves(
      'deadlock',
      alone,
      'a pool thread reads the pool word after it checks the queues',
      'a pool thread sleeps without counting itself as parked',
    );
    proves(
      'deadlock',
      lasts,
      'a pool thread does not count itself as held in a long op',
      'a pool thread counts itself as held after it checks the queues',
    );
    proves('deadlock', lasts, 'a thread begins a long op without checking the queues');
  });
  describe('helping threads', () => {
    proves('runner', lasts, 'a thread claims a queue that another thread owns');
    proves('deadlock', waited, 'a thread releases a queue without checking it again');
    proves('deadlock', helped, 'a thread leaves runnable work and notifies no thread');
    sizeable(
      'deadlock',
      poolOnly,
      'a thread leaves work for the pool and does not wake the pool',
      'a thread that ends an op does not ring the attendants',
    );
    proves('deadlock', leaves, 'an attendant leaves without checking the queues');
    proves('deadlock', attended, 'an attendant reads its bell after it checks the queues');
    proves(
      'deadlock',
      waited,
      'a thread changes the completion word before it marks the point',
      'the waiter reads the completion word after it checks its point',
    );
  });
  describe('graph launches', () => {
    sizeable(
      'exec',
      replays,
      'a thread launches a graph while its exec runs',
      'a paused graph releases its exec',
    );
    sizeable('deadlock', inside, 'a record in a graph wakes no thread');
  });
});
