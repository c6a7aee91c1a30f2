/**
 * Splits an op on tensors with any number of dimensions into launches of kernels that process rows
 * and columns.
 */

import { elementCount } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { OpenedStream } from '../../device/stream.ts';
import { denseStrides, isDense } from '../../device/strides.ts';

type Floats = Tensor<'float32'>;

/**
 * Distances in elements from one row to the next and from one column to the next, in one launch.
 * With a distance of 0, the kernel reads the same element for each row or column.
 */
export type Steps = readonly [row: number, column: 0 | 1];

/**
 * A tensor or a number that an op reads or writes. `name` is for errors, and `strides` has one
 * stride for each dimension of the op.
 */
export interface Operand {
  readonly name: string;
  readonly tensor: Floats | number;
  readonly strides: readonly number[];
  /**
   * number of adjacent elements that belong to each index, such as the length of a row that is
   * summed, default 1
   */
  readonly width?: number;
}

export interface Launches {
  readonly rows: number;
  readonly columns: number;
  /** steps of each operand */
  readonly steps: readonly Steps[];
  /**
   * Calls `launch` once for each launch, with a view of each operand. A view has rows × columns, or
   * a single row or column that the kernel repeats.
   */
  each(stream: Stream, launch: (views: readonly Floats[]) => void): void;
}

/**
 * Largest number of launches of one op. An op that needs more throws, because enqueuing them would
 * cost the CPU more time than the kernels save.
 */
const MAX_LAUNCHES = 4096;

interface Dimensions {
  lengths: number[];
  /** strides of each operand */
  strides: number[][];
}

/** How an op over some shape is split into launches over rows and columns. */
export interface Split {
  readonly rows: number;
  readonly columns: number;
  /** steps of each operand */
  readonly steps: readonly Steps[];
  /** number of elements of a row of each operand */
  readonly widths: readonly number[];
  readonly launches: number;
  /** Calls `launch` once for each launch, with the offset of each operand's first element. */
  each(launch: (offsets: readonly number[]) => void): void;
}

/** Options of splitOf(), which describe the kernel. */
export interface SplitOptions {
  /** whether the kernel accepts steps of 0, default false */
  repeats?: boolean;
  /**
   * number of columns of every launch. The `widths` elements of each operand are then its columns.
   * If `columns` is omitted, one of the dimensions may become the columns
   */
  columns?: number;
  widths?: readonly number[];
  /** whether the kernel writes rows without gaps, default false */
  dense?: boolean;
}

/**
 * Returns the smallest number of launches that cover `shape`. `strides` has the strides of each
 * operand over `shape`. The first operand is the output.
 */
export function splitOf(
  shape: readonly number[],
  all: readonly (readonly number[])[],
  { repeats = false, columns, widths, dense = false }: SplitOptions = {},
): Split {
  const dimensions = joined(shape, all);
  const { lengths, strides } = dimensions;
  const total = lengths.reduce((n, length) => n * length, 1);
  const split = (columns === undefined ? columnsOf(dimensions, repeats) : []).concat({
    at: -1,
    columns: columns ?? 1,
    widths: widths ?? all.map(() => 1),
  });
  let best = { launches: Number.POSITIVE_INFINITY, row: -1, column: split[0] as Columns };
  for (const column of split)
    for (let row = -1; row < lengths.length; row++) {
      const fits = (of: readonly number[], i: number) =>
        i > 0 || !dense
          ? of[row]! >= column.widths[i]! || (repeats && i > 0 && of[row] === 0)
          : of[row] === column.widths[i];
      if (row >= 0 && (row === column.at || !strides.every(fits))) continue;
      const launches = total / (lengths[row] ?? 1) / (lengths[column.at] ?? 1);
      if (launches < best.launches) best = { launches, row, column };
    }
  const { row, column, launches } = best;
  const outer = lengths.map((_, d) => d).filter((d) => d !== row && d !== column.at);
  return {
    rows: lengths[row] ?? 1,
    columns: column.columns,
    steps: strides.map((of): Steps => [of[row] ?? 0, of[column.at] === 0 ? 0 : 1]),
    widths: column.widths,
    launches,
    each(launch) {
      if (total === 0) return;
      const index = outer.map(() => 0);
      for (let left = launches; left > 0; left--) {
        launch(strides.map((of) => outer.reduce((sum, d, at) => sum + index[at]! * of[d]!, 0)));
        for (let at = outer.length - 1; at >= 0; at--) {
          index[at]!++;
          if (index[at]! < lengths[outer[at]!]!) break;
          index[at] = 0;
        }
      }
    },
  };
}

