/**
 * The spaces of observations and actions: a box of numbers, or one of n actions. They correspond to
 * Gymnasium's `Box` and `Discrete`, but are plain objects.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { arrayOf, type DType, elementCount, type TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { highEnd, lowEnd, OPEN } from '../../base/float32.ts';

/** A space of arrays of one shape, with bounds. */
export interface Box {
  /** shape of an array, [] for a single number */
  readonly shape: readonly number[];
  /**
   * lower bound, one number for all values or one for each value, default −Infinity. An action
   * space needs one
   */
  readonly low?: number | ArrayLike<number>;
  /**
   * upper bound, one number for all values or one for each value, default Infinity. An action space
   * needs one
   */
  readonly high?: number | ArrayLike<number>;
  /** dtype of observations, default 'float32'. Actions are always float32 */
  readonly dtype?: ObservationDType;
}

/** Dtypes of observations: those whose values JavaScript numbers represent exactly. */
export type ObservationDType =
  | 'float32'
  | 'float64'
  | 'int8'
  | 'uint8'
  | 'int16'
  | 'uint16'
  | 'int32'
  | 'uint32';

/** A space of n actions with the numbers 0 … n − 1. */
export interface Discrete {
  /** number of actions, 1 to 2²⁴ */
  readonly n: number;
}

/** The checked spaces of an environment, with defaults. */
export interface Spaces {
  readonly observation: {
    readonly shape: readonly number[];
    /** number of values of one observation */
    readonly size: number;
    readonly dtype: ObservationDType;
  };
  readonly action: DiscreteActions | BoxActions;
}
/** A checked space of discrete actions. */
export interface DiscreteActions {
  readonly kind: 'discrete';
  /** number of actions */
  readonly n: number;
  /** number of values of a stored action */
  readonly size: 1;
}
/** A checked box of actions, with bounds in float32. */
export interface BoxActions {
  readonly kind: 'box';
  readonly shape: readonly number[];
  /** number of values of one action */
  readonly size: number;
  /** lower bound of each value */
  readonly low: readonly number[];
  /** upper bound of each value */
  readonly high: readonly number[];
}

const stored: readonly DType[] = [
  'float32',
  'float64',
  'int8',
  'uint8',
  'int16',
  'uint16',
  'int32',
  'uint32',
];
/** Most values of an action. Each value has its own bounds in memory. */
const MAX_ACTION_NUMBERS = 2 ** 24;
const isDiscrete = (space: object): space is Discrete => 'n' in space;

/**
 * Checks the spaces of an environment, and returns them with defaults. Throws a TypeError or
 * RangeError that names the space and the problem.
 */
export function spacesOf(environment: { observationSpace: unknown; actionSpace: unknown }): Spaces {
  if (typeof environment !== 'object' || environment === null)
    throw typeError(
      `an environment must be an object with reset() and step(), got ${describeValue(environment)}`,
    );
  const { observationSpace, actionSpace } = environment;
  const box = boxed('observationSpace', observationSpace);
  const dtype = box.dtype ?? 'float32';
  if (!stored.includes(dtype))
    throw rangeError(
      `observationSpace.dtype must be one of ${stored.join(', ')}, got ${describeValue(dtype)}`,
    );
  const { shape } = box;
  checkEnds('observationSpace', box, elementCount(shape));
  return {
    observation: { shape, size: elementCount(shape), dtype },
    action: actionsOf(actionSpace),
  };
}

