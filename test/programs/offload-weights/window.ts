/**
 * Keeps the weights of the layers that are used next on the device, within a budget. A separate
 * stream moves them. Events order it with the work: a layer is sent back only after its last use,
 * and is used only after its arrival.
 */

import { prefetchManagedTensor } from '../../../src/entries/memory.ts';
import type { Device, DeviceEvent, Stream, Tensor } from '../../../src/index.ts';

export class WeightWindow implements Disposable {
  /** the most bytes that were on the device at once */
  peak = 0;
  readonly #weights: readonly Tensor[];
  readonly #order: readonly number[];
  readonly #budget: number;
  readonly #device: Device;
  readonly #work: Stream;
  readonly #moves: Stream;
  /**
   * events of each layer: its last use on the work's stream, and its arrival on the other stream
   */
  readonly #used: readonly DeviceEvent[];
  readonly #arrived: readonly DeviceEvent[];
  readonly #here = new Set<number>();

  /**
   * Sends all weights to the CPU, if the driver can. `order` lists the layers as each step uses
   * them.
   */
  constructor(
    device: Device,
    work: Stream,
    weights: readonly Tensor[],
    order: readonly number[],
    budget: number,
  ) {
    this.#device = device;
    this.#work = work;
    this.#weights = weights;
    this.#order = order;
    this.#budget = budget;
    this.#moves = device.createStream();
    this.#used = weights.map(() => device.createEvent());
    this.#arrived = weights.map(() => device.createEvent());
    if (!device.traits.movesPages) return;
    for (const tensor of weights) prefetchManagedTensor(tensor, { device: -1, stream: work });
  }

  /**
   * Call this before you enqueue the work of this turn. It makes the layer available on the device.
   */
  enter(turn: number): void {
    const layer = this.#order[turn] as number;
    if (!this.#here.has(layer)) this.#admit(turn, false);
    this.#work.wait(this.#arrived[layer] as DeviceEvent);
  }

  /**
   * Call this after you have enqueued the work of this turn. With `ahead` it prefetches the layer
   * of the next turn.
   */
  leave(turn: number, ahead: boolean): void {
    this.#work.record(this.#used[this.#order[turn] as number] as DeviceEvent);
    const next = (turn + 1) % this.#order.length;
    if (ahead && !this.#here.has(this.#order[next] as number)) this.#admit(next, true);
  }

  /**
   * Makes room, and counts the layer as on the device. Without `fetch` its pages migrate when a
   * kernel touches them.
   */
  #admit(turn: number, fetch: boolean): void {
    const layer = this.#order[turn] as number;
    const tensor = this.#weights[layer] as Tensor;
    while (this.#device.traits.movesPages && this.bytes + tensor.bytes > this.#budget)
      this.#evict(turn);
    if (fetch) prefetchManagedTensor(tensor, { device: this.#device.index, stream: this.#moves });
    this.#moves.record(this.#arrived[layer] as DeviceEvent);
    this.#here.add(layer);
    this.peak = Math.max(this.peak, this.bytes);
  }

  /**
   * Sends back the layer whose next use after `turn` is the furthest. Excludes the layer of the
   * turn before, which may still be in use.
   */
  #evict(turn: number): void {
    const length = this.#order.length;
    const busy = this.#order[(turn + length - 1) % length];
    const after = (layer: number) => {
      for (let i = 1; ; i++) if (this.#order[(turn + i) % length] === layer) return i;
    };
    const leaving = [...this.#here]
      .filter((layer) => layer !== busy)
      .sort((a, b) => after(b) - after(a))[0] as number;
    this.#moves.wait(this.#used[leaving] as DeviceEvent);
    prefetchManagedTensor(this.#weights[leaving], { device: -1, stream: this.#moves });
    this.#here.delete(leaving);
  }

  /** Returns the bytes of the layers that are on the device once the enqueued moves are done. */
  get bytes(): number {
    return [...this.#here].reduce((sum, layer) => sum + (this.#weights[layer] as Tensor).bytes, 0);
  }
  /** Returns the bytes that the driver reports on the device. Call it when all work is done. */
  get bytesByDriver(): number {
    const brought = this.#weights.filter(
      (each) => this.#device.residency(each).location === this.#device.index,
    );
    return brought.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Resolves when all enqueued moves are done. */
  settled(): Promise<void> {
    return this.#moves.synchronize();
  }
  close(): void {
    for (const part of [...this.#used, ...this.#arrived, this.#moves]) part.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