/**
 * Returns the split of an elementwise op, and the indices of the inputs that are copied first. A copy
 * has the layout of the first operand, which is the output. Inputs are copied if that takes fewer
 * launches in all.
 */
export function splitWithCopies(
  shape: readonly number[],
  all: readonly (readonly number[])[],
  options: SplitOptions = {},
): { split: Split; copied: readonly number[] } {
  const split = splitOf(shape, all, options);
  if (split.launches <= 2) return { split, copied: [] };
  const dense = denseStrides(shape);
  const layout = (copies: readonly number[]) =>
    all.map((strides, i) => (copies.includes(i) ? dense : strides));
  const loose = all
    .map((_, i) => i)
    .slice(1)
    .filter((i) => !isDense(shape, all[i]!) && copyOf(shape, all[i]!).lengths.length <= 4);
  const choices = [...loose.map((i) => [i]), loose];
  let best: { split: Split; copied: readonly number[] } = { split, copied: [] };
  for (const copied of choices) {
    const after = splitOf(shape, layout(copied), options);
    if (after.launches + copied.length < best.split.launches + best.copied.length)
      best = { split: after, copied };
  }
  return best;
}

/**
 * Returns the launches of an op on tensors, whose first operand is the output. The options are
 * those of splitOf().
 *
 * Throws RangeError if two indices of the output refer to one element, or if the op needs more than
 * 4,096 launches. It also throws if a launch would read an input that an earlier launch has
 * overwritten.
 */
export function launchesOf(
  op: string,
  shape: readonly number[],
  operands: readonly Operand[],
  options: Omit<SplitOptions, 'widths'> = {},
): Launches {
  checkApart(op, operands[0] as Operand, shape);
  const all = operands.map(({ strides }) => strides);
  const { split, copied } =
    options.columns === undefined
      ? splitWithCopies(shape, all, options)
      : {
          split: splitOf(shape, all, {
            ...options,
            widths: operands.map(({ width = 1 }) => width),
          }),
          copied: [],
        };
  const { rows, columns, steps, widths, launches, each } = split;
  if (launches > MAX_LAUNCHES) {
    const layouts = operands.map(({ name, tensor }) =>
      typeof tensor === 'number' ? name : `${name} ${layout(tensor)}`,
    );
    throw rangeError(
      `${op} would need ${launches} launches, and the limit is ${MAX_LAUNCHES}: ${layouts.join(', ')}; lay them out alike first`,
    );
  }
  if (launches > 1)
    checkOrder(
      op,
      operands.filter((_, i) => !copied.includes(i)),
      shape,
    );
  return {
    rows,
    columns,
    steps,
    each(stream, launch) {
      if (shape.includes(0)) return;
      using made = tensorsOf(stream, operands, shape, copied);
      each((offsets) => {
        launch(
          made.tensors.map((tensor, i) => {
            const [down, width] = [steps[i]![0], widths[i]!];
            return tensor.view({
              shape: [down === 0 ? 1 : rows, width],
              offset: offsets[i]!,
              strides: [down || width, 1],
            });
          }),
        );
      });
    },
  };
}

/** Returns the dimensions of a dense copy of an operand, and its strides. */
function copyOf(shape: readonly number[], strides: readonly number[]): Dimensions {
  return joined(shape, [denseStrides(shape), strides]);
}

