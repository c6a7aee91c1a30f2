/**
 * Opens and closes the parts of a pipeline: slots, ring, and actors in threads or inline. Also
 * implements the blocking and the async wait. Only the opener's thread uses it. It does not handle
 * ticks: ReplayPipeline and autonomous runs do that with its methods.
 */

import { coresNow } from '../../base/cores.ts';
import { type PipelineError, stateError, unavailableError } from '../../base/errors.ts';
import type { HostMemory } from '../../device/device.ts';
import { lendHost, readbackBufferFor } from '../../device/lend.ts';
import { waitEventSync } from '../../device/open.ts';
import { OwnedParts } from '../../device/owner.ts';
import type { PinnedHost } from '../../device/storage.ts';
import type { Bell } from '../../shm/bell.ts';
import {
  Deadline,
  refuseMainThread,
  type WaitOptions,
  waitFor,
  waitForSync,
} from '../../shm/wait.ts';
import { versionsOf } from '../../store/weights/weight-mailbox.ts';
import { ThreadState } from '../ring/header.ts';
import { Ring } from '../ring/ring.ts';
import { type Role, roles } from '../ring/slot.ts';
import { ActorThreads } from './actor-threads.ts';
import { type Actor, type ActorSetup, actorMaker } from './actors.ts';
import { Averaging } from './averaging.ts';
import { doneOrFailed, drained } from './drain.ts';
import { type CheckedOptions, hostsIn } from './options.ts';
import { Slots } from './slots.ts';

/**
 * Milliseconds for which a thread of a pipeline spins before it sleeps. A sleep and its wake
 * together take about as long as this spin, so a wait takes at most twice as long as needed. A
 * spinning thread yields its core, because there may be fewer cores than spinning threads.
 */
const SOON_MS = 0.05;
/** Milliseconds after which a waiting opener wakes even if its bell is silent. */
const LOOK_MS = 50;
/** Milliseconds for which close() waits for device work. */
const DRAIN_MS = 5000;

/**
 * Slots that device work may still use because close() stopped waiting for it. They are referenced
 * until the process ends.
 */
const leaked = new Set<Slots>();

interface RuntimeEvents {
  /** emits the failure, and returns true if there was a listener */
  error(failure: PipelineError): boolean;
  restart(hosted: readonly Role[], reason: Error): void;
  warning(message: string): void;
}

export class PipelineRuntime {
  readonly slots: Slots;
  readonly ring: Ring;
  readonly threads: ActorThreads | null;
  /**
   * the memory to which the device copies weight versions: the mailbox's buffers, or memory from
   * which poll copies them to the mailbox. Null without a mailbox
   */
  readonly mailbox: { readonly handle: number } | null;
  /** null without a learner group, or if the group has one rank */
  readonly averaging: Averaging | null;
  #readback: PinnedHost | null = null;
  /** texts about problems during opening that did not make it fail */
  readonly warnings: string[] = [];
  readonly #options: CheckedOptions;
  readonly #events: RuntimeEvents;
  readonly #inline: Actor[];
  /**
   * the parts of the actors: pack's bell, and inline actors. close() closes them after the actors
   * have stopped
   */
  readonly #used = new OwnedParts('this pipeline');
  /**
   * the parts that device work may use. close() closes them after that work is over. If another
   * thread has pinned a part, closing that part may throw once
   */
  readonly #owned = new OwnedParts('this pipeline');
  /** true after close() was called: every other method then throws */
  closing = false;
  #waiters = 0;
  #reported = false;
  /** true after a method threw the failure to a caller */
  #thrown = false;

