/** The inputs of a plan's runs: their checks, and the operands of launches that are parts of them. */
import { describeValue } from '../../../base/checks.ts';
import type { dtypes } from '../../../base/dtype.ts';
import { rangeError, typeError } from '../../../base/errors.ts';
import { Tensor } from '../../../device/device.ts';
import { rowMajor } from '../../../device/strides.ts';
import { type Shape, shown } from '../shapes.ts';
import type { Node } from '../tape.ts';
import { type Launch, rowsIn, type View, type Whole } from './launches.ts';

type Floats = Tensor<'float32'>;

/** The tensor of an input, and its row stride. */
export interface Bound {
  readonly tensor: Tensor;
  readonly rowStride: number;
}

/** Shape, dtype and layout of an input. */
export interface DeclaredInput {
  readonly shape: Shape;
  readonly dtype: keyof typeof dtypes;
  readonly contiguous: boolean;
}

/** Returns the inputs of a trace by name. */
export function inputsOf(nodes: readonly Node[]): ReadonlyMap<string, DeclaredInput> {
  const inputs = new Map<string, DeclaredInput>();
  const tape = nodes[0]?.tape;
  for (const node of tape?.nodes ?? [])
    if (node.op === 'input')
      inputs.set(node.attributes.name, { ...node.attributes, shape: node.shape });
  return inputs;
}

/**
 * Checks the inputs of a run, and returns them with their row strides.
 *
 * @param declared the inputs of the trace
 * @param arena memory of the plan, which no input may be in
 */
export function boundInputs(
  declared: ReadonlyMap<string, DeclaredInput>,
  inputs: Readonly<Record<string, Tensor>>,
  arena: Tensor,
): ReadonlyMap<string, Bound> {
  if (typeof inputs !== 'object' || inputs === null)
    throw typeError(`a trace takes its inputs by name, got ${describeValue(inputs)}`);
  const names = [...declared.keys()];
  for (const name of Object.keys(inputs))
    if (!declared.has(name))
      throw typeError(`the trace has no input '${name}'; its inputs are ${names.join(', ')}`);
  const bound = new Map<string, Bound>();
  for (const [name, { shape, dtype, contiguous }] of declared) {
    const tensor = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
    if (!(tensor instanceof Tensor))
      throw typeError(
        `input '${name}' must be a tensor ${shown(shape)}, got ${describeValue(tensor)}`,
      );
    tensor.checkOpen();
    if (tensor.device.name !== arena.device.name)
      throw typeError(
        `input '${name}' is on ${tensor.device.name}, and the trace is on ${arena.device.name}`,
      );
    if (tensor.handle === arena.handle)
      throw rangeError(
        `input '${name}' is memory of this plan, which a run overwrites; copy it to a tensor of its own`,
      );
    if (tensor.dtype !== dtype)
      throw typeError(`input '${name}' must be ${dtype}, got ${tensor.dtype}`);
    if (tensor.shape.length !== shape.length || tensor.shape.some((n, d) => n !== shape[d]))
      throw rangeError(`input '${name}' must be ${shown(shape)}, got ${shown(tensor.shape)}`);
    if (contiguous && !tensor.contiguous)
      throw rangeError(
        `input '${name}' was declared contiguous, got strides [${tensor.strides}] for ${shown(shape)}`,
      );
    bound.set(name, { tensor, rowStride: rowStrideOf(name, tensor) });
  }
  return bound;
}

const resolved = (value: number, rowStride: number): number => {
  const { rows, rest } = rowsIn(value);
  return rows * rowStride + rest;
};

/** Returns the options of a view, which is one run if `flat` is true. */
export function seen(shape: Shape, strides: readonly number[], offset: number, flat = false) {
  if (!flat) return { shape: [...shape], strides: [...strides], offset };
  return { shape: [1 + shape.reduce((n, length, d) => n + (length - 1) * strides[d]!, 0)], offset };
}

/** Returns whether the ranges of the elements of two tensors overlap. */
export const overlap = (a: Tensor, b: Tensor): boolean =>
  a.handle === b.handle &&
  a.byteOffset < b.byteOffset + b.spanBytes &&
  b.byteOffset < a.byteOffset + a.spanBytes;

/** A launch of which some operands are parts of inputs. */
export interface InputStep {
  readonly launch: Launch;
  readonly args: { readonly tensors: Floats[]; readonly wholes: number[] };
  /** indices of the operands that are inputs */
  readonly bound: readonly number[];
}

/** Gives a step the views and strides of its inputs. */
export function bindStep(
  { launch, args, bound }: InputStep,
  inputs: ReadonlyMap<string, Bound>,
): void {
  if (bound.length === 0) return;
  for (const i of bound) args.tensors[i] = boundView(launch.views[i]!, inputs) as Floats;
  launch.wholes.forEach((whole: Whole, at) => {
    if (typeof whole === 'number') return;
    const { rowStride } = inputs.get(launch.views[whole.of]!.buffer.name)!;
    args.wholes[at] = resolved(whole.stride, rowStride);
  });
}

/** Returns the view of an input that a launch reads. */
function boundView(view: View, inputs: ReadonlyMap<string, Bound>): Tensor {
  const { tensor, rowStride } = inputs.get(view.buffer.name) as Bound;
  const strides = view.strides.map((stride) => resolved(stride, rowStride));
  return tensor.view(seen(view.shape, strides, resolved(view.offset, rowStride), view.flat));
}

/** Returns the distance between the rows of an input. Throws if its other dimensions have gaps. */
function rowStrideOf(name: string, { shape, strides }: Tensor): number {
  const dense = rowMajor(shape);
  const fits = shape.every((length, d) => length === 1 || d === 0 || strides[d] === dense[d]);
  const least = dense[0] ?? 1;
  if (!fits || ((shape[0] ?? 1) > 1 && strides[0]! < least))
    throw rangeError(
      `input '${name}' must be rows of contiguous elements, got strides [${strides}] for ${shown(shape)}; copy it to a dense tensor first`,
    );
  return (shape[0] ?? 1) > 1 ? strides[0]! : least;
}
