/** Where an op's numbers lie: shapes broadcast as numpy does it, then as few rows as their strides allow. */
import { checkStream } from '../../device/checks.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { rangeError, typeError } from '../../errors.ts';
import { checkFloats } from '../checks.ts';

/** Elements from row to row, and from column to column: 0 says the same number again. */
export type Steps = readonly [row: number, column: 0 | 1];

export interface Operands {
  rows: number;
  columns: number;
  /** `out`, then each input, as rows × columns, or one of those that it says again */
  views: readonly Tensor<'float32'>[];
  /** of the same */
  steps: readonly Steps[];
}

const sizes = (tensor: Tensor): string => tensor.shape.join('×') || 'a scalar';

/**
 * Rows and columns in which a kernel finds all of them. Inputs have out's shape, or fewer dimensions or ones in it, and are then
 * said again along those. Throws TypeError for dtypes, RangeError for shapes, naming both sides, TypeError for strides.
 */
export function operands(
  op: string,
  stream: Stream,
  out: Tensor<'float32'>,
  inputs: Readonly<Record<string, Tensor<'float32'>>>,
): Operands {
  checkStream(op, stream);
  const named = Object.entries({ out, ...inputs });
  for (const [name, tensor] of named) checkFloats(`${op}: ${name}`, tensor);
  const { shape } = out;
  const strides = named.map(([name, tensor]) => spread(op, name, tensor, out));
  // Dimensions that all of them go through at one distance are one.
  const lengths: number[] = [];
  const kept: number[][] = strides.map(() => []);
  for (let d = shape.length - 1; d >= 0; d--) {
    const length = shape[d] as number;
    if (length === 1) continue;
    const inner = lengths[0];
    const joins = inner !== undefined && kept.every((of, i) => strides[i]![d] === of[0]! * inner);
    if (joins) lengths[0] = inner * length;
    else {
      lengths.unshift(length);
      kept.forEach((of, i) => {
        of.unshift(strides[i]![d]!);
      });
    }
  }
  // A single dimension that somebody goes through in leaps is rows of one column.
  const steps = (of: readonly number[]): number => of.at(-1) ?? 0;
  if (lengths.length === 1 && (steps(kept[0]!) !== 1 || kept.some((of) => steps(of) > 1))) {
    lengths.push(1);
    for (const of of kept) of.push(1);
  }
  const wrong = kept.findIndex(
    (of, i) => of.length > 2 || (i === 0 ? of.length > 0 && steps(of) !== 1 : steps(of) > 1),
  );
  if (wrong >= 0) {
    const [name, tensor] = named[wrong]!;
    throw typeError(
      `${op} takes rows whose elements are neighbours; ${name} [${tensor.shape}] has strides [${tensor.strides}] beside out [${shape}]`,
    );
  }
  const [columns = 1, rows = 1] = lengths.reverse();
  const distances = kept.map((of): Steps => [of.length > 1 ? of[0]! : 0, of.at(-1) === 0 ? 0 : 1]);
  const views = named.map(([, tensor], i) => {
    const [row, column] = distances[i]!;
    const width = column === 0 ? 1 : columns;
    return tensor.view({ shape: [row === 0 ? 1 : rows, width], strides: [row === 0 ? width : row, 1] });
  });
  return { rows, columns, views, steps: distances };
}

/** Strides of an operand over out's dimensions. */
function spread(op: string, name: string, tensor: Tensor, out: Tensor): number[] {
  const missing = out.shape.length - tensor.shape.length;
  const fits = missing >= 0 && tensor.shape.every((n, d) => n === out.shape[d + missing] || n === 1);
  if (!fits) throw rangeError(`${op}: ${name} is ${sizes(tensor)}, which does not fit out, ${sizes(out)}`);
  return out.shape.map((_, d) => {
    const own = d - missing;
    return own < 0 || tensor.shape[own] === 1 ? 0 : (tensor.strides[own] as number);
  });
}

/** Of an op that says nothing again: the distance of rows, whole rows where there is one. */
export const strideOf = ([row]: Steps, columns: number): number => (row === 0 ? columns : row);

/** Throws unless the input has out's shape. */
export function checkSame(op: string, name: string, tensor: Tensor, out: Tensor): void {
  if (tensor.size !== out.size)
    throw rangeError(`${op}: ${name} is ${sizes(tensor)}, out is ${sizes(out)}: they must be of one shape`);
}
