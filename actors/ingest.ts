/**
 * If rows live on the device, copies new rows from the replay buffer to the device. Like the
 * requester, it runs on pack's thread. It enqueues the copies span by span on its own copy stream,
 * and poll sees when they are done. Rules DeviceRows-1 to DeviceRows-9:
 * src/engine/device-rows/control-block.ts.
 */

import { answered } from '../src/base/addon.ts';
import { nativeStreams } from '../src/device/native.ts';
import type { AttachedDeviceRows } from '../src/engine/device-rows/attached.ts';
import { eventOf, MAX_IN_FLIGHT } from '../src/engine/device-rows/control-block.ts';
import type { HostBuffers } from '../src/engine/ring/host-buffers.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { Param, SlotState } from '../src/engine/ring/slot.ts';

export class Ingest {
  readonly #ring: Ring;
  readonly #rows: AttachedDeviceRows;
  readonly #hostBuffers: HostBuffers;
  /**
   * number of rows that were committed when the first span was enqueued. Ticks wait until the
   * device has all of these rows. Otherwise the first ticks would draw from the few rows of the
   * first span
   */
  until = 0;
  /** true if the last enqueued span began after skipped rows */
  #lapped = false;

  constructor(ring: Ring, rows: AttachedDeviceRows, hostBuffers: HostBuffers) {
    this.#ring = ring;
    this.#rows = rows;
    this.#hostBuffers = hostBuffers;
  }

  /** Enqueues the copies of the spans that can be copied now. Returns the number of spans. */
  work(): number {
    const { words, shared } = this.#rows;
    let ordered = 0;
    while (words.underWay < MAX_IN_FLIGHT) {
      const { committed } = this.#rows;
      let from = words.next;
      if (committed <= from) break;
      const { visible } = words;
      const { capacity } = this.#rows.buffer;
      if (words.submitted === 0) this.until = committed;
      // Skips rows that writers have overwritten, and old rows for which the device's ring has no
      // room. The next span begins after the skipped rows, and only when no other span is in
      // flight.
      //
      // If the last span began after skipped rows too, writers overwrite rows faster than they are
      // copied. The next span then begins a further quarter of the buffer later. Writers need
      // longer to reach its rows, so its copy can finish before that.
      const oldest = Math.max(this.#rows.lost, committed - shared.places);
      const lapped = from < oldest;
      if (lapped && words.underWay > 0) break;
      if (lapped) from = Math.min(oldest + (this.#lapped ? Math.ceil(capacity / 4) : 0), committed);
      const room = Math.min(
        this.#leastHead() + shared.places,
        lapped ? committed : visible + shared.guard,
      );
      const to = Math.min(committed, from + shared.rowsPerSpan, room);
      if (to <= from) break;
      // The first span begins at the oldest row that exists, so no rows count as skipped.
      this.#lapped = lapped && words.submitted !== 0;
      this.#order(from, to);
      ordered++;
    }
    if (ordered > 0) this.#ring.bells.of('poll').ring();
    return ordered;
  }

  /**
   * DeviceRows-5: returns true if a tick may draw the rows before `visible`, a value that the
   * caller has read. Returns false if the copies of spans in flight could overwrite some of these
   * rows.
   */
  mayDraw(visible: number): boolean {
    const { words, shared } = this.#rows;
    return words.begun <= visible + shared.guard;
  }

  /** Returns the oldest row that a tick under way may draw, or infinity if no tick is under way. */
  #leastHead(): number {
    let least = Number.POSITIVE_INFINITY;
    for (let slot = 0; slot < this.#ring.depth; slot++)
      // A Requested slot has no head yet, and the device is done with a Free slot (Slot-5).
      if (this.#ring.state(slot) > SlotState.Requested)
        least = Math.min(least, this.#hostBuffers.params(slot)[Param.low] as number);
    return least;
  }

  /**
   * Enqueues the copies of rows [from, to) and the event after them, then publishes the span's
   * record. Each copy is contiguous in the host's buffer and in the device's ring.
   */
  #order(from: number, to: number): void {
    const { words, shared, buffer } = this.#rows;
    words.begin(to);
    const { stride, places, stream, ring, host, rowsAt } = shared;
    for (let row = from; row < to; ) {
      const [at, place] = [row % buffer.capacity, row % places];
      const some = Math.min(to - row, buffer.capacity - at, places - place);
      answered(
        nativeStreams().copy(
          stream,
          ring,
          place * stride,
          host,
          rowsAt + at * stride,
          some * stride,
        ),
      );
      row += some;
    }
    answered(nativeStreams().record(stream, shared.events[eventOf(words.submitted)] as number));
    words.submit(from, to);
  }
}
