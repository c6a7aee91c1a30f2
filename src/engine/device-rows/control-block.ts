/**
 * The words that pack's thread and poll's thread share about rows on the device: which rows the
 * device has, and which spans are in flight. A span is a group of consecutive rows that are copied
 * together. A head determines which rows a tick may draw. A head is unspent until its slot is Free.
 *
 * Row numbers are absolute, counted from the first row ever added. The entries of the device's ring
 * are called places here, and row p is at place p mod `places`. A copy to the device and a draw may
 * never use the same place at the same time.
 *
 * DeviceRows-1  every row of [low, visible) is complete at its place. The row stays there until
 *     both `low` and the low of every unspent head are above it.
 * DeviceRows-2  poll increases `visible` only after it saw the span's event and then read the
 *     buffer's `reserved`. So poll knows each row that a writer may have begun to overwrite during
 *     the copy, and stores a `low` above these rows. Neither `visible` nor `low` decreases.
 * DeviceRows-3  visible − low ≤ places.
 * DeviceRows-4  when a head is written, its rows [head's low, visible) are within [low, visible).
 *     Their number is at least 1 and at most places − guard. The head does not change until its
 *     slot is Free.
 * DeviceRows-5  no copy overwrites a place from which a tick may draw while the copy runs. Let e be
 *     the row after a span. Pack's thread submits the span only if e ≤ head's low + places for
 *     every unspent head. It writes a head only if e ≤ visible + guard for every span in flight,
 *     and for every span that a dead thread began. One thread does both, so no head or span is
 *     added between its check and its action.
 * DeviceRows-6  the places that a tick draws are a function of its head alone. So a repeated launch
 *     makes the same update.
 * DeviceRows-7  each launch writes one mark, as for every slot (Slot-8).
 * DeviceRows-8  no memory of the rows is freed before the copy stream and the compute stream are
 *     drained.
 * DeviceRows-9  only rows × stride, the heads, and the bytes that are read back cross the bus.
 *     Steps of a view follow other rules (native/rows/mirror.hpp): each step travels with its
 *     place, and each drawn row with what pack computed from notes.
 *
 * Each word has one owner (Slot-1). Pack's thread writes a span's record, then `submitted`. Poll
 * writes its fields of the record, then `done`. So a thread that has read `done` may read the
 * record of the last finished span. A record is reused only SPANS spans later, and fewer spans are
 * ever in flight.
 *
 * Before pack's thread enqueues the first copy of a span, it stores the span's end in `begun`. If
 * the thread dies, its successor continues after the last published span. The dead thread may have
 * begun to copy later rows, up to `begun`. No head may draw from the places of these rows before
 * begun ≤ visible + guard (DeviceRows-5). The successor copies the rows again on the same stream,
 * after the dead thread's copies.
 */
import { allocateShared, LINE, type Place, secondLook } from '../../shm/memory.ts';

/** Number of span records, more than can be in flight. */
const SPANS = 4;
/** Index of `begun` after the records: the highest row up to which copies were begun. */
const BEGUN = SPANS * 5;
/** Maximum number of spans in flight: one is copied while the next is enqueued. */
export const MAX_IN_FLIGHT = 2;
/** Float64 fields of a span's record. Pack's thread writes the first two, and poll the others. */
const Field = { from: 0, to: 1, low: 2, dropped: 3, whole: 4, count: 5 } as const;
const Word = { submitted: 0, done: LINE } as const;
const WORDS = 2 * LINE;

/** The rows that have reached the device. */
export interface Reach {
  /** all rows before this one are on the device or lost */
  readonly visible: number;
  /** the oldest row that is on the device */
  readonly low: number;
  /**
   * number of rows that were never copied whole: they were overwritten before that, or were too
   * many for the device
   */
  readonly dropped: number;
  /** number of rows that were copied whole */
  readonly whole: number;
}

export class DeviceRowsControl {
  readonly place: Place;
  readonly #words: Int32Array;
  readonly #spans: Float64Array;

  constructor(place: Place) {
    this.place = place;
    this.#words = new Int32Array(place.memory, place.offset, WORDS);
    this.#spans = new Float64Array(place.memory, place.offset + 4 * WORDS, BEGUN + 1);
  }

