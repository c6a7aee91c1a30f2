/** `hotslot/collect`: your environment in a collector pool. */

import '../assembly.ts';

export type { LearnerChoice, TrainedPolicy } from './algorithms.ts';
export type { AnyEnvironment, Environment, EnvironmentContext, Observation, Step } from './environment.ts';
export type { EnvironmentSet, EnvironmentSets, EpisodeHooks, SteppedSet } from './environment-set.ts';
export { type EvaluateOptions, type Evaluation, evaluate } from './evaluate.ts';
export type { Explore, Policy } from './explore.ts';
export { gymnasium } from './gymnasium/gymnasium.ts';
export type { GymnasiumOptions } from './gymnasium/options.ts';
export { type Display, showProgress } from './live-display.ts';
export type { Box, BoxActions, Discrete, DiscreteActions, ObservationDType, Spaces } from './spaces.ts';
export { train } from './train.ts';
export type { TrainOptions } from './train-options.ts';
export type { CurvePoint, TrainParts, TrainResult } from './train-told.ts';
export { type PolicyContext, type VectorCollectorOptions, vectorCollector } from './vector-collector.ts';
