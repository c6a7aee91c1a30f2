/**
 * Stores a buffer's places in segments: files that never change. A place contains a row, or a step
 * of a lane. A segment contains a range of places of each lane, by absolute number. A save writes
 * only the places added since the last save. If writers overwrite places before the save has copied
 * them, the saved range begins after these places.
 *
 * A file contains float64 `from` of each lane, float64 `to` of each lane, then the places, lane by
 * lane.
 */
import { setTimeout } from 'node:timers/promises';
import type { Put } from '../../base/arrays/files.ts';
import { unavailableError } from '../../base/errors.ts';
import type { LaneStates, SnapshotIO } from '../../store/rows/snapshot-io.ts';
import type { FileFacts, Folder } from './folder.ts';
import { Sweeper } from './sweep.ts';

/** most bytes of a file, unless one place has more */
const MAX_SEGMENT_BYTES = 1 << 26;
/** bytes that a save copies and writes at once */
const PIECE = 1 << 20;
/**
 * A save throws after it has written this number of times the ring's places. Writers then overwrite
 * places faster than the save copies them
 */
const MAX_LAPS = 16;
/** number of sweeps that a save attempts before it throws */
const MAX_TRIES = 1000;
/** if more segments than this are small, the next save writes them again as one */
const SMALL_ONES = 64;
/**
 * a segment is small if it has fewer bytes than `SMALL`, or than the share `SMALL_SHARE` of all
 * segments' bytes
 */
const SMALL = 1 << 20;
const SMALL_SHARE = 1 / 1024;

interface Ranges {
  readonly from: Float64Array;
  readonly to: Float64Array;
}
export interface Segment extends Ranges, FileFacts {}

/** The result of a save. Its manifest names the segments. */
export interface Written {
  readonly segments: readonly Segment[];
  /** states of the lanes that match the segments */
  readonly states: LaneStates;
  /** bytes of the new files */
  readonly bytes: number;
  /** places written that are newer than the states given to save() */
  readonly beyond: number;
}

export class Segments {
  readonly #ledger: SnapshotIO;
  readonly #segments: readonly Segment[];
  /** two pieces: the save fills one while the disk writes the other */
  readonly #pieces: readonly [Uint8Array, Uint8Array];

  constructor(ledger: SnapshotIO, segments: readonly Segment[] = []) {
    this.#ledger = ledger;
    this.#segments = segments;
    const piece = () =>
      new Uint8Array(Math.max(1, Math.floor(PIECE / ledger.placeBytes)) * ledger.placeBytes);
    this.#pieces = [piece(), piece()];
  }

  /**
   * Writes the places in `taken` that no segment contains yet. Writers may overwrite some of them
   * before they are copied. The segments of a replay buffer then get as many newer places instead,
   * so that a restored ring is full.
   */
  async save(folder: Folder, save: number, taken: LaneStates): Promise<Written> {
    const { lanes, numbers, perLane, full } = this.#ledger;
    const states = taken.slice();
    const [from, to] = [column(states, numbers, 0), column(states, numbers, 1)];
    const kept = this.#reusable(from);
    const begin = from.slice();
    const last = kept.at(-1);
    for (let lane = 0; last && lane < lanes; lane++)
      begin[lane] = Math.max(from[lane] as number, last.to[lane] as number);
    const files: Promise<Segment>[] = [];
    let written = 0;
    // Fills the next file while the disk writes the previous one.
    const write = async (ranges: Ranges) => {
      for (const planned of this.#parts(ranges)) {
        const part = this.#left(planned, from);
        if (part === null) continue;
        const { filled, flushed } = this.#write(
          folder,
          `segment-${save}.${files.length}.rows`,
          part,
          from,
        );
        files.push(flushed);
        written += (part.to[0] as number) - (part.from[0] as number);
        await filled;
        await files.at(-2);
      }
    };
    // If the missing places fit in memory, the save copies them in one sweep. A sweep needs no wait
    // for the disk, so fast writers cannot overtake it as they could overtake a copy in pieces.
    const sweeper = new Sweeper(this.#ledger);
    let tries = 0;
    const sweepOnce = async () => {
      const swept = sweeper.sweep(to[0] as number);
      if (++tries === MAX_TRIES) throw tooFast();
      if (swept === null) return setTimeout(1);
      [from[0], to[0]] = [swept.lowest, swept.to];
      const ranges = { from: Float64Array.of(swept.from), to: to.slice() };
      const file = this.#writeHeld(
        folder,
        `segment-${save}.${files.length}.rows`,
        ranges,
        swept.parts,
      );
      files.push(file);
      await file; // the next sweep overwrites the parts
    };
    const end = to[0] as number;
    try {
      await write({ from: begin, to });
      // The saved ring must be full. For each place that writers overtook at the old end, the save
      // adds a newer place at the new end.
      while (full && (from[0] as number) > Math.max(0, (to[0] as number) - perLane)) {
        const target = (from[0] as number) + perLane;
        if (written > MAX_LAPS * perLane) throw tooFast();
        if (sweeper.fits(to[0] as number, target)) {
          await sweepOnce();
          continue;
        }
        while ((this.#ledger.states()[1] as number) < target) await setTimeout(1);
        const beyond = { from: to.slice(), to: Float64Array.of(target) };
        to[0] = target;
        await write(beyond);
      }
    } finally {
      await Promise.allSettled(files); // no write continues after a failed save
    }
    const fresh = await Promise.all(files);
    for (let lane = 0; lane < lanes; lane++) {
      states[lane * numbers] = Math.min(from[lane] as number, to[lane] as number);
      states[lane * numbers + 1] = to[lane] as number;
    }
    return {
      segments: [...kept, ...fresh].filter((segment) => holdsSome(segment, from)),
      states,
      bytes: fresh.reduce((sum, { bytes }) => sum + bytes, 0),
      beyond: full ? (to[0] as number) - end : 0,
    };
  }

  /**
   * Returns the segments that contain places at or after `from`. If more than `SMALL_ONES` small
   * segments are at the end of the list, it leaves them out, and save() writes their places again.
   */
  #reusable(from: Float64Array): Segment[] {
    const kept = this.#segments.filter((segment) => holdsSome(segment, from));
    const all = kept.reduce((sum, { bytes }) => sum + bytes, 0);
    const small = Math.max(SMALL, all * SMALL_SHARE);
    let first = kept.length;
    while (first > 0 && (kept[first - 1] as Segment).bytes < small) first--;
    return kept.length - first > SMALL_ONES ? kept.slice(0, first) : kept;
  }

