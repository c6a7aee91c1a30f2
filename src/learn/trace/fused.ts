/** Ops with kernels of their own, which compute several results at once. */
import {
  binary,
  broadcasted,
  type Expression,
  expressionOf,
  make,
  reshaped,
} from './expression.ts';
import type { Gradients } from './rules.ts';
import { type Shape, sizeOf } from './shapes.ts';
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

const noGradients = (node: Node): Gradients => node.inputs.map(() => null);

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
      const [d] = fused(
        'squashedGaussianSlope',
        (node.attributes as { options: FusedOptions }).options,
        [...node.inputs.map(expressionOf), dAction ?? zeros([rows, n]), dLogProb ?? zeros([rows])],
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
        const above = dLogProb![i]!;
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
    evaluate([probs, rewards, discounts, cost], [shape, , , costShape], { low, high }) {
      const [rows, atoms] = shape as [number, number];
      const gap = (high! - low!) / (atoms - 1);
      const projected = new Float64Array(rows * atoms);
      const mean = new Float64Array(rows);
      for (let i = 0; i < rows; i++)
        for (let k = 0; k < atoms; k++) {
          const discount = discounts![i]!;
          const off = cost![sizeOf(costShape!) === 1 ? 0 : i]!;
          const later = discount * (low! + k * gap - off);
          const moved = rewards![i]! + (discount === 0 ? 0 : later);
          const within = Math.min(Math.max(moved, low!), high!);
          const place = Math.min((within - low!) / gap, atoms - 1);
          const left = Math.min(Math.floor(place), atoms - 2);
          const prob = probs![i * atoms + k]!;
          projected[i * atoms + left]! += prob * (1 - (place - left));
          projected[i * atoms + left + 1]! += prob * (place - left);
          mean[i]! += prob * within;
        }
      return [projected, mean];
    },
  },
  categoricalLoss: {
    rule: ([, , dLoss], node) => [dLoss ? scaled(dLoss, resultOf(node, 0)) : null, null],
    evaluate([logits, targets], [shape], { least, low, high }) {
      const [rows, atoms] = shape as [number, number];
      const gap = (high! - low!) / (atoms - 1);
      const slopes = new Float64Array(rows * atoms);
      const terms = new Float64Array(rows * 2);
      const losses = new Float64Array(rows);
      for (let i = 0; i < rows; i++) {
        const row = logits!.subarray(i * atoms, (i + 1) * atoms);
        const target = targets!.subarray(i * atoms, (i + 1) * atoms);
        const most = Math.max(...row);
        const sum = row.reduce((total, x) => total + Math.exp(x - most), 0);
        const ln = row.map((x) => x - most - Math.log(sum));
        const mass = target.reduce((total, q, j) => total + (ln[j]! < least! ? 0 : q), 0);
        ln.forEach((each, j) => {
          const q = target[j]!;
          losses[i]! -= q * Math.max(each, least!);
          slopes[i * atoms + j] = Math.exp(each) * mass - (each < least! ? 0 : q);
          terms[2 * i + 1]! += Math.exp(each) * (low! + j * gap);
        });
        terms[2 * i] = losses[i]!;
      }
      return [slopes, terms, losses];
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
    rule: ([, dLoss], node) => [dLoss ? scaled(dLoss, resultOf(node, 0)) : null, null, null],
    evaluate([q, targets, actions], [shape], { delta }) {
      const [rows, n] = shape as [number, number];
      const slopes = new Float64Array(rows * n);
      const [losses, chosen] = [new Float64Array(rows), new Float64Array(rows)];
      for (let i = 0; i < rows; i++) {
        const at = i * n + Math.trunc(actions![i]!);
        const error = q![at]! - targets![i]!;
        const size = Math.abs(error);
        const outside = delta! * (size - 0.5 * delta!);
        const square = delta === 0 ? 2 : 1;
        const inside = delta === 0 || size <= delta!;
        losses[i] = inside ? 0.5 * square * error ** 2 : outside;
        chosen[i] = q![at]!;
        slopes[at] = inside ? square * error : delta! * Math.sign(error);
      }
      return [slopes, losses, chosen];
    },
  },
};
