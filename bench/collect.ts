/** Environment steps through vectorCollector beside the bare environment, with random actions and with a policy acting. */
import CartPole from '../examples/environments/cart-pole.ts';
import Pendulum from '../examples/environments/pendulum.ts';
import makeRobot from '../examples/mujoco/robot.ts';
import { type AnyEnvironment, type Environment, type Policy, vectorCollector } from '../src/collect/index.ts';
import type { CollectorContext } from '../src/index.ts';
import { DqnPolicy, SacPolicy } from '../src/learner/index.ts';
import { type Benchmark, beside, inTurn } from './harness.ts';

interface Task {
  name: string;
  /** steps of a round, over all environments */
  steps: number;
  make(): AnyEnvironment | Promise<AnyEnvironment>;
  policy(): Policy;
}

const actor = (obsDim: number, actionDim: number, high: number) => ({
  ...{ obsDim, actionDim, actionLow: -high, actionHigh: high, actorHidden: [64, 64] },
});
const tasks: readonly Task[] = [
  {
    ...{ name: 'CartPole', steps: 200_000, make: () => new CartPole() },
    policy: () => new DqnPolicy({ obsDim: 4, actions: 2, hidden: [64, 64] }),
  },
  {
    ...{ name: 'Pendulum', steps: 200_000, make: () => new Pendulum() },
    policy: () => new SacPolicy(actor(3, 1, 2)),
  },
  {
    ...{ name: 'HalfCheetah', steps: 2_000, make: () => makeRobot({ index: 0, options: { robot: 'HalfCheetah' } }) },
    policy: () => new SacPolicy(actor(17, 6, 1)),
  },
];

/** A collector as a pool makes it, of rows of float32. */
async function collectorOf(task: Task, environments: number, acting: boolean) {
  const probe = await task.make();
  const { observationSpace, actionSpace } = probe;
  await probe.close?.();
  const field = (shape: readonly number[]) => ({ dtype: 'float32', shape }) as const;
  const obs = field(observationSpace.shape);
  const context: CollectorContext = {
    ...{ worker: 0, workers: 1, seed: 1, restarts: 0, stepsBefore: 0, options: undefined, writer: null },
    fields: {
      ...{ obs, nextObs: obs, actions: field('n' in actionSpace ? [] : actionSpace.shape) },
      ...{ rewards: field([]), dones: field([]), truncated: field([]) },
    },
    report: { steps: () => {}, episode: () => {} },
  };
  const policy = { act: (seen: Float32Array, n: number) => made.act(seen, n) };
  const made = task.policy();
  return vectorCollector({ make: task.make, environments, ...(acting ? { policy: () => policy } : {}) })(context);
}

/** The environment alone, with random actions. */
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
          ...{ case: `${called}, ${how}; the environment alone`, metric: 'time per environment step', unit: 'µs' },
          ...beside(each(times[name].done), each(times.bare.done)),
        });
      await random.close?.();
      await acting.close?.();
    }
    await bare.close();
  }
};
