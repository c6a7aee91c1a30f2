/**
 * Last layers of a Q network: dueling() combines a state's value with the actions' advantages, and
 * expectation() and quantileMean() compute means of distributions.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { checkAtoms } from '../distribution.ts';
import { ops } from '../ops/index.ts';
import { ofKind } from './kinds.ts';
import type { Layer } from './layers.ts';

type Floats = Tensor<'float32'>;

/**
 * Returns a layer that computes the actions' values from a state's value and the actions'
 * advantages. An input row has 1 + actions numbers, the state's value first. An action's value is
 * the state's value plus the action's advantage minus the mean advantage (Wang et al., 2016). On
 * the calling thread, a policy's mask restricts the mean to legal actions.
 *
 * @param options `atoms`: how many numbers each value and each advantage consists of, default 1
 * @throws {TypeError|RangeError} for a wrong count
 * @example
 * const net = new Network([linear(4, 64), relu(), linear(64, 1 + 2), dueling(2)]);
 */
export function dueling(actions: number, options: { atoms?: number } = {}): Layer {
  checkCount('dueling: actions', actions);
  checkKeys('dueling', options, ['atoms']);
  const atoms = checkCount('dueling: atoms', options.atoms ?? 1);
  const of = (x: Floats, i: number): Floats => {
    const [rows] = x.shape as [number];
    return x.view({ shape: [rows, atoms], offset: i * atoms, strides: x.strides });
  };
  /** Computes out = the mean of `actions` parts of x, of which `first` is the first. */
  const mean = (stream: Stream, out: Floats, x: Floats, first: number) => {
    ops.convert(stream, out, of(x, first));
    for (let a = 1; a < actions; a++) ops.add(stream, out, out, of(x, first + a));
    ops.convert(stream, out, out, { scale: 1 / actions });
  };
  const layer: Layer = {
    name: `dueling(${actions}, ${atoms})`,
    inputs: (1 + actions) * atoms,
    outputs: () => actions * atoms,
    parameters: () => [],
    keeps: () => atoms,
    scratch: () => atoms,
    forward(stream, { x, y, kept }) {
      mean(stream, kept!, x, 1);
      ops.sub(stream, kept!, of(x, 0), kept!);
      for (let a = 0; a < actions; a++) ops.add(stream, of(y, a), of(x, 1 + a), kept!);
    },
    backward(stream, { dy, dx, scratch }) {
      if (!dx) return;
      mean(stream, scratch!, dy, 0);
      ops.convert(stream, of(dx, 0), scratch!, { scale: actions });
      for (let a = 0; a < actions; a++) ops.sub(stream, of(dx, 1 + a), of(dy, a), scratch!);
    },
    run(x, rows, y, _parameters, _inputs, mask) {
      const width = actions * atoms;
      for (let row = 0; row < rows; row++)
        for (let k = 0; k < atoms; k++) {
          const from = row * (width + atoms) + k;
          let [sum, count] = [0, 0];
          for (let a = 1; a <= actions; a++) {
            if (mask && mask[row * actions + a - 1] === 0) continue;
            sum += x[from + a * atoms] as number;
            count++;
          }
          // A row without a legal action has the mean 0.
          const base = (x[from] as number) - sum / Math.max(count, 1);
          for (let a = 0; a < actions; a++)
            y[row * width + a * atoms + k] = base + (x[from + (a + 1) * atoms] as number);
        }
    },
  };
  return ofKind({ kind: 'dueling', actions, atoms }, layer);
}

/** Returns a contiguous tensor as a matrix with rows of `columns` elements. */
const rowsOf = (x: Floats, columns: number): Floats =>
  x.view({ shape: [x.size / columns, columns] });

/**
 * Returns a layer that computes the means of `count` distributions from count · atoms logits.
 *
 * @param count number of distributions in a row
 * @param options `atoms`: number of values of a distribution, at least 2. The values are evenly
 *   spaced from `min` to `max`
 * @throws {TypeError|RangeError} for a wrong number, or if `min` is not below `max`
 */
export function expectation(
  count: number,
  options: { atoms: number; min: number; max: number },
): Layer {
  checkCount('expectation: count', count);
  checkKeys('expectation', options, ['atoms', 'min', 'max']);
  const { atoms, min, max } = checkAtoms('expectation', options);
  const gap = (max - min) / (atoms - 1);
  const layer: Layer = {
    name: `expectation(${count}, ${atoms})`,
    inputs: count * atoms,
    outputs: () => count,
    parameters: () => [],
    forward(stream, { x, y }) {
      stream.launch('categorical_mean', {
        tensors: [rowsOf(y, 1), rowsOf(x, atoms)],
        wholes: [x.size / atoms, atoms, 1, atoms],
        reals: [min, max],
      });
    },
    backward(stream, { x, y, dy, dx }) {
      if (!dx) return;
      stream.launch('categorical_mean_backward', {
        tensors: [rowsOf(dx, atoms), rowsOf(dy, 1), rowsOf(x, atoms), rowsOf(y, 1)],
        wholes: [x.size / atoms, atoms, atoms, 1, atoms, 1],
        reals: [min, max],
      });
    },
    run(x, rows, y) {
      for (let i = 0; i < rows * count; i++) {
        const from = i * atoms;
        let most = Number.NEGATIVE_INFINITY;
        for (let k = 0; k < atoms; k++) most = Math.max(most, x[from + k] as number);
        let [sum, mean] = [0, 0];
        for (let k = 0; k < atoms; k++) {
          const p = Math.exp((x[from + k] as number) - most);
          sum += p;
          mean += p * (min + k * gap);
        }
        y[i] = mean / sum;
      }
    },
  };
  return ofKind({ kind: 'expectation', count, atoms, min, max }, layer);
}

/**
 * Returns a layer that computes the mean of each action's quantiles, as a policy of QR-DQN needs it.
 * An input row has the first quantile of all actions, then the second one, and so on.
 *
 * @param quantiles number of quantiles of an action's value
 * @param actions number of actions
 * @throws {TypeError|RangeError} for a wrong count
 */
export function quantileMean(quantiles: number, actions: number): Layer {
  checkCount('quantileMean: quantiles', quantiles);
  checkCount('quantileMean: actions', actions);
  const of = (x: Floats, i: number): Floats => {
    const [rows] = x.shape as [number];
    return x.view({ shape: [rows, actions], offset: i * actions, strides: x.strides });
  };
  const layer: Layer = {
    name: `quantileMean(${quantiles}, ${actions})`,
    inputs: quantiles * actions,
    outputs: () => actions,
    parameters: () => [],
    forward(stream, { x, y }) {
      ops.convert(stream, y, of(x, 0));
      for (let i = 1; i < quantiles; i++) ops.add(stream, y, y, of(x, i));
      ops.convert(stream, y, y, { scale: 1 / quantiles });
    },
    backward(stream, { dy, dx }) {
      if (!dx) return;
      for (let i = 0; i < quantiles; i++)
        ops.convert(stream, of(dx, i), dy, { scale: 1 / quantiles });
    },
    run(x, rows, y) {
      for (let row = 0; row < rows; row++)
        for (let a = 0; a < actions; a++) {
          let sum = 0;
          for (let i = 0; i < quantiles; i++)
            sum += x[(row * quantiles + i) * actions + a] as number;
          y[row * actions + a] = sum / quantiles;
        }
    },
  };
  return ofKind({ kind: 'quantileMean', quantiles, actions }, layer);
}
