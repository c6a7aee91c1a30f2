/** The fields of a step: the offset of each field in a place, and the types of their arrays. */

import { checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { type ArrayOf, type DType, dtypes, elementCount } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { FieldArray, FieldDType, FieldSpec, FieldType } from '../rows/fields.ts';
import { schemaLayout, shownField } from '../rows/pack-layout.ts';

/** A field of a step. The default dtype is float32. */
export type StepFieldSpec = FieldSpec & {
  /**
   * whether the environment shows the field before the action, default false. An observation is
   * stored once per step, and once more at an episode's end
   */
  readonly observation?: boolean;
};

/** Fields by name, as `TrajectoryBuffer.create` accepts them. */
export type StepFields = Readonly<Record<string, StepFieldSpec>>;

/** The type of a field: 'mask', or its dtype, which is float32 by default. */
export type TypeOfStep<S extends StepFieldSpec> = S extends { readonly mask: number }
  ? 'mask'
  : S extends { readonly dtype: infer D extends DType }
    ? D
    : 'float32';

/** The dtype of a field in a batch. Masks have words of 32 bits. */
export type DTypeOfStep<S extends StepFieldSpec> = FieldDType<TypeOfStep<S>>;

/** The names of the fields that are observations. */
export type Observations<S extends StepFields> = {
  [K in keyof S]: S[K] extends { readonly observation: true } ? K : never;
}[keyof S] &
  string;

/**
 * The arrays that add() accepts for a type of field. For float16 and bfloat16, a Uint16Array has the
 * bits of the values, and a Float32Array has values that add() rounds.
 */
export type GivenOf<T extends FieldType> = T extends 'float16' | 'bfloat16'
  ? ArrayOf<T> | Float32Array
  : FieldArray<T>;

/** One flag per lane, as a byte or a boolean. */
export type Flags = Uint8Array | readonly boolean[];

/** One step for each of a writer's L lanes. */
export type Steps<S extends StepFields = StepFields> = string extends keyof S
  ? Readonly<Record<string, unknown>>
  : { readonly [K in keyof S]: GivenOf<TypeOfStep<S[K]>> } & {
      /** L: the reward of each lane's step */
      readonly rewards: Float32Array;
      /** L: whether the episode ended by itself */
      readonly terminated: Flags;
      /** L: whether the episode was cut */
      readonly truncated: Flags;
      /** L: whether the lane has no step in this call. Its elements are not read then */
      readonly skip?: Flags | undefined;
    } & {
      /**
       * L × elements: the observation after an episode's last step, read only for lanes whose
       * episode ends
       */
      readonly [K in Observations<S> as `final${Capitalize<K>}`]?:
        | GivenOf<TypeOfStep<S[K]>>
        | undefined;
    };

/** A field of a step, and its offset in a packed place of a lane. */
export interface StepField {
  readonly key: string;
  readonly dtype: DType;
  /** shape of one value */
  readonly shape: readonly number[];
  readonly observation: boolean;
  /** bytes from the start of a place */
  readonly offset: number;
  /** bytes of one value */
  readonly bytes: number;
  /** elements of one value */
  readonly elements: number;
  /**
   * number of actions, if the field stores masks. `dtype`, `shape` and `elements` are then those of
   * the words in a place: uint32 [⌈mask / 32⌉]
   */
  readonly mask?: number;
}

/** Returns a field as add(), read() and files have it: masks as booleans, one per action. */
export function shownStep(field: StepField): StepField {
  const shown = shownField(field);
  return shown === field ? field : { ...shown, elements: elementCount(shown.shape) };
}

/** The layout of all fields in a packed place. */
export interface StepLayout {
  /** in the order of the schema */
  readonly fields: readonly StepField[];
  /** bytes of a packed place */
  readonly placeBytes: number;
}

/**
 * Names that fields cannot have. Batches have columns of these names, or add() accepts arrays of
 * these names.
 */
const reserved = [
  'rewards',
  'terminated',
  'truncated',
  'skip',
  'discounts',
  'steps',
  'ids',
  'weights',
  'probabilities',
  'priorities',
  'mask',
  'learn',
  'relabelled',
  'nextAchieved',
  'episodeStep',
  'final',
  'dones',
  'lane',
];

export const capitalised = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);
export const nextKey = (name: string): string => `next${capitalised(name)}`;
export const finalKey = (name: string): string => `final${capitalised(name)}`;

/**
 * Returns the layout of a place. Observations come first, because a place with a final observation
 * has only these fields. Throws a TypeError or RangeError that names the invalid field.
 */
export function stepLayout(fields: StepFields): StepLayout {
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
    throw typeError(
      `fields must be an object of name → { shape, dtype?, observation? } or { mask, observation? }, got ${describeValue(fields)}`,
    );
  const names = Object.keys(fields);
  for (const name of names) {
    const spec: unknown = fields[name];
    if (typeof spec !== 'object' || spec === null)
      throw typeError(
        `fields.${name} must be { shape, dtype?, observation? } or { mask, observation? }, got ${describeValue(spec)}`,
      );
    const known =
      (spec as StepFieldSpec).mask === undefined ? ['shape', 'dtype', 'mask'] : ['mask'];
    checkKeys(`fields.${name}`, spec, [...known, 'observation']);
    const { observation = false } = spec as StepFieldSpec;
    checkFlag(`fields.${name}.observation`, observation);
    if (reserved.includes(name))
      throw rangeError(
        `fields.${name}: the buffer or the batch has its own '${name}'; choose another name`,
      );
    for (const made of observation ? [nextKey(name), finalKey(name)] : [])
      if (names.includes(made))
        throw rangeError(`fields.${made}: observation '${name}' makes a column of that name`);
    const twin = names.find((other) => other !== name && nextKey(other) === nextKey(name));
    if (observation && twin !== undefined && (fields[twin] as StepFieldSpec | null)?.observation)
      throw rangeError(
        `fields.${twin}: observation '${name}' makes ${nextKey(name)} and ${finalKey(name)} too`,
      );
  }
  const observes = (name: string) => (fields[name] as StepFieldSpec).observation === true;
  if (!names.some(observes))
    throw rangeError(
      `fields must hold an observation, e.g. obs: { shape: [4], observation: true }; got ${names.join(', ') || 'none'}`,
    );
  const ordered = [...names.filter(observes), ...names.filter((name) => !observes(name))];
  const plain = ordered.map((name) => {
    const { observation: _, ...plain } = fields[name] as StepFieldSpec;
    return [name, plain as FieldSpec] as const;
  });
  const packed = schemaLayout(Object.fromEntries(plain));
  const laid = names.map((name) => {
    const { dtype, shape, offset, bytes, key, mask } = packed.fields[name]!;
    return Object.freeze({
      key,
      dtype,
      shape,
      offset,
      bytes,
      observation: observes(name),
      elements: elementCount(shape),
      ...(mask !== undefined && { mask }),
    });
  });
  return Object.freeze({ fields: Object.freeze(laid), placeBytes: packed.rowBytes });
}

/** Returns the bytes of one element of a field. */
export const itemBytes = (field: StepField): number => dtypes[field.dtype].bytes;
