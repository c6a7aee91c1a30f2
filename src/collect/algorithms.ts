/** The learners that train() knows: each by what it is told, the environment's spaces, and the policy that acts by it in threads. */
import { shown } from '../checks.ts';
import type { Device } from '../device/device.ts';
import { rangeError, typeError } from '../errors.ts';
import { actorKeys, actorOf } from '../learner/actor-critic/options.ts';
import { SacPolicy, sacPolicyKeys, Td3Policy } from '../learner/actor-critic/policies.ts';
import { SacLearner, type SacOptions } from '../learner/actor-critic/sac.ts';
import { Td3Learner, type Td3Options } from '../learner/actor-critic/td3.ts';
import { DqnLearner, type DqnOptions } from '../learner/dqn/dqn.ts';
import { DqnPolicy, qNetworkKeys } from '../learner/dqn/policy.ts';
import type { Policy } from './explore.ts';
import { described, type Spaces } from './spaces.ts';

/** Options of learners that follow from the environment, are train()'s own, or cannot be had here. */
const elsewhere = [
  'obsDim',
  'actionDim',
  'actionLow',
  'actionHigh',
  'actions',
  'body',
  'seed',
  'criticObsDim',
] as const;

type Given<O> = Omit<O, (typeof elsewhere)[number] | 'batchSize'> & {
  /** rows of a minibatch; default 256, of dqn 128 */
  batchSize?: number;
};

/** A learner by its name, with its options; the environment says how wide things are. */
export type LearnerChoice =
  | ({ algorithm: 'dqn' } & Given<DqnOptions>)
  | ({ algorithm: 'td3' } & Given<Td3Options>)
  | ({ algorithm: 'sac' } & Given<SacOptions>);

export type AnyLearner = DqnLearner | Td3Learner | SacLearner;

/** What a policy is made of in a thread: plain data. */
export interface PolicyPlan {
  readonly algorithm: LearnerChoice['algorithm'];
  readonly network: object;
}

export interface LearnerPlan {
  readonly policy: PolicyPlan;
  readonly batchSize: number;
  /** a tick holds a multiple of so many minibatches */
  readonly cycle: number;
  make(device: Device): AnyLearner;
}

const algorithms = ['dqn', 'td3', 'sac'] as const;

/** Throws for a learner that the environment's spaces do not fit. */
export function planOf(choice: LearnerChoice, spaces: Spaces, seed: number): LearnerPlan {
  const algorithm: unknown = (choice as { algorithm?: unknown } | null)?.algorithm;
  if (!algorithms.includes(algorithm as never))
    throw typeError(
      `learner must be { algorithm: ${algorithms.map((name) => `'${name}'`).join(' | ')}, … }, got ${shown(algorithm ?? choice)}`,
    );
  const { algorithm: name, ...given } = choice;
  const own = elsewhere.find((key) => key in given);
  if (own !== undefined)
    throw typeError(
      own === 'seed'
        ? 'learner: seed is an option of train() itself'
        : `learner: '${own}' follows from the environment, or cannot be given here`,
    );
  const { observation, action } = spaces;
  if (observation.dtype === 'uint8')
    throw rangeError(
      'train() takes observations of numbers, not bytes of images: those go through a pipeline of your own, as in examples/pixels',
    );
  if ((name === 'dqn') !== (action.kind === 'discrete'))
    throw rangeError(
      `${name} is for ${name === 'dqn' ? '{ n } actions' : 'a box of actions'}; the environment has ${described(spaces)}`,
    );
  const common = { seed, obsDim: observation.size, batchSize: choice.batchSize ?? (name === 'dqn' ? 128 : 256) };
  if (action.kind === 'discrete') {
    const options = { hidden: [120, 84], ...given, ...common, actions: action.n } as DqnOptions;
    const network = actorOf(options as never, qNetworkKeys);
    return {
      policy: { algorithm: name, network },
      ...{ batchSize: common.batchSize, cycle: 1 },
      make: (device) => new DqnLearner(device, options),
    };
  }
  const box = { actionDim: action.size, actionLow: action.low, actionHigh: action.high };
  const options = { ...given, ...common, ...box } as unknown as SacOptions & Td3Options;
  const { actorEvery = name === 'td3' ? 2 : 1 } = options;
  const { targetEvery = name === 'td3' && options.targetActor !== false ? actorEvery : 1 } = options;
  return {
    policy: { algorithm: name, network: actorOf(options, name === 'sac' ? sacPolicyKeys : actorKeys) },
    ...{ batchSize: common.batchSize, cycle: lcm(actorEvery, targetEvery) },
    make: (device) => (name === 'sac' ? new SacLearner(device, options) : new Td3Learner(device, options)),
  };
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
const lcm = (a: number, b: number): number => (a > 0 && b > 0 ? (a * b) / gcd(a, b) : 1);

/** What acts by the learner's published vector. `noise` is TD3's. */
export function policyOf(
  { algorithm, network }: PolicyPlan,
  how: { greedy: boolean; seed: number; noise: number },
): Policy & { load(weights: Float32Array): unknown } {
  const { greedy, seed, noise } = how;
  if (algorithm === 'dqn') return new DqnPolicy(network as never);
  if (algorithm === 'sac') return new SacPolicy(network as never, { greedy, seed });
  return new Td3Policy(network as never, { noise: greedy ? 0 : noise, seed });
}

/** What collectors need of it. */
export const publishedOf = (learner: AnyLearner) =>
  learner instanceof DqnLearner ? learner.parameters : learner.published;
