/**
 * Cases of expressions: builds each program by the public API, and compares its values and
 * gradients, both on the device and in the float64 interpreter.
 */
import {
  add,
  concat,
  div,
  type Expression,
  type ExpressionLike,
  eq,
  ge,
  grad,
  gt,
  huber,
  le,
  lt,
  matmul,
  max,
  min,
  mse,
  mul,
  ne,
  stack,
  sub,
  trace,
  where,
} from '../../src/entries/trace.ts';
import { openDevice, type Tensor } from '../../src/index.ts';
import { nodeFrom } from '../../src/learn/trace/expression.ts';
import { evaluate, type Values } from '../../src/learn/trace/interpreter.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Difference } from './differences.ts';

interface Stored {
  readonly shape: readonly number[];
  readonly data: readonly (number | string)[];
}
type Attributes = Readonly<Record<string, never>>;
interface Instruction {
  readonly out: string;
  readonly op: string;
  readonly args: readonly (string | number)[];
  readonly attrs?: Attributes;
}
export interface ExpressionCase {
  readonly id: string;
  readonly group: string;
  readonly inputs: Readonly<Record<string, Stored & { dtype: 'float32' | 'int32' | 'bool' }>>;
  readonly program: readonly Instruction[];
  readonly loss: string;
  readonly wrt: readonly string[];
  readonly expected: {
    readonly values: Readonly<Record<string, Stored>>;
    readonly gradients: Readonly<Record<string, Stored>>;
  };
}

const binaryFunctions = { add, sub, mul, div, eq, ne, lt, le, gt, ge } as unknown as Readonly<
  Record<string, (a: ExpressionLike, b: ExpressionLike) => Expression>
>;

/** Applies an op of a file. `args` are expressions or numbers. */
function applied(op: string, args: readonly ExpressionLike[], attrs: Attributes): Expression {
  const [a, b, c] = args as [Expression, Expression, Expression];
  const { axis, keep, shape, axes, from, to, low, high, delta, n } = attrs;
  const options = { ...(axis !== undefined && { axis }), ...(keep !== undefined && { keep }) };
  const [x, y] = args as [ExpressionLike, ExpressionLike];
  if (Object.hasOwn(binaryFunctions, op)) return binaryFunctions[op]!(x, y);
  switch (op) {
    case 'min':
    case 'max':
      return args.length === 2 ? { min, max }[op](x as never, y as never) : a[op](options);
    case 'sum':
    case 'mean':
    case 'logSumExp':
    case 'norm':
      return a[op](options);
    case 'argmax':
    case 'softmax':
    case 'logSoftmax':
    case 'cumsum':
      return a[op](options);
    case 'where':
      return where(a, b as never, c as never);
    case 'clamp':
      return a.clamp(low, high);
    case 'pow':
      return a.pow(y as number);
    case 'huber':
      return huber(a, delta);
    case 'mse':
      return mse(a);
    case 'reshape':
    case 'broadcast':
      return a[op](shape!);
    case 'transpose':
      return a.transpose(axes!);
    case 'slice':
      return a.slice(axis!, from!, to!);
    case 'flip':
      return a.flip(axis!);
    case 'concat':
      return concat(axis!, ...(args as Expression[]));
    case 'stack':
      return stack(axis!, ...(args as Expression[]));
    case 'matmul':
      return matmul(a, b);
    case 'pick':
    case 'take':
      return a[op](b);
    case 'oneHot':
      return a.oneHot(n!);
    default: {
      const method = (a as unknown as Record<string, unknown>)[op];
      if (typeof method !== 'function' || args.length !== 1)
        throw new Difference(`the op '${op}' is unknown`);
      return (method as () => Expression).call(a);
    }
  }
}

const numbersOf = ({ data }: Stored): number[] => data.map(Number);

/** Throws unless the values are within a part of the largest of them. */
function compare(
  what: string,
  got: ArrayLike<number>,
  stored: Stored,
  part: number,
  least: number,
) {
  const expected = numbersOf(stored);
  if (got.length !== expected.length)
    throw new Difference(`${what} has ${got.length} elements, expected ${expected.length}`);
  const scale = expected.reduce(
    (most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most),
    least,
  );
  for (const [i, wanted] of expected.entries()) {
    const found = got[i] as number;
    if (Object.is(found, wanted) || found === wanted) continue;
    if (!(Math.abs(found - wanted) <= part * scale))
      throw new Difference(`${what}[${i}] is ${found}, expected ${wanted}`);
  }
}

export async function checkExpression(golden: ExpressionCase): Promise<void> {
  const { expected, group, inputs, loss, program, wrt } = golden;
  const device = openDevice(TESTED);
  const described = Object.fromEntries(
    Object.entries(inputs).map(([name, { shape, dtype }]) => [name, { shape, dtype }]),
  );
  const exact = new Map<string, Values>();
  using traced = trace(device, described, (given) => {
    const known = new Map<string, Expression>(Object.entries(given) as [string, Expression][]);
    const operand = (arg: string | number): ExpressionLike => {
      if (typeof arg === 'number') return arg;
      return known.get(arg) ?? Number(arg);
    };
    for (const { out, op, args, attrs = {} } of program)
      known.set(out, applied(op, args.map(operand), attrs));
    const { gradients } = grad(
      known.get(loss)!,
      wrt.map((name) => known.get(name)!),
    );
    const values = Object.fromEntries(
      Object.keys(expected.values).map((name) => [name, known.get(name)!]),
    );
    const slopes = Object.fromEntries(wrt.map((name, i) => [name, gradients[i]!]));
    const all = [
      ...Object.entries(values),
      ...Object.entries(slopes).map(([name, d]) => [`d${name}`, d] as const),
    ];
    const computed = evaluate(
      all.map(([, expression]) => nodeFrom(expression)),
      (node) =>
        node.op === 'input'
          ? Float64Array.from(numbersOf(inputs[node.attributes.name]!))
          : new Float64Array(),
    );
    for (const [i, [name]] of all.entries()) exact.set(name, computed[i]!);
    return { values, slopes };
  });
  const tensors = Object.entries(inputs).map(([name, stored]): [string, Tensor] => {
    const { shape, dtype } = stored;
    const array = { float32: Float32Array, int32: Int32Array, bool: Uint8Array }[dtype];
    return [name, device.allocate({ shape, dtype }).write(new array(numbersOf(stored)) as never)];
  });
  const stream = device.currentStream;
  traced.run(stream, Object.fromEntries(tensors));
  const least = group === 'small' ? 0 : 1e-3;
  for (const [name, stored] of Object.entries(expected.values)) {
    const shape = traced.outputs.values[name]!.shape;
    if (String(shape) !== String(stored.shape))
      throw new Difference(`${name} has shape [${shape}], expected [${stored.shape}]`);
    compare(`${name} in float64`, exact.get(name)!, stored, 1e-9, least);
    compare(name, await traced.outputs.values[name]!.toArray(stream), stored, 1e-5, least);
  }
  for (const [name, stored] of Object.entries(expected.gradients)) {
    compare(`the gradient of ${name} in float64`, exact.get(`d${name}`)!, stored, 1e-9, least);
    const got = await traced.outputs.slopes[name]!.toArray(stream);
    compare(`the gradient of ${name}`, got, stored, 1e-5, least);
  }
  for (const [, tensor] of tensors) tensor.close();
}
