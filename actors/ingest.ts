/**
 * The other small role on pack's thread, if rows live on the device: orders copies of what
 * collectors added, span by span, on a copy stream of its own. Poll sees them done. Rules
 * DeviceRows-1 to DeviceRows-9: src/engine/device-rows/control-block.ts.
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
   * rows that were there when the first span was ordered: ticks wait for all of them, not to draw
   * from a few
   */
  until = 0;
  /** writers went over the last span too */
  #lapped = false;

  constructor(ring: Ring, rows: AttachedDeviceRows, hostBuffers: HostBuffers) {
    this.#ring = ring;
    this.#rows = rows;
    this.#hostBuffers = hostBuffers;
  }

  /** Orders the spans that can be copied now. Returns how many. */
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
      // Rows that writers have gone over, or that the device has no place for, are not copied: the
      // copy begins after them, when nothing else is on the way. If the last copy was gone over in
      // its turn, this one begins a quarter of the buffer further on.
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
      // The first one begins where rows are, and has missed none.
      this.#lapped = lapped && words.submitted !== 0;
      this.#order(from, to);
      ordered++;
    }
    if (ordered > 0) this.#ring.bells.of('poll').ring();
    return ordered;
  }

  /**
   * DeviceRows-5: whether a tick may draw what was visible when it looked, while the spans on the
   * way are copied.
   */
  mayDraw(visible: number): boolean {
    const { words, shared } = this.#rows;
    return words.begun <= visible + shared.guard;
  }

  /** The oldest row that a tick under way may draw. */
  #leastHead(): number {
    let least = Number.POSITIVE_INFINITY;
    for (let slot = 0; slot < this.#ring.depth; slot++)
      // A slot that is Requested has no head yet, a Free one is spent (Slot-5).
      if (this.#ring.state(slot) > SlotState.Requested)
        least = Math.min(least, this.#hostBuffers.params(slot)[Param.low] as number);
    return least;
  }

  /** Copies of one run each on either side, then the event, then the record that says so. */
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
