/**
 * A buffer's places as files that never change: each holds a range of every lane, by absolute number, and a save writes only
 * what came since the last. Places that writers overtake meanwhile are dropped from the old end.
 *
 * A file: float64 `from` of each lane, float64 `to` of each lane, then the places, lane by lane.
 */
import { setTimeout } from 'node:timers/promises';
import type { LaneStates, Ledger } from '../buffer/ledger.ts';
import { rangeError } from '../errors.ts';
import type { Put } from '../formats/files.ts';
import type { FileFacts, Folder } from './folder.ts';

/** bytes of a file, at most, unless one place has more */
const MOST = 1 << 26;
/** bytes that are copied and written at once */
const PIECE = 1 << 20;
/** more small ones than this, and they are written again as one */
const SMALL_ONES = 64;
/** a file is small below this, and below this share of all */
const SMALL = 1 << 20;
const SMALL_SHARE = 1 / 1024;

interface Ranges {
  readonly from: Float64Array;
  readonly to: Float64Array;
}
export interface Segment extends Ranges, FileFacts {}

/** What a save wrote, to be kept when its manifest is in place. */
export interface Written {
  readonly segments: readonly Segment[];
  /** what the lanes are by these files */
  readonly states: LaneStates;
  /** bytes of new files */
  readonly bytes: number;
  /** places that came after `states` were taken, and were written too */
  readonly beyond: number;
}

export class Segments {
  readonly #ledger: Ledger;
  readonly #segments: readonly Segment[];

  constructor(ledger: Ledger, segments: readonly Segment[] = []) {
    this.#ledger = ledger;
    this.#segments = segments;
  }

  /** Writes what is not on the disk yet of what the lanes were. */
  async save(folder: Folder, save: number, taken: LaneStates): Promise<Written> {
    const { lanes, numbers, perLane, full } = this.#ledger;
    const states = taken.slice();
    const [from, to] = [column(states, numbers, 0), column(states, numbers, 1)];
    const kept = this.#kept(from);
    const begin = from.slice();
    const last = kept.at(-1);
    for (let lane = 0; last && lane < lanes; lane++)
      begin[lane] = Math.max(from[lane] as number, last.to[lane] as number);
    const fresh: Segment[] = [];
    const write = async (ranges: Ranges) => {
      for (const part of this.#parts(ranges))
        fresh.push(await this.#write(folder, `segment-${save}.${fresh.length}.rows`, part, from));
    };
    await write({ from: begin, to });
    // A full ring stays full: for what was overtaken at the old end, what came meanwhile at the new one.
    const end = to[0] as number;
    while (full && (from[0] as number) > Math.max(0, (to[0] as number) - perLane)) {
      const target = (from[0] as number) + perLane;
      while ((this.#ledger.states()[1] as number) < target) await setTimeout(1);
      const beyond = { from: to.slice(), to: Float64Array.of(target) };
      to[0] = target;
      await write(beyond);
    }
    for (let lane = 0; lane < lanes; lane++) {
      states[lane * numbers] = Math.min(from[lane] as number, to[lane] as number);
      states[lane * numbers + 1] = to[lane] as number;
    }
    return {
      segments: [...kept, ...fresh],
      states,
      bytes: fresh.reduce((sum, { bytes }) => sum + bytes, 0),
      beyond: full ? (to[0] as number) - end : 0,
    };
  }

  /** Those that still hold something, but for small ones when there are many: they are written anew. */
  #kept(from: Float64Array): Segment[] {
    const kept = this.#segments.filter(({ to }) => to.some((end, lane) => end > (from[lane] as number)));
    const all = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    const small = Math.max(SMALL, all * SMALL_SHARE);
    let first = kept.length;
    while (first > 0 && (kept[first - 1] as Segment).bytes < small) first--;
    return kept.length - first > SMALL_ONES ? kept.slice(0, first) : kept;
  }

  /** Pieces of a range that fit a file each: the same share of every lane, so that the oldest come first. */
  #parts({ from, to }: Ranges): Ranges[] {
    const { lanes, placeBytes } = this.#ledger;
    const places = from.reduce((sum, begin, lane) => sum + Math.max(0, (to[lane] as number) - begin), 0);
    const count = Math.ceil((places * placeBytes) / MOST);
    const cut = (share: number) =>
      Float64Array.from({ length: lanes }, (_, lane) => {
        const begin = from[lane] as number;
        return begin + Math.floor(Math.max(0, (to[lane] as number) - begin) * share);
      });
    return Array.from({ length: count }, (_, i) => ({ from: cut(i / count), to: cut((i + 1) / count) }));
  }

  /** Raises `lowest` to what is whole, where writers overtook. */
  async #write(folder: Folder, file: string, { from, to }: Ranges, lowest: Float64Array): Promise<Segment> {
    const { lanes } = this.#ledger;
    const facts = await folder.write(file, async (put) => {
      await put(bytesOf(from));
      await put(bytesOf(to));
      const piece = this.#piece();
      for (let lane = 0; lane < lanes; lane++) await this.#writeLane(put, { from, to, lane, lowest, piece });
    });
    return { ...facts, from, to };
  }

  async #writeLane(
    put: Put,
    { from, to, lane, lowest, piece }: Ranges & { lane: number; lowest: Float64Array; piece: Uint8Array },
  ): Promise<void> {
    const { placeBytes } = this.#ledger;
    const atOnce = Math.floor(piece.length / placeBytes);
    const end = to[lane] as number;
    for (let place = from[lane] as number; place < end; place += atOnce) {
      const count = Math.min(atOnce, end - place);
      const part = piece.subarray(0, count * placeBytes);
      const whole = this.#ledger.read(lane, place, count, part);
      if (whole > place) lowest[lane] = Math.max(lowest[lane] as number, Math.min(whole, place + count));
      await put(part);
    }
  }

