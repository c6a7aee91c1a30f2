/** `hotslot/learner`: networks, optimizers and learners as device work that can be captured. */
export type { Activation } from '../learn/activation.ts';
export type { ActorCritic, ActorCriticBatch } from '../learn/actor-critic/actor-critic.ts';
export type { ActorValue, CriticKind } from '../learn/actor-critic/critics.ts';
export type { ActorCriticOptions, ActorOptions } from '../learn/actor-critic/options.ts';
export {
  type ActorPolicy,
  SacPolicy,
  type SacPolicyOptions,
  Td3Policy,
  type Td3PolicyOptions,
} from '../learn/actor-critic/policies.ts';
export { SacLearner, type SacOptions } from '../learn/actor-critic/sac.ts';
export { type GaussianOptions, SquashedGaussian } from '../learn/actor-critic/squashed-gaussian.ts';
export { Td3Learner, type Td3Options } from '../learn/actor-critic/td3.ts';
export { Adam, type AdamOptions } from '../learn/adam.ts';
export type { ColumnWidths, Rows } from '../learn/batch.ts';
export { type ConvertOptions, convert } from '../learn/convert.ts';
export { type DqnBatch, DqnLearner, type DqnOptions } from '../learn/dqn/dqn.ts';
export type { QHead } from '../learn/dqn/heads.ts';
export { DqnPolicy, type DqnPolicyOptions, type QNetworkOptions } from '../learn/dqn/policy.ts';
export type { Learner, LearnerSettings } from '../learn/learner.ts';
export { CqlLearner, type CqlOptions } from '../learn/learners/cql.ts';
export { DiscreteSacLearner, type DiscreteSacOptions } from '../learn/learners/discrete-sac.ts';
export { IqlLearner, type IqlOptions } from '../learn/learners/iql.ts';
export type { BoxOptions, EntropyOptions, ValueOptions } from '../learn/learners/options.ts';
export { CategoricalPolicy, type CategoricalPolicyOptions } from '../learn/learners/policies.ts';
export { QrDqnLearner, type QrDqnOptions } from '../learn/learners/qr-dqn.ts';
export { TqcLearner, type TqcOptions } from '../learn/learners/tqc.ts';
export { Mlp, type MlpOptions } from '../learn/mlp.ts';
export {
  type Conv2d,
  type Conv2dOptions,
  conv2d,
  type ImageShape,
} from '../learn/network/conv2d.ts';
export { dueling, expectation, quantileMean } from '../learn/network/heads.ts';
export {
  elu,
  flatten,
  gelu,
  geluTanh,
  type Layer,
  type LayerPass,
  type LayerReturn,
  layerNorm,
  linear,
  type ParameterShape,
  relu,
  sigmoid,
  silu,
  tanh,
} from '../learn/network/layers.ts';
export { Network, type NetworkParameter, type NetworkWorkspace } from '../learn/network/network.ts';
export { firstNonFinite, type NonFinite } from '../learn/non-finite.ts';
export {
  Normaliser,
  type NormaliserOptions,
  Normalizer,
  type NormalizerOptions,
} from '../learn/normalizer.ts';
export { ops } from '../learn/ops/index.ts';
export type { MatmulOptions } from '../learn/ops/rows.ts';
export type { Optimizer } from '../learn/optimizer.ts';
export { MlpPolicy } from '../learn/policy.ts';
export { Sgd, type SgdOptions } from '../learn/sgd.ts';
export type { LearnerState, Saved } from '../learn/state.ts';
export type { Draw, EventRecord, UpdateOptions } from '../learn/update-options.ts';
export type {
  NonFiniteReport,
  Odd,
  Watch,
  WatchedPart,
  WatchedVector,
} from '../learn/watch.ts';
