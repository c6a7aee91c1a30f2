/**
 * What becomes of a batch on the device: bytes to floats, floats to a coarse grid, and a DQN on that. A network of
 * convolutions would take the place of the grid; it would read the same floats.
 */
import type { Device, Stream, Tensor } from '../../src/index.ts';
import { convert, type DqnBatch, DqnLearner } from '../../src/learner/index.ts';
import { ACTIONS, CELL, CELLS, GRID, SIDE } from './catch.ts';
import type { Settings } from './settings.ts';

/** A batch of the view: stacks of frames as they are stored. */
export interface PixelBatch {
  /** [rows, stack, SIDE, SIDE] */
  readonly obs: Tensor<'uint8'>;
  readonly nextObs: Tensor<'uint8'>;
  readonly actions: Tensor;
  readonly rewards: Tensor<'float32'>;
  readonly discounts: Tensor<'float32'>;
}

export class PixelLearner {
  readonly dqn: DqnLearner;
  /** coarse stacks, [rows, stack × CELLS]: what the network sees */
  readonly now: Tensor<'float32'>;
  readonly next: Tensor<'float32'>;
  /** stacks as floats; rows of pixels, each shrunk to GRID columns */
  readonly #pixels: Tensor<'float32'>;
  readonly #columns: Tensor<'float32'>;
  /** means over CELL neighbours: in a row of pixels, and from row to row */
  readonly #across: Tensor<'float32'>;
  readonly #down: Tensor<'float32'>;
  readonly #frames: number;

  constructor(device: Device, { rows, stack, hidden, learningRate }: Settings, seed: number) {
    this.#frames = rows * stack;
    const floats = (...shape: number[]) => device.allocate({ shape });
    this.#pixels = floats(rows, stack * SIDE * SIDE);
    this.#columns = floats(this.#frames * SIDE, GRID);
    this.now = floats(rows, stack * CELLS);
    this.next = floats(rows, stack * CELLS);
    const mean = (same: (pixel: number, cell: number) => boolean) =>
      floats(SIDE, GRID).write(
        Float32Array.from({ length: SIDE * GRID }, (_, at) => (same(Math.floor(at / GRID), at % GRID) ? 1 / CELL : 0)),
      );
    this.#across = mean((pixel, cell) => Math.floor(pixel / CELL) === cell);
    // CELL rows of GRID columns lie side by side, SIDE floats: those of one column come together.
    this.#down = mean((pixel, cell) => pixel % GRID === cell);
    this.dqn = new DqnLearner(device, {
      ...{ obsDim: stack * CELLS, actions: ACTIONS, hidden, batchSize: rows, learningRate, seed },
      ...{ tau: 0.01, maxGradNorm: 10 },
    });
  }

  /** Enqueues an update: launches only, so it can be captured. */
  update(stream: Stream, batch: PixelBatch, out: Tensor<'float32'>): void {
    this.#shrink(stream, batch.obs, this.now);
    this.#shrink(stream, batch.nextObs, this.next);
    const coarse: DqnBatch = {
      ...{ obs: this.now, nextObs: this.next },
      ...{ actions: batch.actions, rewards: batch.rewards, discounts: batch.discounts },
    };
    this.dqn.update(stream, coarse, out);
  }

  close(): void {
    this.dqn.close();
    for (const tensor of [this.#pixels, this.#columns, this.now, this.next, this.#across, this.#down]) tensor.close();
  }

  #shrink(stream: Stream, stacks: Tensor<'uint8'>, to: Tensor<'float32'>): void {
    convert(stream, this.#pixels, stacks, { scale: 1 / 255 });
    const product = (out: Tensor, from: Tensor, means: Tensor, rows: number) =>
      stream.launch('gemm', {
        tensors: [out, from, means],
        wholes: [0, 0, rows, GRID, SIDE, SIDE, GRID, GRID],
        reals: [1, 0],
      });
    const flat = (tensor: Tensor<'float32'>, columns: number) =>
      tensor.view({ shape: [tensor.size / columns, columns] });
    product(this.#columns, flat(this.#pixels, SIDE), this.#across, this.#frames * SIDE);
    product(flat(to, GRID), flat(this.#columns, SIDE), this.#down, this.#frames * GRID);
  }
}
