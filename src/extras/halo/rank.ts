/**
 * Packs, sends, receives and leaves, for one rank of a halo exchange. A HaloRank never waits.
 * HaloUpdater calls it and waits between the calls. The rules Exchange-1 to Exchange-6 are in
 * exchange-control.ts.
 */
import { closedError, DeviceError, stateError } from '../../base/errors.ts';
import type { Device, Stream } from '../../device/device.ts';
import type { Bell } from '../../shm/bell.ts';
import { checkFree, RankState } from '../../shm/exchange-control.ts';
import { ExchangeMember, type ExchangeTexts } from '../../shm/exchange-member.ts';
import { type HaloCarrier, type HaloRoute, HostHaloCarrier } from './carrier.ts';
import { DeviceHaloCarrier } from './device-carrier.ts';
import type { HaloQuantities } from './quantity.ts';
import { type SharedHaloExchange, wordsOf } from './shared-exchange.ts';
import type { HaloNeighbor } from './topology.ts';

const texts: ExchangeTexts = {
  whole: 'the halo exchange',
  of: '',
  closed: 'closed',
  failed: 'failed',
  sent: 'sent',
  next: 'close every rank and share another exchange',
};

/** The state of an exchange that is under way. */
interface UnderWay {
  readonly x: HaloQuantities;
  readonly y: HaloQuantities | null;
  /** true after this rank has stored that its halves of the neighbors' buffers are full */
  sent: boolean;
  /** indices of the routes whose data has not arrived */
  readonly missing: number[];
}

/** Open ranks of this thread. */
const here = new Set<HaloRank>();
/**
 * Ranks of this thread that have packed but not sent their data. A rank that waits also sends the
 * data of all these ranks. Otherwise no call would send that data while the thread is blocked, and
 * a neighbor could wait for it forever.
 */
const unsent = new Set<HaloRank>();

/** Returns a rank of this thread that has not sent its packed data yet, or undefined. */
export function packingRank(): HaloRank | undefined {
  const [rank] = unsent;
  return rank;
}

/** Does the work of a HaloUpdater, whose methods of the same names document results and errors. */
export class HaloRank extends ExchangeMember {
  readonly #neighbors: readonly HaloNeighbor[];
  readonly #routes: readonly HaloRoute[];
  readonly #id: string;
  /**
   * this rank's bell. Read its count before each advance(). If advance() returns false, park on the
   * count that you read (Exchange-4)
   */
  readonly bell: Bell;
  /** bells of the neighbors, without duplicates */
  readonly #bells: readonly Bell[];
  readonly carrier: HaloCarrier;
  #exchange = 0;
  #underWay: UnderWay | null = null;
  /** whether fail() was called for this rank */
  #hasLeft = false;
  #closed = false;

