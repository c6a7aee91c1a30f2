/** Functions that make expressions of fused kernels, as the built-in learners use them. */
import {
  boxOf,
  corrections,
  type GaussianOptions,
  gaussianKeys,
  gaussianOptions,
  logStdForms,
} from '../actor-critic/squashed-gaussian.ts';
import { constantIn, type Expression, expressionOf, full, nodeOf } from './expression.ts';
import { fused } from './fused.ts';
import { equalShapes, type Shape, shown } from './shapes.ts';
import { checkedNumber, checkOptions, type Node, refuseRange, withLine } from './tape.ts';

/** Refuses an expression that has another shape. */
function checkShape(op: string, name: string, expression: unknown, shape: Shape): Expression {
  const node = nodeOf(`${op}: ${name}`, expression);
  if (!equalShapes(node.shape, shape))
    refuseRange(`${op}: ${name} must be ${shown(shape)}, got ${shown(node.shape)}`);
  return expressionOf(node);
}

/**
 * Returns an operand of one row for each row of a matrix. An operand of fewer rows repeats, so that
 * several networks share it.
 */
function repeating(
  op: string,
  name: string,
  expression: unknown,
  [rows, ...rest]: Shape,
): Expression {
  const { shape } = nodeOf(`${op}: ${name}`, expression);
  const [own = 0] = shape;
  if (own > 0 && rows! % own === 0) return checkShape(op, name, expression, [own, ...rest]);
  return checkShape(op, name, expression, [rows!, ...rest]);
}

/** Returns the importance weights of rows, or one 1 for all rows. */
function weightsOf(op: string, { tape, shape }: Node, weights: unknown): Expression {
  return weights === undefined
    ? full(tape, 1, [])
    : repeating(op, 'weights', weights, shape.slice(0, 1));
}

/** Returns the op of a matrix. */
function matrixOf(op: string, name: string, expression: unknown, columns: string): Node {
  const node = nodeOf(`${op}: ${name}`, expression);
  if (node.shape.length !== 2)
    refuseRange(`${op}: ${name} must be [rows, ${columns}], got ${shown(node.shape)}`);
  return node;
}
/**
 * Actions of a Gaussian that tanh squashes into a box, and their log-probabilities, by one kernel.
 * Gradients of both go to `out`.
 *
 * @param out [rows, 2n], an actor's output: means, followed by log deviations before they are
 *   limited
 * @param noise [rows, n], standard normal, such as normal([rows, n]). It gets no gradient
 * @param options as those of SquashedGaussian of hotslot/learner
 * @returns `action` [rows, n] and `logProb` [rows], in nats
 */
export function squashedGaussian<const R extends number, const N extends number>(
  out: Expression<readonly [R, number]>,
  noise: Expression<readonly [R, N]>,
  options?: GaussianOptions,
): { action: Expression<readonly [R, N]>; logProb: Expression<readonly [R]> };
export function squashedGaussian(
  out: Expression,
  noise: Expression,
  options?: GaussianOptions,
): { action: Expression; logProb: Expression };
export function squashedGaussian(
  out: Expression,
  noise: Expression,
  options: GaussianOptions = {},
): { action: Expression<never>; logProb: Expression<never> } {
  const op = 'squashedGaussian';
  const { tape, shape } = matrixOf(op, 'noise', noise, 'n');
  const [rows, n] = shape as readonly [number, number];
  checkShape(op, 'out', out, [rows, 2 * n]);
  checkOptions(op, options, gaussianKeys);
  const { form, min, max, correction, meanClamp, scale, bias } = withLine(op, () => ({
    ...gaussianOptions(options),
    ...boxOf(n, options),
  }));
  const box = constantIn(tape, [...scale, ...bias], [2, n]);
  const numbers = {
    form: logStdForms[form],
    correction: corrections[correction],
    low: min,
    high: max,
    meanLimit: meanClamp,
  };
  const [action, logProb] = fused(
    op,
    numbers,
    [out as Expression, noise as Expression, box],
    [[rows, n], [rows]],
  );
  return { action: action as never, logProb: logProb as never };
}

/** The range of a value distribution's atoms, which are evenly spaced. */
export interface AtomRange {
  /** value of the first atom */
  readonly min: number;
  /** value of the last atom */
  readonly max: number;
}

/** Returns the checked range as options of a kernel. */
function rangeOf(
  op: string,
  { min, max }: AtomRange,
  shape: Shape,
): { readonly low: number; readonly high: number } {
  if (shape[1]! < 2) refuseRange(`${op}: a distribution has at least 2 atoms, got ${shown(shape)}`);
  const range = { low: checkedNumber(`${op}: min`, min), high: checkedNumber(`${op}: max`, max) };
  if (!(range.low < range.high && Number.isFinite(range.high - range.low)))
    refuseRange(`${op}: min must be below max and both finite, got ${min} and ${max}`);
  return range;
}

/**
 * The distribution of reward + discount · (z − cost) over the atoms z of a value distribution, and
 * its mean, by one kernel (Bellemare et al., 2017). Neither has a gradient.
 *
 * @param probs [rows, atoms], the probabilities of the next state
 * @param rewards [rows], or fewer rows, which repeat
 * @param discounts as `rewards`. A discount of 0 selects the reward alone
 * @param options `min` and `max`: values of the first and the last atom. `cost`: as `rewards`, or
 *   [], the entropy term of SAC, default 0
 * @returns `projected` [rows, atoms] and `mean` [rows]
 */
