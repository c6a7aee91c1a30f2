/**
 * The roles of fields, by name. The role says whether a field's values must be finite. A NaN in a
 * loss makes every weight NaN. So a buffer checks the fields that learners read before it adds a
 * row (native/rows/finite.hpp). Fields with other names are the user's, and are not checked.
 */
import { describeValue } from '../../base/checks.ts';
import { arrayOf, type DType, dtypes, type TypedArray } from '../../base/dtype.ts';
import { type CodedError, rangeError, typeError } from '../../base/errors.ts';
import { fromBfloat16, fromFloat16 } from '../../base/float16.ts';

/** Whether a buffer rejects values that are NaN or infinite, or stores them. */
export type NonFiniteNumbers = 'refuse' | 'keep';

/** The number of each role, as in native/rows/finite.hpp. */
const Role = {
  own: 0,
  value: 1,
  next: 2,
  terminated: 3,
  dones: 4,
  truncated: 5,
  discounts: 6,
} as const;

const roles: Readonly<Record<string, number>> = {
  obs: Role.value,
  criticObs: Role.value,
  critic: Role.value,
  actions: Role.value,
  rewards: Role.value,
  nextObs: Role.next,
  nextCriticObs: Role.next,
  nextCritic: Role.next,
  terminated: Role.terminated,
  dones: Role.dones,
  truncated: Role.truncated,
  discounts: Role.discounts,
};
const floats: Partial<Record<DType, number>> = { float16: 1, bfloat16: 2, float32: 3, float64: 4 };

interface Field {
  readonly key: string;
  readonly dtype: DType;
}

const kindOf = ({ dtype }: Field, role: number): number[] => [
  dtypes[dtype].bytes,
  floats[dtype] ?? 0,
  role,
];

/**
 * Returns three numbers of a row's field, for native code: the bytes of an element, the kind of
 * floats (0 for other dtypes), and the role.
 */
export const rowKind = (field: Field, nonFinite: NonFiniteNumbers): number[] =>
  kindOf(
    field,
    nonFinite === 'keep' || !Object.hasOwn(roles, field.key)
      ? Role.own
      : (roles[field.key] as number),
  );

/** Returns the same three numbers for a field of a step. */
export const stepKind = (
  field: Field & { readonly observation: boolean },
  nonFinite: NonFiniteNumbers,
): number[] =>
  kindOf(
    field,
    nonFinite === 'refuse' && (field.observation || field.key === 'actions')
      ? Role.value
      : Role.own,
  );

/** Returns `nonFinite`. Throws a TypeError unless it is 'refuse' or 'keep'. */
export function checkNonFinite(nonFinite: unknown): NonFiniteNumbers {
  if (nonFinite === 'refuse' || nonFinite === 'keep') return nonFinite;
  throw typeError(`nonFinite must be 'refuse' or 'keep', got ${describeValue(nonFinite)}`);
}

/** Returns element `at` of an array of this dtype, as a number. */
export function numberAt(values: TypedArray, dtype: DType, at: number): number {
  const piece = values.subarray(at, at + 1);
  if (dtype === 'float16') return fromFloat16(piece as Uint16Array)[0] as number;
  return dtype === 'bfloat16'
    ? (fromBfloat16(piece as Uint16Array)[0] as number)
    : Number(piece[0]);
}

/** Returns element `element` of the value that begins at byte `offset` of packed bytes. */
export function packedNumber(
  bytes: Uint8Array,
  offset: number,
  dtype: DType,
  element: number,
): number {
  const item = dtypes[dtype].bytes;
  const value = arrayOf(dtype, 1);
  const from = offset + element * item;
  new Uint8Array(value.buffer).set(bytes.subarray(from, from + item));
  return numberAt(value as TypedArray, dtype, 0);
}

/**
 * Returns the error of a value that was rejected. `which`: the name of its row or lane. `ends`:
 * whether the value belongs to an observation after a step that did not terminate. The text then
 * names this reason, because NaN is allowed after a step that terminated.
 */
export function notFinite(
  key: string,
  element: number,
  value: number,
  which: string,
  ends: boolean,
): CodedError {
  const why = ends ? ', and the episode did not terminate there' : '';
  return rangeError(
    `${key} of ${which} holds ${value} as number ${element}${why}: learners need finite numbers. ` +
      `Nothing was added; a buffer made with nonFinite: 'keep' takes them`,
  );
}

/** Returns whether a row's field is a next observation. */
export const isNext = (key: string): boolean => roles[key] === Role.next;
