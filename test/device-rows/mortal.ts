/**
 * Makes actors die at any of their stores. Stores are writes to a slot's record, parameters or
 * head, Atomics calls, and native calls that write or enqueue. A native call counts twice, before
 * and after it. Words that a later Atomics store publishes count as part of that store.
 */
import { loadAddon } from '../../src/base/addon.ts';
import { nativeStreams } from '../../src/device/native.ts';
import { HostBuffers } from '../../src/engine/ring/host-buffers.ts';
import { Ring } from '../../src/engine/ring/ring.ts';

/** Ends an actor at a store. Like a terminated thread, it executes nothing after that. */
export class Death extends Error {}

/** For each addon, a class and its methods that write or enqueue. */
const methods = {
  pack: ['ViewPacker', 'pack'],
  submit: ['Submitter', 'submit', 'waitReady'],
  replay: ['Replayer', 'launch', 'mark'],
} as const;
type Method = (...given: unknown[]) => unknown;

export class Mortals implements Disposable {
  /** stores since dieAt() */
  stores = 0;
  #dies = Number.POSITIVE_INFINITY;
  #within = false;
  readonly #undo: (() => void)[] = [];

  constructor() {
    for (const name of ['store', 'add', 'sub', 'exchange', 'compareExchange'] as const)
      this.#patch(Atomics, name, false);
    for (const name of ['copy', 'record'] as const) this.#patch(nativeStreams(), name, true);
    for (const [addon, [type, ...names]] of Object.entries(methods)) {
      const file = loadAddon<Record<string, new (...given: never[]) => object>>(addon as 'pack');
      const Whole = file[type]!;
      // Methods of a native class cannot be replaced, but those of its subclass can.
      const Mortal = class extends Whole {};
      for (const name of names) {
        const whole = Whole.prototype[name] as Method;
        Object.defineProperty(Mortal.prototype, name, { value: whole, writable: true });
        this.#patch(Mortal.prototype, name, true);
      }
      file[type] = Mortal;
      this.#undo.push(() => {
        file[type] = Whole;
      });
    }
    this.#watch(Ring.prototype, 'record');
    for (const name of ['params', 'head'] as const) this.#watch(HostBuffers.prototype, name);
  }

  /** The actor that reaches this store dies. With null, every actor lives. */
  dieAt(store: number | null): void {
    this.stores = 0;
    this.#dies = store ?? Number.POSITIVE_INFINITY;
  }

  /** Returns whether the actor is alive after `act`. */
  survives(act: () => void): boolean {
    this.#within = true;
    try {
      act();
      return true;
    } catch (error) {
      if (!(error instanceof Death)) throw error;
      return false;
    } finally {
      this.#within = false;
    }
  }

  #point(): void {
    if (this.#within && ++this.stores === this.#dies) throw new Death();
  }

  #patch(of: object, name: string, behind: boolean): void {
    const target = of as Record<string, Method>;
    const whole = target[name]!;
    const point = () => this.#point();
    target[name] = function (this: unknown, ...given: unknown[]) {
      point();
      const answer = whole.apply(this, given);
      if (behind) point();
      return answer;
    };
    this.#undo.push(() => {
      target[name] = whole;
    });
  }

  /**
   * Patches a method so that each element written to the array that it returns counts as a store.
   */
  #watch(of: object, name: string): void {
    const target = of as Record<string, (slot: number) => object>;
    const whole = target[name]!;
    const point = () => this.#point();
    const within = () => this.#within;
    target[name] = function (this: unknown, slot: number) {
      const array = whole.call(this, slot);
      if (!within()) return array;
      const set = (to: object, key: string | symbol, value: unknown) => {
        point();
        return Reflect.set(to, key, value, to);
      };
      return new Proxy(array, { get: (from, key) => Reflect.get(from, key, from) as unknown, set });
    };
    this.#undo.push(() => {
      target[name] = whole;
    });
  }

  [Symbol.dispose](): void {
    for (const undo of this.#undo) undo();
  }
}