  constructor(options: CheckedOptions, events: RuntimeEvents) {
    this.#options = options;
    this.#events = events;
    const { source, depth, mailbox, placement } = options;
    const inline = placement.threads.length === 0;
    this.slots = new Slots({
      ...options,
      timed: options.trace !== false && options.trace.deviceEvents,
    });
    this.warnings.push(...this.slots.backend.warnings, ...this.slots.warnings);
    using construction = this.#owned.construction();
    this.#owned.own(this.slots);
    const { journal: journalCapacity, baseSeed } = options;
    const [hosts, manualHosts] = [hostsIn(placement.threads), hostsIn(placement.manual)];
    this.ring = Ring.create({ depth, hosts, manualHosts, journalCapacity, baseSeed });
    this.ring.setBeta(source.beta);
    this.mailbox = null;
    if (mailbox) {
      const warn = (text: string) => this.warnings.push(text);
      const [memory] = lendHost(
        this.slots.device,
        'host memory is',
        [versionsOf(mailbox).view],
        warn,
      ) as [HostMemory];
      this.#owned.own(memory);
      this.#readback = readbackBufferFor(this.slots.device, memory.kind, memory.bytes, warn);
      if (this.#readback) this.#owned.own(this.#readback);
      this.mailbox = this.#readback ?? memory;
    }
    this.averaging = Averaging.make(options.group, this.slots.device, this.#owned, this.warnings);
    const { bells } = source;
    const bell = bells.claim();
    if (!bell)
      throw stateError(
        'BUSY',
        'all 8 waiting places of this replay buffer are taken: close a pipeline that uses it',
      );
    this.#used.own({ close: () => bells.release(bell) });
    source.take();
    this.#owned.own({ close: () => source.release() });
    using taking = this.#used.construction();
    this.ring.bells.adoptPackBell(bell);
    const setup = this.#setup(bell);
    this.#inline = inline
      ? actorMaker()
          .make(setup, roles, this.ring, null)
          .map((actor) => this.#used.own(actor))
      : [];
    const { ring } = this;
    const threadEvents = { failed: () => this.#report(), restarted: events.restart };
    const started = {
      ring,
      threads: placement.threads,
      setup,
      restart: options.restart,
      events: threadEvents,
    };
    this.threads = inline ? null : new ActorThreads(started);
    taking.done();
    construction.done();
  }

  get inline(): boolean {
    return this.threads === null;
  }

  #setup(packBell: Bell): ActorSetup {
    const { mailbox, placement } = this.#options;
    return {
      ring: this.ring.share(),
      source: this.slots.plan.share,
      packBell: packBell.index,
      mailbox: mailbox?.share() ?? null,
      mailboxReadback: this.#readback?.handle ?? 0,
      slots: this.slots.share(),
      deviceRows: this.slots.deviceRows?.share() ?? null,
      averaging: this.averaging?.share() ?? null,
      pollMs: SOON_MS,
      coresFree: coresNow().cores > placement.threads.length + 1,
    };
  }

  /** Steps every inline role once, in the order of a slot's life. Returns the number of actions. */
  step(): number {
    let done = 0;
    let working: Actor | undefined;
    try {
      for (const actor of this.#inline) {
        working = actor;
        done += actor.work();
      }
    } catch (error) {
      const { role, slot } = working as Actor;
      this.ring.fail(this.ring.failureAt(role, slot, error));
      this.checkRunning();
    }
    return done;
  }

  /**
   * Throws if the pipeline is closed or has failed. `restarts` is true if lost threads are
   * replaced. If it is false, a lost thread makes the pipeline fail at once.
   */
  checkRunning({ restarts = this.#options.restart > 0 } = {}): void {
    if (this.closing) throw stateError('CLOSED', 'the pipeline is closed');
    const failure = this.ring.failure.read();
    if (failure) {
      this.#thrown = true;
      this.#report();
      throw failure;
    }
    if (this.inline || restarts) return;
    for (const thread of this.#options.placement.threads.keys()) {
      const state = this.ring.header.threadState(thread);
      if (state !== ThreadState.dead && state !== ThreadState.threw) continue;
      const thrown = state === ThreadState.threw ? this.ring.thrown.read()?.cause : null;
      const hosted = this.threads?.rolesOf(thread) ?? [];
      const error =
        thrown ??
        unavailableError(`the thread of ${hosted.join(', ')} was lost`, 'ERR_HOTSLOT_THREAD_LOST');
      this.ring.fail(this.ring.failureAt(hosted[0] as Role, -1, error));
      this.checkRunning();
    }
  }

  /**
   * Emits a failure to listeners once. Callers that wait throw the failure too. If there are
   * neither listeners nor such callers, a microtask throws the failure, so that it does not go
   * unnoticed.
   */
  #report(): void {
    const failure = this.ring.failure.read();
    if (!failure || this.closing || this.#reported) return;
    this.#reported = true;
    this.#options.group?.fail(failure);
    if (this.#events.error(failure) || this.#waiters > 0 || this.#thrown) return;
    queueMicrotask(() => {
      throw failure;
    });
  }

  /**
   * Spins for up to SOON_MS without leaving the thread, and returns whether `done` became true. If
   * `done` becomes true, the caller needs no promise and no sleep, both of which take longer than
   * this spin.
   */
  soon(done: () => boolean, timeoutMs = Number.POSITIVE_INFINITY): boolean {
    const { client } = this.ring.bells;
    const due = new Deadline(Math.min(SOON_MS, timeoutMs));
    for (;;) {
      const count = client.read();
      this.checkRunning();
      const stepped = this.step();
      if (done()) return true;
      const { left } = due;
      if (left <= 0 || (this.inline ? stepped === 0 : !client.spin(count, left))) return false;
    }
  }

  /**
   * Waits without blocking. Resolves with true when `done` returns true, or with false after the
   * timeout. Calls `check` about every LOOK_MS meanwhile.
   */
  async until(
    done: () => boolean,
    { check = () => {}, ...wait }: WaitOptions & { check?: () => void } = {},
  ): Promise<boolean> {
    let due = new Deadline(LOOK_MS);
    this.#waiters++;
    try {
      return await waitFor(
        this.ring.bells.client,
        () => {
          this.checkRunning();
          const stepped = this.step();
          if (done()) return true;
          if (due.left <= 0) {
            check();
            due = new Deadline(LOOK_MS);
          }
          return stepped > 0 && 'again';
        },
        { ...wait, longestMs: this.#longestMs },
      );
    } finally {
      this.#waiters--;
    }
  }

  /**
   * Blocks a worker thread until `done` returns true. Returns false if the timeout passes first. On
   * the main thread it returns true if no wait is needed, and throws otherwise.
   */
  untilSync(done: () => boolean, timeoutMs?: number): boolean {
    return waitForSync(
      this.ring.bells.client,
      () => {
        // No lost thread can be replaced while this thread's event loop is blocked.
        this.checkRunning({ restarts: false });
        const stepped = this.step();
        return done() || (stepped > 0 && 'again');
      },
      { timeoutMs, instead: 'the promise form', longestMs: this.#longestMs },
    );
  }

  /**
   * Maximum milliseconds of one sleep. It is short for inline actors, because progress of the
   * device rings no bell there.
   */
  get #longestMs(): number {
    return this.inline ? 1 : LOOK_MS;
  }

  /**
   * Stops the actors, drains the device, calls `more` and frees everything. In a worker thread, a
   * part that stays pinned throws BUSY, and the next call continues with that part.
   */
  async close(more: () => void): Promise<void> {
    this.closing = true;
    this.ring.header.stop();
    await this.threads?.stop();
    this.averaging?.abandon(!this.#threadsAre((state) => state !== ThreadState.stopped));
    this.#used.close();
    this.#free(await drained(this.slots, this.ring, DRAIN_MS), more);
  }

  closeSync(more: () => void): void {
    refuseMainThread('close()');
    this.closing = true;
    const { ring } = this;
    ring.header.stop();
    const running = () => this.#threadsAre((state) => state === ThreadState.running);
    const stopped = waitForSync(ring.bells.client, () => !running(), {
      timeoutMs: DRAIN_MS,
      instead: 'close()',
      longestMs: LOOK_MS,
    });
    this.averaging?.abandon(!this.#threadsAre((state) => state !== ThreadState.stopped));
    this.#used.close();
    const { device, compute, last } = this.slots;
    const drained = doneOrFailed(() => {
      compute.record(last);
      return waitEventSync(device, last, DRAIN_MS);
    });
    this.#free(drained && stopped, more);
  }

  /** Returns true if `so` is true for the state of at least one actors' thread. */
  #threadsAre(so: (state: ThreadState) => boolean): boolean {
    return this.#options.placement.threads.some((_, i) => so(this.ring.header.threadState(i)));
  }

  #free(drained: boolean, more: () => void): void {
    if (!drained) {
      // Memory must not be freed while a copy uses it.
      leaked.add(this.slots);
      this.#events.warning(
        `device work was still running after ${DRAIN_MS} ms: the slots' memory is leaked`,
      );
      return;
    }
    if (this.#options.mailbox) versionsOf(this.#options.mailbox).abandon();
    const spent = this.slots.readBack(this.ring);
    this.slots.updates?.applyPending(this.slots.host, spent);
    more();
    this.#owned.close();
  }
}
