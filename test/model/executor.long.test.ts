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
      "the pool's word moved behind the counts",
      'notified before the op is there',
    );
    sizeable('deadlock', busy, 'an attendant counted on while it is busy');
    sizeable('deadlock', twice, 'busy counted once for a thread that attends twice');
  });
  describe('thread pool', () => {
    proves(
      'deadlock',
      alone,
      "the pool's word read behind the look",
      'the pool sleeps without being counted',
    );
    proves('deadlock', lasts, 'a long op that is not counted', 'held counted behind the look');
    proves('deadlock', lasts, 'no look as a long op begins');
  });
  describe('helping threads', () => {
    proves('runner', lasts, 'a claim that is not exclusive');
    proves('deadlock', waited, 'a queue given back without another look');
    proves('deadlock', helped, 'runnable work left without a word');
    sizeable(
      'deadlock',
      poolOnly,
      'work for the pool left without a word',
      'who attends not rung when work is done',
    );
    proves('deadlock', leaves, 'an attendant leaves without a look');
    proves('deadlock', attended, "an attendant's bell read behind its look");
    proves(
      'deadlock',
      waited,
      'the word of completions moved before the point',
      'completions read behind the look',
    );
  });
  describe('graph launches', () => {
    sizeable(
      'exec',
      replays,
      'a replay begun while its exec runs',
      'a graph that pauses lets go of its exec',
    );
    sizeable('deadlock', inside, 'a record in a graph that wakes nobody');
  });
});
