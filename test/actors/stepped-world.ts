/**
 * Pipelines whose threads a test steps: the opener's code, the actors, the shared words, native
 * pack and the host device are the real ones. A thread's step is one actor's work(), as
 * actors/thread.ts does it. An opener's step goes from one sleep on its bell to the next. At every
 * ring of a bell, before every store that hands something on, and between any two steps the test
 * may do something that in real threads another thread would do there.
 */

import { makeActors } from '../../actors/make.ts';
import { answered } from '../../src/base/addon.ts';
import { systemClock } from '../../src/base/system-addon.ts';
import { ActorThreads } from '../../src/engine/pipeline/actor-threads.ts';
import type { Actor } from '../../src/engine/pipeline/actors.ts';
import { ThreadState } from '../../src/engine/ring/header.ts';
import { Ring } from '../../src/engine/ring/ring.ts';
import type { Role } from '../../src/engine/ring/slot.ts';
import { Bell } from '../../src/shm/bell.ts';
import { ExchangeControlBlock } from '../../src/shm/exchange-control.ts';

/** A wait that nothing ends for so long, on the world's clock, is one for ever. */
const FOR_EVER_MS = 120_000;
/**
 * Such a wait has also taken this long on the machine's clock. Before, the host device's threads
 * may not have had a turn.
 */
const PATIENCE_MS = 30_000;
/**
 * Rounds in which nothing moves, before the clock does: the host device works in threads of its
 * own.
 */
const STILL = 3;

interface Parked {
  readonly bell: Bell;
  readonly seen: number;
  readonly until: number;
  readonly wake: (rang: boolean) => void;
}

class SteppedThread {
  readonly #threads: ActorThreads;
  readonly #thread: number;
  #actors: Actor[];
  #next = 0;

  constructor(threads: ActorThreads, thread: number, hosted: readonly Role[]) {
    this.#threads = threads;
    this.#thread = thread;
    const { setup, ring } = threads;
    ring.header.setThreadState(thread, ThreadState.running);
    this.#actors = makeActors(setup, hosted, ring, null);
  }

  /** One actor's work, or the thread's end; how much that was. */
  step(): number {
    const { ring } = this.#threads;
    if (this.#actors.length === 0) return 0;
    if (ring.header.stopping || ring.failure.set) return this.#end(ThreadState.stopped);
    const actor = this.#actors[this.#next++ % this.#actors.length] as Actor;
    try {
      return actor.work();
    } catch (error) {
      ring.fail(ring.failureAt(actor.role, actor.slot, error));
      return this.#end(ThreadState.threw);
    }
  }
  get steps(): number {
    return this.#actors.length;
  }
  #end(state: ThreadState): number {
    for (const actor of this.#actors) actor.close();
    this.#actors = [];
    this.#threads.ring.header.setThreadState(this.#thread, state);
    return 1;
  }
}

export class World implements Disposable {
  /** points so far at which something could be done */
  points = 0;
  /** what is done at which of them */
  readonly #acts = new Map<number, () => void>();
  readonly #threads: SteppedThread[] = [];
  #parked: Parked[] = [];
  #acting = false;
  #later: (() => void)[] = [];
  #counts = false;
  #skew = 0;
  #random: () => number = () => 0;
  /** the clock of the machine */
  readonly #now: () => number;
  #everywhere = true;
  #patience = PATIENCE_MS;
  readonly #undo: (() => void)[] = [];

