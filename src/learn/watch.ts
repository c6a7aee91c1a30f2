/**
 * Finds the first update that produced NaN or infinity. Kernels count such elements on the device,
 * in each tensor that a launch of the update writes.
 */
import type { Device, Stream, Tensor } from '../device/device.ts';
import { guardConstruction, Owner, own } from '../device/owner.ts';

type Floats = Tensor<'float32'>;

/** Report of the first NaN or infinity. */
export interface NonFiniteReport {
  /** number of the optimizer's step, counted from 0 */
  readonly update: number;
  /**
   * number of the update() call, which is `update` divided by the minibatches of a call. It is
   * right only if each call had as many minibatches as the last one
   */
  readonly tick: number;
  /** name of the network, or of the learner for an op outside of a network */
  readonly network: string;
  /** layer by index and name, such as '2: linear(64, 1)', or the op */
  readonly layer: string;
  /**
   * tensor that contains it: 'output', 'gradient at the output', 'gradient of weight', … For an op,
   * the line that made it
   */
  readonly what: string;
  /** number of NaN and infinite elements in this tensor, over all checked updates */
  readonly count: number;
  /** the fields above as a sentence */
  readonly text: string;
}

/** @deprecated Renamed to `NonFiniteReport`. This name is removed in 0.5. */
export type Odd = NonFiniteReport;

/** A part of a watched vector, which ends before element `end`. */
export interface WatchedPart {
  readonly network: string;
  readonly layer: string;
  readonly what: string;
  readonly end: number;
  /** names the part in the report's text. Default: what, network and layer */
  readonly text?: string;
}

/** Contiguous memory that a watch checks at an event. A watch gets it in the order of the events. */
export interface WatchedVector {
  readonly event: string;
  readonly x: Floats;
  /** number of steps that an optimizer has done. The report counts updates by it */
  readonly steps: Tensor<'int32'>;
  readonly parts: readonly WatchedPart[];
}

interface Vector extends WatchedVector {
  readonly ends: Tensor<'int32'>;
  readonly found: Tensor<'int32'>;
}

/** Enqueues a count of NaN and infinities at an event, which is a launch of the update. */
export let look: (watch: Watch, stream: Stream, event: string) => void;

/**
 * Counts NaN and infinities in a learner's steps on the device. `learner.watch()` creates it.
 * @example
 * const watch = learner.watch({ every: 10 });
 * await pipeline.run({ ticks: 1000 });
 * console.log((await watch.first())?.text ?? 'all is finite');
 */
export class Watch extends Owner {
  /** number of gradient steps from one check to the next */
  readonly every: number;
  readonly #vectors: readonly Vector[];
  readonly #minibatches: () => number;

  static {
    look = (watch, stream, event) => {
      for (const { event: own, x, ends, found, steps, parts } of watch.#vectors) {
        if (own !== event) continue;
        const wholes = [x.size, parts.length, watch.every] as const;
        stream.launch('count_non_finite', { tensors: [found, x, ends, steps], wholes });
      }
    };
  }

  constructor(
    device: Device,
    every: number,
    watched: readonly WatchedVector[],
    minibatches: () => number,
  ) {
    super('this watch');
    this.every = every;
    this.#minibatches = minibatches;
    const words = (...shape: number[]) => own(this, device.allocate({ shape, dtype: 'int32' }));
    using construction = guardConstruction(this);
    this.#vectors = watched.map((of) => {
      const { length } = of.parts;
      const ends = words(length).write(Int32Array.from(of.parts, ({ end }) => end));
      return { ...of, ends, found: words(length, 2) };
    });
    construction.done();
  }

  /**
   * Reads the counts back from the device, after all work on its current stream.
   *
   * @returns a report of the first NaN or infinity, or null if all elements were finite
   * @throws {DeviceError} if the stream has failed
   */
  async first(): Promise<NonFiniteReport | null> {
    let first: NonFiniteReport | null = null;
    for (const { found, parts } of this.#vectors) {
      const words = await found.toArray();
      for (const [i, { network, layer, what, text: named }] of parts.entries()) {
        const [count, when] = [words[2 * i] as number, words[2 * i + 1] as number];
        if (when === 0) continue;
        const [update, tick] = [when - 1, Math.floor((when - 1) / this.#minibatches())];
        // The vectors are in the order in which an update computes them.
        if (first && update >= first.update) continue;
        const place = named ?? `the ${what} of ${network}, layer ${layer},`;
        const text: string = `update ${update} (tick ${tick}): ${place} has NaN or infinity; ${count} such numbers so far`;
        first = { update, tick, network, layer, what, count, text };
      }
    }
    return first;
  }
}
