/** `hotslot/collect`: train(), evaluate(), and collectors that step your environments. */

import '../assembly.ts';

export type { ActOptions } from '../learn/policy.ts';
export type {
  ActionMask,
  AnyEnvironment,
  Environment,
  EnvironmentContext,
  Observation,
  Step,
} from '../run/environments/environment.ts';
export type {
  EnvironmentSet,
  EnvironmentSets,
  EpisodeHooks,
  SteppedSet,
} from '../run/environments/environment-set.ts';
export type { Explore, Policy } from '../run/environments/explore.ts';
export { gymnasium } from '../run/environments/gymnasium/gymnasium.ts';
export type { GymnasiumOptions } from '../run/environments/gymnasium/options.ts';
export type {
  Box,
  BoxActions,
  Discrete,
  DiscreteActions,
  ObservationDType,
  Spaces,
} from '../run/environments/spaces.ts';
export {
  type PolicyContext,
  type VectorCollectorOptions,
  vectorCollector,
} from '../run/environments/vector-collector.ts';
export type { LearnerChoice, TrainedPolicy } from '../run/train/algorithms.ts';
export { type EvaluateOptions, type Evaluation, evaluate } from '../run/train/evaluate.ts';
export type { EvaluateContext, EvaluateFunction } from '../run/train/evaluate-function.ts';
export type { EvaluatedWeights } from '../run/train/evaluated-weights.ts';
export type { OwnLearner } from '../run/train/learner-plan.ts';
export { type Display, showProgress } from '../run/train/live-display.ts';
export type {
  EvaluationOptions,
  OwnTrainOptions,
  TrainOptions,
} from '../run/train/options.ts';
export type {
  ChosenPolicy,
  LearnerContext,
  LearnerFactory,
  PolicyChoice,
  PolicyModule,
  PolicyNetwork,
  TrainPolicyContext,
} from '../run/train/own-learner.ts';
export type {
  BestWeights,
  CurvePoint,
  TrainCollectors,
  TrainParts,
  TrainResult,
} from '../run/train/progress.ts';
export { train } from '../run/train/train.ts';
