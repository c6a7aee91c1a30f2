/**
 * The learners of train(), and the policies that act by their weights in threads. A learner is made
 * from its options and the environment's spaces.
 */
import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import type { Products } from '../../device/facts.ts';
import { openDevice } from '../../device/open.ts';
import { actorKeys, actorOf } from '../../learn/actor-critic/options.ts';
import { SacPolicy, sacPolicyKeys, Td3Policy } from '../../learn/actor-critic/policies.ts';
import { SacLearner, type SacOptions } from '../../learn/actor-critic/sac.ts';
import { Td3Learner, type Td3Options } from '../../learn/actor-critic/td3.ts';
import { DqnLearner, type DqnOptions } from '../../learn/dqn/dqn.ts';
import { DqnPolicy, type QNetworkOptions, qNetworkKeys } from '../../learn/dqn/policy.ts';
import { described, type Spaces } from '../environments/spaces.ts';
import type { LearnerPlan, OpenLearner, PolicyPlan } from './learner-plan.ts';

/**
 * Options of learners that `learner` of train() must not contain. They follow from the environment,
 * are options of train() itself, or are not supported here.
 */
const elsewhere = [
  'obsDim',
  'actionDim',
  'actionLow',
  'actionHigh',
  'actions',
  'body',
  'image',
  'seed',
  'criticObsDim',
  'actionMask',
] as const;

type Given<O> = Omit<O, (typeof elsewhere)[number] | 'batchSize'> & {
  /** rows of a minibatch, default 256, for dqn 128 */
  batchSize?: number;
};

/** The name of an algorithm and the options of its learner. Sizes follow from the environment. */
export type LearnerChoice =
  | ({ algorithm: 'dqn' } & Given<DqnOptions>)
  | ({ algorithm: 'td3' } & Given<Td3Options>)
  | ({ algorithm: 'sac' } & Given<SacOptions>);

const algorithms = ['dqn', 'td3', 'sac'] as const;

/** Factor that scales the bytes of images to 0 … 1. */
const BYTE = 1 / 255;

/**
 * Returns the plan of a learner. Throws if the environment's spaces do not fit the learner. `stack`
 * is the number of observations that the learner receives at once. `masked` says whether batches have
 * masks of legal actions.
 */
export function planOf(
  choice: LearnerChoice,
  spaces: Spaces,
  { seed, stack, masked = false }: { seed: number; stack: number; masked?: boolean },
): LearnerPlan {
  const algorithm: unknown = (choice as { algorithm?: unknown } | null)?.algorithm;
  if (!algorithms.includes(algorithm as never))
    throw typeError(
      `learner must be { algorithm: ${algorithms.map((name) => `'${name}'`).join(' | ')}, … }${algorithm === undefined ? ', a learner with update(), or a function that makes one' : ''}, got ${describeValue(algorithm ?? choice)}`,
    );
  const { algorithm: name, ...given } = choice;
  const own = elsewhere.find((key) => key in given);
  if (own !== undefined)
    throw typeError(
      own === 'seed'
        ? 'learner: seed is an option of train() itself'
        : `learner: '${own}' cannot be given here: train() derives it from the environment`,
    );
  const { observation, action } = spaces;
  if ((name === 'dqn') !== (action.kind === 'discrete'))
    throw rangeError(
      `${name} is for ${name === 'dqn' ? '{ n } actions' : 'a box of actions'}; the environment has ${described(spaces)}`,
    );
  const { convolutions } = (name === 'dqn' ? given : {}) as DqnOptions;
  const image = convolutions === undefined ? {} : { image: imageOf(observation, stack) };
  if (convolutions === undefined && observation.dtype === 'uint8' && observation.shape.length > 1)
    throw rangeError(
      name === 'dqn'
        ? `observations of bytes, ${observation.shape.join('×')}, are images; give the learner convolutions, such as [{ filters: 32, kernel: 8, stride: 4 }]`
        : `${name} has no convolutions; images go to dqn, or through a pipeline of your own`,
    );
  const scale = convolutions !== undefined && observation.dtype === 'uint8' ? BYTE : 1;
  const obsDim = stack * observation.size;
  const common = { seed, obsDim, batchSize: choice.batchSize ?? (name === 'dqn' ? 128 : 256) };
  if (action.kind === 'discrete') {
    const options = {
      hidden: [120, 84],
      ...given,
      ...image,
      ...common,
      actions: action.n,
      ...(masked ? { actionMask: true } : {}),
    } as DqnOptions;
    const network = actorOf(options as never, qNetworkKeys);
    return {
      name,
      policy: { algorithm: name, network, scale },
      obsDim,
      batchSize: common.batchSize,
      cycle: 1,
      own: false,
      open: (device, products) => opened(device, products, (on) => new DqnLearner(on, options)),
    };
  }
  const box = { actionDim: action.size, actionLow: action.low, actionHigh: action.high };
  const options = { ...given, ...common, ...box } as unknown as SacOptions & Td3Options;
  const { actorEvery = name === 'td3' ? 2 : 1 } = options;
  const { targetEvery = name === 'td3' && options.targetActor !== false ? actorEvery : 1 } =
    options;
  return {
    name,
    policy: {
      algorithm: name,
      network: actorOf(options, name === 'sac' ? sacPolicyKeys : actorKeys),
      scale,
    },
    obsDim,
    batchSize: common.batchSize,
    cycle: lcm(actorEvery, targetEvery),
    own: false,
    open: (device, products) =>
      opened(device, products, (on) =>
        name === 'sac' ? new SacLearner(on, options) : new Td3Learner(on, options),
      ),
  };
}