  /**
   * Allocates the words of an empty device. Its first span may begin at any row, and the rows
   * before that span do not count as dropped.
   */
  static create(): DeviceRowsControl {
    const bytes = 4 * WORDS + 8 * (BEGUN + 1);
    return new DeviceRowsControl(allocateShared('the words of rows on a device', bytes, 64));
  }

  /** Numbers of spans ever submitted and ever done. Both wrap, and their difference is small. */
  get submitted(): number {
    return Atomics.load(this.#words, Word.submitted);
  }
  get done(): number {
    return Atomics.load(this.#words, Word.done);
  }
  get underWay(): number {
    return (this.submitted - this.done) | 0;
  }

  /**
   * The reach of the last finished span, for pack's thread only. Only pack's thread reuses records,
   * so no record of a finished span changes while it reads. Read `visible` before `low`. If poll
   * finishes a span between the two reads, `low` is newer than `visible` and only excludes more
   * rows.
   */
  get visible(): number {
    return this.#spans[this.#at(this.done - 1) + Field.to] as number;
  }
  get low(): number {
    return this.#spans[this.#at(this.done - 1) + Field.low] as number;
  }
  #reachOf(done: number): Reach {
    const at = this.#at(done - 1);
    const of = (field: number) => this.#spans[at + field] as number;
    return {
      visible: of(Field.to),
      low: of(Field.low),
      dropped: of(Field.dropped),
      whole: of(Field.whole),
    };
  }
  /** For any other thread: repeats the read until no record was written during it. */
  readReach(): Reach {
    for (;;) {
      const { done } = this;
      const reach = this.#reachOf(done);
      if (secondLook(this.#words, Word.done) === done) return reach;
    }
  }
  /** The row after the last submitted span. */
  get next(): number {
    return this.#spans[this.#at(this.submitted - 1) + Field.to]!;
  }

  /**
   * For pack's thread: stores in `begun` that rows up to `to` will be copied. Call it before you
   * enqueue the copies. A successor of pack's thread reads this value too.
   */
  begin(to: number): void {
    this.#spans[BEGUN] = Math.max(this.begun, to);
  }
  get begun(): number {
    return this.#spans[BEGUN] as number;
  }
  /**
   * For pack's thread: publishes a span after the copies of [from, to) and the event are enqueued.
   */
  submit(from: number, to: number): void {
    const { submitted } = this;
    const at = this.#at(submitted);
    this.#spans[at + Field.from] = from;
    this.#spans[at + Field.to] = to;
    Atomics.store(this.#words, Word.submitted, (submitted + 1) | 0);
  }

  /**
   * For poll: finishes the oldest span in flight after its event was seen. Rows before `lost` may
   * have been overwritten while they were copied. `places` is the number of rows that the device's
   * ring can store.
   */
  finish(lost: number, places: number): void {
    const { done } = this;
    const before = this.#reachOf(done);
    const at = this.#at(done);
    const from = this.#spans[at + Field.from]!;
    const to = this.#spans[at + Field.to]!;
    const gap = from - before.visible;
    const first = Math.min(Math.max(from, lost), to);
    // Ticks draw from one contiguous range of rows. So rows before a gap can never be drawn again.
    this.#spans[at + Field.low] = Math.max(
      gap > 0 || first > from ? first : before.low,
      to - places,
    );
    // Rows that were lost before the pipeline's first span do not count as dropped.
    const missed = before.whole + before.dropped > 0 ? gap : 0;
    this.#spans[at + Field.dropped] = before.dropped + missed + (first - from);
    this.#spans[at + Field.whole] = before.whole + (to - first);
    Atomics.store(this.#words, Word.done, (done + 1) | 0);
  }

  #at(span: number): number {
    return (span & (SPANS - 1)) * Field.count;
  }
}

/**
 * Returns the index of the event that is recorded after a span's copies. There are as many events
 * as spans can be in flight.
 */
export const eventOf = (span: number): number => span & (MAX_IN_FLIGHT - 1);
