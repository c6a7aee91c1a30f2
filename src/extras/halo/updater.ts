/**
 * The halo exchange of one rank with its neighbors, which are other threads of this process, or
 * ranks of the same one. The call of start() sends, and that of wait() receives, so that the caller
 * can compute in between. The rank itself is rank.ts.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { stateError } from '../../base/errors.ts';
import type { Device } from '../../device/device.ts';
import { LOOK_ELSEWHERE_MS, pollElsewhere } from '../../shm/exchange-control.ts';
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
 * milliseconds that a thread polls before it sleeps, and (`TURN_LOOK_MS`) that it polls for another
 * process before it gives its event loop a turn
 */
const LOOK_MS = 0.001;
const TURN_LOOK_MS = 0.05;

/** Options of one rank. */
export interface HaloUpdaterOptions {
  /** device of the rank's arrays (default: 'cpu') */
  device?: 'cpu' | Device;
}

export type HaloWaitOptions = WaitOptions;

/**
 * Longest wait for another rank of this thread, whose device may compute for long, before the
 * waiter looks again.
 */
const OTHERS_SLICE_MS = 1;

/**
 * Exchanges halos between the ranks of a shareHaloExchange() result: NDSL's HaloUpdater, between
 * threads. Create one per rank. A thread that cannot continue calls fail(), so that the others
 * throw with its error.
 * @example
 * updater.start([{ data }]);
 * advanceInterior(data);
 * updater.waitSync();
 * advanceRim(data);
 */
export class HaloUpdater implements Disposable {
  readonly rank: number;
  /** 'cpu', 'host:0', … */
  readonly deviceName: string;
  readonly #inside: HaloRank;
  /** some ranks are in other processes, so native code rings the bell */
  readonly #elsewhere: boolean;
  #waiting = false;

  /**
   * Takes `rank` of an exchange for the calling thread, permanently. Throws RangeError for an
   * invalid rank, ERR_HOTSLOT_STATE_BUSY for one that was taken before.
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

  /** Number of the latest exchange that was started, counted from 1. */
  get exchange(): number {
    return this.#inside.exchange;
  }

  /**
   * Packs the data for every neighbor and returns without waiting. After that the arrays' compute
   * domains may change (on a device: by work enqueued on the current stream later). A DeviceError
   * while it packs fails the exchange, as fail() does.
   *
   * @param x one quantity per specification
   * @param y second components of vectors
   * @throws {TypeError|RangeError} for other quantities, without any effect
   * @throws {ERR_HOTSLOT_STATE_BUSY} while an exchange is under way
   */
  start(x: HaloQuantities, y: HaloQuantities | null = null): void {
    this.#inside.start(x, y);
  }

  /**
   * Sends the data of start() if the device has packed it by now. Returns true if it is sent, or if
   * no exchange is under way. Every wait does this first. Call it during long computations on a
   * device, so that the neighbors need not wait.
   */
  progress(): boolean {
    return this.#inside.progress();
  }

  /**
   * Unpacks the arriving data into the halos of the arrays of start(), in stream order after the
   * current stream's earlier work and before its later work.
   *
   * @param options `timeoutMs` (default: no limit) and `signal`
   * @returns true when all data have arrived, false after `timeoutMs`: call it again
   * @throws if data are missing and a rank failed, or the sender closed or was lost: see fail()
   */
  async wait(options: HaloWaitOptions = {}): Promise<boolean> {
    checkWait('wait', options);
    this.#checkUnderWay();
    const { bell, carrier } = this.#inside;
    const caller = carrier.caller();
    const park = async (seen: number, left: number) => {
      // A wake-up by another process costs a turn of the event loop, so this polls for data that is
      // about to arrive.
      if (this.#elsewhere && pollElsewhere(bell, seen, Math.min(left, TURN_LOOK_MS))) return;
      const rung = bell.parkAsync(seen, Math.min(left, MAX_PARK_MS));
      const packing = packingRank();
      await (packing ? Promise.race([rung, packing.carrier.awaitPacked(left)]) : rung);
    };
    this.#waiting = true;
    try {
      return await waitFor(bell, () => this.#inside.advance(caller), { ...options, park });
    } finally {
      this.#waiting = false;
    }
  }

  /**
   * Does what wait() does and blocks, for worker threads. On the main thread it returns if no
   * waiting is needed, else it throws ERR_HOTSLOT_STATE_MAIN_THREAD. Throws ERR_HOTSLOT_STATE_EMPTY
   * if it would never end, because it waits for a rank of this thread that has not started.
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
      else if (!pollElsewhere(bell, seen, Math.min(left, LOOK_ELSEWHERE_MS)))
        bell.parkNative(seen, Math.min(left, MAX_PARK_MS));
    };
    return waitForSync(bell, () => this.#inside.advance(caller), {
      ...options,
      instead: 'wait()',
      park,
    });
  }

  /**
   * Calls start() and wait(). If the blocking form throws on the main thread, the exchange has
   * started, and wait() can await it.
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
   * Declares that this rank cannot continue: every rank that misses data or calls throws an error
   * with `error` as its cause. The first failure wins. A rank that is found closed or lost counts
   * as a failure of the rank that found it.
   */
  fail(error: unknown): void {
    this.#inside.fail(error);
  }

  /**
   * Leaves the exchange. Neighbors receive the data that were sent before, and this rank's part of
   * an exchange under way if it is packed by now. A rank that waits for more throws. Idempotent.
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
      throw stateError('BUSY', `${this.#inside.where()} has a wait() already; await that one`);
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
