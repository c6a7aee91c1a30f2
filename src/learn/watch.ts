/**
 * Finds where an update first made a number that is none: counted on the device, by network and
 * layer.
 */
import type { Device, Stream, Tensor } from '../device/device.ts';
import { guardConstruction, Owner, own } from '../device/owner.ts';
import type { Network, NetworkWorkspace } from './network/network.ts';
import { passParts } from './network/network.ts';

type Floats = Tensor<'float32'>;

/** What an update's event is looked at for: a network's last pass, and its gradient. */
export interface Watched {
  /** the event that is told behind them: 'q', 'actor.0', … */
  readonly event: string;
  /** 'critics.0', 'actor', 'online' */
  readonly name: string;
  readonly network: Network;
  readonly pass: NetworkWorkspace;
  /** the network's flat vector */
  readonly gradient: Floats;
  /** its optimiser's steps so far */
  readonly steps: Tensor<'int32'>;
}

/** What was NaN or infinite first. */
export interface NonFiniteReport {
  /** the optimiser's step, from 0 */
  readonly update: number;
  /** which update() that was, where each had as many minibatches as the last */
  readonly tick: number;
  readonly network: string;
  /** by number and name: '2: linear(64, 1)' */
  readonly layer: string;
  /** 'output', 'gradient at its output', 'gradient of weight' */
  readonly what: string;
  /** how many numbers, of all the updates that were looked at */
  readonly count: number;
  /** all of that in a sentence */
  readonly text: string;
}

/** @deprecated Renamed to `NonFiniteReport`; this name goes in 0.5. */
export type Odd = NonFiniteReport;

interface Vector {
  readonly event: string;
  readonly x: Floats;
  readonly steps: Tensor<'int32'>;
  /** `rank`: which of them an update makes first */
  readonly parts: readonly { network: string; layer: string; what: string; rank: number }[];
  readonly ends: Tensor<'int32'>;
  readonly found: Tensor<'int32'>;
}

/** For learners: behind a pass and its gradient, before the optimiser steps. */
export let look: (watch: Watch, stream: Stream, event: string) => void;

export class Watch extends Owner {
  readonly every: number;
  readonly #vectors: readonly Vector[];
  readonly #minibatches: () => number;

  static {
    look = (watch, stream, event) => {
      for (const { event: own, x, ends, found, steps, parts } of watch.#vectors) {
        if (own !== event) continue;
        const wholes = [x.size, parts.length, watch.every] as const;
        stream.launch('count_odd', { tensors: [found, x, ends, steps], wholes });
      }
    };
  }

  constructor(
    device: Device,
    every: number,
    watched: readonly Watched[],
    minibatches: () => number,
  ) {
    super('this watch');
    this.every = every;
    this.#minibatches = minibatches;
    const words = (...shape: number[]) => own(this, device.allocate({ shape, dtype: 'int32' }));
    using construction = guardConstruction(this);
    const vector = (
      of: Watched,
      x: Floats,
      all: readonly { layer: number; what: string; end: number }[],
    ): Vector => {
      const { event, name, network, steps } = of;
      // Forwards, then backwards.
      const parts = all.map(({ layer, what }) => ({
        network: name,
        layer: `${layer}: ${network.layers[layer]?.name}`,
        what,
        rank: what === 'output' ? layer : 2 * network.layers.length - layer,
      }));
      const ends = words(all.length).write(Int32Array.from(all, ({ end }) => end));
      return { event, x, steps, parts, ends, found: words(all.length, 2) };
    };
    // Forward before backward: what began it comes first.
    this.#vectors = watched.flatMap((of) => {
      const { memory, parts } = passParts(of.pass);
      const ends = of.network.parameters.map(({ name, shape, offset }) => ({
        layer: Number.parseInt(name, 10),
        what: `gradient of ${name.slice(name.indexOf('.') + 1)}`,
        end: offset + shape.reduce((a, b) => a * b, 1),
      }));
      return [vector(of, memory, parts), vector(of, of.gradient, ends)];
    });
    construction.done();
  }

  /**
   * What was NaN or infinite first, of all that is done on the device's current stream; null when
   * nothing was.
   */
  async first(): Promise<NonFiniteReport | null> {
    let first: (NonFiniteReport & { rank: number }) | null = null;
    for (const { found, parts } of this.#vectors) {
      const words = await found.toArray();
      for (const [i, { network, layer, what, rank }] of parts.entries()) {
        const [count, when] = [words[2 * i] as number, words[2 * i + 1] as number];
        if (when === 0) continue;
        const [update, tick] = [when - 1, Math.floor((when - 1) / this.#minibatches())];
        // Of one update, what its networks make in turn.
        const later =
          first &&
          (update > first.update ||
            (update === first.update && (network !== first.network || rank >= first.rank)));
        if (later) continue;
        const text: string = `update ${update} (tick ${tick}): the ${what} of ${network}, layer ${layer}, has NaN or infinity; ${count} such numbers so far`;
        first = { update, tick, network, layer, what, count, text, rank };
      }
    }
    if (first === null) return null;
    const { rank: _, ...report } = first;
    return report;
  }
}
