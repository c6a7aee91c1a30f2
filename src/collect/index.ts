/** `hotslot/collect`: your environment in a collector pool. */
export type { AnyEnvironment, Environment, EnvironmentContext, Observation, Step } from './environment.ts';
export type { Explore, Policy } from './explore.ts';
export type { Box, BoxActions, Discrete, DiscreteActions, ObservationDType, Spaces } from './spaces.ts';
export { type PolicyContext, type VectorCollectorOptions, vectorCollector } from './vector-collector.ts';
