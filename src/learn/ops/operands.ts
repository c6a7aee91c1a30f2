/** Operands of elementwise ops: tensors whose shapes broadcast as in numpy, and plain numbers. */

import { rangeError } from '../../base/errors.ts';
import { checkStream } from '../../device/checks.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { checkFloats } from '../checks.ts';
import { type Launches, launchesOf, type Operand, type Steps } from './launches.ts';

type Floats = Tensor<'float32'>;

export const sizes = (shape: readonly number[]): string => shape.join('×') || 'a scalar';

/**
 * Returns the launches of an elementwise op. `repeats` says whether the kernel accepts steps of 0.
 * If it does, inputs broadcast to the shape of `out`. Otherwise all inputs must have as many
 * elements as `out`. Throws TypeError for other dtypes. Throws RangeError for shapes that do not
 * fit, and for a number that overflows float32.
 */
export function operands(
  op: string,
  stream: Stream,
  out: Floats,
  inputs: Readonly<Record<string, Floats | number>>,
  { repeats = true }: { repeats?: boolean } = {},
): Launches {
  checkStream(op, stream);
  checkFloats(`${op}: out`, out);
  const named = Object.entries(inputs);
  for (const [name, input] of named) {
    if (typeof input === 'number') checkNumber(`${op}: ${name}`, input);
    else checkFloats(`${op}: ${name}`, input);
  }
  checkShapes(op, out, named);
  if (!repeats) for (const [name, input] of named) checkSame(op, name, input as Floats, out);
  const all = [['out', out] as const, ...named].map(
    ([name, tensor]): Operand => ({ name, tensor, strides: spread(tensor, out.shape) }),
  );
  return launchesOf(op, out.shape, all, { repeats });
}

const shapeOf = (tensor: Floats | number): readonly number[] =>
  typeof tensor === 'number' ? [] : tensor.shape;

/**
 * Throws unless the shapes broadcast as in numpy. Counted from the last dimension, two lengths must
 * be equal, or one of them 1. `out` must have the resulting shape, or a shape to which it
 * broadcasts.
 */
function checkShapes(
  op: string,
  out: Floats,
  inputs: readonly (readonly [string, Floats | number])[],
): void {
  const last = (shape: readonly number[], d: number): number => shape[shape.length - 1 - d] ?? 1;
  for (const [i, [name, input]] of inputs.entries()) {
    const shape = shapeOf(input);
    for (const [other, operand] of inputs.slice(i + 1)) {
      const against = shapeOf(operand);
      const misfit = shape.findIndex((_, d) => {
        const [m, n] = [last(shape, d), last(against, d)];
        return m !== n && m !== 1 && n !== 1;
      });
      if (misfit >= 0)
        throw rangeError(
          `${op}: ${name} is ${sizes(shape)} and ${other} is ${sizes(against)}, which do not broadcast: ${last(shape, misfit)} and ${last(against, misfit)} meet, and neither is 1`,
        );
    }
  }
  for (const [name, input] of inputs) {
    const shape = shapeOf(input);
    const fits =
      shape.length <= out.shape.length &&
      shape.every((_, d) => [1, last(out.shape, d)].includes(last(shape, d)));
    if (!fits)
      throw rangeError(
        `${op}: ${name} is ${sizes(shape)}, which does not fit out, ${sizes(out.shape)}`,
      );
  }
}

/**
 * Returns the strides with which an operand is read over `shape`. A dimension that broadcasts has
 * stride 0.
 */
function spread(tensor: Floats | number, shape: readonly number[]): number[] {
  if (typeof tensor === 'number') return shape.map(() => 0);
  const missing = shape.length - tensor.shape.length;
  return shape.map((_, d) =>
    d < missing || tensor.shape[d - missing] === 1 ? 0 : tensor.strides[d - missing]!,
  );
}

/** Throws for a finite number that overflows float32. NaN and infinity are valid. */
function checkNumber(name: string, value: number): void {
  if (Number.isFinite(value) && !Number.isFinite(Math.fround(value)))
    throw rangeError(
      `${name} is ${value}, which float32 does not hold: its largest number is about 3.4e38`,
    );
}

/**
 * Returns the distance in elements between rows. If there is only one row, the step is 0, which
 * some kernels do not accept. In this case returns `columns`.
 */
export const strideOf = ([row]: Steps, columns: number): number => (row === 0 ? columns : row);

/** Throws unless the input has as many elements as `out`. */
function checkSame(op: string, name: string, tensor: Tensor, out: Tensor): void {
  if (tensor.size !== out.size)
    throw rangeError(
      `${op}: ${name} is ${sizes(tensor.shape)}, out is ${sizes(out.shape)}: they must be of one shape`,
    );
}
