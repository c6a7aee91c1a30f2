/**
 * Measures environment steps through vectorCollector, with random actions and with a policy.
 * Compares them with the environment alone, and measures collector pools.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Environment, vectorCollector } from '../src/entries/collect.ts';
import { type CollectorContext, CollectorPool, ReplayBuffer } from '../src/index.ts';
import type inPool from './collect-tasks.ts';
import { actingOf, type Task, tasks } from './collect-tasks.ts';
import { type Benchmark, beside, inTurn, median, percentile } from './harness.ts';

/** Creates a collector as a pool does. Its rows are float32. */
async function collectorOf(task: Task, environments: number, acting: boolean) {
  const probe = await task.make();
  const { observationSpace, actionSpace } = probe;
  await probe.close?.();
  const field = (shape: readonly number[]) => ({ dtype: 'float32', shape }) as const;
  const obs = field(observationSpace.shape);
  const context: CollectorContext = {
    worker: 0,
    workers: 1,
    seed: 1,
    restarts: 0,
    stepsBefore: 0,
    options: undefined,
    writer: null,
    fields: {
      obs,
      nextObs: obs,
      actions: field('n' in actionSpace ? [] : actionSpace.shape),
      rewards: field([]),
      dones: field([]),
      truncated: field([]),
    },
    report: { steps: () => {}, episode: () => {} },
  };
  const policy = () => actingOf(task);
  return vectorCollector({ make: task.make, environments, ...(acting ? { policy } : {}) })(context);
}

/** Returns the environment alone, stepped with random actions. */
async function bareOf(task: Task) {
  const environment = (await task.make()) as Environment<number | Float32Array>;
  const { actionSpace } = environment;
  const discrete = 'n' in actionSpace ? actionSpace.n : 0;
  const action = new Float32Array('n' in actionSpace ? 1 : actionSpace.shape[0]!);
  const most = environment.maxEpisodeSteps ?? Number.POSITIVE_INFINITY;
  let [seed, length] = [0, 0];
  await environment.reset(seed);
  return {
    close: () => environment.close?.(),
    step() {
      if (!discrete) for (let i = 0; i < action.length; i++) action[i] = 2 * Math.random() - 1;
      const made = environment.step(discrete ? Math.floor(discrete * Math.random()) : action) as {
        terminated: boolean;
      };
      if (!made.terminated && ++length < most) return;
      length = 0;
      environment.reset(++seed);
    },
  };
}

/**
 * Returns environment steps per second of all threads of a pool together. They act with a policy
 * and write into a ReplayBuffer.
 */
async function stepsOfPool(task: Task, workers: number, ms: number): Promise<number> {
  const probe = await task.make();
  const { observationSpace, actionSpace } = probe;
  await probe.close?.();
  const [obsDim, actionDim] = [
    observationSpace.shape[0]!,
    'n' in actionSpace ? 1 : actionSpace.shape[0]!,
  ];
  const buffer = ReplayBuffer.offPolicy({ capacity: 100_000, obsDim, actionDim });
  const entry = new URL('./collect-tasks.js', import.meta.url);
  await using pool = await CollectorPool.open<typeof inPool>({
    entry,
    buffer,
    workers,
    options: { task: task.name },
  });
  // V8 has compiled the code by the end of this wait.
  await wait(ms / 2);
  const [begin, before] = [performance.now(), pool.statistics().steps];
  await wait(ms);
  const steps = pool.statistics().steps - before;
  return (steps * 1000) / (performance.now() - begin);
}

async function reportPools(
  report: Parameters<Benchmark>[0],
  task: Task,
  quick: boolean,
): Promise<void> {
  const rounds: [number, number][] = [];
  for (let round = 0; round < (quick ? 3 : 7); round++)
    rounds.push([await stepsOfPool(task, 1, 400), await stepsOfPool(task, 2, 400)]);
  for (const workers of [1, 2]) {
    const each = rounds.map((round) => round[workers - 1] as number);
    report({
      case: `${task.name}, ${workers} thread${workers === 1 ? '' : 's'} of a pool, 16 environments each, acting by a network of 64-64`,
      metric: 'environment steps',
      unit: '/s',
      value: median(each),
      quartiles: [percentile(each, 0.25), percentile(each, 0.75)],
    });
  }
}

export const run: Benchmark = async (report, { quick }) => {
  for (const task of tasks) {
    const steps = quick ? task.steps / 4 : task.steps;
    const bare = await bareOf(task);
    for (const environments of [1, 16]) {
      const random = await collectorOf(task, environments, false);
      const acting = await collectorOf(task, environments, true);
      const many = (act: () => unknown, times: number) => () => {
        for (let i = 0; i < times; i++) act();
      };
      const times = await inTurn(quick ? 5 : 15, {
        random: many(() => random.collect(), steps / environments),
        acting: many(() => acting.collect(), steps / environments),
        bare: many(bare.step, steps),
      });
      const each = (us: number[]) => us.map((time) => time / steps);
      const called = `${task.name}, ${environments} environment${environments === 1 ? '' : 's'}`;
      for (const [how, name] of [
        ['random actions', 'random'],
        ['acting by a network of 64-64', 'acting'],
      ] as const)
        report({
          case: `${called}, ${how}; the environment alone`,
          metric: 'time per environment step',
          unit: 'µs',
          ...beside(each(times[name].done), each(times.bare.done)),
        });
      await random.close?.();
      await acting.close?.();
    }
    await bare.close();
    await reportPools(report, task, quick);
  }
};
