/**
 * The reference for tests of learners: the same network, loss and optimizer in plain float64 loops.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import type { Network } from '../../src/entries/learner.ts';

/** Row-major [rows][columns]. */
export type Rows = number[][];

/** Returns random values within ±scale, by seed. */
export function randomRows(seed: number, rows: number, columns: number, scale = 1): Rows {
  const random = new Random(seed);
  return Array.from({ length: rows }, () =>
    Array.from({ length: columns }, () => scale * random.between(-1, 1)),
  );
}

export function flat(rows: Rows): Float32Array {
  return Float32Array.from(rows.flat());
}

/** Rounds rows to float32, so that the kernels and the reference use the same values. */
export function rounded(rows: Rows): Rows {
  return rows.map((row) => row.map(Math.fround));
}

interface Dense {
  inputs: number;
  outputs: number;
  /** offsets in the flat vector: weight [outputs, inputs], bias [outputs] */
  weight: number;
  bias: number;
  activation: string;
}

/** Returns the linear layers of a perceptron, each with the activation after it. */
function denseOf({ layers, parameters }: Network): Dense[] {
  return layers.flatMap((_, i) => {
    const weight = parameters.find(({ name }) => name === `${i}.weight`);
    const bias = parameters.find(({ name }) => name === `${i}.bias`);
    if (!weight || !bias) return [];
    const [outputs, inputs] = weight.shape as [number, number];
    const next = layers[i + 1]?.name ?? '';
    const activation = next.startsWith('linear') ? '' : next;
    return [{ inputs, outputs, weight: weight.offset, bias: bias.offset, activation }];
  });
}

/** Returns the outputs of every layer, with the input first. */
export function forward(network: Network, parameters: ArrayLike<number>, input: Rows): Rows[] {
  const passes = [input];
  for (const { inputs, outputs, weight, bias, activation } of denseOf(network)) {
    const x = passes[passes.length - 1] as Rows;
    passes.push(
      x.map((row) =>
        Array.from({ length: outputs }, (_, o) => {
          let z = parameters[bias + o] as number;
          for (let i = 0; i < inputs; i++)
            z += (row[i] as number) * (parameters[weight + o * inputs + i] as number);
          return activation === 'relu()'
            ? Math.max(z, 0)
            : activation === 'tanh()'
              ? Math.tanh(z)
              : z;
        }),
      ),
    );
  }
  return passes;
}

/** Returns the gradients of Σ y·dy by the parameters and by the input. */
export function backward(
  network: Network,
  parameters: ArrayLike<number>,
  passes: Rows[],
  dy: Rows,
) {
  const gradient = new Array<number>(network.parameterCount).fill(0);
  const layers = denseOf(network);
  let d = dy;
  for (let l = layers.length - 1; l >= 0; l--) {
    const { inputs, outputs, weight, bias, activation } = layers[l] as Dense;
    const x = passes[l] as Rows;
    const y = passes[l + 1] as Rows;
    d = d.map((row, r) => {
      const dz = row.map((g, o) => {
        const v = y[r]?.[o] as number;
        return (
          g * (activation === 'relu()' ? Number(v > 0) : activation === 'tanh()' ? 1 - v * v : 1)
        );
      });
      const dx = new Array<number>(inputs).fill(0);
      for (let o = 0; o < outputs; o++) {
        gradient[bias + o] = (gradient[bias + o] as number) + (dz[o] as number);
        for (let i = 0; i < inputs; i++) {
          const at = weight + o * inputs + i;
          gradient[at] = (gradient[at] as number) + (x[r]?.[i] as number) * (dz[o] as number);
          dx[i] = (dx[i] as number) + (dz[o] as number) * (parameters[at] as number);
        }
      }
      return dx;
    });
  }
  return { gradient, inputGradient: d };
}

/** Adam in float64. It changes a vector in place. */
export class ReferenceAdam {
  readonly mean: number[];
  readonly spread: number[];
  steps = 0;
  constructor(length: number) {
    this.mean = new Array<number>(length).fill(0);
    this.spread = new Array<number>(length).fill(0);
  }
  step(
    parameters: number[],
    gradient: readonly number[],
    learningRate: number,
    epsilon: number,
    beta1 = 0.9,
    beta2 = 0.999,
  ) {
    this.steps++;
    gradient.forEach((g, i) => {
      const m = beta1 * (this.mean[i] as number) + (1 - beta1) * g;
      const v = beta2 * (this.spread[i] as number) + (1 - beta2) * g * g;
      this.mean[i] = m;
      this.spread[i] = v;
      const size = Math.sqrt(v / (1 - beta2 ** this.steps)) + epsilon;
      parameters[i] =
        (parameters[i] as number) - ((learningRate / (1 - beta1 ** this.steps)) * m) / size;
    });
  }
}

/**
 * Checks that every value is within `tolerance` of the wanted one, relative to its size or to 1.
 */
export function expectClose(
  got: ArrayLike<number | bigint>,
  want: ArrayLike<number>,
  tolerance: number,
  what: string,
): void {
  expect(got.length, `${what}: length`).to.equal(want.length);
  for (let i = 0; i < want.length; i++) {
    const a = Number(got[i]);
    const b = want[i] as number;
    const off = Math.abs(a - b) / Math.max(1, Math.abs(b));
    if (!(off <= tolerance))
      expect.fail(`${what}[${i}]: got ${a}, want ${b} (off by ${off}, allowed ${tolerance})`);
  }
}
