/**
 * A world in which a test steps the threads of pipelines. The opener's code, the actors, the shared
 * control words, native pack and the CPU device are the real ones. A step of a thread is one call
 * of an actor's work(), as in actors/thread.ts. A step of an opener lasts from one sleep on its
 * bell to the next.
 *
 * The test may act at points: at every ring of a bell, before every store that passes a slot or an
 * exchange on, and between any two steps. Such an act stands for what another thread could do at
 * that moment.
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

/** A wait that lasts longer than this on the world's clock is taken for one that never ends. */
const FOR_EVER_MS = 120_000;
/**
 * Such a wait must also have lasted this long on the machine's clock. Until then the threads of the
 * CPU device may not have had CPU time.
 */
const PATIENCE_MS = 30_000;
/**
 * Number of rounds without any progress after which the world's clock advances. The CPU device
 * works in threads of its own and may need this time.
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

  /** Runs one work() call of the next actor, or ends the thread. Returns how much was done. */
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
  /** number of points so far at which the test could act */
  points = 0;
  /** what the test does, by the number of the point */
  readonly #acts = new Map<number, () => void>();
  readonly #threads: SteppedThread[] = [];
  #parked: Parked[] = [];
  #acting = false;
  #later: (() => void)[] = [];
  #counts = false;
  #skew = 0;
  #random: () => number = () => 0;
  /** reads the machine's clock */
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
    // On this clock every wait seems long, and a pipeline warns of long waits.
    this.replace(process, 'emitWarning', () => () => {});
  }

  /** Replaces a method until this world is closed. */
  replace<T extends object, K extends keyof T>(of: T, name: K, by: (before: T[K]) => T[K]): void {
    const own = Object.hasOwn(of, name);
    const before = of[name];
    of[name] = by(before);
    this.#undo.push(() => {
      if (own) of[name] = before;
      else delete of[name];
    });
  }

  /** Replaces a getter until this world is closed. */
  redefine<T extends object>(
    of: T,
    name: keyof T,
    how: PropertyDescriptor,
    before: () => unknown,
  ): void {
    Object.defineProperty(of, name, { configurable: true, ...how });
    this.#undo.push(() => Object.defineProperty(of, name, { configurable: true, get: before }));
  }

  /**
   * Ends waits without patience, for a world that is broken on purpose: a wait that never ends
   * throws at once.
   */
  hurry(): void {
    this.#patience = 0;
  }

  /** Calls `act` in the next turn of the event loop, as a busy opener would. */
  later(act: () => void): void {
    this.#later.push(act);
  }

  /**
   * Plans what is done at which points, counted from this call on. Without `everywhere` there is no
   * point after a step that did nothing. A stop at such a point differs from a stop before that
   * step only in which actor notices it first.
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

  /** Steps all actors and openers until `done` returns true. Throws if they would wait for ever. */
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
   * Steps each actor in a random order. Then steps each opener whose bell was rung or whose wait
   * timed out. Returns how much was done.
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
    // In this turn of the event loop openers run to their next sleep, and native promises settle.
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
