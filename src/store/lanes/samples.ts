/** The types of samples: a typed array for each column. */
import type { ArrayOf, DType } from '../../base/dtype.ts';
import type { View } from '../views/views.ts';
import type { DTypeOfStep, Observations, StepFields } from './schema.ts';

/** A column of each field. If the schema is unknown, a sample has any columns. */
export type FieldColumns<S extends StepFields> = string extends keyof S
  ? Readonly<Record<string, ArrayOf<DType>>>
  : { readonly [K in keyof S]: ArrayOf<DTypeOfStep<S[K]>> };

/** A type, because TypeScript does not accept an interface as a record of columns. */
type Weights = {
  /** count: with a prioritized sampler */
  readonly weights?: Float64Array;
  /** count: of each draw, with a prioritized sampler */
  readonly probabilities?: Float64Array;
};

/** Rows of transitions: `count` in each column. */
export type TransitionSample<S extends StepFields = StepFields> = FieldColumns<S> &
  (string extends keyof S
    ? unknown
    : { readonly [K in Observations<S> as `next${Capitalize<K>}`]: ArrayOf<DTypeOfStep<S[K]>> }) &
  Weights & {
    /** Σ γ^j r of its steps */
    readonly rewards: Float32Array;
    /** γ^k, or 0 if its last step terminated */
    readonly discounts: Float32Array;
    /** 1 if its last step terminated */
    readonly terminated: Uint8Array;
    /** 1 if its last step truncated the episode */
    readonly truncated: Uint8Array;
    /** k, up to nStep */
    readonly steps: Int32Array;
    /** ids of the rows' first steps */
    readonly ids: Float64Array;
    /** with hindsight goals: 1 if the row has a new goal */
    readonly relabelled?: Uint8Array;
    /** with hindsight goals: count × nStep × elements, the achieved goal of each of its steps */
    readonly nextAchieved?: ArrayOf<DType>;
  };

/** Rows of windows of T = burnIn + length steps. Observations have one more. */
export type WindowSample<S extends StepFields = StepFields> = FieldColumns<S> &
  Weights & {
    /** count × T */
    readonly rewards: Float32Array;
    /** count × T */
    readonly terminated: Uint8Array;
    /** count × T */
    readonly truncated: Uint8Array;
    /** count × T: 0 where a step is missing */
    readonly mask: Float32Array;
    /** count × T: 0 where a step is missing, and in the burn-in */
    readonly learn: Float32Array;
    /** count: steps that are there */
    readonly steps: Int32Array;
    /** count: the window's first step, or for 'anchor' its first step to learn from */
    readonly ids: Float64Array;
  };

/** The sample of a view. */
export type SampleOf<S extends StepFields, V> =
  V extends View<StepFields, 'windows'> ? WindowSample<S> : TransitionSample<S>;

/** The dtypes of a batch's columns on a device. */
export type BatchFields<S extends StepFields, V> = {
  readonly [K in keyof S]: DTypeOfStep<S[K]>;
} & {
  readonly rewards: 'float32';
  readonly terminated: 'bool';
  readonly truncated: 'bool';
  readonly steps: 'int32';
  readonly ids: 'float64';
  readonly weights?: 'float32';
  readonly priorities?: 'float32';
} & (V extends View<StepFields, 'windows'>
    ? { readonly mask: 'float32'; readonly learn: 'float32' }
    : {
        readonly discounts: 'float32';
        readonly relabelled?: 'bool';
        readonly nextAchieved?: DType;
      } & (string extends keyof S
        ? unknown
        : { readonly [K in Observations<S> as `next${Capitalize<K>}`]: DTypeOfStep<S[K]> }));
