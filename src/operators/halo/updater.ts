/**
 * The halo exchange of one rank with its neighbours, which are other threads of this process, or ranks of the same one. What
 * arrives is waited for apart from what leaves, so that computing goes on in between. The rules are in exchange-words.ts.
 */
import { isMainThread } from 'node:worker_threads';
import { ThreadEnding } from '../../addon.ts';
import type { Device, Stream } from '../../device/device.ts';
import {
  type CodedError,
  checkCount,
  checkKeys,
  DeviceError,
  type ErrorCode,
  rangeError,
  stateError,
  typeError,
  unavailableError,
} from '../../errors.ts';
import type { Bell } from '../../wait/bell.ts';
import { type HaloCarrier, type HaloRoute, HostHaloCarrier, type Quantities } from './carrier.ts';
import { DeviceHaloCarrier } from './device-carrier.ts';
import { type ExchangeWords, RankState } from './exchange-words.ts';
import { checkShared, type SharedHaloExchange, wordsOf } from './shared-exchange.ts';
import type { HaloNeighbour } from './topology.ts';

/** H6: the net under a thread that ended, which rings nobody. */
const LONGEST_PARK_MS = 100;
/** loads before a thread sleeps */
const SPINS = 200;

/** How a rank takes part. */
export interface HaloUpdaterOptions {
  /** where the rank's arrays are; 'cpu' when left out */
  device?: 'cpu' | Device;
}

/** How long to wait. */
export interface HaloWaitOptions {
  /** for ever when left out */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** What an exchange that is under way still needs. */
interface UnderWay {
  readonly x: Quantities;
  readonly y: Quantities | null;
  /** our own halves are filled */
  sent: boolean;
  /** routes over which nothing has arrived */
  readonly missing: number[];
}

/** This thread's ranks, until they are closed. */
const here = new Set<HaloUpdater>();
/** This thread's ranks whose part is not on its way yet: who waits sends for all, or two would wait for each other. */
const unsent = new Set<HaloUpdater>();
/** One of them that computes elsewhere shall not keep a waiter from looking. */
const OTHERS_SLICE_MS = 1;

/**
 * Exchanges halos between the ranks of what shareHaloExchange() made: NDSL's HaloUpdater, between threads. One per rank. A thread
 * that cannot go on calls fail(), so that the others learn why.
 */
export class HaloUpdater implements Disposable {
  readonly rank: number;
  /** 'cpu', 'host:0', … */
  readonly deviceName: string;
  readonly #neighbours: readonly HaloNeighbour[];
  readonly #routes: readonly HaloRoute[];
  readonly #id: string;
  readonly #words: ExchangeWords;
  readonly #bell: Bell;
  /** of the neighbours, each once */
  readonly #bells: readonly Bell[];
  readonly #carrier: HaloCarrier;
  #exchange = 0;
  #underWay: UnderWay | null = null;
  #waiting = false;
  /** until when a failure may be written that is said to have happened */
  #patience: number | null = null;
  /** it failed */
  #gone = false;
  #closed = false;

