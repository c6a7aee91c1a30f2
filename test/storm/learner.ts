/**
 * The learner of a storm. Each update adds 1 to a count and fills the weights with the count. On
 * the device it also checks whether a row of its batch is torn. So the scalars of each tick show
 * whether an update was lost, repeated or torn, whichever thread died.
 */

import { ops } from '../../src/entries/learner.ts';
import type { Device, Stream, Tensor } from '../../src/index.ts';
import { BODY, ROUND } from './numbers.ts';

export const WEIGHTS = 256;
/** Number of rows whose observations are in the scalars of a tick. */
export const TOLD = 8;
/**
 * Names of a tick's scalars. `o0` and the following names are the observations of its first rows.
 */
export const scalars = (told: number): string[] => [
  'count',
  'torn',
  ...Array.from({ length: told * 4 }, (_, i) => `o${i}`),
];

interface Columns {
  readonly body: Tensor<'float32'>;
  readonly obs?: Tensor<'float32'>;
  readonly nextObs?: Tensor<'float32'>;
}

export class StormLearner {
  readonly kind = 'of a storm';
  readonly count: Tensor<'float32'>;
  readonly weights: Tensor<'float32'>;
  readonly #ones: Tensor<'float32'>;
  readonly #sides: Record<'body' | 'obs' | 'nextObs', Tensor<'float32'>>;
  readonly #off: Tensor<'float32'>;
  readonly #rows: Tensor<'float32'>;
  readonly #torn: Tensor<'float32'>;

  constructor(device: Device, rows: number) {
    const zeros = (...shape: number[]) =>
      device.allocate({ shape }).write(new Float32Array(shape.reduce((all, n) => all * n, 1)));
    this.count = zeros(1);
    this.weights = zeros(WEIGHTS);
    this.#ones = device.allocate({ shape: [WEIGHTS] }).write(new Float32Array(WEIGHTS).fill(1));
    // Each column must be zero in every row. The first columns compare neighboring words of the
    // body. Then one compares the body's first word with the observation, and one the lanes of the
    // observation and of the next one.
    const columns = BODY + 1;
    const matrix = (rows: number, entries: readonly (readonly [number, number, number])[]) => {
      const values = new Float32Array(rows * columns);
      for (const [row, column, value] of entries) values[row * columns + column] = value;
      return device.allocate({ shape: [rows, columns] }).write(values);
    };
    const pairs = Array.from({ length: BODY - 1 }, (_, i) => i);
    this.#sides = {
      body: matrix(
        BODY,
        pairs.flatMap((i) => [[i, i, 1] as const, [i + 1, i, -1] as const]),
      ),
      obs: matrix(4, [
        [0, BODY - 1, -ROUND],
        [2, BODY - 1, -1],
        [0, BODY, -1],
      ]),
      nextObs: matrix(4, [[0, BODY, 1]]),
    };
    this.#off = zeros(rows, columns);
    this.#rows = zeros(rows);
    this.#torn = zeros(1);
  }

  /** Writes two numbers to `out`: the number of this update, and 0 if no row is torn. */
  update(stream: Stream, { body, obs, nextObs }: Columns, out: Tensor<'float32'>): void {
    for (const [tensor, wholes] of [
      [this.count, 1],
      [this.weights, WEIGHTS],
    ] as const)
      stream.launch('axpby', { tensors: [tensor, this.#ones], wholes: [wholes], reals: [1, 1] });
    const off = this.#off;
    ops.matmul(stream, off, body, this.#sides.body);
    if (obs && nextObs) {
      // Adds the body's first word, which the next product compares with lane and number.
      const [rows] = off.shape as [number];
      const at = { shape: [rows, 1], strides: [BODY + 1, 1], offset: BODY - 1 } as const;
      ops.add(
        stream,
        off.view(at),
        off.view(at),
        body.view({ shape: [rows, 1], strides: [body.strides[0]!, 1] }),
      );
      ops.matmul(stream, off, obs, this.#sides.obs, { beta: 1 });
      ops.matmul(stream, off, nextObs, this.#sides.nextObs, { beta: 1 });
    }
    ops.square(stream, off, off);
    ops.sum(stream, this.#rows, off);
    ops.sum(stream, this.#torn, this.#rows.view({ shape: [1, this.#rows.size] }));
    stream.copy(out.view({ shape: [1] }), this.count);
    stream.copy(out.view({ shape: [1], offset: 1 }), this.#torn);
    if (obs) {
      const told = [TOLD, 4] as const;
      stream.copy(out.view({ shape: [...told], offset: 2 }), obs.view({ shape: [...told] }));
    }
  }

  async state() {
    const kept = async (tensor: Tensor<'float32'>) =>
      ({
        dtype: 'float32',
        shape: [tensor.size],
        data: (await tensor.toArray()) as Float32Array<ArrayBuffer>,
      }) as const;
    return { count: await kept(this.count), weights: await kept(this.weights) };
  }
  async loadState(state: object): Promise<void> {
    const { count, weights } = state as Awaited<ReturnType<StormLearner['state']>>;
    await this.count.write(count.data);
    await this.weights.write(weights.data);
  }
  async updates(): Promise<number> {
    return (await this.count.toArray())[0] as number;
  }
  close(): void {
    const sides = Object.values(this.#sides);
    for (const each of [
      this.count,
      this.weights,
      this.#ones,
      ...sides,
      this.#off,
      this.#rows,
      this.#torn,
    ])
      each.close();
  }
}
