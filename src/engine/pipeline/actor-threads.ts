/** Starts, watches, replaces and stops the actors' threads. Only the opener's thread uses it. */
import { unavailableError } from '../../base/errors.ts';
import { Control } from '../../shm/control.ts';
import { SupervisedThread } from '../../shm/supervised-thread.ts';
import { startThread } from '../../shm/thread.ts';
import { ThreadState } from '../ring/header.ts';
import type { Ring } from '../ring/ring.ts';
import type { Role } from '../ring/slot.ts';
import { type ActorSetup, actorMaker, type ThreadOfActors, type ThreadSetup } from './actors.ts';

interface ThreadEvents {
  failed(): void;
  restarted(hosted: readonly Role[], reason: Error): void;
}

export class ActorThreads {
  readonly ring: Ring;
  /** the roles of each thread in runs */
  readonly hosted: readonly (readonly Role[])[];
  /** shared memory and handles from which each thread creates its actors */
  readonly setup: ActorSetup;
  /** the threads after start(), empty before */
  supervised: readonly SupervisedThread[] = [];
  readonly #events: ThreadEvents;
  #restarts: number;

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

  /**
   * Starts the threads. Resolves after every thread has created its actors. If one fails to start,
   * stops the others and throws.
   */
  async start(entry: URL = actorMaker().thread): Promise<void> {
    this.supervised = this.hosted.map(
      (roles, thread) =>
        new SupervisedThread({
          start: () => startThread(entry, { name: `hotslot ${roles.join(' ')}` }),
          ready: async (started) => {
            const setup: ThreadSetup = {
              ...this.setup,
              thread,
              roles,
              restartable: this.#restarts > 0,
            };
            await new Control<ThreadOfActors>(started).call('start', setup);
            started.unref();
          },
          lost: (reason, supervised) => void this.#lost(thread, supervised, reason),
        }),
    );
    try {
      await Promise.all(this.supervised.map((thread) => thread.start()));
    } catch (error) {
      this.ring.header.stop();
      await this.stop();
      throw error;
    }
  }

  /**
   * Returns the roles that a thread hosts now, or its roles in runs if it hosts none now. Only
   * error texts use the result.
   */
  rolesOf(thread: number): readonly Role[] {
    const now = this.ring.bells.hostedBy(thread, this.ring.header.hosting);
    return now.length > 0 ? now : (this.hosted[thread] as readonly Role[]);
  }

  /**
   * Resolves after every thread has acknowledged the stop or has ended. Before the call, the caller
   * sets the stop word and rings every bell.
   */
  async stop(): Promise<void> {
    await Promise.all(
      this.supervised.map((thread) => thread.stop(() => this.ring.bells.ringAll())),
    );
  }

  /**
   * Handles a thread that ended without a stop: its actor threw, it was killed, or the pipeline
   * failed. Replaces it if restarts are left.
   */
  async #lost(thread: number, supervised: SupervisedThread, reason: Error): Promise<void> {
    const { ring } = this;
    if (ring.header.stopping) return;
    const hosted = this.rolesOf(thread);
    if (ring.failure.set) return this.#events.failed();
    const thrown =
      ring.header.threadState(thread) === ThreadState.threw ? ring.thrown.read() : null;
    const cause = thrown?.cause instanceof Error ? thrown.cause : reason;
    const why = `the thread of ${hosted.join(', ')} was lost: ${reason.message}`;
    const lost = thrown ? cause : unavailableError(why, 'ERR_HOTSLOT_THREAD_LOST', reason);
    if (this.#restarts > 0) ring.thrown.clear();
    const replaced = await supervised.replace(lost, (latest) => this.#again(hosted, latest));
    if (replaced) this.#events.restarted(hosted, cause);
  }

  /** Returns true if a successor may be started. Fails the pipeline if no restarts are left. */
  #again(hosted: readonly Role[], reason: Error): boolean {
    const { ring } = this;
    if (ring.header.stopping) return false;
    if (this.#restarts > 0) {
      this.#restarts--;
      return true;
    }
    const [role] = hosted as [Role];
    ring.fail(ring.failureAt(role, ring.slotOf(role), reason), { takeOver: true });
    this.#events.failed();
    return false;
  }
}
