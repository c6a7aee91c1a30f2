/** Networks in plain float64 loops. */
import type { Layer, Network } from '../../src/entries/learner.ts';

export type Layered = readonly Layer[];

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

/** Returns the normal distribution function Φ(x) = ½ + φ(x) (x + x³ / 3 + x⁵ / 15 + …). */
function phi(x: number): number {
  let [sum, term] = [x, x];
  for (let odd = 3; odd < 121; odd += 2) {
    term *= (x * x) / odd;
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}

/** Returns the mean of a distribution that is given by logits over atoms from −1 to 2. */
function mean(logits: readonly number[]): number {
  const masses = logits.map(Math.exp);
  const all = masses.reduce((a, b) => a + b, 0);
  return masses.reduce(
    (sum, mass, k) => sum + (mass / all) * (-1 + (3 * k) / (logits.length - 1)),
    0,
  );
}

export const activations: Readonly<Record<string, (x: number) => number>> = {
  relu: (x) => Math.max(x, 0),
  tanh: Math.tanh,
  sigmoid,
  silu: (x) => x * sigmoid(x),
  gelu: (x) => x * phi(x),
  geluTanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  elu: (x) => (x > 0 ? x : Math.expm1(x)),
};

/** Computes each output sum of a convolution separately. Reads the sizes from the layer's name. */
function convolved(
  name: string,
  row: readonly number[],
  weight: (at: number) => number,
  bias: (at: number) => number,
) {
  const [channels, height, width, filters, kernelHeight, kernelWidth, stride, padding] = (
    name.match(/\d+/g) as string[]
  )
    .slice(1)
    .map(Number) as [number, number, number, number, number, number, number, number];
  const y: number[] = [];
  for (let filter = 0; filter < filters; filter++)
    for (let top = -padding; top + kernelHeight <= height + padding; top += stride)
      for (let left = -padding; left + kernelWidth <= width + padding; left += stride) {
        let sum = bias(filter);
        for (let c = 0; c < channels; c++)
          for (let ky = 0; ky < kernelHeight; ky++)
            for (let kx = 0; kx < kernelWidth; kx++) {
              const [line, at] = [top + ky, left + kx];
              if (line < 0 || line >= height || at < 0 || at >= width) continue;
              const w = weight(((filter * channels + c) * kernelHeight + ky) * kernelWidth + kx);
              sum += w * (row[(c * height + line) * width + at] as number);
            }
        y.push(sum);
      }
  return y;
}

const LAYER = /^(\w+)\(([\d, ]*)\)$/;

/** Returns the outputs [rows][outputs] of a network whose parameters are a flat vector. */
export function outputOf(
  network: Network,
  flat: ArrayLike<number>,
  input: readonly (readonly number[])[],
): number[][] {
  let x = input.map((row) => [...row]);
  for (const [i, layer] of network.layers.entries()) {
    const place = (name: string) => network.parameters.find((each) => each.name === `${i}.${name}`);
    const value = (name: string, at: number) => flat[place(name)!.offset + at] as number;
    const kind = LAYER.exec(layer.name)?.[1] as string;
    const activation = activations[kind];
    const [first = 0, second = 0] = (LAYER.exec(layer.name)?.[2] ?? '').split(', ').map(Number);
    if (activation) x = x.map((row) => row.map(activation));
    else if (layer.name === 'flatten()') continue;
    else if (layer.name.startsWith('conv2d'))
      x = x.map((row) =>
        convolved(
          layer.name,
          row,
          (at) => value('weight', at),
          (at) => value('bias', at),
        ),
      );
    else if (kind === 'dueling')
      x = x.map((row) =>
        Array.from({ length: first * second }, (_, at) => {
          const atom = at % second;
          const advantages = Array.from(
            { length: first },
            (_, a) => row[(a + 1) * second + atom] as number,
          );
          const mean = advantages.reduce((a, b) => a + b, 0) / first;
          return (row[atom] as number) + (advantages[Math.floor(at / second)] as number) - mean;
        }),
      );
    else if (kind === 'expectation')
      x = x.map((row) =>
        Array.from({ length: first }, (_, i) => mean(row.slice(i * second, (i + 1) * second))),
      );
    else if (kind === 'quantileMean')
      x = x.map((row) =>
        Array.from({ length: second }, (_, a) => {
          const own = Array.from({ length: first }, (__, i) => row[i * second + a] as number);
          return own.reduce((sum, each) => sum + each, 0) / first;
        }),
      );
    else if (kind === 'linear') {
      const [outputs, inputs] = place('weight')!.shape as [number, number];
      x = x.map((row) =>
        Array.from({ length: outputs }, (_, o) =>
          row.reduce((sum, v, k) => sum + v * value('weight', o * inputs + k), value('bias', o)),
        ),
      );
    } else {
      const epsilon = EPSILONS.get(layer) ?? 1e-5;
      x = x.map((row) => {
        const mean = row.reduce((a, b) => a + b, 0) / row.length;
        const variance = row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / row.length;
        return row.map(
          (v, j) =>
            ((v - mean) / Math.sqrt(variance + epsilon)) * value('weight', j) + value('bias', j),
        );
      });
    }
  }
  return x;
}

/** The epsilon of each layer that does not use torch's default. */
export const EPSILONS = new Map<Layer, number>();
