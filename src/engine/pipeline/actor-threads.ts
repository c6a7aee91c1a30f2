/** The actors' threads: started, watched, replaced when that was asked for, stopped. Known to the opener only. */
import { Worker } from 'node:worker_threads';
import { unavailableError } from '../../base/errors.ts';
import { Control } from '../../shm/control.ts';
import { ThreadState } from '../ring/header.ts';
import type { Ring } from '../ring/ring.ts';
import type { Role } from '../ring/slot.ts';
import { type ActorSetup, actorMaker, type ThreadOfActors, type ThreadSetup } from './actors.ts';

/** A stopped thread has this long to acknowledge before it is terminated. */
const STOP_MS = 5000;

/** Flags of the opener that a worker of ours can make use of; others (--input-type, -e, …) are about its own entry. */
const execArgv = process.execArgv.filter((flag) => flag === '--enable-source-maps');

interface ThreadEvents {
  failed(): void;
  restarted(hosted: readonly Role[], reason: Error): void;
}

export class ActorThreads {
  readonly ring: Ring;
  /** the roles of each thread in runs */
  readonly hosted: readonly (readonly Role[])[];
  /** what each thread makes its actors of */
  readonly setup: ActorSetup;
  readonly #events: ThreadEvents;
  readonly #controls: (Control<ThreadOfActors> | null)[] = [];
  #restarts: number;
  #stopping = false;
  #replacing: Promise<void>[] = [];

  constructor(options: {
    ring: Ring;
    threads: readonly (readonly Role[])[];
    setup: ActorSetup;
    restart: number;
    events: ThreadEvents;
  }) {
    this.ring = options.ring;
    this.hosted = options.threads;
    this.setup = options.setup;
    this.#restarts = options.restart;
    this.#events = options.events;
  }

  /** All threads attach, then all start; a failure to attach stops those that did. */
  async start(entry: URL = actorMaker().thread): Promise<void> {
    try {
      await Promise.all(this.hosted.map((_, thread) => this.#attach(thread, entry)));
    } catch (error) {
      // None of them runs yet: nothing to acknowledge.
      this.#stopping = true;
      await Promise.all(this.#controls.map((control) => control?.worker.terminate()));
      throw error;
    }
    await Promise.all(this.hosted.map((_, thread) => this.#run(thread)));
  }

  /** The roles that a thread hosts now, for texts; where it hosts none now, those that it hosts in runs. */
  rolesOf(thread: number): readonly Role[] {
    const now = this.ring.bells.hostedBy(thread, this.ring.header.hosting);
    return now.length > 0 ? now : (this.hosted[thread] as readonly Role[]);
  }

  /** The worker of a thread, for tests that terminate it. */
  worker(thread: number): Worker | undefined {
    return this.#controls[thread]?.worker;
  }

  /** For an opener that cannot wait for its event loop: the threads have acknowledged and end by themselves. */
  abandon(): void {
    this.#stopping = true;
  }

  /** The stop word is set and every bell rung before this; resolves when every thread acknowledged or is gone. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.allSettled(this.#replacing);
    // One that was replaced at this very moment may not have seen the stop.
    this.ring.bells.ringAll();
    await Promise.all(
      this.#controls.map(async (control, thread) => {
        if (!control) return;
        control.worker.ref();
        if (this.ring.header.threadState(thread) === ThreadState.running) this.ring.bells.ringAll();
        const late = new Promise<'late'>((resolve) => {
          const timer = setTimeout(() => resolve('late'), STOP_MS);
          void control.ended.then(() => clearTimeout(timer));
        });
        if ((await Promise.race([control.ended, late])) === 'late') await control.worker.terminate();
        this.#controls[thread] = null;
      }),
    );
  }

  async #attach(thread: number, entry: URL): Promise<void> {
    const hosted = this.hosted[thread] as readonly Role[];
    const worker = new Worker(entry, { name: `hotslot ${hosted.join(' ')}`, execArgv });
    const control = new Control<ThreadOfActors>(worker);
    this.#controls[thread] = control;
    const setup: ThreadSetup = { ...this.setup, thread, roles: hosted, restartable: this.#restarts > 0 };
    await control.call('attach', setup);
  }

  async #run(thread: number): Promise<void> {
    const control = this.#controls[thread] as Control<ThreadOfActors>;
    void control.ended.then((reason) => this.#lost(control, thread, reason));
    await control.call('start');
    control.worker.unref();
  }

  /** A thread ended by itself: a throw, a kill, the end of a failed pipeline. */
  #lost(control: Control<ThreadOfActors>, thread: number, reason: Error): void {
    if (this.#stopping || this.#controls[thread] !== control) return;
    const ring = this.ring;
    this.#controls[thread] = null;
    const hosted = this.rolesOf(thread);
    if (ring.failure.set) return void this.#events.failed();
    const thrown = ring.header.threadState(thread) === ThreadState.threw ? ring.thrown.read() : null;
    const cause = thrown?.cause instanceof Error ? thrown.cause : reason;
    if (this.#restarts === 0) {
      const why = `the thread of ${hosted.join(', ')} was lost: ${reason.message}`;
      return void this.#fail(hosted, thrown ? cause : unavailableError(why, 'ERR_HOTSLOT_THREAD_LOST', reason));
    }
    ring.thrown.clear();
    this.#replacing.push(this.#replace(thread, hosted, cause));
  }

  /** A successor may die too, at any moment: then the next one, as long as there may be one. */
  async #replace(thread: number, hosted: readonly Role[], cause: Error): Promise<void> {
    for (let latest = cause; !this.#stopping; ) {
      if (this.#restarts === 0) return this.#fail(hosted, latest);
      this.#restarts--;
      const attaching = this.#attach(thread, actorMaker().thread);
      const mine = this.#controls[thread];
      try {
        await attaching;
        await this.#run(thread);
        this.#events.restarted(hosted, cause);
        return;
      } catch (error) {
        latest = error as Error;
        // One that was lost after it began to run is replaced by its own #lost.
        if (this.#controls[thread] !== mine) return;
        this.#controls[thread] = null;
        await mine?.worker.terminate();
      }
    }
  }

  #fail(hosted: readonly Role[], error: unknown): void {
    const ring = this.ring;
    const [role] = hosted as [Role];
    ring.fail(ring.failureAt(role, ring.slotOf(role), error), { takeOver: true });
    this.#events.failed();
  }
}