  constructor() {
    const world = this;
    this.replace(
      Bell.prototype,
      'ring',
      (ring) =>
        function (this: Bell) {
          ring.call(this);
          world.#point();
        },
    );
    this.replace(
      Bell.prototype,
      'parkAsync',
      () =>
        function (this: Bell, seen: number, ms: number) {
          return new Promise<boolean>((wake) => {
            world.#parked.push({ bell: this, seen, until: performance.now() + ms, wake });
          });
        },
    );
    this.replace(
      Ring.prototype,
      'handOver',
      (handOver) =>
        function (this: Ring, ...given) {
          world.#point();
          handOver.apply(this, given);
        },
    );
    this.replace(
      ExchangeControlBlock.prototype,
      'fill',
      (fill) =>
        function (this: ExchangeControlBlock, ...given) {
          world.#point();
          fill.apply(this, given);
        },
    );
    this.replace(
      ActorThreads.prototype,
      'start',
      () =>
        async function (this: ActorThreads) {
          for (const [thread, hosted] of this.hosted.entries())
            world.#threads.push(new SteppedThread(this, thread, hosted));
        },
    );
    this.replace(
      ActorThreads.prototype,
      'stop',
      () =>
        async function (this: ActorThreads) {
          const running = () =>
            this.hosted.some(
              (_, thread) => this.ring.header.threadState(thread) === ThreadState.running,
            );
          while (running()) await new Promise(setImmediate);
        },
    );
    this.replace(systemClock(), 'nowMs', (now) => () => answered(now()) + world.#skew);
    this.#now = performance.now.bind(performance);
    this.replace(performance, 'now', () => () => world.#now() + world.#skew);
    // This clock makes every wait a long one, which a pipeline warns of.
    this.replace(process, 'emitWarning', () => () => {});
  }

  /** A method is another one until this world is closed. */
  replace<T extends object, K extends keyof T>(of: T, name: K, by: (before: T[K]) => T[K]): void {
    const own = Object.hasOwn(of, name);
    const before = of[name];
    of[name] = by(before);
    this.#undo.push(() => {
      if (own) of[name] = before;
      else delete of[name];
    });
  }

  /** The same of a getter. */
  redefine<T extends object>(
    of: T,
    name: keyof T,
    how: PropertyDescriptor,
    before: () => unknown,
  ): void {
    Object.defineProperty(of, name, { configurable: true, ...how });
    this.#undo.push(() => Object.defineProperty(of, name, { configurable: true, get: before }));
  }

  /** For a world that is broken on purpose: what waits for ever is found at once. */
  hurry(): void {
    this.#patience = 0;
  }

  /** Does this in the next turn of the event loop, as an opener that is busy would. */
  later(act: () => void): void {
    this.#later.push(act);
  }

  /**
   * Does this at that point, counted from now on. Unless `everywhere`, there is no point after a
   * step that did nothing. A stop there differs from a stop before that step only in which actor
   * looks first.
   */
  plan(
    acts: readonly { at: number; act: () => void }[],
    { random = () => 0, everywhere = true }: { random?: () => number; everywhere?: boolean } = {},
  ): void {
    this.#acts.clear();
    for (const { at, act } of acts) this.#acts.set(at, act);
    this.points = 0;
    this.#random = random;
    this.#everywhere = everywhere;
    this.#counts = true;
  }

  /** Steps everybody until `done`; throws when they wait for ever. */
  async until(what: string, done: () => boolean, state: () => string): Promise<void> {
    let still = 0;
    const end = this.#now() + this.#patience;
    for (let clock = this.#skew; !done(); ) {
      const moved = await this.round();
      still = moved > 0 ? 0 : still + 1;
      if (still < STILL) continue;
      still = 0;
      this.#skew += 50;
      if (this.#skew - clock > FOR_EVER_MS && this.#now() > end)
        throw new Error(`${what} does not come: ${state()}`);
    }
    this.#counts = false;
  }

  /**
   * A step of each actor, in a drawn order, then of each opener that was rung or has slept for long
   * enough.
   */
  async round(): Promise<number> {
    let moved = 0;
    let last = 1;
    const steps = this.#threads.flatMap((thread) =>
      Array.from({ length: thread.steps }, () => thread),
    );
    for (let left = steps.length; left > 0; left--) {
      const [thread] = steps.splice(Math.floor(this.#random() * left), 1) as [SteppedThread];
      if (last > 0 || this.#everywhere) this.#point();
      last = thread.step();
      moved += last;
    }
    if (last > 0 || this.#everywhere) this.#point();
    for (const act of this.#later.splice(0)) act();
    const now = performance.now();
    const woken = this.#parked.filter(
      ({ bell, seen, until }) => bell.read() !== seen || until <= now,
    );
    this.#parked = this.#parked.filter((each) => !woken.includes(each));
    for (const { bell, seen, wake } of woken) {
      if (bell.read() !== seen) moved++;
      wake(bell.read() !== seen);
    }
    // Openers go on to their next sleep, and native promises to theirs.
    await new Promise(setImmediate);
    return moved;
  }

  #point(): void {
    if (this.#acting || !this.#counts) return;
    const act = this.#acts.get(this.points++);
    if (act === undefined) return;
    this.#acting = true;
    try {
      act();
    } finally {
      this.#acting = false;
    }
  }

  [Symbol.dispose](): void {
    for (const undo of this.#undo.reverse()) undo();
    for (const { wake } of this.#parked) wake(false);
  }
}
