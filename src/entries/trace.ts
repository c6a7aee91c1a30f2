/** `hotslot/trace`: expressions, their gradients, and plans that only launch kernels. */

export {
  type CheckedGradients,
  type CheckOptions,
  checkGradients,
} from '../learn/trace/check-gradients.ts';
export { Expression, type ExpressionLike } from '../learn/trace/expression.ts';
export {
  add,
  bootstrap,
  categorical,
  concat,
  constant,
  div,
  eq,
  expect,
  ge,
  gt,
  huber,
  le,
  lt,
  matmul,
  max,
  min,
  mse,
  mul,
  ne,
  normal,
  randomSubset,
  stack,
  sub,
  uniform,
  where,
} from '../learn/trace/functions.ts';
export {
  type AtomRange,
  categoricalLoss,
  categoricalMean,
  categoricalProject,
  squashedGaussian,
  tdLoss,
  tdTarget,
} from '../learn/trace/fused-functions.ts';
export { grad, type ValueAndGradients } from '../learn/trace/gradient.ts';
export {
  type BatchExpressions,
  describeLearner,
  discounts,
  type Ends,
  type EnsembleFunction,
  type LearnerDescription,
  learner,
  type NetworkFunction,
  type NetworkFunctions,
  type ParameterExpressions,
  type Phase,
} from '../learn/trace/learner/description.ts';
export type { FieldDescription } from '../learn/trace/learner/fields.ts';
export { DescribedLearner, TracedLearner } from '../learn/trace/learner/learner.ts';
export {
  copied,
  Ensemble,
  ensemble,
  Follower,
  Parameter,
  parameter,
  polyak,
} from '../learn/trace/learner/networks.ts';
export {
  type AdamDescription,
  adam,
  adamW,
  cosineSchedule,
  linearSchedule,
  OptimizerDescription,
  type Ramp,
  type Schedule,
  type SgdDescription,
  sgd,
  warmUp,
} from '../learn/trace/learner/optimizers.ts';
export type {
  Appended,
  Broadcast,
  Compatible,
  Multiplies,
  Picked,
  Product,
  Reduced,
  ReduceOptions,
  Resized,
  SameRank,
  Taken,
  Transposed,
} from '../learn/trace/shape-types.ts';
export type { Shape } from '../learn/trace/shapes.ts';
export {
  type InputDescription,
  type InputExpressions,
  type InputOf,
  type PlanSummary,
  type Results,
  type ResultTensors,
  type Traced,
  type TracedOptions,
  trace,
} from '../learn/trace/trace.ts';
