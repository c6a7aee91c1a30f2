/** Compares gradients with central differences. */
import { describeValue } from '../../base/checks.ts';
import { Random } from '../../base/random.ts';
import { type Expression, nodeFrom, nodeOf } from './expression.ts';
import { grad } from './gradient.ts';
import { evaluate, type GivenOp, type Values } from './interpreter.ts';
import { countOf, shown, sizeOf } from './shapes.ts';
import { checkOptions, isView, type Node, refuseRange, refuseType, userLine } from './tape.ts';

/** Options of checkGradients(). */
export interface CheckOptions {
  /** values of inputs by name, in row-major order. Default: random values */
  readonly values?: Readonly<Record<string, ArrayLike<number>>>;
  /** seed of the random values, default 0 */
  readonly seed?: number;
  /** distance of the central differences, default 1e-5 */
  readonly step?: number;
  /** largest error, as a part of the gradient's largest element or of 1, default 1e-6 */
  readonly tolerance?: number;
}

/** The element whose gradient differs most. */
export interface CheckedGradients {
  /** index of its expression in `wrt` */
  readonly of: number;
  /** its index in each dimension */
  readonly index: readonly number[];
  readonly gradient: number;
  /** the central difference */
  readonly difference: number;
  /**
   * |gradient − difference| less the rounding of the loss, as a part of the largest element of that
   * gradient or of 1
   */
  readonly error: number;
}

/**
 * Compares the gradient of `loss` with central differences. Both are computed in float64, without
 * a device. Random inputs are normally distributed, conditions are 0 or 1, and indices are random.
 *
 * @param loss an expression of shape [] or [1]
 * @param wrt inputs, or other expressions that the loss depends on
 * @returns the element with the largest error
 * @throws {RangeError} if that error is above the tolerance. The text names the element and its
 *   line
 * @throws {TypeError} if the loss does not depend on an expression of `wrt`
 * @example
 * trace(device, { x: [3, 4] }, ({ x }) => {
 *   const loss = x.tanh().square().mean();
 *   checkGradients(loss, [x]);
 *   return loss;
 * });
 */
export function checkGradients(
  loss: Expression,
  wrt: readonly Expression[],
  options: CheckOptions = {},
): CheckedGradients {
  const known = ['values', 'seed', 'step', 'tolerance'];
  checkOptions('checkGradients', options, known);
  const { seed = 0, step = 1e-5, tolerance = 1e-6 } = options;
  const values = options.values ?? {};
  if (typeof values !== 'object')
    refuseType(`checkGradients: values must be an object by name, got ${describeValue(values)}`);
  countOf('checkGradients: seed', seed, 0, refuseRange);
  for (const [name, value] of Object.entries({ step, tolerance }))
    if (typeof value !== 'number' || !(value > 0 && value < 1))
      refuseRange(`checkGradients: ${name} must be between 0 and 1, got ${value}`);
  const end = nodeOf('checkGradients: the loss', loss);
  const { gradients } = grad(loss, wrt);
  const given = valuesFor(end, values, seed);
  const derived = evaluate(gradients.map(nodeFrom), given);
  // A detached value has no gradient, so it also stays while an input moves.
  const detached = end.tape.nodes.filter((node) => node.op === 'detach' && node.id < end.id);
  const fixed = evaluate(detached, given).map((each, i) => [detached[i]!, each] as const);
  // The two losses of a difference may each be off by a rounding.
  const noise = (2 * Number.EPSILON * Math.abs(evaluate([end], given)[0]![0]!)) / step;
  let worst: CheckedGradients | null = null;
  for (const [of, expression] of wrt.entries()) {
    const node = nodeFrom(expression);
    const base = evaluate([node], given)[0]!;
    const gradient = derived[of]!;
    const scale = gradient.reduce((most, each) => Math.max(most, Math.abs(each)), 1);
    for (let i = 0; i < base.length; i++) {
      const at = (offset: number): number => {
        const moved = Float64Array.from(base);
        moved[i]! += offset;
        return evaluate([end], given, new Map([...fixed, [node, moved]]))[0]![0]!;
      };
      const difference = (at(step) - at(-step)) / (2 * step);
      const error = Math.max(0, Math.abs(gradient[i]! - difference) - noise) / scale;
      if (worst === null || !(error <= worst.error))
        worst = { of, index: indexOf(i, node.shape), gradient: gradient[i]!, difference, error };
    }
  }
  const found = worst as CheckedGradients;
  if (!(found.error <= tolerance)) {
    const node = nodeFrom(wrt[found.of]!);
    refuseRange(
      `checkGradients: the gradient of wrt[${found.of}] ${shown(node.shape)}, made at ${userLine(node.made)}, is ${found.gradient} at [${found.index.join(', ')}], and the central difference is ${found.difference}; their distance is ${found.error.toExponential(1)} of the largest element, and the tolerance is ${tolerance}. A corner within ${step} of the inputs gives such a distance too: try another seed`,
    );
  }
  return found;
}

