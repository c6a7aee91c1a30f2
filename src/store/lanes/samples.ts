/** The types of samples. A sample has a typed array for each column. */
import type { ArrayOf, DType } from '../../base/dtype.ts';
import type { FieldArray } from '../rows/fields.ts';
import type { View } from '../views/views.ts';
import type { DTypeOfStep, Observations, StepFields, TypeOfStep } from './schema.ts';

/** A column for each field. If the schema is unknown, a sample may have columns of any name. */
export type FieldColumns<S extends StepFields> = string extends keyof S
  ? Readonly<Record<string, ArrayOf<DType>>>
  : { readonly [K in keyof S]: FieldArray<TypeOfStep<S[K]>> };

/** A type, because TypeScript does not accept an interface as a record of columns. */
type Weights = {
  /** count: importance weights, with a prioritized sampler */
  readonly weights?: Float64Array;
  /** count: probability of each draw, with a prioritized sampler */
  readonly probabilities?: Float64Array;
};

/** Transitions. Each column has `count` rows. */
export type TransitionSample<S extends StepFields = StepFields> = FieldColumns<S> &
  (string extends keyof S
    ? unknown
    : { readonly [K in Observations<S> as `next${Capitalize<K>}`]: FieldArray<TypeOfStep<S[K]>> }) &
  Weights & {
    /** Σ γ^j r over the transition's steps */
    readonly rewards: Float32Array;
    /** γ^k, or 0 if the transition's last step terminated */
    readonly discounts: Float32Array;
    /** 1 if the transition's last step terminated */
    readonly terminated: Uint8Array;
    /** 1 if the transition's last step truncated the episode */
    readonly truncated: Uint8Array;
    /** k: the transition's number of steps, up to nStep */
    readonly steps: Int32Array;
    /** ids of the transitions' first steps */
    readonly ids: Float64Array;
    /** with hindsight goals: 1 if the transition has a new goal */
    readonly relabelled?: Uint8Array;
    /**
     * with hindsight goals: count × nStep × elements, the goal achieved after each step of the
     * transition
     */
    readonly nextAchieved?: ArrayOf<DType>;
  };

/**
 * Windows of T = burnIn + length steps. Columns of observations have T + 1 observations per window.
 */
export type WindowSample<S extends StepFields = StepFields> = FieldColumns<S> &
  Weights & {
    /** count × T */
    readonly rewards: Float32Array;
    /** count × T: 1 if the step terminated */
    readonly terminated: Uint8Array;
    /** count × T: 1 if the step truncated the episode */
    readonly truncated: Uint8Array;
    /** count × T: 1 for a step, 0 for padding */
    readonly mask: Float32Array;
    /** count × T: 1 for a step to learn from, 0 for padding and burn-in */
    readonly learn: Float32Array;
    /** count: the window's number of steps, without padding */
    readonly steps: Int32Array;
    /**
     * count: id of the window's first step, or with edges 'anchor' of its first step to learn from
     */
    readonly ids: Float64Array;
  };

/** The type of a view's sample. */
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