/**
 * Returns the operands as tensors. It allocates memory for a number, which the stream fills, and for
 * a copy. The caller closes that memory by disposing of the result. In a capture the fill and the
 * copy become operations of the graph, and the graph keeps the closed memory alive.
 */
function tensorsOf(
  stream: Stream,
  operands: readonly Operand[],
  shape: readonly number[],
  copied: readonly number[],
): Disposable & { tensors: readonly Floats[] } {
  const cells: Floats[] = [];
  const close = () => {
    for (const cell of cells) cell.close();
  };
  const copy = (tensor: Floats, strides: readonly number[]): Floats => {
    const { lengths, strides: steps } = copyOf(shape, strides);
    const of = (list: readonly number[], rest: number) => [
      ...new Array<number>(4 - list.length).fill(rest),
      ...list,
    ];
    const [to, from] = steps as [number[], number[]];
    const reach = lengths.reduce((n, length, d) => n + (length - 1) * from[d]!, 1);
    const made = stream.device.allocate({ shape: [elementCount(shape)], zeroed: false });
    cells.push(made);
    stream.launch('copy4d', {
      tensors: [made, tensor.view({ shape: [reach] })],
      wholes: [...of(lengths, 1), ...of(to, 0), ...of(from, 0)] as never,
      reals: [0],
    });
    return made;
  };
  try {
    const tensors = operands.map(({ tensor, strides }, i) => {
      if (typeof tensor !== 'number') return copied.includes(i) ? copy(tensor, strides) : tensor;
      // A cell is not zeroed, because zeroed memory cannot be allocated inside a capture.
      const cell = stream.device.allocate({ shape: [1], zeroed: false });
      cells.push(cell);
      // Calls fill() of the base class on purpose. If firstNonFinite() watches this stream, its
      // fill() would report the fill with an infinite number, not the op that uses it.
      OpenedStream.prototype.fill.call(stream, cell, tensor);
      return cell;
    });
    return { tensors, [Symbol.dispose]: close };
  } catch (error) {
    close();
    throw error;
  }
}

const layout = (tensor: Tensor): string => `[${tensor.shape}] with strides [${tensor.strides}]`;

interface Columns {
  /** index of the dimension that becomes the columns, or −1 */
  at: number;
  columns: number;
  /** number of elements of a row, for each operand */
  widths: readonly number[];
}

/**
 * Returns the dimension that can become the columns, as an array of one element, or an empty array.
 * Only one dimension is a candidate, because the output has at most one stride of 1.
 */
function columnsOf({ lengths, strides }: Dimensions, repeats: boolean): Columns[] {
  const at = strides[0]!.indexOf(1);
  const fits =
    at >= 0 && strides.every((of, i) => of[at] === 1 || (repeats && i > 0 && of[at] === 0));
  if (!fits) return [];
  const columns = lengths[at] as number;
  return [{ at, columns, widths: strides.map((of) => (of[at] === 0 ? 1 : columns)) }];
}

/**
 * Returns the dimensions in descending order of the output's strides, without those of length 1.
 * Two dimensions are joined into one if every operand steps through both at one constant distance.
 */
function joined(shape: readonly number[], all: readonly (readonly number[])[]): Dimensions {
  const [first] = all as [readonly number[]];
  const order = shape.map((_, d) => d).filter((d) => shape[d] !== 1);
  order.sort((a, b) => first[a]! - first[b]!);
  const lengths: number[] = [];
  const strides: number[][] = all.map(() => []);
  for (const d of order) {
    const inner = lengths[0];
    if (inner !== undefined && strides.every((of, i) => all[i]![d] === of[0]! * inner))
      lengths[0] = inner * shape[d]!;
    else {
      lengths.unshift(shape[d]!);
      strides.forEach((of, i) => {
        of.unshift(all[i]![d]!);
      });
    }
  }
  return { lengths, strides };
}

/**
 * Throws if two indices of the output may refer to the same element. Launches and threads write in
 * any order, so that element's value would be undefined.
 */
