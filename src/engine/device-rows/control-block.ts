/**
 * How far the rows have come onto the device, and what is on the way: the words that pack's thread
 * and poll's share. A span is a run of rows that one copy order brings. A head says which rows a
 * tick may draw. Row numbers are absolute, from the first ever added. Row p lies at place p mod
 * `places`. A device copy and a draw may never meet in a place.
 *
 * DeviceRows-1  every row of [low, visible) lies whole at its place, and stays until `low` has
 *     passed it and every unspent head's low too.
 * DeviceRows-2  `visible` moves only when the span's event was seen complete and the buffer's
 *     `reserved` was read after that. So rows that a writer may have begun on meanwhile are below
 *     the new `low`. Neither goes back.
 * DeviceRows-3  visible − low ≤ places.
 * DeviceRows-4  a head's rows [head's low, visible) are some of [low, visible) when it is written,
 *     at least one, at most places − guard. The head stays as it is until its slot is Free.
 * DeviceRows-5  no copy overwrites a place that an unspent head, or one that is written before the
 *     copy is over, may draw. A span up to row e is submitted only while e ≤ head's low + places
 *     for every unspent head. A head is written only while e ≤ visible + guard for every span that
 *     is on the way, or was begun by a thread that died. Pack's thread does both, so nothing comes
 *     between the look and the act.
 * DeviceRows-6  the places that a tick draws are a function of its head alone: a launch that is
 *     repeated repeats its update.
 * DeviceRows-7  one mark a launch, as for every slot (Slot-8).
 * DeviceRows-8  nothing of this is freed before the copy stream and the compute stream are drained.
 * DeviceRows-9  only rows × stride + heads + what comes home crosses the bus. Steps of a view come
 *     there by other rules, which native/rows/mirror.hpp has: with each of them its place, and of
 *     each row drawn what pack made of notes.
 *
 * Each word has one owner (Slot-1). Pack's thread writes a span's record, then `submitted`. Poll
 * writes what it found of the span, then `done`. A record is written again only SPANS spans later,
 * and fewer are ever on the way, so a thread that has read `done` may read its record. The row up
 * to which copies go is stored in `begun` before the first of them is ordered. A successor of
 * pack's thread goes on after the last span that was published. Rows that its predecessor copied
 * beyond that lie in places that no head names until `begun` has come (DeviceRows-5). They are
 * copied once more after that on the same stream.
 */
import { allocateShared, LINE, type Place, secondLook } from '../../shm/memory.ts';

/** records of spans, more than can be on the way */
const SPANS = 4;
/** after the records: the row that copies were last begun up to */
const BEGUN = SPANS * 5;
/** spans that are on the way at once: one is copied while the next is ordered */
export const MAX_IN_FLIGHT = 2;
/** Float64 fields of a span's record: pack's thread writes the first two, poll the others */
const Field = { from: 0, to: 1, low: 2, dropped: 3, whole: 4, count: 5 } as const;
const Word = { submitted: 0, done: LINE } as const;
const WORDS = 2 * LINE;

/** How far it has come. */
export interface Reach {
  /** rows before it are on the device or gone */
  readonly visible: number;
  /** the oldest row that is there */
  readonly low: number;
  /**
   * rows so far that were never copied, or not whole: overwritten before, or too many for the
   * device
   */
  readonly dropped: number;
  /** rows that came whole, of all so far */
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
   * Makes the words of an empty device, which has missed no rows yet: the first span may begin at
   * any row.
   */
  static create(): DeviceRowsControl {
    const bytes = 4 * WORDS + 8 * (BEGUN + 1);
    return new DeviceRowsControl(allocateShared('the words of rows on a device', bytes, 64));
  }

  /** Spans ever submitted, and ever done. Both wrap, and their difference is small. */
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
   * Pack's thread, under which no record of a span that is done changes. Read `visible` first: a
   * `low` that poll stored after that is higher, which leaves rows out and lets none in.
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
  /** Any other thread: reads again until no record was written meanwhile. */
  readReach(): Reach {
    for (;;) {
      const { done } = this;
      const reach = this.#reachOf(done);
      if (secondLook(this.#words, Word.done) === done) return reach;
    }
  }
  /** Row after the last span that was submitted. */
  get next(): number {
    return this.#spans[this.#at(this.submitted - 1) + Field.to]!;
  }

  /**
   * Pack's thread: before the copies of rows up to this one are ordered. A successor reads it too.
   */
  begin(to: number): void {
    this.#spans[BEGUN] = Math.max(this.begun, to);
  }
  get begun(): number {
    return this.#spans[BEGUN] as number;
  }
  /** Pack's thread: the copies of [from, to) and the event after them are enqueued. */
  submit(from: number, to: number): void {
    const { submitted } = this;
    const at = this.#at(submitted);
    this.#spans[at + Field.from] = from;
    this.#spans[at + Field.to] = to;
    Atomics.store(this.#words, Word.submitted, (submitted + 1) | 0);
  }

  /**
   * Poll: the event of the oldest span on the way was seen. Rows before `lost` may have been
   * overwritten while they were copied.
   */
  finish(lost: number, places: number): void {
    const { done } = this;
    const before = this.#reachOf(done);
    const at = this.#at(done);
    const from = this.#spans[at + Field.from]!;
    const to = this.#spans[at + Field.to]!;
    const gap = from - before.visible;
    const first = Math.min(Math.max(from, lost), to);
    // The rows that are there are one run: nothing older than a hole is drawn.
    this.#spans[at + Field.low] = Math.max(
      gap > 0 || first > from ? first : before.low,
      to - places,
    );
    // Rows that were there before the pipeline, and are gone, were not missed.
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
 * The event that is recorded after a span's copies. There are as many as spans can be on the way.
 */
export const eventOf = (span: number): number => span & (MAX_IN_FLIGHT - 1);
