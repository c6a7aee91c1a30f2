/** Devices, batches and learners for the tests of traced learners. */
import { tracedSac as sacOf, tracedTd3 as td3Of } from '../../../bench/traced-learners.ts';
import { linear, Network, relu, type tanh } from '../../../src/entries/learner.ts';
import type { DescribedLearner } from '../../../src/entries/trace.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../../src/index.ts';
import { TESTED } from '../../rig/tested-device.ts';

type Floats = Tensor<'float32'>;
export type Batch = Record<string, Tensor>;

/** Numbers that look random and are the same in each run. */
export function numbers(count: number, seed: number, low = -1, high = 1): Float32Array {
  let state = seed * 2654435761 + 1;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return low + ((high - low) * state) / 2 ** 32;
  });
}

export const [ROWS, OBS, ACTIONS] = [8, 5, 3];

/** Opens the tested device, and closes everything that a test made after the test. */
export class Rig {
  readonly device: Device = openDevice(TESTED);
  readonly stream: Stream = this.device.currentStream;
  readonly #open: { close(): void }[] = [];

  keep<T extends { close(): void }>(made: T): T {
    this.#open.push(made);
    return made;
  }
  close(): void {
    for (const made of this.#open.splice(0).reverse()) made.close();
  }
  tensor(shape: readonly number[], values: Float32Array): Floats {
    return this.keep(this.device.allocate({ shape: [...shape] }).write(values));
  }
  zeros(...shape: number[]): Floats {
    return this.keep(this.device.allocate({ shape }));
  }
  /** Returns a batch of `rows` rows, with indices or numbers as actions. */
  batch(rows: number, actions: 'index' | 'numbers', seed = 1): Batch {
    const floats = (...shape: number[]) =>
      this.tensor(
        shape,
        numbers(
          shape.reduce((a, b) => a * b, 1),
          seed + shape.length + shape.at(-1)!,
        ),
      );
    const index = numbers(rows, seed + 9, 0, ACTIONS).map(Math.floor);
    return {
      obs: floats(rows, OBS),
      nextObs: this.tensor([rows, OBS], numbers(rows * OBS, seed + 5)),
      actions: actions === 'index' ? this.tensor([rows], index) : floats(rows, ACTIONS),
      rewards: floats(rows),
      discounts: this.tensor(
        [rows],
        numbers(rows, seed + 3).map((x) => (x < -0.7 ? 0 : 0.97)),
      ),
    };
  }
  /** Returns rows [k · ROWS, (k + 1) · ROWS) of a batch. */
  part(batch: Batch, k: number): Batch {
    return Object.fromEntries(
      Object.entries(batch).map(([name, tensor]) => [
        name,
        tensor.view({
          shape: [ROWS, ...tensor.shape.slice(1)],
          offset: k * ROWS * (tensor.strides[0] as number),
        }),
      ]),
    );
  }
  /** Captures what `enqueue` enqueues, and returns a function that replays it. */
  captured(enqueue: (stream: Stream) => void): () => void {
    this.stream.beginCapture();
    enqueue(this.stream);
    const graph = this.keep(this.stream.endCapture());
    const executable = this.keep(graph.instantiate());
    return () => this.stream.replay(executable);
  }
}

export const net = (inputs: number, outputs: number, ...end: ReturnType<typeof tanh>[]): Network =>
  new Network([linear(inputs, 8), relu(), linear(8, 7), relu(), linear(7, outputs), ...end]);

const sizes = { obs: OBS, actions: ACTIONS, hidden: [8, 7], rows: ROWS };

/** SAC with the losses, draws and defaults of SacLearner. */
export const tracedSac = (device: Device, seed = 0): DescribedLearner =>
  sacOf(device, sizes, { seed });

/** TD3 with the losses, draws and defaults of Td3Learner: the actor steps every second time. */
export const tracedTd3 = (device: Device, firstUpdate = 0): DescribedLearner =>
  td3Of(device, sizes, { firstUpdate });
