/** Ops with kernels of their own, which compute several results at once. */
import {
  binary,
  broadcasted,
  type Expression,
  expressionOf,
  make,
  nodeFrom,
  reshaped,
} from './expression.ts';
import type { Gradients } from './rules.ts';
import type { Shape } from './shapes.ts';
import type { FusedName, FusedOptions, Node } from './tape.ts';

/** A fused op: its gradient and its values. */
interface FusedOp {
  /** gradients of the inputs from those of the results. A result without a gradient has none */
  rule(dy: readonly (Expression | null | undefined)[], node: Node): Gradients;
  /** the results in float64, in row-major order */
  evaluate(
    inputs: readonly Float64Array[],
    shapes: readonly Shape[],
    options: FusedOptions,
  ): Float64Array[];
}

/** Adds a fused op to the trace, and returns its results. */
export function fused(
  name: FusedName,
  options: FusedOptions,
  inputs: readonly Expression[],
  shapes: readonly Shape[],
): Expression[] {
  const op = make('fused', { name, options, shapes }, inputs, []);
  return shapes.map((shape, index) => make('part', { index }, [op], shape));
}

/** Returns result i of a fused op as an expression. Results may be read in a gradient. */
function resultOf(node: Node, index: number): Expression {
  const shape = (node.attributes as { shapes: readonly Shape[] }).shapes[index]!;
  return make('part', { index }, [expressionOf(node)], shape);
}

/** Returns the gradient of an op that computes it for a dy of 1 as one of its results. */
function scaled(dy: Expression, slope: Expression): Expression {
  const [rows] = slope.shape as [number];
  return binary('mul', broadcasted(reshaped(dy, [rows, 1]), slope.shape), slope);
}

/** Returns the number that all elements of an op have, or null. */
export function uniformOf({ op, attributes, inputs }: Node): number | null {
  if (op === 'full') return attributes.value;
  const view = op === 'reshape' || op === 'broadcast' || op === 'detach';
  return view ? uniformOf(inputs[0]!) : null;
}

/** Returns a gradient as a product with a number, which a kernel multiplies. */
function scaledBy(dy: Expression): { of: Expression; scale: number } {
  const { op, attributes, inputs } = nodeFrom(dy);
  if (op === 'binary' && attributes.f === 'mul')
    for (const [i, input] of inputs.entries()) {
      const scale = uniformOf(input);
      const of = broadcasted(expressionOf(inputs[1 - i]!), dy.shape);
      if (scale !== null) return { of, scale };
    }
  return { of: dy, scale: 1 };
}

const noGradients = (node: Node): Gradients => node.inputs.map(() => null);

/** Returns the number of row i, of rows that repeat. */
const at = (column: Float64Array, i: number): number => column[i % column.length]!;

/** Computes the numbers of one element of an action. */
function squashed(
  [mean, raw, noise, half]: readonly [number, number, number, number],
  { form, correction, low, high, meanLimit }: FusedOptions,
) {
  const bent = low! + 0.5 * (high! - low!) * (Math.tanh(raw) + 1);
  const logStd = form === 1 ? bent : Math.min(Math.max(raw, low!), high!);
  const std = Math.exp(logStd);
  const u = Math.min(Math.max(mean, -meanLimit!), meanLimit!) + std * noise;
  const t = Math.exp(-2 * Math.abs(u));
  const gap = (4 * t) / (1 + t) ** 2;
  const part = correction === 0 ? half : 1;
  const width = correction === 2 ? Math.log(half + 1e-6) : correction === 3 ? Math.log(half) : 0;
  const loose = Math.log(part * gap + 1e-6);
  const exact = Math.log(4) - 2 * Math.abs(u) - 2 * Math.log1p(t);
  const term =
    -0.5 * noise ** 2 -
    logStd -
    0.5 * Math.log(2 * Math.PI) -
    (correction === 3 ? exact : loose) -
    width;
  return { std, y: Math.tanh(u), gap, term, share: (part * gap) / (part * gap + 1e-6) };
}

/** Calls f with the row, the column and the four numbers of each element of an action. */
function eachElement(
  [out, noise, box]: readonly Float64Array[],
  n: number,
  f: (i: number, j: number, of: [number, number, number, number]) => void,
): void {
  for (let at = 0; at < noise!.length; at++) {
    const [i, j] = [Math.floor(at / n), at % n];
    f(i, j, [out![2 * n * i + j]!, out![2 * n * i + n + j]!, noise![at]!, box![j]!]);
  }
}

