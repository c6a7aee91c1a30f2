/** The types of a buffer's rows: the names that add() and batches use, and the dtype of each. */
import type { ArrayOf, DType } from '../../base/dtype.ts';

/** The type of a field: a dtype, or 'mask' for legal actions, which are stored as bits. */
export type FieldType = DType | 'mask';

/** The array of a field in add(), samples and read(). A mask has a byte of 0 or 1 per action. */
export type FieldArray<T extends FieldType> = T extends DType ? ArrayOf<T> : Uint8Array;

/** The dtype of a field's tensor in a batch. A mask's tensor has its words of 32 bits. */
export type FieldDType<T extends FieldType> = T extends DType ? T : 'uint32';

/**
 * Fields with their types, e.g. `{ obs: 'float32'; action: 'int64' }`. A field that may be absent
 * is optional. `Fields` itself means that the fields are unknown.
 */
export type Fields = Readonly<Record<string, FieldType | undefined>>;

/** The dtype of the tensor of a field that is present. */
export type DTypeIn<F extends Fields, K extends keyof F> = FieldDType<Exclude<F[K], undefined>>;

/** A field of arrays of one shape. */
export interface ArrayFieldSpec {
  /** shape of one row's value, [] for a scalar */
  readonly shape: readonly number[];
  /** dtype, default 'float32' */
  readonly dtype?: DType;
  readonly mask?: undefined;
}

/** A field of masks: for each of `mask` actions, whether it is legal. Each takes one bit. */
export interface MaskFieldSpec {
  /** number of actions, 1 to 4,096 */
  readonly mask: number;
  readonly shape?: undefined;
  readonly dtype?: undefined;
}

/** One field of a general schema. */
export type FieldSpec = ArrayFieldSpec | MaskFieldSpec;

/** The types of a schema as create() accepts it. A field without a dtype is float32. */
export type FieldsOf<S extends Readonly<Record<string, FieldSpec | undefined>>> = {
  readonly [K in keyof S]: TypeOfSpec<Exclude<S[K], undefined>>;
};
type TypeOfSpec<S> = S extends { readonly mask: number }
  ? 'mask'
  : S extends { readonly dtype: infer D extends DType }
    ? D
    : S extends { readonly dtype?: infer D }
      ? unknown extends D
        ? 'float32'
        : Extract<D, DType> | 'float32'
      : 'float32';

/**
 * The fields of an off-policy buffer. `C` and `M` are the types of its criticDim and actionMask, or
 * `number` if they are unknown.
 */
export type OffPolicyFields<C extends number = 0, M extends number = 0> = {
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
    : { readonly critic: 'float32'; readonly nextCritic: 'float32' }) &
  ([M] extends [0]
    ? unknown
    : 0 extends M
      ? { readonly actionMask?: 'mask'; readonly nextActionMask?: 'mask' }
      : { readonly actionMask: 'mask'; readonly nextActionMask: 'mask' });

/** n rows of a general schema. Each field has an array of its dtype with n × its elements. */
export type SchemaRows = Readonly<Record<string, ArrayOf<DType>>>;

/** n flags: 0 or 1, or booleans. */
export type RowFlags = Float32Array | Uint8Array | readonly boolean[];

/**
 * The fields of n off-policy transitions, without the flags that end episodes. Lengths are in
 * elements, with D = obsDim and A = actionDim.
 */
interface TransitionRows {
  /** n × D */
  readonly obs: Float32Array;
  /**
   * n × D: the observation that the environment returned. After an automatic reset, this is the new
   * episode's first observation
   */
  readonly nextObs: Float32Array;
  /** n × A */
  readonly actions: Float32Array;
  /** n */
  readonly rewards: Float32Array;
  /**
   * n: if an element is not zero (or is true), its row takes nextObs and nextCritic from the
   * terminal fields
   */
  readonly terminalMask?:
    | Uint8Array
    | Int8Array
    | Uint8ClampedArray
    | readonly boolean[]
    | undefined;
  /** n × D, required with terminalMask. Rows whose mask element is zero are not read */
  readonly terminalNextObs?: Float32Array | undefined;
}

/**
 * n off-policy transitions with the flags `dones` and `truncated`, as in replay buffers that follow
 * Gym. A row terminated if it is done and not truncated.
 */
export interface OffPolicyRows extends TransitionRows {
  /**
   * n: 1 if the episode terminated or was truncated, else 0. Do not use it like `terminated`: a
   * target of γ · (1 − dones) is wrong if an episode was cut.
   */
  readonly dones: Float32Array;
  /** n: 1 if the episode was truncated, else 0 */
  readonly truncated: Float32Array;
  /** n: if given, dones must equal terminated or truncated in each row */
  readonly terminated?: RowFlags | undefined;
}

/**
 * n off-policy transitions with Gymnasium's two flags, from which the buffer computes `dones`. If
 * both flags of a row are set, the row terminated.
 */
export interface TerminatedRows extends TransitionRows {
  /** n: whether the episode ended by itself, so that no step follows */
  readonly terminated: RowFlags;
  /** n: whether the episode was cut, although it would have continued */
  readonly truncated: RowFlags;
  readonly dones?: undefined;
}

/** Additional fields of off-policy transitions if criticDim is not 0. */
export interface CriticRows {
  /** n × C */
  readonly critic: Float32Array;
  /** n × C */
  readonly nextCritic: Float32Array;
  /** n × C, required with terminalMask */
  readonly terminalNextCritic?: Float32Array | undefined;
}

/** Additional fields of off-policy transitions if actionMask is not 0. A = actionMask. */
export interface MaskRows {
  /** n × A: 1 for each action that is legal before the step, else 0 */
  readonly actionMask: Uint8Array;
  /** n × A: 1 for each action that is legal after the step, else 0 */
  readonly nextActionMask: Uint8Array;
  /** n × A, required with terminalMask */
  readonly terminalNextActionMask?: Uint8Array | undefined;
}

/** The arrays that add() accepts for fields with these types. */
export type SchemaRowsOf<F extends Fields> = {
  readonly [K in keyof F]: FieldArray<Exclude<F[K], undefined>>;
};

/** `R` if a buffer's size `N` is not 0, or optional fields of `R` if the size is unknown. */
type RowsUnless0<N extends number, R> = [N] extends [0]
  ? unknown
  : 0 extends N
    ? { readonly [K in keyof R]?: R[K] | undefined }
    : R;

/** The arrays that an off-policy buffer's add() accepts. */
export type TransitionsOf<C extends number, M extends number = 0> = (
  | OffPolicyRows
  | TerminatedRows
) &
  RowsUnless0<C, CriticRows> &
  RowsUnless0<M, MaskRows>;

/** The arrays that add() accepts for these fields, or `object` if the fields are unknown. */
export type RowsOf<F extends Fields> = string extends keyof F
  ? object
  : F extends OffPolicyFields
    ? TransitionsOf<
        F extends OffPolicyFields<1> ? 1 : 'critic' extends keyof F ? number : 0,
        F extends OffPolicyFields<0, 1> ? 1 : 'actionMask' extends keyof F ? number : 0
      >
    : SchemaRowsOf<F>;

/** The array that sample() returns: floats if every field is float32, else bytes. */
export type PackedRows<F extends Fields> = string extends keyof F
  ? Float32Array | Uint8Array
  : [F[keyof F]] extends ['float32' | undefined]
    ? Float32Array
    : true extends { [K in keyof F]-?: 'float32' extends F[K] ? false : true }[keyof F]
      ? Uint8Array
      : Float32Array | Uint8Array;
