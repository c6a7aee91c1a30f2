/** `hotslot/learner`: networks, optimisers and learners as device work that can be captured. */
export type { Activation } from './activation.ts';
export type { ActorCritic, ActorCriticBatch } from './actor-critic/actor-critic.ts';
export type { ActorValue } from './actor-critic/critics.ts';
export type { CriticKind } from './actor-critic/heads.ts';
export type { ActorCriticOptions, ActorOptions } from './actor-critic/options.ts';
export {
  type ActorPolicy,
  SacPolicy,
  type SacPolicyOptions,
  Td3Policy,
  type Td3PolicyOptions,
} from './actor-critic/policies.ts';
export { SacLearner, type SacOptions } from './actor-critic/sac.ts';
export { type GaussianOptions, SquashedGaussian } from './actor-critic/squashed-gaussian.ts';
export { Td3Learner, type Td3Options } from './actor-critic/td3.ts';
export { Adam, type AdamOptions } from './adam.ts';
export type { ColumnWidths, Rows } from './batch.ts';
export { type ConvertOptions, convert } from './convert.ts';
export { type DqnBatch, DqnLearner, type DqnOptions } from './dqn/dqn.ts';
export type { QHead } from './dqn/heads.ts';
export { DqnPolicy, type DqnPolicyOptions, type QNetworkOptions } from './dqn/policy.ts';
export type { Learner, LearnerSettings } from './learner.ts';
export { Mlp, type MlpOptions } from './mlp.ts';
export { type Conv2d, type Conv2dOptions, conv2d, type ImageShape } from './network/conv2d.ts';
export { dueling, expectation } from './network/heads.ts';
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
} from './network/layers.ts';
export { Network, type NetworkParameter, type NetworkWorkspace } from './network/network.ts';
export { firstNonFinite, type NonFinite } from './non-finite.ts';
export { Normaliser, type NormaliserOptions } from './normaliser.ts';
export { ops } from './ops/index.ts';
export type { MatmulOptions } from './ops/rows.ts';
export { MlpPolicy } from './policy.ts';
export type { LearnerState, Saved } from './state.ts';
export type { Draw, EventRecord, UpdateOptions } from './update-options.ts';
export type { Odd, Watch, Watched } from './watch.ts';