/** Opens a learner on a device. Closing it closes both. */
function opened(
  name: string,
  products: Products | undefined,
  make: (device: Device) => DqnLearner | SacLearner | Td3Learner,
): OpenLearner {
  const device = openDevice(name, { products });
  try {
    const learner = make(device);
    const weights = learner instanceof DqnLearner ? learner.parameters : learner.published;
    const close = () => {
      learner.close();
      device.close();
    };
    return { device, learner, weights, [Symbol.dispose]: close };
  } catch (error) {
    device.close();
    throw error;
  }
}

/**
 * Returns the shape of a stack of images, whose channels are concatenated. Throws for bytes that
 * look like [height, width, channels], the form of Gymnasium's renderings. Such a training would
 * run without an error. But the learner would take the rows of a picture as its channels.
 */
function imageOf(
  { shape, dtype }: Spaces['observation'],
  stack: number,
): readonly [number, number, number] {
  const [channels, height, width] = shape.length === 2 ? [1, ...shape] : shape;
  if (shape.length < 2 || shape.length > 3)
    throw rangeError(
      `convolutions are for images, [height, width] or [channels, height, width]; observations are [${shape}]`,
    );
  if (dtype === 'uint8' && channels! >= 8 && height! >= 8 && [1, 3, 4].includes(width!))
    throw rangeError(
      `convolutions take images as [channels, height, width], and observations of [${shape}] look like [height, width, channels]: transpose them to [${width}, ${channels}, ${height}]; of Gymnasium wrap the environment by gymnasium.wrappers.TransformObservation with numpy.moveaxis(obs, -1, 0), or by GrayscaleObservation`,
    );
  return [stack * channels!, height!, width!];
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
const lcm = (a: number, b: number): number => (a > 0 && b > 0 ? (a * b) / gcd(a, b) : 1);

/** The policy of a trained learner, by its algorithm. */
export type TrainedPolicy = DqnPolicy | SacPolicy | Td3Policy;

/** Returns the policy for the weights that the learner publishes. Only TD3 uses `noise`. */
export function policyOf(
  { algorithm, network, scale }: Extract<PolicyPlan, { algorithm: string }>,
  { greedy, seed, noise }: { greedy: boolean; seed: number; noise: number },
): TrainedPolicy {
  if (algorithm === 'dqn') return new DqnPolicy({ ...(network as QNetworkOptions), scale });
  if (algorithm === 'sac') return new SacPolicy(network as never, { greedy, seed });
  return new Td3Policy(network as never, { noise: greedy ? 0 : noise, seed });
}