export function categoricalProject(
  probs: Expression,
  rewards: Expression,
  discounts: Expression,
  options: AtomRange & { readonly cost?: Expression },
): { projected: Expression; mean: Expression } {
  const op = 'categoricalProject';
  const { tape, shape } = matrixOf(op, 'probs', probs, 'atoms');
  const [rows] = shape as readonly [number, number];
  checkOptions(op, options, ['min', 'max', 'cost']);
  const { low, high } = rangeOf(op, options, shape);
  const { cost = full(tape, 0, []) } = options;
  const { shape: costShape } = nodeOf(`${op}: cost`, cost);
  if (costShape.length > 0) repeating(op, 'cost', cost, [rows]);
  const [projected, mean] = fused(
    op,
    { low, high },
    [
      probs,
      repeating(op, 'rewards', rewards, [rows]),
      repeating(op, 'discounts', discounts, [rows]),
      cost,
    ],
    [shape, [rows]],
  );
  return { projected: projected!, mean: mean! };
}

/**
 * The cross-entropy of a value distribution with target probabilities, by one kernel. The gradient
 * goes to the logits.
 *
 * @param logits [rows, atoms]
 * @param targets [rows, atoms], probabilities, or fewer rows, which repeat. They get no gradient
 * @param options `min` and `max`: values of the first and the last atom. `logFloor`: lower limit of
 *   the logarithms, default −1e30. `weights`: [rows] or fewer rows, factors of the losses,
 *   which get no gradient. A row of weight 0 has no loss and no gradient, even if its targets are NaN
 * @returns `loss` [rows], and without gradients `value` [rows], the mean of each distribution, and
 *   `error` [rows], the losses without weights
 */
export function categoricalLoss(
  logits: Expression,
  targets: Expression,
  options: AtomRange & { readonly logFloor?: number; readonly weights?: Expression },
): { loss: Expression; value: Expression; error: Expression } {
  const op = 'categoricalLoss';
  const node = matrixOf(op, 'logits', logits, 'atoms');
  const { shape } = node;
  const [rows] = shape as readonly [number, number];
  checkOptions(op, options, ['min', 'max', 'logFloor', 'weights']);
  const { low, high } = rangeOf(op, options, shape);
  const least = checkedNumber(`${op}: logFloor`, options.logFloor ?? -1e30);
  if (!Number.isFinite(least)) refuseRange(`${op}: logFloor must be finite, got ${least}`);
  const [, loss, value, error] = fused(
    op,
    { low, high, least },
    [logits, repeating(op, 'targets', targets, shape), weightsOf(op, node, options.weights)],
    [shape, [rows], [rows], [rows]],
  );
  return { loss: loss!, value: value!.detach(), error: error!.detach() };
}

/**
 * The mean of a value distribution, by one kernel: the sum of softmax(logits) · z over the atoms z.
 *
 * @param logits [rows, atoms]
 * @param options `min` and `max`: values of the first and the last atom
 * @returns [rows]
 */
export function categoricalMean(logits: Expression, options: AtomRange): Expression {
  const op = 'categoricalMean';
  const { shape } = matrixOf(op, 'logits', logits, 'atoms');
  checkOptions(op, options, ['min', 'max']);
  const { low, high } = rangeOf(op, options, shape);
  const [mean] = fused(op, { low, high }, [logits], [[shape[0]!]]);
  return mean!;
}

/**
 * The target of DQN, by one kernel: reward + discount · values[argmax of choice]. It has no gradient.
 *
 * @param values [rows, actions] of the network that values the action
 * @param choice [rows, actions] of the network that chooses it: the online one in double DQN
 * @param rewards [rows]
 * @param discounts [rows]. A discount of 0 selects the reward alone
 * @returns [rows]
 */
export function tdTarget(
  values: Expression,
  choice: Expression,
  rewards: Expression,
  discounts: Expression,
): Expression {
  const { shape } = matrixOf('tdTarget', 'values', values, 'actions');
  const [rows] = shape as readonly [number, number];
  const [target] = fused(
    'tdTarget',
    {},
    [
      values,
      checkShape('tdTarget', 'choice', choice, shape),
      checkShape('tdTarget', 'rewards', rewards, [rows]),
      checkShape('tdTarget', 'discounts', discounts, [rows]),
    ],
    [[rows]],
  );
  return target!;
}

/**
 * The loss of DQN, by one kernel: the Huber loss of q[action] − target. The gradient goes to q.
 *
 * @param q [rows, actions]
 * @param actions [rows], whole numbers from 0 to actions − 1, or fewer rows, which repeat. Another
 *   number gives a loss of NaN and no gradient
 * @param targets as `actions`. They get no gradient
 * @param options `delta`: threshold of the Huber loss, default 1. With 0, the loss is the square.
 *   `weights`: as `actions`, factors of the losses, which get no gradient. A row of weight 0 has no
 *   loss and no gradient, even if its target is NaN
 * @returns `loss` [rows], and without gradients `value` [rows], that of each action, and
 *   `error` [rows], |q[action] − target|
 */
export function tdLoss(
  q: Expression,
  actions: Expression,
  targets: Expression,
  options: { readonly delta?: number; readonly weights?: Expression } = {},
): { loss: Expression; value: Expression; error: Expression } {
  const op = 'tdLoss';
  const node = matrixOf(op, 'q', q, 'actions');
  const { shape } = node;
  const [rows] = shape as readonly [number, number];
  checkOptions(op, options, ['delta', 'weights']);
  const delta = checkedNumber(`${op}: delta`, options.delta ?? 1);
  if (!(delta >= 0 && delta <= 1e30))
    refuseRange(`${op}: delta must be from 0 to 1e30, got ${delta}`);
  const [, loss, value, error] = fused(
    op,
    { delta },
    [
      q,
      repeating(op, 'targets', targets, [rows]),
      repeating(op, 'actions', actions, [rows]),
      weightsOf(op, node, options.weights),
    ],
    [shape, [rows], [rows], [rows]],
  );
  return { loss: loss!, value: value!.detach(), error: error!.detach() };
}
