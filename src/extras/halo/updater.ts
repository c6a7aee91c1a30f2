/**
 * Exchanges halos between one rank and its neighbors. The neighbors can be in other processes, in
 * other threads, or in the same thread. start() sends the data, and wait() receives it. The caller
 * can compute between the two calls. This file has the waits, and rank.ts has everything else.
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

/** Milliseconds for which waitSync() polls the rank's bell before the thread sleeps. */
const LOOK_MS = 0.001;
/**
 * Milliseconds that wait() polls for data from another process before it yields to the event loop.
 */
const TURN_LOOK_MS = 0.05;

/** Options of one rank. */
export interface HaloUpdaterOptions {
  /** device of the rank's arrays (default: 'cpu') */
  device?: 'cpu' | Device;
}

export type HaloWaitOptions = WaitOptions;

/**
 * Maximum milliseconds of one wait in waitSync() until another rank of this thread has packed. That
 * rank's device may compute for a long time. So waitSync() checks after each such wait whether the
 * data of its own rank has arrived.
 */
const OTHERS_SLICE_MS = 1;

/**
 * Exchanges halos between the ranks of a shareHaloExchange() result. Create one HaloUpdater per
 * rank. A thread that cannot continue calls fail(), so that all other ranks throw with its error as
 * `cause`. This is the counterpart of NDSL's HaloUpdater, but it runs between threads.
 * @example
 * updater.start([{ data }]);
 * advanceInterior(data);
 * updater.waitSync();
 * advanceRim(data);
 */
export class HaloUpdater implements Disposable {
  readonly rank: number;
  /** Name of the arrays' device, such as 'host:0', or 'cpu'. */
  readonly deviceName: string;
  readonly #inside: HaloRank;
  /**
   * whether some ranks are in other processes. If so, native code rings this rank's bell when their
   * data arrives
   */
  readonly #elsewhere: boolean;
  #waiting = false;

  /**
   * Claims `rank` of an exchange for the calling thread. A rank can be claimed only once, and stays
   * claimed after close(). Throws RangeError for an invalid rank, and ERR_HOTSLOT_STATE_BUSY for a
   * rank that was claimed before.
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

  /** Number of the last exchange that this rank started, 0 before the first. */
  get exchange(): number {
    return this.#inside.exchange;
  }

  /**
   * Packs the data for every neighbor, and returns without waiting. After this call, the caller may
   * change the arrays' compute domains. On a device, work that is enqueued on the current stream
   * later may change them. If packing throws a DeviceError, start() calls fail() with it.
   *
   * @param x one quantity per specification
   * @param y second components of vectors
   * @throws {TypeError|RangeError} for quantities that do not match the specifications, without any
   *   effect
   * @throws {ERR_HOTSLOT_STATE_BUSY} while an exchange is under way
   */
  start(x: HaloQuantities, y: HaloQuantities | null = null): void {
    this.#inside.start(x, y);
  }

  /**
   * Sends the data of start() if the device has finished packing it. Returns true if the data is
   * sent or no exchange is under way, else false. wait() and waitSync() also send the data. Call
   * progress() during long computations on a device, so that the neighbors need not wait.
   */
  progress(): boolean {
    return this.#inside.progress();
  }

  /**
   * Waits for the neighbors' data, and unpacks it into the halos of start()'s arrays. On a device,
   * unpacking runs after the current stream's earlier work and before its later work.
   *
   * @param options `timeoutMs` (default: no limit) and `signal`
   * @returns true if all data has arrived, false after `timeoutMs`. If false, call wait() again
   * @throws if data is missing because a rank failed, or because its sender closed or was lost. See
   *   fail()
   */
  async wait(options: HaloWaitOptions = {}): Promise<boolean> {
    checkWait('wait', options);
    this.#checkUnderWay();
    const { bell, carrier } = this.#inside;
    const caller = carrier.caller();
    const park = async (seen: number, left: number) => {
      // Polls briefly for data from another process. Parking would cost a turn of the event loop,
      // even if the data arrives at once.
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
   * Does what wait() does, and blocks the thread until then. Use it in worker threads. On the main
   * thread, returns if all data has arrived, else throws ERR_HOTSLOT_STATE_MAIN_THREAD. Throws
   * ERR_HOTSLOT_STATE_EMPTY if data is missing from a rank of this thread that has not started the
   * exchange, because the wait would never end.
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
   * Calls start(), then wait(). updateSync() calls start(), then waitSync(). If waitSync() throws
   * on the main thread, the exchange is still under way, and the caller can await wait().
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
   * Declares that this rank cannot continue. Every rank that is missing data throws an error with
   * `error` as its `cause`. Later calls of every rank throw the same. Only the first failure of an
   * exchange counts. A rank that waits for data of a closed or lost rank also fails.
   */
  fail(error: unknown): void {
    this.#inside.fail(error);
  }

  /**
   * Leaves the exchange. Neighbors still receive all data that this rank sent. If an exchange is
   * under way and its data is packed, close() sends that data. A rank that waits for later data of
   * this rank throws. Idempotent.
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
