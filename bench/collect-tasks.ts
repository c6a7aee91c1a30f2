/**
 * Defines the environments of the benchmark `collect`. As a collector file, it runs them in the
 * threads of a pool.
 */
import CartPole from '../examples/environments/cart-pole.ts';
import makeRobot from '../examples/environments/mujoco/robot.ts';
import Pendulum from '../examples/environments/pendulum.ts';
import { type AnyEnvironment, type Policy, vectorCollector } from '../src/entries/collect.ts';
import { DqnPolicy, SacPolicy } from '../src/entries/learner.ts';
import type { CollectorContext } from '../src/index.ts';

export interface Task {
  name: string;
  /** environment steps of a round, over all environments */
  steps: number;
  make(): AnyEnvironment | Promise<AnyEnvironment>;
  policy(): DqnPolicy | SacPolicy;
}

const actor = (obsDim: number, actionDim: number, high: number) => ({
  obsDim,
  actionDim,
  actionLow: -high,
  actionHigh: high,
  actorHidden: [64, 64],
});
export const tasks: readonly Task[] = [
  {
    name: 'CartPole',
    steps: 200_000,
    make: () => new CartPole(),
    policy: () => new DqnPolicy({ obsDim: 4, actions: 2, hidden: [64, 64] }),
  },
  {
    name: 'Pendulum',
    steps: 200_000,
    make: () => new Pendulum(),
    policy: () => new SacPolicy(actor(3, 1, 2)),
  },
  {
    name: 'HalfCheetah',
    steps: 2_000,
    make: () => makeRobot({ index: 0, options: { robot: 'HalfCheetah' } }),
    policy: () => new SacPolicy(actor(17, 6, 1)),
  },
];

/**
 * Returns a policy that acts from the first step on, because it loads zero weights and waits for no
 * others.
 */
export function actingOf(task: Task): Policy {
  const made = task.policy();
  made.load(new Float32Array(made instanceof DqnPolicy ? made.parameters.length : made.length));
  return { act: (seen, n) => made.act(seen, n) };
}

/** The collector of a pool's thread: sixteen environments of the task that `options` names. */
export default (context: CollectorContext<{ task: string }>) => {
  const task = tasks.find(({ name }) => name === context.options.task) as Task;
  return vectorCollector<{ task: string }>({
    make: task.make,
    environments: 16,
    policy: () => actingOf(task),
  })(context);
};
