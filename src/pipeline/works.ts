/**
 * What a pipeline is made of and how it ends: slots, ring, actors in threads or inline, and the two ways of waiting for them.
 * The opener's thread only. Knows nothing of ticks; ReplayPipeline and the autonomous run are written over it.
 */
import { isMainThread } from 'node:worker_threads';
import type { Actor } from '../../actors/actor.ts';
import { type ActorSetup, makeActors } from '../../actors/make.ts';
import type { HostMemory } from '../device/device.ts';
import { native } from '../device/native.ts';
import { type PipelineError, stateError, unavailableError } from '../errors.ts';
import { CLIENT, Ring, Run, ThreadState } from '../ring/ring.ts';
import { Field, type Role, roles, SlotState } from '../ring/slot.ts';
import { lendHost } from '../transfer/copying.ts';
import type { Bell } from '../wait/bell.ts';
import { Crew } from './crew.ts';
import type { Definite } from './options.ts';
import { Slots } from './slots.ts';

/** How often a waiting opener looks up from its bell. */
const LOOK_MS = 50;
/** Device work has this long to end when a pipeline closes. */
const DRAIN_MS = 5000;

/** Slots that device work may still touch after closing gave up on it: kept until the process ends. */
const leaked = new Set<Slots>();

export interface WorksEvents {
  /** true when somebody listened */
  error(failure: PipelineError): boolean;
  restart(hosted: readonly Role[], reason: Error): void;
  warning(message: string): void;
}

export class Works {
  readonly slots: Slots;
  readonly ring: Ring;
  readonly crew: Crew | null;
  /** the mailbox's buffers, registered with the device; null without a mailbox */
  readonly mailbox: HostMemory | null;
  /** what did not go as wanted while this was made, in words */
  readonly warnings: string[] = [];
  readonly #options: Definite;
  readonly #events: WorksEvents;
  readonly #inline: Actor[];
  readonly #packBell: Bell;
  /** since when nobody may use it any more */
  closing = false;
  #waiters = 0;
  #reported = false;
  /** somebody was thrown the failure */
  #thrown = false;

  constructor(options: Definite, events: WorksEvents) {
    this.#options = options;
    this.#events = events;
    const { buffer, depth, mailbox, placed } = options;
    const inline = placed.threads.length === 0;
    this.slots = new Slots({ ...options, timed: options.trace !== false && options.trace.deviceEvents });
    this.warnings.push(...this.slots.backend.warnings);
    const undo: (() => void)[] = [() => this.slots.close()];
    try {
      const hosts = roles.map((role) =>
        inline ? CLIENT : placed.threads.findIndex((hosted) => hosted.includes(role)),
      );
      this.ring = Ring.create({ depth, hosts, journalCapacity: options.journal });
      this.ring.run[Run.baseSeed] = options.baseSeed % 2 ** 32;
      this.mailbox = mailbox
        ? (lendHost(this.slots.device, [mailbox.view], (text) => this.warnings.push(text))[0] as HostMemory)
        : null;
      undo.push(() => this.mailbox?.close());
      const bell = buffer.bells.claim();
      if (!bell)
        throw stateError('BUSY', 'all 8 waiting places of this replay buffer are taken: close a pipeline that uses it');
      this.#packBell = bell;
      undo.push(() => buffer.bells.release(bell));
      // A thread has one bell: pack's lies in the buffer, where add() rings it.
      const packThread = this.ring.hostOf('pack');
      for (const role of roles) if (!inline && this.ring.hostOf(role) === packThread) this.ring.setBell(role, bell);
      const setup = this.#setup(bell);
      this.#inline = inline ? makeActors(setup, roles, this.ring, null) : [];
      const crew = { ring: this.ring, threads: placed.threads, setup, restart: options.restart };
      const heard = { failed: () => this.#report(), restarted: events.restart };
      this.crew = inline ? null : new Crew({ ...crew, events: heard });
    } catch (error) {
      for (const act of undo.reverse()) act();
      throw error;
    }
  }

  get inline(): boolean {
    return this.crew === null;
  }

  #setup(packBell: Bell): ActorSetup {
    const { buffer, mailbox } = this.#options;
    const { backend, compute, spent, updateBegins, host, hostStride, out } = this.slots;
    return {
      ring: this.ring.share(),
      buffer: buffer.share(),
      packBell: packBell.index,
      mailbox: mailbox?.share() ?? null,
      backend: backend.share(),
      computeStream: compute.handle,
      spent: spent.map((event) => event.handle),
      updateBegins: updateBegins.map((event) => event.handle),
      host,
      hostStride,
      out,
      spins: 200,
    };
  }

