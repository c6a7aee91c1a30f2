/**
 * Specifies a halo exchange of an array: the array's layout in memory, its part that is sent, and
 * its part that is overwritten by received data.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { checkDType, type DType, dtypes, elementCount } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { rowMajor } from '../../device/strides.ts';

/** Names of the two horizontal dimensions. Rotations turn these two dimensions. */
const X_DIMS: readonly string[] = ['i', 'i_interface'];
const Y_DIMS: readonly string[] = ['j', 'j_interface'];

export interface QuantityHaloOptions {
  /** number of halo points on each side of the horizontal dimensions */
  nPoints: number;
  shape: readonly number[];
  /** distance in elements between neighbors along each dimension (default: row-major) */
  strides?: readonly number[];
  /** bytes of an element, which must equal those of the dtype */
  itemsize?: number;
  /** index of the compute domain's first element, per dimension */
  origin: readonly number[];
  /** number of elements of the compute domain, per dimension */
  extent: readonly number[];
  /**
   * a name per dimension. 'i' and 'j' (or 'i_interface' and 'j_interface') are the horizontal
   * dimensions. All other names are free
   */
  dims: readonly string[];
  dtype: DType;
}

/**
 * Describes an n-dimensional array and its compute domain. This is the counterpart of NDSL's
 * QuantityHaloSpec, but its strides are in elements, and NDSL's are in bytes.
 * @example
 * const specification = new QuantityHaloSpec({
 *   nPoints: 1,
 *   shape: [6, 6],
 *   origin: [1, 1],
 *   extent: [4, 4],
 *   dims: ['j', 'i'],
 *   dtype: 'float64',
 * });
 */
export class QuantityHaloSpec {
  readonly nPoints: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly itemsize: number;
  readonly origin: readonly number[];
  readonly extent: readonly number[];
  readonly dims: readonly string[];
  readonly dtype: DType;
  /** Index of the dimension 'i' or 'i_interface', or −1. */
  readonly xDim: number;
  /** Index of the dimension 'j' or 'j_interface', or −1. */
  readonly yDim: number;
  /** Number of elements from the array's first to its last address, including both. */
  readonly span: number;

  /**
   * Throws TypeError or RangeError for options that do not fit together. The text names the
   * dimension and the values.
   */
  constructor(options: QuantityHaloOptions) {
    checkKeys('QuantityHaloSpec', options, [
      'nPoints',
      'shape',
      'strides',
      'itemsize',
      'origin',
      'extent',
      'dims',
      'dtype',
    ]);
    const { shape, dims } = options;
    this.nPoints = checkCount('nPoints', options.nPoints, 0);
    this.dtype = checkDType('QuantityHaloSpec', options.dtype);
    const { bytes } = dtypes[this.dtype];
    this.itemsize = options.itemsize ?? bytes;
    if (this.itemsize !== bytes)
      throw rangeError(
        `itemsize of ${this.dtype} is ${bytes} bytes, got ${describeValue(this.itemsize)}`,
      );
    if (!Array.isArray(dims) || [...dims].some((name) => typeof name !== 'string' || name === ''))
      throw typeError(
        `dims is an array of names like ['i', 'j', 'k'], got ${Array.isArray(dims) ? `[${dims.map(describeValue).join()}]` : describeValue(dims)}`,
      );
    const repeated = dims.find((name, d) => dims.indexOf(name) !== d);
    if (repeated !== undefined)
      throw rangeError(`dims names every dimension once, got '${repeated}' twice in [${dims}]`);
    this.dims = Object.freeze([...dims]);
    this.shape = this.#wholes('shape', shape, 0);
    this.strides = this.#wholes('strides', options.strides ?? rowMajor(this.shape), 0);
    this.origin = this.#wholes('origin', options.origin, 0);
    this.extent = this.#wholes('extent', options.extent, 0);
    this.dims.forEach((name, d) => {
      const [n, step, from, wide] = [this.shape, this.strides, this.origin, this.extent].map(
        (each) => each[d],
      ) as [...[number, number, number, number]];
      if (from + wide > n)
        throw rangeError(
          `'${name}': a compute domain of ${wide} from ${from} on ends beyond a dimension of ${n}`,
        );
      if (step === 0 && n > 1 && elementCount(this.shape) > 0)
        throw rangeError(`'${name}': a stride of 0 puts ${n} elements in one place`);
    });
    this.xDim = this.#horizontal(X_DIMS);
    this.yDim = this.#horizontal(Y_DIMS);
    const last = this.shape.reduce((sum, n, d) => sum + (n - 1) * (this.strides[d] as number), 0);
    this.span = elementCount(this.shape) === 0 ? 0 : last + 1;
    if (!Number.isSafeInteger(this.span))
      throw rangeError(`an array of [${this.shape}] with strides [${this.strides}] has no end`);
    Object.freeze(this);
  }

