/** What TypeScript knows of a buffer's rows: the names that add() and batches use, and the dtype of each. */
import type { ArrayOf, DType } from '../dtype.ts';

/** Fields with their dtypes, e.g. `{ obs: 'float32'; action: 'int64' }`. `Fields` itself: nothing is known of them. */
export type Fields = Readonly<Record<string, DType>>;

/** One field of a general schema; dtype is float32 unless said. */
export interface FieldSpec {
  readonly shape: readonly number[];
  readonly dtype?: DType;
}

/** The dtypes of a schema as create() takes it; a field that names none is float32. */
export type FieldsOf<S extends Readonly<Record<string, FieldSpec>>> = {
  readonly [K in keyof S]: S[K] extends { readonly dtype: infer D extends DType }
    ? D
    : S[K] extends { readonly dtype?: infer D }
      ? unknown extends D
        ? 'float32'
        : Exclude<D, undefined> | 'float32'
      : 'float32';
};

/** An off-policy buffer's; `C` is its criticDim, where that is known. */
export type OffPolicyFields<C extends number = 0> = {
  readonly obs: 'float32';
  readonly nextObs: 'float32';
  readonly actions: 'float32';
  readonly rewards: 'float32';
  readonly dones: 'float32';
  readonly truncated: 'float32';
} & (C extends 0
  ? unknown
  : number extends C
    ? { readonly critic?: 'float32'; readonly nextCritic?: 'float32' }
    : { readonly critic: 'float32'; readonly nextCritic: 'float32' });

/** n rows of a general schema: field name → n × its elements, of its dtype. */
export type SchemaRows = Readonly<Record<string, ArrayOf<DType>>>;

/** n off-policy transitions; lengths in elements, D = obsDim, A = actionDim, C = criticDim. */
export interface OffPolicyRows {
  /** n × D */
  readonly obs: Float32Array;
  /** n × D: what the environment returned, after an automatic reset the new episode's first observation */
  readonly nextObs: Float32Array;
  /** n × A */
  readonly actions: Float32Array;
  /** n */
  readonly rewards: Float32Array;
  /** n: terminated or truncated, as 0 or 1 */
  readonly dones: Float32Array;
  /** n: truncated, as 0 or 1 */
  readonly truncated: Float32Array;
  /** n: rows that are not zero (or true) take next_obs and next_critic from the terminal fields */
  readonly terminalMask?: Uint8Array | Int8Array | Uint8ClampedArray | readonly boolean[] | undefined;
  /** n × D, needed with terminalMask; rows the mask leaves out are not read */
  readonly terminalNextObs?: Float32Array | undefined;
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

/** Rows of which nothing is known. */
export type AnyRows = SchemaRows | (OffPolicyRows & { readonly [K in keyof CriticRows]?: CriticRows[K] | undefined });

/** What add() takes. */
export type RowsOf<F extends Fields> = string extends keyof F ? AnyRows : { readonly [K in keyof F]: ArrayOf<F[K]> };

/** What add() takes of an off-policy buffer. */
export type TransitionsOf<C extends number> = OffPolicyRows &
  (C extends 0
    ? unknown
    : number extends C
      ? { readonly [K in keyof CriticRows]?: CriticRows[K] | undefined }
      : CriticRows);

/** The array that sample() makes: floats where every field is float32, else bytes. */
export type PackedRows<F extends Fields> = string extends keyof F
  ? Float32Array | Uint8Array
  : F[keyof F & string] extends 'float32' | undefined
    ? Float32Array
    : Uint8Array;