/** Returns the mean of each row's distribution over evenly spaced atoms. */
function meansOf(logits: Float64Array, shape: Shape, { low, high }: FusedOptions): Float64Array {
  const [rows, atoms] = shape as [number, number];
  return Float64Array.from({ length: rows }, (_, i) => {
    const row = logits.subarray(i * atoms, (i + 1) * atoms);
    const most = Math.max(...row);
    let [sum, along] = [0, 0];
    row.forEach((x, k) => {
      sum += Math.exp(x - most);
      along += Math.exp(x - most) * (low! + (k * (high! - low!)) / (atoms - 1));
    });
    return along / sum;
  });
}

export const fusedOps: { readonly [Name in FusedName]: FusedOp } = {
  squashedGaussian: {
    rule([dAction, dLogProb], node) {
      const [out, noise] = node.inputs as [Node, Node];
      const [rows, n] = noise.shape as [number, number];
      const zeros = (shape: Shape): Expression =>
        expressionOf(node.tape.add('full', { value: 0 }, [], shape) as Node);
      const { options } = node.attributes as { options: FusedOptions };
      const { of, scale } = scaledBy(dLogProb ?? zeros([rows]));
      const [d] = fused(
        'squashedGaussianSlope',
        { ...options, scale },
        [...node.inputs.map(expressionOf), dAction ?? zeros([rows, n]), of],
        [out.shape],
      );
      return [d!, null, null];
    },
    evaluate([out, noise, box], [, shape], options) {
      const n = shape![1]!;
      const action = new Float64Array(noise!.length);
      const logProb = new Float64Array(noise!.length / n);
      eachElement([out!, noise!, box!], n, (i, j, of) => {
        const { y, term } = squashed(of, options);
        action[i * n + j] = y * of[3] + box![n + j]!;
        logProb[i]! += term;
      });
      return [action, logProb];
    },
  },
  squashedGaussianSlope: {
    rule: (_, node) => noGradients(node),
    evaluate([out, noise, box, dAction, dLogProb], [, shape], options) {
      const n = shape![1]!;
      const d = new Float64Array(out!.length);
      eachElement([out!, noise!, box!], n, (i, j, of) => {
        const [mean, raw, e, half] = of;
        const { std, y, gap, share } = squashed(of, options);
        const above = options.scale! * dLogProb![i]!;
        const du =
          dAction![i * n + j]! * half * gap +
          above * 2 * y * (options.correction === 3 ? 1 : share);
        const { low, high, meanLimit, form } = options;
        const ends = 0.5 * (high! - low!) * (1 - Math.tanh(raw) ** 2);
        const within = raw >= low! && raw <= high! ? 1 : 0;
        d[2 * n * i + j] = Math.abs(mean) <= meanLimit! ? du : 0;
        d[2 * n * i + n + j] = (du * std * e - above) * (form === 1 ? ends : within);
      });
      return [d];
    },
  },
  categoricalProject: {
    rule: (_, node) => noGradients(node),
    evaluate([probs, rewards, discounts, cost], [shape], { low, high }) {
      const [rows, atoms] = shape as [number, number];
      const gap = (high! - low!) / (atoms - 1);
      const projected = new Float64Array(rows * atoms);
      const mean = new Float64Array(rows);
      for (let i = 0; i < rows; i++)
        for (let k = 0; k < atoms; k++) {
          const discount = at(discounts!, i);
          const later = discount * (low! + k * gap - at(cost!, i));
          const moved = at(rewards!, i) + (discount === 0 ? 0 : later);
          const within = Math.min(Math.max(moved, low!), high!);
          const place = Math.min((within - low!) / gap, atoms - 1);
          const left = Math.min(Math.floor(place), atoms - 2);
          // With a discount of 0, NaN in probs is ignored, as in the kernel.
          const given = probs![i * atoms + k]!;
          const prob = discount !== 0 || !Number.isNaN(given) ? given : k === 0 ? 1 : 0;
          projected[i * atoms + left]! += prob * (1 - (place - left));
          projected[i * atoms + left + 1]! += prob * (place - left);
          mean[i]! += prob * within;
        }
      return [projected, mean];
    },
  },
  categoricalLoss: {
    rule: ([, dLoss], node) => [dLoss ? scaled(dLoss, resultOf(node, 0)) : null, null, null],
    evaluate([logits, targets, weights], [shape], { least, low, high }) {
      const [rows, atoms] = shape as [number, number];
      const gap = (high! - low!) / (atoms - 1);
      const slopes = new Float64Array(rows * atoms);
      const [losses, means, errors] = [0, 1, 2].map(() => new Float64Array(rows)) as [
        Float64Array,
        Float64Array,
        Float64Array,
      ];
      const given = targets!.length / atoms;
      for (let i = 0; i < rows; i++) {
        const row = logits!.subarray(i * atoms, (i + 1) * atoms);
        const target = targets!.subarray((i % given) * atoms, ((i % given) + 1) * atoms);
        const weight = at(weights!, i);
        const most = Math.max(...row);
        const sum = row.reduce((total, x) => total + Math.exp(x - most), 0);
        const ln = row.map((x) => x - most - Math.log(sum));
        const mass = target.reduce((total, q, j) => total + (ln[j]! < least! ? 0 : q), 0);
        ln.forEach((each, j) => {
          const q = target[j]!;
          const slope = Math.exp(each) * mass - (each < least! ? 0 : q);
          errors[i]! -= q * Math.max(each, least!);
          slopes[i * atoms + j] = weight === 0 ? 0 : weight * slope;
          means[i]! += Math.exp(each) * (low! + j * gap);
        });
        losses[i] = weight === 0 ? 0 : weight * errors[i]!;
      }
      return [slopes, losses, means, errors];
    },
  },
  categoricalMean: {
    rule([dMean], node) {
      const [logits] = node.inputs as [Node];
      const { options } = node.attributes as { options: FusedOptions };
      const inputs = [dMean!, expressionOf(logits), resultOf(node, 0)];
      return [fused('categoricalMeanSlope', options, inputs, [logits.shape])[0]!];
    },
    evaluate: ([logits], [shape], options) => [meansOf(logits!, shape!, options)],
  },
  categoricalMeanSlope: {
    rule: (_, node) => noGradients(node),
    evaluate([above, logits, means], [, shape], { low, high }) {
      const [rows, atoms] = shape as [number, number];
      const d = new Float64Array(rows * atoms);
      for (let i = 0; i < rows; i++) {
        const row = logits!.subarray(i * atoms, (i + 1) * atoms);
        const most = Math.max(...row);
        const sum = row.reduce((total, x) => total + Math.exp(x - most), 0);
        row.forEach((x, k) => {
          const z = low! + (k * (high! - low!)) / (atoms - 1);
          d[i * atoms + k] = (above![i]! * Math.exp(x - most) * (z - means![i]!)) / sum;
        });
      }
      return [d];
    },
  },
  tdTarget: {
    rule: (_, node) => noGradients(node),
    evaluate([value, choice, rewards, discounts], [shape]) {
      const [rows, n] = shape as [number, number];
      return [
        Float64Array.from({ length: rows }, (_, i) => {
          const row = choice!.subarray(i * n, (i + 1) * n);
          const best = row.reduce((at, x, j) => (x > row[at]! ? j : at), 0);
          const discount = discounts![i]!;
          return rewards![i]! + (discount === 0 ? 0 : discount * value![i * n + best]!);
        }),
      ];
    },
  },
  tdLoss: {
    rule: ([, dLoss], node) => [dLoss ? scaled(dLoss, resultOf(node, 0)) : null, null, null, null],
    evaluate([q, targets, actions, weights], [shape], { delta }) {
      const [rows, n] = shape as [number, number];
      const slopes = new Float64Array(rows * n);
      const [losses, chosen, errors] = [0, 1, 2].map(() => new Float64Array(rows)) as [
        Float64Array,
        Float64Array,
        Float64Array,
      ];
      for (let i = 0; i < rows; i++) {
        const [action, weight] = [Math.trunc(at(actions!, i)), at(weights!, i)];
        if (!(action >= 0 && action < n)) {
          losses[i] = chosen[i] = errors[i] = Number.NaN;
          continue;
        }
        const value = q![i * n + action]!;
        const error = value - at(targets!, i);
        const size = Math.abs(error);
        const outside = delta! * (size - 0.5 * delta!);
        const square = delta === 0 ? 2 : 1;
        const inside = delta === 0 || size <= delta!;
        const loss = inside ? 0.5 * square * error ** 2 : outside;
        const slope = inside ? square * error : delta! * Math.sign(error);
        losses[i] = weight === 0 ? 0 : weight * loss;
        slopes[i * n + action] = weight === 0 ? 0 : weight * slope;
        [chosen[i], errors[i]] = [value, size];
      }
      return [slopes, losses, chosen, errors];
    },
  },
};