  #wholes(what: string, values: readonly number[], least: number): readonly number[] {
    if (!Array.isArray(values))
      throw typeError(`${what} is an array of whole numbers, got ${describeValue(values)}`);
    if (values.length !== this.dims.length)
      throw rangeError(
        `${what} has one number per dimension of [${this.dims}], got [${values.map(describeValue).join()}]`,
      );
    [...values].forEach((value, d) => {
      checkCount(`${what} of '${this.dims[d]}'`, value, least);
    });
    return Object.freeze([...values]);
  }

  #horizontal(names: readonly string[]): number {
    const found = names.filter((name) => this.dims.includes(name));
    if (found.length > 1)
      throw rangeError(`dims has '${found[0]}' and '${found[1]}': one of them is the dimension`);
    return found.length === 0 ? -1 : this.dims.indexOf(found[0] as string);
  }
}

/**
 * The elements from `start` to `stop` along one dimension, without `stop`. Negative values count
 * from the dimension's end.
 */
export type HaloRange = readonly [start: number, stop: number];

export interface HaloExchangeSpecOptions {
  specification: QuantityHaloSpec;
  /** the part that is sent, as a range per dimension */
  packSlices: readonly HaloRange[];
  /**
   * number of clockwise quarter turns from the sender's axes to the receiver's, with i to the right
   * and j upward. Any integer, taken modulo 4. The data turns counterclockwise
   */
  packClockwiseRotation: number;
  /** the part that received data overwrites, as a range per dimension, without rotation */
  unpackSlices: readonly HaloRange[];
}

/**
 * Describes the outgoing and incoming parts of one array. This is the counterpart of NDSL's
 * HaloExchangeSpec.
 * @example
 * const east = new HaloExchangeSpec({
 *   specification,
 *   packSlices: edgeSlices(specification, 'E', { interior: true }),
 *   unpackSlices: edgeSlices(specification, 'W', { interior: false }),
 * });
 */
export class HaloExchangeSpec {
  readonly specification: QuantityHaloSpec;
  /** the part that is sent, with negative values replaced */
  readonly packSlices: readonly HaloRange[];
  readonly packClockwiseRotation: number;
  readonly unpackSlices: readonly HaloRange[];
  /** Number of elements of the part that is sent. */
  readonly packSize: number;
  /** Number of elements of the part that received data overwrites. */
  readonly unpackSize: number;

  /**
   * Throws RangeError for a range outside the array. The text names the dimension and the values.
   */
  constructor(options: HaloExchangeSpecOptions) {
    checkKeys('HaloExchangeSpec', options, [
      'specification',
      'packSlices',
      'packClockwiseRotation',
      'unpackSlices',
    ]);
    const { specification, packClockwiseRotation: turns } = options;
    if (!(specification instanceof QuantityHaloSpec))
      throw typeError(`specification is a QuantityHaloSpec, got ${describeValue(specification)}`);
    this.specification = specification;
    if (!Number.isInteger(turns))
      throw typeError(
        `packClockwiseRotation is a whole number of quarter turns, got ${describeValue(turns)}`,
      );
    this.packClockwiseRotation = turns + 0; // −0 is 0
    this.packSlices = ranges('packSlices', specification, options.packSlices);
    this.unpackSlices = ranges('unpackSlices', specification, options.unpackSlices);
    this.packSize = size(this.packSlices);
    this.unpackSize = size(this.unpackSlices);
    Object.freeze(this);
  }
}

function ranges(
  what: string,
  { dims, shape }: QuantityHaloSpec,
  given: readonly HaloRange[],
): readonly HaloRange[] {
  if (!Array.isArray(given))
    throw typeError(`${what} is an array of [start, stop], got ${describeValue(given)}`);
  if (given.length !== dims.length)
    throw rangeError(
      `${what} has one [start, stop] per dimension of [${dims}], got ${given.length}`,
    );
  return Object.freeze(
    [...given].map((range, d) => {
      const [name, n] = [dims[d] as string, shape[d] as number];
      if (!Array.isArray(range) || range.length !== 2 || !range.every(Number.isSafeInteger))
        throw typeError(
          `${what} of '${name}' is [start, stop] in whole numbers, got ${Array.isArray(range) ? `[${range.map(describeValue).join()}]` : describeValue(range)}`,
        );
      const [start, stop] = range.map((end: number) => (end < 0 ? end + n : end)) as [
        number,
        number,
      ];
      if (!(start >= 0 && start <= stop && stop <= n))
        throw rangeError(`${what} of '${name}': [${range}] is not a range of a dimension of ${n}`);
      return Object.freeze([start, stop] as const);
    }),
  );
}

/**
 * Returns how many clockwise quarter turns the data makes, from 0 to 3. `rotation` counts clockwise
 * quarter turns of the axes. The data turns in the opposite direction.
 */
export function quarterTurns(rotation: number): 0 | 1 | 2 | 3 {
  return (((-rotation % 4) + 4) % 4) as 0 | 1 | 2 | 3;
}

function size(slices: readonly HaloRange[]): number {
  return slices.reduce((n, [start, stop]) => n * (stop - start), 1);
}