  #piece(): Uint8Array {
    const { placeBytes } = this.#ledger;
    return new Uint8Array(Math.max(1, Math.floor(PIECE / placeBytes)) * placeBytes);
  }
}

/** Puts what files hold to its places in a buffer that nobody uses yet, and gives what a later save goes on from. */
export async function loadSegments(
  folder: Folder,
  files: readonly FileFacts[],
  ledger: Ledger,
  states: LaneStates,
): Promise<Segment[]> {
  const segments: Segment[] = [];
  for (const facts of files) {
    const reader = new SegmentReader(ledger, facts);
    await folder.read(facts, (piece) => reader.take(piece));
    segments.push(reader.over());
  }
  const { lanes, numbers } = ledger;
  for (let lane = 0; lane < lanes; lane++) {
    const [from, to] = [states[lane * numbers] as number, states[lane * numbers + 1] as number];
    let reached = from;
    for (const segment of segments)
      if ((segment.from[lane] as number) <= reached) reached = Math.max(reached, segment.to[lane] as number);
    if (reached < to)
      throw rangeError(`'${folder.path}' is damaged: no segment has place ${reached} of lane ${lane}, up to ${to}`);
  }
  return segments;
}

/** Takes a file's bytes as they come: the ranges first, then places, which may be cut anywhere. */
class SegmentReader {
  readonly #ledger: Ledger;
  readonly #facts: FileFacts;
  readonly #head: Uint8Array;
  readonly #cut: Uint8Array;
  #headed = 0;
  #kept = 0;
  #from = new Float64Array();
  #to = new Float64Array();
  #lane = 0;
  #place = 0;

  constructor(ledger: Ledger, facts: FileFacts) {
    this.#ledger = ledger;
    this.#facts = facts;
    this.#head = new Uint8Array(2 * 8 * ledger.lanes);
    this.#cut = new Uint8Array(ledger.placeBytes);
  }

  take(bytes: Uint8Array): void {
    let rest = bytes;
    if (this.#headed < this.#head.length) {
      const some = rest.subarray(0, this.#head.length - this.#headed);
      this.#head.set(some, this.#headed);
      this.#headed += some.length;
      rest = rest.subarray(some.length);
      if (this.#headed === this.#head.length) this.#begin();
    }
    // The end of a place whose beginning was in the piece before.
    if (this.#kept > 0 && rest.length > 0) {
      const some = rest.subarray(0, this.#cut.length - this.#kept);
      this.#cut.set(some, this.#kept);
      this.#kept += some.length;
      rest = rest.subarray(some.length);
      if (this.#kept < this.#cut.length) return;
      this.#kept = 0;
      this.#put(this.#cut, 1);
    }
    const whole = Math.floor(rest.length / this.#cut.length);
    let at = 0;
    while (at < whole) {
      this.#nextLane();
      const count = Math.min(whole - at, (this.#to[this.#lane] as number) - this.#place);
      this.#put(rest.subarray(at * this.#cut.length, (at + count) * this.#cut.length), count);
      at += count;
    }
    const cut = rest.subarray(whole * this.#cut.length);
    this.#cut.set(cut);
    this.#kept = cut.length;
  }

  over(): Segment {
    return { ...this.#facts, from: this.#from, to: this.#to };
  }

  /** The ranges are not believed yet: only the checksum at the end says that they are what was written. */
  #begin(): void {
    const { lanes, placeBytes } = this.#ledger;
    const numbers = new Float64Array(this.#head.buffer);
    [this.#from, this.#to] = [numbers.slice(0, lanes), numbers.slice(lanes)];
    let places = 0;
    for (let lane = 0; lane < lanes; lane++) {
      const [from, to] = [this.#from[lane] as number, this.#to[lane] as number];
      if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to) || from < 0 || to < from) places = Number.NaN;
      places += to - from;
    }
    if (this.#head.length + places * placeBytes !== this.#facts.bytes)
      throw rangeError(`'${this.#facts.file}' is damaged: its ranges do not fit its ${this.#facts.bytes} bytes`);
    this.#place = this.#from[0] as number;
  }

  #nextLane(): void {
    while (this.#place >= (this.#to[this.#lane] as number)) this.#place = this.#from[++this.#lane] as number;
  }
  #put(bytes: Uint8Array, count: number): void {
    this.#nextLane();
    this.#ledger.put(this.#lane, this.#place, count, bytes);
    this.#place += count;
  }
}

function column(states: LaneStates, numbers: number, which: number): Float64Array {
  return Float64Array.from({ length: states.length / numbers }, (_, lane) => states[lane * numbers + which] as number);
}
const bytesOf = (numbers: Float64Array): Uint8Array =>
  new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