/** Returns the index in each dimension of element i in row-major order. */
function indexOf(i: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  let rest = i;
  for (const length of shape.toReversed()) {
    index.unshift(rest % length);
    rest = Math.floor(rest / length);
  }
  return index;
}

/** Returns the values of inputs and draws: those that the caller gives, or random ones. */
function valuesFor(
  loss: Node,
  values: Readonly<Record<string, ArrayLike<number>>>,
  seed: number,
): (node: Extract<Node, { op: GivenOp }>) => Values {
  const random = new Random(seed);
  const normal = () =>
    Math.sqrt(-2 * Math.log(1 - random.between(0, 1))) *
    Math.cos(2 * Math.PI * random.between(0, 1));
  const made = new Map<Node, Values>();
  const { nodes } = loss.tape;
  const names = nodes.flatMap((node) =>
    node.op === 'input' || node.op === 'memory' ? [node.attributes.name] : [],
  );
  for (const name of Object.keys(values))
    if (!names.includes(name))
      refuseType(`checkGradients: there is no input '${name}'; the inputs are ${names.join(', ')}`);
  for (const node of nodes) {
    const size = sizeOf(node.shape);
    if (node.op === 'draw') {
      const { kind, first, second } = node.attributes;
      const draw =
        kind === 'normal' ? () => first + second * normal() : () => random.between(first, second);
      made.set(node as Node, Float64Array.from({ length: size }, draw));
    }
    if (node.op !== 'input' && node.op !== 'memory') continue;
    const { name } = node.attributes;
    const { dtype } = node.op === 'input' ? node.attributes : node.attributes.tensor;
    const own = Object.hasOwn(values, name) ? values[name] : undefined;
    if (own !== undefined && typeof own?.length !== 'number')
      refuseType(
        `checkGradients: values of input '${name}' must be an array of numbers, got ${describeValue(own)}`,
      );
    if (own !== undefined && own.length !== size)
      refuseRange(
        `checkGradients: input '${name}' ${shown(node.shape)} has ${size} values, got ${own.length}`,
      );
    const condition = dtype === 'bool' || isCondition(node as Node, nodes);
    const below = condition ? 2 : indexBound(node as Node, nodes);
    // Weights of a network are smaller, so that its outputs are not.
    const deviation = node.op === 'memory' ? 0.3 : 1;
    const each =
      /float/.test(dtype) && below === null
        ? () => deviation * normal()
        : () => Math.floor(random.between(0, below ?? 2));
    made.set(
      node as Node,
      own ? Float64Array.from(own) : Float64Array.from({ length: size }, each),
    );
  }
  return (node) => made.get(node as Node) as Values;
}

const comparisons: ReadonlySet<string> = new Set(['eq', 'ne', 'lt', 'le', 'gt', 'ge']);

/** Returns whether an expression is only a condition of where(), as a mask is. */
function isCondition(node: Node, nodes: readonly Node[]): boolean {
  const readers = nodes.filter(({ inputs }) => inputs.includes(node));
  const decides = (reader: Node): boolean =>
    isView(reader)
      ? isCondition(reader, nodes)
      : reader.op === 'where' && reader.inputs.lastIndexOf(node) === 0;
  const compared = ({ op, attributes }: Node): boolean =>
    op === 'binary' && comparisons.has((attributes as { f: string }).f);
  return readers.some(decides) && readers.every((each) => decides(each) || compared(each));
}

/** Returns the number of rows or columns that an expression indexes, or null for another expression. */
function indexBound(index: Node, nodes: readonly Node[]): number | null {
  const bounds = nodes.flatMap((node) => {
    if (node.op === 'pick' && node.inputs[1] === index) return [node.inputs[0]!.shape[1]!];
    if (node.op === 'take' && node.inputs[1] === index) return [node.inputs[0]!.shape[0]!];
    if (node.op === 'pickSlope' && node.inputs[1] === index) return [node.shape[1]!];
    if (node.op === 'reshape' && node.inputs[0] === index)
      return [indexBound(node as Node, nodes) ?? []].flat();
    return [];
  });
  return bounds.length === 0 ? null : Math.min(...bounds);
}
