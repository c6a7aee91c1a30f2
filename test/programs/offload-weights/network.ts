/**
 * A deep perceptron and its regression, layer by layer. Weights are in managed memory, and all else
 * is in plain device memory.
 */

import type { UnifiedMempool } from '../../../src/entries/memory.ts';
import { type Device, Random, type Stream, type Tensor } from '../../../src/index.ts';

const ROWS = 64;
/** Learning rate for 8 layers. Deeper networks, or layers wider than 512, need a smaller one. */
const LEARNING_RATE = 0.05;
const TANH = 2;
const NONE = 0;

export class Network implements Disposable {
  /** per layer [width + 1, width]. The last row is the bias */
  readonly weights: readonly Tensor[];
  readonly #width: number;
  readonly #plain: Tensor[] = [];
  /** the input, then the output of each layer, [rows, width] */
  readonly #values: readonly Tensor[];
  readonly #target: Tensor;
  readonly #error: Tensor;
  /** gradients at a layer's output and at its input, which swap roles after each layer */
  readonly #slopes: readonly [Tensor, Tensor];
  readonly #gradient: Tensor;

  constructor(pool: UnifiedMempool, layers: number, width: number) {
    const numbers = new Random(1);
    const random = (length: number, scale: number) =>
      Float32Array.from({ length }, () => numbers.between(-scale, scale));
    const { device } = pool;
    this.#width = width;
    this.weights = Array.from({ length: layers }, () => {
      const values = random((width + 1) * width, Math.sqrt(3 / width));
      return pool.allocate({ shape: [width + 1, width] }).write(values.fill(0, width * width));
    });
    const rows = () => this.#allocate(device, [ROWS, width]);
    this.#values = Array.from({ length: layers + 1 }, rows);
    (this.#values[0] as Tensor).write(random(ROWS * width, 1));
    this.#target = rows().write(random(ROWS * width, 0.5));
    this.#error = rows();
    this.#slopes = [rows(), rows()];
    this.#gradient = this.#allocate(device, [width + 1, width]);
  }

  #allocate(device: Device, shape: number[]): Tensor {
    const tensor = device.allocate({ shape });
    this.#plain.push(tensor);
    return tensor;
  }

  forward(stream: Stream, layer: number): void {
    const [weight, bias] = this.#parts(this.weights[layer] as Tensor);
    const [x, y] = [this.#values[layer] as Tensor, this.#values[layer + 1] as Tensor];
    const width = this.#width;
    this.#product(stream, y, x, weight, [0, 0, ROWS, width, width]);
    const act = layer === this.weights.length - 1 ? NONE : TANH;
    stream.launch('bias_act', { tensors: [y, y, bias], wholes: [ROWS, width, width, width, act] });
  }

  /** Computes the error at the output, and the gradient of the loss there. */
  compare(stream: Stream): void {
    const output = this.#values.at(-1) as Tensor;
    const wholes = [this.#error.size] as const;
    stream.copy(this.#error, output);
    stream.launch('axpby', { tensors: [this.#error, this.#target], wholes, reals: [-1, 1] });
    stream.launch('axpby', {
      tensors: [this.#slopes[0], this.#error],
      wholes,
      reals: [2 / ROWS, 0],
    });
  }

  /**
   * Computes the layer's gradients and updates the layer. Call it for layers in descending order.
   */
  backward(stream: Stream, layer: number): void {
    const width = this.#width;
    const last = this.weights.length - 1;
    const parameters = this.weights[layer] as Tensor;
    const [weight] = this.#parts(parameters);
    const [weightGradient, biasGradient] = this.#parts(this.#gradient);
    const [x, y] = [this.#values[layer] as Tensor, this.#values[layer + 1] as Tensor];
    const [dy, dx] = (last - layer) % 2 === 0 ? this.#slopes : [this.#slopes[1], this.#slopes[0]];
    if (layer < last)
      stream.launch('act_backward', {
        tensors: [dy, dy, y],
        wholes: [ROWS, width, width, width, width, TANH],
      });
    stream.launch('column_sums', {
      tensors: [biasGradient, dy],
      wholes: [ROWS, width, width],
      reals: [1, 0],
    });
    this.#product(stream, weightGradient, x, dy, [1, 0, width, width, ROWS]);
    this.#product(stream, dx, dy, weight, [0, 1, ROWS, width, width]);
    const rate =
      LEARNING_RATE * Math.min(1, 8 / this.weights.length) ** 2 * Math.min(1, 512 / width);
    const wholes = [parameters.size] as const;
    stream.launch('axpby', { tensors: [parameters, this.#gradient], wholes, reals: [-rate, 1] });
  }

  /** Returns the mean squared error of the last pass on `stream`. */
  async loss(stream: Stream): Promise<number> {
    const error = (await this.#error.toArray(stream)) as Float32Array;
    return error.reduce((sum, each) => sum + each * each, 0) / error.length;
  }

  #parts(layer: Tensor): [weight: Tensor, bias: Tensor] {
    const width = this.#width;
    return [
      layer.view({ shape: [width, width] }),
      layer.view({ shape: [width], offset: width * width }),
    ];
  }

  /** Enqueues c = op(a)·op(b), sizes [transA, transB, m, n, k]. */
  #product(
    stream: Stream,
    c: Tensor,
    a: Tensor,
    b: Tensor,
    sizes: readonly [number, number, number, number, number],
  ): void {
    const width = this.#width;
    stream.launch('gemm', {
      tensors: [c, a, b],
      wholes: [...sizes, width, width, width],
      reals: [1, 0],
    });
  }

  close(): void {
    for (const tensor of this.#plain) tensor.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
