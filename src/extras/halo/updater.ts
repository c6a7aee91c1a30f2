/**
 * The halo exchange of one rank with its neighbours, which are other threads of this process, or
 * ranks of the same one. What arrives is waited for apart from what leaves, so that computing goes
 * on in between. The rank itself is rank.ts.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { stateError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { LOOK_ELSEWHERE_MS, lookElsewhere } from '../../shm/exchange-control.ts';
import {
  checkSignal,
  checkTimeout,
  MAX_PARK_MS,
  type WaitOptions,
  waitFor,
  waitForSync,
} from '../../shm/wait.ts';
import type { HaloQuantities } from './quantity.ts';
import { HaloRank, packingRank } from './rank.ts';
import { checkExchange, type SharedHaloExchange } from './shared-exchange.ts';

/**
 * how long a thread looks before it sleeps; and for what comes from another process before it gives
 * its event loop a turn
 */
const LOOK_MS = 0.001;
const TURN_LOOK_MS = 0.05;

/** How a rank takes part. */
export interface HaloUpdaterOptions {
  /** where the rank's arrays are; 'cpu' when left out */
  device?: 'cpu' | Device;
}

export type HaloWaitOptions = WaitOptions;

/** One of them that computes elsewhere shall not keep a waiter from looking. */
const OTHERS_SLICE_MS = 1;

/**
 * Exchanges halos between the ranks of what shareHaloExchange() made: NDSL's HaloUpdater, between
 * threads. One per rank. A thread that cannot go on calls fail(), so that the others learn why.
 */
export class HaloUpdater implements Disposable {
  readonly rank: number;
  /** 'cpu', 'host:0', … */
  readonly deviceName: string;
  readonly #inside: HaloRank;
  /** some ranks are in other processes: native code rings */
  readonly #elsewhere: boolean;
  #waiting = false;

  /**
   * Takes `rank` of an exchange for the calling thread, for good. Throws RangeError for a rank that
   * is none, ERR_HOTSLOT_STATE_BUSY for one that was taken before.
   */
  constructor(shared: SharedHaloExchange, rank: number, options: HaloUpdaterOptions = {}) {
    checkExchange('HaloUpdater', shared);
    checkCount('rank', rank, 0, shared.ranks - 1);
    checkKeys('HaloUpdater', options, ['device']);
    const { device = 'cpu' } = options;
    this.rank = rank;
    this.#inside = new HaloRank(shared, rank, device);
    this.#elsewhere = shared.elsewhere !== null;
    this.deviceName = this.#inside.carrier.deviceName;
  }

  /** Number of the latest exchange that was started; they count from 1. */
  get exchange(): number {
    return this.#inside.exchange;
  }

  /**
   * Packs what leaves for every neighbour and returns without waiting; from then on (on a device:
   * in stream order behind the current stream) the arrays' compute domains may change. One quantity
   * per specification. Throws, and nothing has happened, for other quantities and
   * (ERR_HOTSLOT_STATE_BUSY) while an exchange is under way. A device that refuses to pack is the
   * end of the exchange, as fail() is.
   */
  start(x: HaloQuantities, y: HaloQuantities | null = null): void {
    this.#inside.start(x, y);
  }

  /**
   * Sends what start() packed, if a device has packed it by now: true once it is on its way, or
   * with nothing under way. Every wait does this first; a caller that computes for long on a device
   * calls it in between, so that the neighbours need not wait.
   */
  progress(): boolean {
    return this.#inside.progress();
  }

  /**
   * Puts what arrives into the halos of the arrays that start() was given, in stream order behind
   * and before the current stream's work. True when all has arrived, false when the time is over:
   * call it again. Rejects when something is missing and any rank failed, or the sender closed or
   * was lost: see fail().
   */
  async wait(options: HaloWaitOptions = {}): Promise<boolean> {
    checkWait('wait', options);
    this.#checkUnderWay();
    const { bell, carrier } = this.#inside;
    const caller = carrier.caller();
    const park = async (seen: number, left: number) => {
      // A wake of another process costs an event loop's turn: what is nearly there is looked for.
      if (this.#elsewhere && lookElsewhere(bell, seen, Math.min(left, TURN_LOOK_MS))) return;
      const rung = bell.parkAsync(seen, Math.min(left, MAX_PARK_MS));
      const packing = packingRank();
      await (packing ? Promise.race([rung, packing.carrier.awaitPacked(left)]) : rung);
    };
    this.#waiting = true;
    try {
      return await waitFor(bell, () => this.#inside.look(caller), { ...options, park });
    } finally {
      this.#waiting = false;
    }
  }

  /**
   * The same, blocking, for worker threads; on the main thread it returns if no waiting is needed,
   * else it throws ERR_HOTSLOT_STATE_MAIN_THREAD. Throws ERR_HOTSLOT_STATE_EMPTY where it would
   * wait for ever, for a rank of this thread that has not started.
   */
  waitSync(options: { timeoutMs?: number } = {}): boolean {
    checkWaitSync('waitSync', options);
    this.#checkUnderWay();
    const { bell, carrier } = this.#inside;
    const caller = carrier.caller();
    const park = (seen: number, left: number) => {
      if (left === Number.POSITIVE_INFINITY) this.#inside.checkStarted();
      const packing = packingRank();
      if (!this.#inside.sent) carrier.awaitPackedSync(left);
      else if (packing) packing.carrier.awaitPackedSync(Math.min(left, OTHERS_SLICE_MS));
      else if (!this.#elsewhere) bell.park(seen, Math.min(left, MAX_PARK_MS), LOOK_MS);
      else if (!lookElsewhere(bell, seen, Math.min(left, LOOK_ELSEWHERE_MS)))
        bell.parkNative(seen, Math.min(left, MAX_PARK_MS));
    };
    return waitForSync(bell, () => this.#inside.look(caller), {
      ...options,
      instead: 'wait()',
      park,
    });
  }

  /**
   * start() and wait(). What the blocking form refuses on the main thread can be awaited by wait().
   */
  async update(
    x: HaloQuantities,
    y: HaloQuantities | null = null,
    options: HaloWaitOptions = {},
  ): Promise<boolean> {
    checkWait('update', options);
    this.start(x, y);
    return this.wait(options);
  }
  updateSync(
    x: HaloQuantities,
    y: HaloQuantities | null = null,
    options: { timeoutMs?: number } = {},
  ): boolean {
    checkWaitSync('updateSync', options);
    this.start(x, y);
    return this.waitSync(options);
  }

  /**
   * This rank cannot go on: every rank that misses something or calls throws an error with `error`
   * as its cause. The first one wins. A rank that is found closed or lost counts as a failure of
   * the one that found it so.
   */
  fail(error: unknown): void {
    this.#inside.fail(error);
  }

  /**
   * Leaves the exchange; twice is fine. Neighbours get what was sent before; of an exchange under
   * way they get this rank's part if it is packed by now. A rank that still waits for more throws.
   */
  close(): void {
    this.#inside.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #checkUnderWay(): void {
    this.#inside.checkUnderWay();
    if (this.#waiting)
      throw stateError(
        'BUSY',
        `${this.#inside.where()} is waited for already: one wait() at a time`,
      );
  }
}

function checkWait(what: string, options: HaloWaitOptions): void {
  checkKeys(what, options, ['timeoutMs', 'signal']);
  checkTimeout(options.timeoutMs);
  checkSignal(options.signal);
}
function checkWaitSync(what: string, options: { timeoutMs?: number }): void {
  checkKeys(what, options, ['timeoutMs']);
  checkTimeout(options.timeoutMs);
}