  /**
   * Takes `rank` of an exchange for the calling thread, for good. Throws RangeError for a rank that is none,
   * ERR_HOTSLOT_STATE_BUSY for one that was taken before.
   */
  constructor(shared: SharedHaloExchange, rank: number, options: HaloUpdaterOptions = {}) {
    checkShared('HaloUpdater', shared);
    checkCount('rank', rank, 0, shared.ranks - 1);
    checkKeys('HaloUpdater', options, ['device']);
    const { device = 'cpu' } = options;
    this.rank = rank;
    this.#neighbours = shared.neighbours[rank] as readonly HaloNeighbour[];
    const buffer = (of: number, edge: string) =>
      shared.buffers.findIndex((each) => each.rank === of && each.edge === edge);
    this.#routes = this.#neighbours.map((there) => ({
      sender: there.rank,
      outgoing: buffer(there.rank, there.edgeThere),
      incoming: buffer(rank, there.edge),
    }));
    this.#id = shared.id;
    this.#words = wordsOf(shared);
    this.#bell = this.#words.bell(rank);
    this.#bells = [...new Set(this.#neighbours.map((there) => there.rank))].map((reader) => this.#words.bell(reader));
    checkFree(rank, this.#words.state(rank));
    this.#carrier =
      device === 'cpu'
        ? new HostHaloCarrier(shared, rank, this.#routes)
        : new DeviceHaloCarrier(device, shared, rank, this.#routes);
    this.deviceName = this.#carrier.deviceName;
    try {
      // Last: a rank whose carrier cannot be made is free for another try.
      checkFree(rank, this.#words.claim(rank));
    } catch (error) {
      this.#carrier.close(() => false);
      throw error;
    }
    here.add(this);
  }

  /** Number of the latest exchange that was started; they count from 1. */
  get exchange(): number {
    return this.#exchange;
  }

  /**
   * Packs what leaves for every neighbour and returns without waiting; from then on (on a device: in stream order behind the
   * current stream) the arrays' compute domains may change. One quantity per specification. Throws, and nothing has
   * happened, for other quantities and (ERR_HOTSLOT_STATE_BUSY) while an exchange is under way. A device that refuses to pack
   * is the end of the exchange, as fail() is.
   */
  start(x: Quantities, y: Quantities | null = null): void {
    this.#check();
    const exchange = this.#exchange + 1;
    if (this.#underWay)
      throw stateError('BUSY', `${this.#where()} is under way: wait() for it before the next start()`);
    for (const [k, { outgoing }] of this.#routes.entries()) {
      // H2
      if (this.#words.isEmpty(outgoing, exchange)) continue;
      const { rank, edgeThere } = this.#neighbours[k] as HaloNeighbour;
      throw stateError(
        'BUSY',
        `rank ${this.rank} cannot start exchange ${exchange}: rank ${rank}'s buffer of edge ${edgeThere} is not empty, so ` +
          'something else has written into the shared memory',
      );
    }
    // The transformers refuse what is no list.
    const given = { x: Array.isArray(x) ? [...x] : x, y: Array.isArray(y) ? [...y] : y };
    try {
      this.#carrier.pack(exchange, given.x, given.y);
    } catch (error) {
      if (error instanceof DeviceError) this.fail(error);
      throw error;
    }
    this.#exchange = exchange;
    this.#underWay = { ...given, sent: false, missing: this.#routes.map((_, k) => k) };
    unsent.add(this);
    this.#failing(() => this.#send());
  }

  /**
   * Sends what start() packed, if a device has packed it by now: true once it is on its way, or with nothing under way. Every
   * wait does this first; who computes for long on a device calls it in between, so that the neighbours need not wait.
   */
  progress(): boolean {
    this.#check();
    return (this.#underWay?.sent ?? true) || this.#failing(() => this.#send());
  }

  /**
   * Puts what arrives into the halos of the arrays that start() was given, in stream order behind and before the current
   * stream's work. True when all has arrived, false when the time is over: call it again. Rejects when something is missing and
   * any rank failed, or the sender closed or was lost: see fail().
   */
  async wait(options: HaloWaitOptions = {}): Promise<boolean> {
    checkKeys('wait', options, ['timeoutMs', 'signal']);
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw typeError(`signal must be an AbortSignal, got ${String(signal)}`);
    const deadline = this.#deadline(options.timeoutMs);
    this.#checkUnderWay();
    const caller = this.#carrier.caller();
    const wake = () => this.#bell.ring();
    let hold: NodeJS.Timeout | undefined;
    this.#waiting = true;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const seen = this.#attempt(caller);
        if (seen === null) return true;
        const left = deadline - performance.now();
        if (left <= 0) return false;
        if (!hold) signal?.addEventListener('abort', wake);
        // A pending waitAsync does not hold the process; a timer does.
        hold ??= setInterval(() => {}, 2 ** 30);
        const rung = this.#bell.parkAsync(seen, Math.min(left, LONGEST_PARK_MS));
        const [packing] = unsent;
        await (packing ? Promise.race([rung, packing.#carrier.awaitPacked(left)]) : rung);
      }
    } finally {
      this.#waiting = false;
      clearInterval(hold);
      signal?.removeEventListener('abort', wake);
    }
  }

  /**
   * The same, blocking, for worker threads; on the main thread it returns if no waiting is needed, else it throws
   * ERR_HOTSLOT_STATE_MAIN_THREAD. Throws ERR_HOTSLOT_STATE_EMPTY where it would wait for ever, for a rank of this thread that
   * has not started.
   */
  waitSync(options: { timeoutMs?: number } = {}): boolean {
    checkKeys('waitSync', options, ['timeoutMs']);
    const deadline = this.#deadline(options.timeoutMs);
    this.#checkUnderWay();
    const caller = this.#carrier.caller();
    for (;;) {
      const seen = this.#attempt(caller);
      if (seen === null) return true;
      const left = deadline - performance.now();
      if (left <= 0) return false;
      if (isMainThread) throw stateError('MAIN_THREAD', 'the main thread never blocks: await wait() instead');
      if (left === Number.POSITIVE_INFINITY) this.#checkStarted();
      const [packing] = unsent;
      if (!this.#underWay?.sent) this.#carrier.awaitPackedSync(left);
      else if (packing) packing.#carrier.awaitPackedSync(Math.min(left, OTHERS_SLICE_MS));
      else this.#bell.park(seen, Math.min(left, LONGEST_PARK_MS), SPINS);
    }
  }

  /** start() and wait(). What the blocking form refuses on the main thread can be awaited by wait(). */
  async update(x: Quantities, y: Quantities | null = null, options: HaloWaitOptions = {}): Promise<boolean> {
    this.start(x, y);
    return this.wait(options);
  }
  updateSync(x: Quantities, y: Quantities | null = null, options: { timeoutMs?: number } = {}): boolean {
    this.start(x, y);
    return this.waitSync(options);
  }

  /**
   * This rank cannot go on: every rank that misses something or calls throws an error with `error` as its cause. The first one
   * wins. A rank that is found closed or lost counts as a failure of the one that found it so.
   */
  fail(error: unknown): void {
    if (this.#closed) return;
    unsent.delete(this);
    this.#gone = true;
    this.#words.fail({ rank: this.rank, exchange: this.#exchange, error });
    this.#words.leave(this.rank, RankState.failed);
  }

  /**
   * Leaves the exchange; twice is fine. Neighbours get what was sent before; of an exchange under way they get this rank's
   * part if it is packed by now. Whoever still waits for more throws.
   */
  close(): void {
    if (!this.#closed) {
      try {
        if (this.#underWay?.sent === false) this.#failing(() => this.#send());
      } catch {
        // everybody is told
      }
      this.#closed = true;
      this.#underWay = null;
      for (const set of [here, unsent]) set.delete(this);
      // H3, H5: after what was sent, and rings this rank's own waiter too.
      this.#words.leave(this.rank, RankState.closed);
    }
    // Again, if something was not given back the first time.
    this.#carrier.close((other) => this.#words.state(other) <= RankState.open);
  }
  [Symbol.dispose](): void {
    this.close();
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  /** Fills the neighbours' halves, once they are packed. */
  #send(): boolean {
    const underWay = this.#underWay as UnderWay;
    if (!this.#carrier.packed()) return false;
    const words = this.#words;
    const exchange = this.#exchange;
    // H1: by now everything of the exchange before is read, on a device too. Before the first, there was none.
    if (exchange > 1) for (const { incoming } of this.#routes) words.empty(incoming, exchange - 1);
    for (const { outgoing } of this.#routes) words.fill(outgoing, exchange);
    underWay.sent = true;
    unsent.delete(this);
    // H3
    for (const bell of this.#bells) bell.ring();
    return true;
  }

  /** H4, H5: one look. Null when nothing is missing, else the bell's count to park on. */
  #attempt(caller: Stream | null): number | null {
    const seen = this.#bell.read();
    const failed = this.#words.failed;
    this.#checkOpen();
    this.#carrier.check(caller);
    if (this.#failing(() => this.#look(caller))) return null;
    if (failed) throw this.#failure();
    return seen;
  }

  /** Sends and receives what can be; true when nothing is missing. */
  #look(caller: Stream | null): boolean {
    for (const other of unsent) if (other !== this) other.#sendIfCan();
    const { x, y, sent, missing } = this.#underWay as UnderWay;
    if (!sent && !this.#send()) return false;
    const exchange = this.#exchange;
    for (let i = missing.length; i-- > 0; ) {
      const route = missing[i] as number;
      const { sender, incoming } = this.#routes[route] as HaloRoute;
      // H5: the state first.
      const state = this.#words.state(sender);
      if (this.#words.holds(incoming, exchange)) {
        this.#carrier.unpack(route, exchange, x, y, caller);
        missing.splice(i, 1);
      } else if (state > RankState.open && !this.#mayExplain(state)) throw this.#missed(route, state);
    }
    if (missing.length > 0) return false;
    this.#carrier.finish(caller);
    this.#underWay = null;
    return true;
  }

  #sendIfCan(): void {
    try {
      this.#failing(() => this.#send());
    } catch {
      // All ranks of its exchange are told, it at its next call.
    }
  }

  /** H6: somebody is just writing down why a rank has failed, and rings then. */
  #mayExplain(state: RankState): boolean {
    if (state !== RankState.failed || this.#words.failed) return false;
    const now = performance.now();
    this.#patience ??= now + LONGEST_PARK_MS;
    return now < this.#patience;
  }

  #missed(route: number, state: RankState): Error {
    // It said why before it left.
    if (this.#words.failed) return this.#failure();
    const { edge, rank } = this.#neighbours[route] as HaloNeighbour;
    const what = `what ${this.#where()} waits for over edge ${edge}`;
    const next = 'close every rank and share another exchange';
    if (state === RankState.closed) return stateError('CLOSED', `rank ${rank} closed before it sent ${what}: ${next}`);
    if (state === RankState.failed) return stateError('CLOSED', `rank ${rank} failed before it sent ${what}: ${next}`);
    return unavailableError(
      `the thread of rank ${rank} ended before it sent ${what}: ${next}`,
      'ERR_HOTSLOT_THREAD_LOST',
    );
  }

  /** What `fn` throws is the end of the exchange for every rank. */
  #failing<T>(fn: () => T): T {
    try {
      return fn();
    } catch (error) {
      // A thread that is being terminated is lost, which is found out without it.
      if (!(error instanceof ThreadEnding)) this.fail(error);
      throw error;
    }
  }

  #failure(): CodedError {
    const { rank, exchange, error } = this.#words.failure as NonNullable<ExchangeWords['failure']>;
    const { code } = error as { code?: unknown };
    const who =
      rank < 0
        ? 'the halo exchange was ended from outside'
        : `rank ${rank} failed ${exchange === 0 ? 'before its first exchange' : `in exchange ${exchange}`}`;
    const ours = typeof code === 'string' && code.startsWith('ERR_HOTSLOT_');
    return unavailableError(`${who}: ${error.message}`, ours ? (code as ErrorCode) : 'ERR_HOTSLOT_STATE_CLOSED', error);
  }

  #checkOpen(): void {
    if (this.#closed) throw stateError('CLOSED', `this HaloUpdater of rank ${this.rank} is closed`);
    // Its reason may have got lost with whoever was writing one down.
    if (this.#gone && !this.#words.failed) throw stateError('CLOSED', `rank ${this.rank} has failed: close it`);
  }
  #checkStarted(): void {
    const { missing } = this.#underWay as UnderWay;
    for (const other of here) {
      if (other.#id !== this.#id || other.#exchange >= this.#exchange) continue;
      if (!missing.some((route) => this.#routes[route]?.sender === other.rank)) continue;
      const text = `${this.#where()} waits for rank ${other.rank} of the same thread, which has not started it`;
      throw stateError('EMPTY', `${text}: start() every rank of a thread before waitSync()`);
    }
  }
  #check(): void {
    this.#checkOpen();
    if (this.#words.failed) throw this.#failure();
  }

  #checkUnderWay(): void {
    this.#checkOpen();
    if (!this.#underWay) {
      this.#check();
      throw stateError('EMPTY', `rank ${this.rank} has no exchange under way: start() one before wait()`);
    }
    if (this.#waiting) throw stateError('BUSY', `${this.#where()} is waited for already: one wait() at a time`);
  }

  #deadline(timeoutMs: unknown = Number.POSITIVE_INFINITY): number {
    if (typeof timeoutMs !== 'number' || !(timeoutMs >= 0))
      throw rangeError(`timeoutMs must be a number of milliseconds of at least 0, got ${String(timeoutMs)}`);
    return performance.now() + timeoutMs;
  }

  #where(): string {
    return `exchange ${this.#exchange} of rank ${this.rank}`;
  }
}

function checkFree(rank: number, state: RankState): void {
  if (state === RankState.absent) return;
  const now = state === RankState.open ? 'is in use' : 'was used';
  throw stateError(
    'BUSY',
    `rank ${rank} ${now} by another HaloUpdater: each rank is taken once, share another exchange`,
  );
}
