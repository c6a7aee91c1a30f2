/** Learners in train(): their interface, and plans from which a training opens them. */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import type { Products } from '../../device/facts.ts';
import type { PlainLayer } from '../../learn/network/plain-layers.ts';
import type { CheckpointLearner } from '../checkpoint/parts.ts';

/**
 * A learner of your own: a result of learner(), a learner of hotslot/learner or hotslot/trace, or
 * another object with these members.
 */
export interface OwnLearner extends Partial<CheckpointLearner> {
  /** device of the learner's memory */
  readonly device: Device;
  /** resolves when update() can be captured, default: at once */
  readonly ready?: PromiseLike<unknown>;
  /** number of rows of a minibatch */
  readonly batchSize: number;
  /** names of the numbers that update() writes to `out`, in order */
  readonly scalars: readonly string[];
  /**
   * Enqueues an update on the rows of a batch. It runs during a capture, so it only launches
   * kernels.
   *
   * @param batch tensors by name, each with `minibatches` × `batchSize` rows
   * @param out contiguous float32, at least as long as `scalars`
   */
  // biome-ignore lint/suspicious/noExplicitAny: each learner declares the batch that it needs
  update(stream: Stream, batch: any, out: Tensor<'float32'>): void;
  /** contiguous float32 vector of the weights that policies load, default: `parameters` */
  readonly published?: Tensor<'float32'>;
  readonly parameters?: Tensor<'float32'>;
  /** Returns a part of the weights by its name, for `policy.weights`. */
  weights?(name: string): Tensor<'float32'>;
  /** Frees the learner's memory. train() calls it for a learner that its function has made. */
  close?(): void;
}

/**
 * Plain data from which a thread makes a policy: the policy of an algorithm, a module of the caller,
 * or a network whose largest output is the action.
 */
export type PolicyPlan =
  | {
      readonly algorithm: 'dqn' | 'td3' | 'sac';
      /** factor by which the policy multiplies the values of observations before the network */
      readonly scale: number;
      readonly network: object;
    }
  | { readonly module: string; readonly options: unknown }
  | { readonly layers: readonly PlainLayer[] };

/** A learner on its device. The training closes both, unless the caller of train() made them. */
export interface OpenLearner extends Disposable {
  readonly device: Device;
  readonly learner: OwnLearner;
  /** vector of weights that the learner publishes to the collectors */
  readonly weights: Tensor<'float32'>;
}

export interface LearnerPlan {
  /** name of the algorithm, for people */
  readonly name: string;
  readonly policy: PolicyPlan;
  /** number of values of all observations that the learner receives at once */
  readonly obsDim: number;
  readonly batchSize: number;
  /**
   * number of minibatches after which the pattern of updates repeats. The number of minibatches of
   * a tick is a multiple of it
   */
  readonly cycle: number;
  /** whether the caller of train() made the learner, or the function that makes it */
  readonly own: boolean;
  /** whether a learner of the caller takes a stack of observations only as a row of floats */
  readonly flat?: boolean;
  /** Opens the learner. A learner of the caller is on its own device, not on this one. */
  open(device: string, products: Products | undefined): OpenLearner;
}
