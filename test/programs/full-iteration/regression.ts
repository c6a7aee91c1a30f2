/**
 * A perceptron that learns sin(3x)·cos(2y) from noisy inputs. One iteration is a function of a
 * stream and tensors.
 */

import {
  DeviceGenerator,
  type IterationContext,
  type IterationOptions,
} from '../../../src/entries/graph.ts';
import { Adam, Mlp } from '../../../src/entries/learner.ts';
import type { Device, Random, Tensor } from '../../../src/index.ts';

export const ROWS = 64;

/** Returns one microbatch in host memory: points in [-1, 1]² and their values. */
export function batchOf(random: Random): { points: Float32Array; values: Float32Array } {
  const points = Float32Array.from({ length: 2 * ROWS }, () => random.between(-1, 1));
  const values = Float32Array.from(
    { length: ROWS },
    (_, i) => Math.sin(3 * (points[2 * i] as number)) * Math.cos(2 * (points[2 * i + 1] as number)),
  );
  return { points, values };
}

export class Regression {
  readonly net = new Mlp({ sizes: [2, 64, 64, 1], activation: 'tanh' });
  readonly parameters: Tensor<'float32'>;
  readonly #device: Device;
  readonly #gradient: Tensor<'float32'>;
  readonly #pass;
  readonly #adam: Adam;
  readonly #noise: DeviceGenerator;

  constructor(device: Device, seed: number) {
    this.#device = device;
    const { parameterCount } = this.net;
    this.parameters = device.allocate({ shape: [parameterCount] }).write(this.net.initialize(seed));
    this.#gradient = device.allocate({ shape: [parameterCount] });
    this.#pass = this.net.workspace(device, ROWS, { backward: true });
    this.#adam = new Adam(device, this.parameters, { learningRate: 3e-3 });
    this.#noise = new DeviceGenerator(device, { seed });
  }

  *namedParameters(): Iterable<[string, Tensor]> {
    yield ['parameters', this.parameters];
  }

  /** Enqueues one update per microbatch and returns the tensor with the last predictions. */
  iterate(
    { dataIterator, numMicrobatches }: IterationOptions,
    { stream, pool }: IterationContext,
  ): Tensor {
    const [weights, gradients] = [this.net.over(this.parameters), this.net.over(this.#gradient)];
    const batches = dataIterator as Iterator<{
      points: Tensor<'float32'>;
      values: Tensor<'float32'>;
    }>;
    for (let i = 0; i < numMicrobatches; i++) {
      const { points, values } = batches.next().value;
      // This tensor exists only during the iteration. The pool returns the same memory each time.
      const noisy = pool.allocate({ shape: [ROWS, 2] });
      this.#noise.normal(stream, noisy, { deviation: 0.01 });
      stream.launch('axpby', { tensors: [noisy, points], wholes: [2 * ROWS], reals: [1, 1] });
      const predicted = this.net.forward(stream, weights, noisy, this.#pass);
      // d/dy of the mean of (y − t)².
      const slope = this.#pass.outputGradient;
      stream.launch('axpby', { tensors: [slope, predicted], wholes: [ROWS], reals: [2 / ROWS, 0] });
      stream.launch('axpby', { tensors: [slope, values], wholes: [ROWS], reals: [-2 / ROWS, 1] });
      this.net.backward(stream, weights, noisy, this.#pass, gradients);
      this.#adam.step(stream, this.#gradient);
    }
    return this.#pass.output;
  }

  /** Returns the mean squared error over these points, summed on the CPU. */
  async error({ points, values }: { points: Float32Array; values: Float32Array }): Promise<number> {
    using input = this.#device.allocate({ shape: [ROWS, 2] }).write(points);
    using pass = this.net.workspace(this.#device, ROWS);
    const stream = this.#device.currentStream;
    const predicted = await this.net
      .forward(stream, this.net.over(this.parameters), input, pass)
      .toArray();
    return values.reduce((sum, value, i) => sum + (Number(predicted[i]) - value) ** 2, 0) / ROWS;
  }

  close(): void {
    for (const part of [this.parameters, this.#gradient, this.#pass, this.#adam, this.#noise])
      part.close();
  }
}