function checkApart(
  op: string,
  { name, tensor, strides, width = 1 }: Operand,
  shape: readonly number[],
): void {
  if (shape.includes(0)) return;
  const used = shape.map((_, d) => d).filter((d) => shape[d]! > 1);
  let reach = width;
  for (const d of used.sort((a, b) => strides[a]! - strides[b]!)) {
    if (strides[d]! < reach)
      throw rangeError(`${op}: ${name} ${layout(tensor as Floats)} has two indices in one element`);
    reach += (shape[d]! - 1) * strides[d]!;
  }
}

/**
 * Throws if a launch would read elements that an earlier launch of the same op has written. If
 * there is only one launch, stream.launch() checks it.
 */
function checkOrder(op: string, operands: readonly Operand[], shape: readonly number[]): void {
  const [out, ...inputs] = operands as [Operand, ...Operand[]];
  for (const input of inputs) {
    if (alike(out, input, shape) || !shareElements(out, input, shape, shape)) continue;
    throw rangeError(
      `${op}: ${out.name} and ${input.name} share elements with different layouts; write to another tensor`,
    );
  }
}

function alike(a: Operand, b: Operand, shape: readonly number[]): boolean {
  const [x, y] = [a.tensor, b.tensor];
  if (typeof x === 'number' || typeof y === 'number') return false;
  const same =
    x.handle === y.handle && x.byteOffset === y.byteOffset && (a.width ?? 1) === (b.width ?? 1);
  return same && shape.every((length, d) => length === 1 || a.strides[d] === b.strides[d]);
}

/** the values step · k for all integers k from low to high */
interface Term {
  step: number;
  low: number;
  high: number;
}

/**
 * Limit of tries in shareElements(). After more tries, it returns true without a proof. Strides
 * that need more tries do not occur in arrays of any library.
 */
const MAX_TRIES = 100_000;

/**
 * Returns whether `a` and `b` have an element in common. `from` is the shape over which `a` is
 * indexed, and `to` that of `b`.
 */
export function shareElements(
  a: Operand,
  b: Operand,
  from: readonly number[],
  to: readonly number[],
): boolean {
  const [x, y] = [a.tensor, b.tensor];
  if (typeof x === 'number' || typeof y === 'number' || x.handle !== y.handle) return false;
  const terms = new Map<number, Term>();
  const add = (step: number, low: number, high: number) => {
    if (step === 0 || low === high) return;
    const before = terms.get(step);
    terms.set(step, { step, low: low + (before?.low ?? 0), high: high + (before?.high ?? 0) });
  };
  from.forEach((length, d) => {
    add(a.strides[d]!, 0, length - 1);
  });
  to.forEach((length, d) => {
    add(b.strides[d]!, 1 - length, 0);
  });
  add(1, 0, (a.width ?? 1) - 1);
  add(1, 1 - (b.width ?? 1), 0);
  const sorted = [...terms.values()].sort((one, other) => other.step - one.step);
  // For each term, the smallest and the largest sum that all later terms can have together. The
  // search skips values of a term that would leave a remainder outside of this range.
  const rests = sorted.map((_, i) => {
    const after = sorted.slice(i + 1);
    return [
      after.reduce((sum, { step, low }) => sum + step * low, 0),
      after.reduce((sum, { step, high }) => sum + step * high, 0),
    ];
  });
  let tries = 0;
  const reaches = (i: number, sum: number): boolean => {
    const term = sorted[i];
    if (term === undefined) return sum === 0;
    const [low, high] = rests[i] as [number, number];
    const last = Math.min(term.high, Math.floor((sum - low) / term.step));
    for (let k = Math.max(term.low, Math.ceil((sum - high) / term.step)); k <= last; k++)
      if (++tries > MAX_TRIES || reaches(i + 1, sum - term.step * k)) return true;
    return false;
  };
  return reaches(0, (y.byteOffset - x.byteOffset) / 4);
}