  /** Steps every inline role once, in the order of a slot's life; how much they did. */
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
      const tick = slot < 0 ? -1 : (this.ring.record(slot)[Field.tick] as number);
      this.ring.fail({ role, slot, tick, error });
      this.throwIfOver();
    }
    return done;
  }

  /** Throws when the pipeline is closed or failed. `restarts`: a lost thread may still be replaced. */
  throwIfOver({ restarts = this.#options.restart > 0 } = {}): void {
    if (this.closing) throw stateError('CLOSED', 'the pipeline is closed');
    const failure = this.ring.failure.read();
    if (failure) {
      this.#thrown = true;
      this.#report();
      throw failure;
    }
    if (this.inline || restarts) return;
    for (const [thread, hosted] of this.#options.placed.threads.entries()) {
      const state = this.ring.threadState(thread);
      if (state !== ThreadState.dead && state !== ThreadState.threw) continue;
      const thrown = state === ThreadState.threw ? this.ring.thrown.read()?.cause : null;
      const error =
        thrown ?? unavailableError(`the thread of ${hosted.join(', ')} was lost`, 'ERR_HOTSLOT_THREAD_LOST');
      this.ring.fail({ role: hosted[0] as Role, slot: -1, tick: -1, error });
      this.throwIfOver();
    }
  }

  /** Listeners hear of a failure once. It goes to whoever waits too; with neither it must not vanish. */
  #report(): void {
    const failure = this.ring.failure.read();
    if (!failure || this.closing || this.#reported) return;
    this.#reported = true;
    if (this.#events.error(failure) || this.#waiters > 0 || this.#thrown) return;
    queueMicrotask(() => {
      throw failure;
    });
  }

  /**
   * Waits without blocking: true when `done`, false when the time is over. Bell first, look second, park third. `look` runs
   * now and then meanwhile; `wakeOn` wakes, `signal` rejects too.
   */
  async until(
    done: () => boolean,
    { timeoutMs = Number.POSITIVE_INFINITY, signal, wakeOn = signal, look = () => {} }: Patience = {},
  ): Promise<boolean> {
    const { client } = this.ring;
    const deadline = native().nowMs() + timeoutMs;
    const wake = () => client.ring();
    wakeOn?.addEventListener('abort', wake);
    // A pending waitAsync does not hold the process; a timer does.
    const hold = setInterval(() => {}, 2 ** 30);
    this.#waiters++;
    let turn = native().nowMs();
    try {
      for (;;) {
        const seen = client.read();
        this.throwIfOver();
        signal?.throwIfAborted();
        const stepped = this.step();
        if (done()) return true;
        const now = native().nowMs();
        if (now >= deadline) return false;
        if (now - turn < LOOK_MS && stepped > 0) continue;
        if (now - turn >= LOOK_MS) {
          look();
          turn = now;
        }
        if (stepped > 0) await new Promise(setImmediate);
        else await client.parkAsync(seen, Math.min(deadline - now, this.inline ? 1 : LOOK_MS));
      }
    } finally {
      this.#waiters--;
      clearInterval(hold);
      wakeOn?.removeEventListener('abort', wake);
    }
  }

  /** The same for worker threads, blocking; on the main thread it answers what needs no waiting and refuses the rest. */
  untilSync(done: () => boolean, timeoutMs: number): boolean {
    const { client } = this.ring;
    const deadline = native().nowMs() + timeoutMs;
    for (;;) {
      const seen = client.read();
      // Nobody can be replaced while this thread's event loop stands still.
      this.throwIfOver({ restarts: false });
      const stepped = this.step();
      if (done()) return true;
      const left = deadline - native().nowMs();
      if (left <= 0) return false;
      if (stepped > 0) continue;
      if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await the promise form instead');
      client.park(seen, Math.min(left, this.inline ? 1 : LOOK_MS));
    }
  }

  /** Stops the actors, drains the device and frees everything, `more` included. */
  async close(more: () => void): Promise<void> {
    this.closing = true;
    this.ring.stop();
    await this.crew?.stop();
    for (const actor of this.#inline) actor.close();
    this.#free(await this.#drained(), more);
  }

  closeSync(more: () => void): void {
    if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await close() instead');
    this.closing = true;
    const { ring } = this;
    ring.stop();
    const until = native().nowMs() + DRAIN_MS;
    const running = () => this.#options.placed.threads.some((_, i) => ring.threadState(i) === ThreadState.running);
    while (running() && native().nowMs() < until) {
      const seen = ring.client.read();
      if (running()) ring.client.park(seen, LOOK_MS);
    }
    this.crew?.abandon();
    for (const actor of this.#inline) actor.close();
    const { device, compute, last } = this.slots;
    const drained = doneOrFailed(() => {
      compute.record(last);
      return native().waitEvent(device.handle, last.handle, DRAIN_MS);
    });
    this.#free(drained && !running(), more);
  }

  #free(drained: boolean, more: () => void): void {
    this.#options.buffer.bells.release(this.#packBell);
    if (!drained) {
      // Never free under a running copy.
      leaked.add(this.slots);
      this.#events.warning(`device work was still running after ${DRAIN_MS} ms: the slots' memory is leaked`);
      return;
    }
    more();
    this.slots.close();
    this.mailbox?.close();
  }

  /** Work that may still touch the slots is over; a sticky error counts as over too. */
  async #drained(): Promise<boolean> {
    const { compute, device, spent, last } = this.slots;
    const until = native().nowMs() + DRAIN_MS;
    const replaying = spent.filter((_, slot) => this.ring.state(slot) === SlotState.Replaying);
    try {
      compute.record(last);
    } catch {
      return true;
    }
    for (const event of [...replaying, last]) {
      while (!doneOrFailed(() => event.query())) {
        if (native().nowMs() > until) return false;
        await native()
          .waitEventAsync(device.handle, event.handle)
          .catch(() => true);
      }
    }
    return true;
  }
}

export interface Patience {
  timeoutMs?: number;
  signal?: AbortSignal | undefined;
  wakeOn?: AbortSignal | undefined;
  look?: () => void;
}

function doneOrFailed(query: () => boolean): boolean {
  try {
    return query();
  } catch {
    return true;
  }
}
