/**
 * Which layers' weights are on the device: those used next, within a budget. They come and go on a
 * stream of their own. Events order it with the work: a layer goes only behind its last use, and is
 * used only behind its arrival.
 */

import { prefetchManagedTensor } from '../../../src/entries/memory.ts';
import type { Device, DeviceEvent, Stream, Tensor } from '../../../src/index.ts';

export class WeightWindow implements Disposable {
  /** the most bytes that were on the device at a time */
  peak = 0;
  readonly #weights: readonly Tensor[];
  readonly #order: readonly number[];
  readonly #budget: number;
  readonly #device: Device;
  readonly #work: Stream;
  readonly #moves: Stream;
  /** per layer: its last use on the work's stream, its arrival on the other */
  readonly #used: readonly DeviceEvent[];
  readonly #arrived: readonly DeviceEvent[];
  readonly #here = new Set<number>();

  /**
   * `order`: the layers as each step uses them. All weights are sent to the CPU first, where the
   * driver can.
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

  /** Before the work of this turn of the order is enqueued: the layer is here, or comes first. */
  enter(turn: number): void {
    const layer = this.#order[turn] as number;
    if (!this.#here.has(layer)) this.#admit(turn, false);
    this.#work.wait(this.#arrived[layer] as DeviceEvent);
  }

  /** The work of this turn is enqueued. With `ahead` the next turn's layer comes meanwhile. */
  leave(turn: number, ahead: boolean): void {
    this.#work.record(this.#used[this.#order[turn] as number] as DeviceEvent);
    const next = (turn + 1) % this.#order.length;
    if (ahead && !this.#here.has(this.#order[next] as number)) this.#admit(next, true);
  }

  /**
   * Makes room, and counts the layer as here; without `fetch` its pages come when a kernel touches
   * them.
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
   * Sends back the layer whose next use after `turn` is the furthest; the one just before it is
   * still at work.
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

  /** Bytes of the layers that are here, as enqueued. */
  get bytes(): number {
    return [...this.#here].reduce((sum, layer) => sum + (this.#weights[layer] as Tensor).bytes, 0);
  }
  /** What the driver says of it, once all is done: bytes that were last brought to the device. */
  get bytesByDriver(): number {
    const brought = this.#weights.filter(
      (each) => this.#device.residency(each).location === this.#device.index,
    );
    return brought.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Resolves when all that was moved has arrived. */
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
