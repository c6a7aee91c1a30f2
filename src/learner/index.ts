/** `hotslot/learner`: networks, optimisers and learners as device work that can be captured. */
export type { Activation } from './activation.ts';
export { Adam, type AdamOptions } from './adam.ts';
export { type ConvertOptions, convert } from './convert.ts';
export { DqnLearner, type DqnOptions } from './dqn.ts';
export type { DqnBatch } from './dqn-batch.ts';
export { type LayerTensors, Mlp, type MlpWorkspace } from './mlp.ts';
export { type DenseLayer, MlpLayout, type MlpOptions } from './mlp-layout.ts';
export {
  elu,
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
export { ops } from './ops/index.ts';
export type { MatmulOptions } from './ops/rows.ts';
export { MlpPolicy } from './policy.ts';