  /**
   * Splits a range into one part for each file. Each part has an equal share of every lane, and the
   * parts begin with the oldest places. Writers overwrite the oldest places first.
   */
  #parts({ from, to }: Ranges): Ranges[] {
    const { lanes, placeBytes } = this.#ledger;
    const places = from.reduce(
      (sum, begin, lane) => sum + Math.max(0, (to[lane] as number) - begin),
      0,
    );
    const count = Math.ceil((places * placeBytes) / MAX_SEGMENT_BYTES);
    const cut = (share: number) =>
      Float64Array.from({ length: lanes }, (_, lane) => {
        const begin = from[lane] as number;
        return begin + Math.floor(Math.max(0, (to[lane] as number) - begin) * share);
      });
    return Array.from({ length: count }, (_, i) => ({
      from: cut(i / count),
      to: cut((i + 1) / count),
    }));
  }

  /**
   * Returns the range without the places that writers have already overwritten. Raises `lowest` to
   * the first place that was not overwritten. Returns null if no place is left.
   */
  #left({ from, to }: Ranges, lowest: Float64Array): Ranges | null {
    const left = from.map((begin, lane) => {
      const end = to[lane] as number;
      const whole = Math.min(this.#ledger.read(lane, begin, 0, new Uint8Array(0)), end);
      if (whole > begin) lowest[lane] = Math.max(lowest[lane] as number, whole);
      return Math.max(begin, whole);
    });
    return holdsSome({ to }, left) ? { from: left, to } : null;
  }

  /**
   * Writes one file. If writers overtake a place, it raises `lowest` to the first place that was
   * copied whole. After `filled` resolves, `lowest` is final and the pieces are free. `flushed`
   * resolves with the segment when the file is on the disk.
   */
  #write(
    folder: Folder,
    file: string,
    { from, to }: Ranges,
    lowest: Float64Array,
  ): { filled: Promise<unknown>; flushed: Promise<Segment> } {
    const { lanes } = this.#ledger;
    let filled = () => {};
    const full = new Promise<void>((resolve) => (filled = resolve));
    const flushed = folder.write(file, async (put) => {
      await put(bytesOf(from));
      await put(bytesOf(to));
      for (let lane = 0; lane < lanes; lane++)
        await this.#writeLane(put, { from, to, lane, lowest });
      filled();
    });
    const segment = flushed.then((facts) => ({ ...facts, from, to }));
    return { filled: Promise.race([full, segment]), flushed: segment };
  }

  async #writeHeld(
    folder: Folder,
    file: string,
    { from, to }: Ranges,
    parts: readonly Uint8Array[],
  ): Promise<Segment> {
    const facts = await folder.write(file, async (put) => {
      for (const part of [bytesOf(from), bytesOf(to), ...parts]) await put(part);
    });
    return { ...facts, from, to };
  }

  async #writeLane(
    put: Put,
    { from, to, lane, lowest }: Ranges & { lane: number; lowest: Float64Array },
  ): Promise<void> {
    const { placeBytes } = this.#ledger;
    let [piece, other] = this.#pieces;
    const atOnce = Math.floor(piece.length / placeBytes);
    const end = to[lane] as number;
    let before: Promise<void> | undefined;
    for (let place = from[lane] as number; place < end; place += atOnce) {
      const count = Math.min(atOnce, end - place);
      const part = piece.subarray(0, count * placeBytes);
      const whole = this.#ledger.read(lane, place, count, part);
      if (whole > place)
        lowest[lane] = Math.max(lowest[lane] as number, Math.min(whole, place + count));
      const written = put(part);
      await before;
      before = written;
      [piece, other] = [other, piece];
    }
    await before;
  }
}

const tooFast = () =>
  unavailableError('rows are overwritten faster than they can be written to the disk');

function column(states: LaneStates, numbers: number, which: number): Float64Array {
  return Float64Array.from(
    { length: states.length / numbers },
    (_, lane) => states[lane * numbers + which] as number,
  );
}
/** Returns whether the segment contains places at or after `from` in any lane. */
const holdsSome = ({ to }: { to: Float64Array }, from: Float64Array): boolean =>
  to.some((end, lane) => end > (from[lane] as number));
const bytesOf = (numbers: Float64Array): Uint8Array =>
  new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