function actionsOf(space: unknown): Spaces['action'] {
  if (typeof space === 'object' && space !== null && isDiscrete(space)) {
    checkKeys('actionSpace', space, ['n']);
    return { kind: 'discrete', n: checkCount('actionSpace.n', space.n, 1, 2 ** 24), size: 1 };
  }
  const box = boxed('actionSpace', space, 'or { n } for one of n actions');
  if ((box.dtype ?? 'float32') !== 'float32')
    throw rangeError(`actionSpace.dtype: actions are float32, got ${describeValue(box.dtype)}`);
  const { shape } = box;
  const size = elementCount(shape);
  if (size > MAX_ACTION_NUMBERS)
    throw rangeError(
      `actionSpace.shape [${shape}] has ${size} numbers, and the maximum is ${MAX_ACTION_NUMBERS}`,
    );
  const { low, high } = ends('actionSpace', box, size);
  for (let i = 0; i < size; i++)
    if (!(Math.abs(low[i] as number) < OPEN && Math.abs(high[i] as number) < OPEN))
      throw rangeError(
        `actionSpace needs low and high, numbers that are finite in float32; got ${low[i]} and ${high[i]}: an actor scales its actions to a box`,
      );
  // Rounds the bounds inwards to float32, the dtype of actions. So an action that is clamped to
  // them is also within the bounds as given.
  const [least, most] = [low.map(lowEnd), high.map(highEnd)];
  const empty = least.findIndex((end, i) => !(end < (most[i] as number)));
  if (empty >= 0)
    throw rangeError(
      `actionSpace: float32 has no two numbers from ${low[empty]} to ${high[empty]}, its number ${empty}`,
    );
  return { kind: 'box', shape, size, low: least, high: most };
}

function boxed(name: string, space: unknown, also = ''): Box {
  if (typeof space !== 'object' || space === null || !Array.isArray((space as Box).shape))
    throw typeError(
      `the environment's ${name} must be { shape: [numbers], low?, high?, dtype? }${also && ` ${also}`}, got ${describeValue(space)}`,
    );
  checkKeys(name, space, ['shape', 'low', 'high', 'dtype']);
  const { shape } = space as Box;
  shape.forEach((size: number, i) => {
    checkCount(`${name}.shape[${i}]`, size, 1, 2 ** 31 - 1);
  });
  return space as Box;
}

/** Returns the lower and the upper bound of each value. */
function ends(name: string, box: Box, size: number): { low: number[]; high: number[] } {
  const { low, high } = checkEnds(name, box, size);
  const each = (end: End): number[] =>
    typeof end === 'number' ? Array(size).fill(end) : Array.from(end);
  return { low: each(low), high: each(high) };
}

type End = number | ArrayLike<number>;

/**
 * Checks the bounds of a box and returns them as given. It allocates no arrays, because an
 * observation may have millions of values.
 */
function checkEnds(name: string, box: Box, size: number): { low: End; high: End } {
  const checked = (end: 'low' | 'high', otherwise: number): End => {
    const value = box[end] ?? otherwise;
    if (typeof value === 'number') return value;
    if (typeof value !== 'object' || typeof value.length !== 'number')
      throw typeError(
        `${name}.${end} must be a number or an array of ${size}, got ${describeValue(value)}`,
      );
    if (value.length !== size)
      throw rangeError(`${name}.${end} must hold ${size} numbers, got ${value.length}`);
    return value;
  };
  const [low, high] = [checked('low', -Infinity), checked('high', Infinity)];
  const at = (end: End, i: number) => (typeof end === 'number' ? end : end[i]) as number;
  const all = typeof low === 'number' && typeof high === 'number' ? 1 : size;
  for (let i = 0; i < all; i++)
    if (!(at(low, i) < at(high, i)))
      throw rangeError(
        `${name}: low must be below high, got ${at(low, i)} and ${at(high, i)} for number ${i}`,
      );
  return { low, high };
}

/** Throws if the spaces of two environments of a set differ. */
export function checkSameSpaces(one: Spaces, other: Spaces, which: string): void {
  if (JSON.stringify(one) === JSON.stringify(other)) return;
  throw rangeError(
    `environments of one set have the same spaces; ${which} has others: ${described(other)}, not ${described(one)}`,
  );
}

/** Describes spaces in a few words. */
export function described({ observation, action }: Spaces): string {
  const sizes = (shape: readonly number[]) => shape.join('×') || 'one number';
  const acts =
    action.kind === 'discrete' ? `${action.n} actions` : `actions ${sizes(action.shape)}`;
  return `observations ${sizes(observation.shape)} ${observation.dtype}, ${acts}`;
}

/** Returns an array of zeros with room for `count` observations. */
export const observationArray = (
  { observation: { dtype, size } }: Spaces,
  count: number,
): TypedArray => arrayOf(dtype, count * size);