  constructor(shared: SharedHaloExchange, rank: number, device: 'cpu' | Device) {
    super(wordsOf(shared), rank, texts);
    this.#neighbors = shared.neighbors[rank] as readonly HaloNeighbor[];
    const buffer = (of: number, edge: string) =>
      shared.buffers.findIndex((each) => each.rank === of && each.edge === edge);
    this.#routes = this.#neighbors.map((there) => ({
      sender: there.rank,
      outgoing: buffer(there.rank, there.edgeThere),
      incoming: buffer(rank, there.edge),
    }));
    this.#id = shared.id;
    this.words.checkHere(rank);
    this.bell = this.words.bell(rank);
    this.#bells = [...new Set(this.#neighbors.map((there) => there.rank))].map((reader) =>
      this.words.bell(reader),
    );
    checkFree(rank, this.words.state(rank));
    this.carrier =
      device === 'cpu'
        ? new HostHaloCarrier(shared, rank, this.#routes)
        : new DeviceHaloCarrier(device, shared, rank, this.#routes);
    try {
      // Claims the rank after the carrier is created. If creating the carrier throws, the rank
      // stays unclaimed, and another HaloUpdater can claim it.
      checkFree(rank, this.words.claim(rank));
    } catch (error) {
      this.carrier.close(() => false);
      throw error;
    }
    here.add(this);
  }

  /** Number of the last exchange that this rank started, 0 before the first. */
  override get exchange(): number {
    return this.#exchange;
  }
  /** Whether this rank's data is sent, or no exchange is under way. */
  get sent(): boolean {
    return this.#underWay?.sent ?? true;
  }

  start(x: HaloQuantities, y: HaloQuantities | null): void {
    this.#check();
    const exchange = this.#exchange + 1;
    if (this.#underWay)
      throw stateError(
        'BUSY',
        `${this.where()} is under way; wait() for it before the next start()`,
      );
    for (const [k, { outgoing }] of this.#routes.entries()) {
      // Exchange-2: the half is always empty here, unless other code wrote into the shared memory.
      if (this.words.isEmpty(outgoing, exchange)) continue;
      const { rank, edgeThere } = this.#neighbors[k] as HaloNeighbor;
      throw stateError(
        'BUSY',
        `rank ${this.rank} cannot start exchange ${exchange}: rank ${rank}'s buffer of edge ${edgeThere} is not empty, so ` +
          'something else has written into the shared memory',
      );
    }
    // Copies the lists, because the caller may change them before wait(). Passes values that are
    // not lists unchanged to the carrier's transformers, which reject them.
    const given = { x: Array.isArray(x) ? [...x] : x, y: Array.isArray(y) ? [...y] : y };
    try {
      this.carrier.pack(exchange, given.x, given.y);
    } catch (error) {
      if (error instanceof DeviceError) this.fail(error);
      throw error;
    }
    this.#exchange = exchange;
    this.#underWay = { ...given, sent: false, missing: this.#routes.map((_, k) => k) };
    unsent.add(this);
    this.failing(() => this.#send());
  }

  progress(): boolean {
    this.#check();
    return this.sent || this.failing(() => this.#send());
  }

  override fail(error: unknown): void {
    if (this.#closed) return;
    unsent.delete(this);
    this.#hasLeft = true;
    super.fail(error);
  }

  close(): void {
    if (!this.#closed) {
      try {
        if (this.#underWay?.sent === false) this.failing(() => this.#send());
      } catch {
        // failing() has reported this error to all ranks.
      }
      this.#closed = true;
      this.#underWay = null;
      for (const set of [here, unsent]) set.delete(this);
      // The rank leaves after it has sent its data, so that the neighbors still receive the data
      // (Exchange-5). leave() rings all bells (Exchange-3), which also wakes this rank's own
      // wait().
      this.words.leave(this.rank, RankState.closed);
    }
    // Runs in every close(), because an earlier call may have thrown before it closed everything.
    this.carrier.close((other) => this.words.state(other) <= RankState.open);
  }

  /**
   * Marks the neighbors' halves as filled, and rings their bells. Returns false, and does nothing,
   * if the carrier has not finished packing.
   */
  #send(): boolean {
    const underWay = this.#underWay as UnderWay;
    if (!this.carrier.packed()) return false;
    this.send(this.#routes, this.#bells);
    underWay.sent = true;
    unsent.delete(this);
    return true;
  }

  /**
   * Sends and receives what is possible now. Returns true if all data has arrived. The caller reads
   * the bell's count before this call, so that it does not sleep if data arrives during the call
   * (Exchange-4).
   */
  advance(caller: Stream | null): boolean {
    const failed = this.words.failed;
    this.#checkOpen();
    this.carrier.check(caller);
    const whole = this.failing(() => this.#take(caller));
    if (!whole && failed) this.checkFailed();
    return whole;
  }

  /**
   * Sends what is packed, for all unsent ranks of this thread, and unpacks what has arrived.
   * Returns true if all data of this rank has arrived.
   */
  #take(caller: Stream | null): boolean {
    for (const other of unsent) if (other !== this) other.#sendIfCan();
    const { x, y, sent, missing } = this.#underWay as UnderWay;
    if (!sent && !this.#send()) return false;
    const exchange = this.#exchange;
    for (let i = missing.length; i-- > 0; ) {
      const route = missing[i] as number;
      const { sender, incoming } = this.#routes[route] as HaloRoute;
      // Reads the sender's state before its word (Exchange-5). If the sender sent its data and then
      // left, this order still finds the data.
      const state = this.words.state(sender);
      if (this.words.holds(incoming, exchange)) {
        this.carrier.unpack(route, exchange, x, y, caller);
        missing.splice(i, 1);
      } else this.checkArrives(sender, state, (this.#neighbors[route] as HaloNeighbor).edge);
    }
    if (missing.length > 0) return false;
    this.carrier.finish(caller);
    this.#underWay = null;
    return true;
  }

  #sendIfCan(): void {
    try {
      this.failing(() => this.#send());
    } catch {
      // failing() has reported this error to all ranks of that exchange. That rank itself throws at
      // its next call.
    }
  }

  #checkOpen(): void {
    if (this.#closed) throw closedError(`this HaloUpdater of rank ${this.rank}`);
    // This rank has failed, but the exchange has no recorded failure that it could throw. Another
    // thread was writing the first failure, and ended before it had finished.
    if (this.#hasLeft && !this.words.failed)
      throw stateError('CLOSED', `rank ${this.rank} has failed; close it`);
  }
  /**
   * Throws ERR_HOTSLOT_STATE_EMPTY if data is missing from a rank of this thread that has not
   * started the exchange. A blocking wait would then never end.
   */
  checkStarted(): void {
    const { missing } = this.#underWay as UnderWay;
    for (const other of here) {
      if (other.#id !== this.#id || other.#exchange >= this.#exchange) continue;
      if (!missing.some((route) => this.#routes[route]?.sender === other.rank)) continue;
      const text = `${this.where()} waits for rank ${other.rank} of the same thread, which has not started it`;
      throw stateError('EMPTY', `${text}: start() every rank of a thread before waitSync()`);
    }
  }
  #check(): void {
    this.#checkOpen();
    this.checkFailed();
  }

  checkUnderWay(): void {
    this.#checkOpen();
    if (this.#underWay) return;
    this.#check();
    throw stateError(
      'EMPTY',
      `rank ${this.rank} has no exchange under way; start() one before wait()`,
    );
  }
}
