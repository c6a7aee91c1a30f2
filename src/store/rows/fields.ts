/**
 * What TypeScript knows of a buffer's rows: the names that add() and batches use, and the dtype of
 * each.
 */
import type { ArrayOf, DType } from '../../base/dtype.ts';

/**
 * Fields with their dtypes, e.g. `{ obs: 'float32'; action: 'int64' }`; one that may be absent is
 * optional. `Fields` itself: nothing is known of them.
 */
export type Fields = Readonly<Record<string, DType | undefined>>;

/** The dtype of a field that is there. */
export type DTypeIn<F extends Fields, K extends keyof F> = Exclude<F[K], undefined>;

/** One field of a general schema; dtype is float32 unless said. */
export interface FieldSpec {
  readonly shape: readonly number[];
  readonly dtype?: DType;
}

/** The dtypes of a schema as create() takes it; a field that names none is float32. */
export type FieldsOf<S extends Readonly<Record<string, FieldSpec | undefined>>> = {
  readonly [K in keyof S]: DTypeOfSpec<Exclude<S[K], undefined>>;
};
type DTypeOfSpec<S> = S extends { readonly dtype: infer D extends DType }
  ? D
  : S extends { readonly dtype?: infer D }
    ? unknown extends D
      ? 'float32'
      : Extract<D, DType> | 'float32'
    : 'float32';

/** An off-policy buffer's; `C` is its criticDim, where that is known. */
export type OffPolicyFields<C extends number = 0> = {
  readonly obs: 'float32';
  readonly nextObs: 'float32';
  readonly actions: 'float32';
  readonly rewards: 'float32';
  readonly dones: 'float32';
  readonly truncated: 'float32';
} & ([C] extends [0]
  ? unknown
  : 0 extends C
    ? { readonly critic?: 'float32'; readonly nextCritic?: 'float32' }
    : { readonly critic: 'float32'; readonly nextCritic: 'float32' });

/** n rows of a general schema: field name → n × its elements, of its dtype. */
export type SchemaRows = Readonly<Record<string, ArrayOf<DType>>>;

/** n flags: 0 or 1, or booleans. */
export type RowFlags = Float32Array | Uint8Array | readonly boolean[];

/**
 * The fields of n off-policy transitions, without the flags of their ends; lengths in elements, D =
 * obsDim, A = actionDim.
 */
interface TransitionRows {
  /** n × D */
  readonly obs: Float32Array;
  /**
   * n × D: what the environment returned, after an automatic reset the new episode's first
   * observation
   */
  readonly nextObs: Float32Array;
  /** n × A */
  readonly actions: Float32Array;
  /** n */
  readonly rewards: Float32Array;
  /** n: rows that are not zero (or true) take next_obs and next_critic from the terminal fields */
  readonly terminalMask?:
    | Uint8Array
    | Int8Array
    | Uint8ClampedArray
    | readonly boolean[]
    | undefined;
  /** n × D, needed with terminalMask; rows the mask leaves out are not read */
  readonly terminalNextObs?: Float32Array | undefined;
}

/**
 * n off-policy transitions with the two flags that replay buffers have after Gym: a row terminated
 * where it is done and not truncated.
 */
export interface OffPolicyRows extends TransitionRows {
  /**
   * n: terminated or truncated, as 0 or 1. Not `terminated`: a target of γ · (1 − dones) is wrong
   * where an episode was cut.
   */
  readonly dones: Float32Array;
  /** n: truncated, as 0 or 1 */
  readonly truncated: Float32Array;
  /** n: where it is given, dones must be terminated or truncated in each row */
  readonly terminated?: RowFlags | undefined;
}

/**
 * The same with Gymnasium's two flags; the buffer makes `dones` of them. Where both are set, the
 * row terminated.
 */
export interface TerminatedRows extends TransitionRows {
  /** n: the episode ended by itself, nothing follows */
  readonly terminated: RowFlags;
  /** n: the episode was cut, and would have gone on */
  readonly truncated: RowFlags;
  readonly dones?: undefined;
}

/** What off-policy transitions have beside those when criticDim is not 0. */
export interface CriticRows {
  /** n × C */
  readonly critic: Float32Array;
  /** n × C */
  readonly nextCritic: Float32Array;
  /** n × C, needed with terminalMask */
  readonly terminalNextCritic?: Float32Array | undefined;
}

/** What add() takes of fields with these dtypes. */
export type SchemaRowsOf<F extends Fields> = { readonly [K in keyof F]: ArrayOf<DTypeIn<F, K>> };

/** What add() takes of an off-policy buffer. */
export type TransitionsOf<C extends number> = (OffPolicyRows | TerminatedRows) &
  ([C] extends [0]
    ? unknown
    : 0 extends C
      ? { readonly [K in keyof CriticRows]?: CriticRows[K] | undefined }
      : CriticRows);

/** What add() takes, told from the fields; `object` where nothing is known of them. */
export type RowsOf<F extends Fields> = string extends keyof F
  ? object
  : F extends OffPolicyFields
    ? TransitionsOf<F extends OffPolicyFields<1> ? 1 : 'critic' extends keyof F ? number : 0>
    : SchemaRowsOf<F>;

/** The array that sample() makes: floats where every field is float32, else bytes. */
export type PackedRows<F extends Fields> = string extends keyof F
  ? Float32Array | Uint8Array
  : [F[keyof F]] extends ['float32' | undefined]
    ? Float32Array
    : true extends { [K in keyof F]-?: 'float32' extends F[K] ? false : true }[keyof F]
      ? Uint8Array
      : Float32Array | Uint8Array;
