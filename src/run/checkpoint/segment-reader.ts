/**
 * Reads a buffer's segments from their files. Places are copied into the buffer before the checksum
 * of their file is checked. They count only after SnapshotIO.restore(), so a damaged file leaves
 * the buffer empty.
 */

import { rangeError } from '../../base/errors.ts';
import type { LaneStates, SnapshotIO } from '../../store/rows/snapshot-io.ts';
import type { FileFacts, Folder } from './folder.ts';
import type { Segment } from './segments.ts';

/**
 * Copies the places of files into a buffer that is not used yet. Returns the segments, which a
 * later save reuses. Throws if a place of `states` is in none of the files.
 */
export async function loadSegments(
  folder: Folder,
  files: readonly FileFacts[],
  ledger: SnapshotIO,
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
      if ((segment.from[lane] as number) <= reached)
        reached = Math.max(reached, segment.to[lane] as number);
    if (reached < to)
      throw rangeError(
        `'${folder.path}' is damaged: no segment has place ${reached} of lane ${lane}, up to ${to}`,
      );
  }
  return segments;
}

/**
 * Reads one file into the buffer. take() receives the file's bytes in order: first the ranges, then
 * the places. A piece may end in the middle of a range or of a place.
 */
class SegmentReader {
  readonly #ledger: SnapshotIO;
  readonly #facts: FileFacts;
  readonly #head: Uint8Array;
  readonly #cut: Uint8Array;
  #headed = 0;
  #pending = 0;
  #from = new Float64Array();
  #to = new Float64Array();
  #lane = 0;
  #place = 0;

  constructor(ledger: SnapshotIO, facts: FileFacts) {
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
    // Completes a place that began in the previous piece.
    if (this.#pending > 0 && rest.length > 0) {
      const some = rest.subarray(0, this.#cut.length - this.#pending);
      this.#cut.set(some, this.#pending);
      this.#pending += some.length;
      rest = rest.subarray(some.length);
      if (this.#pending < this.#cut.length) return;
      this.#pending = 0;
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
    this.#pending = cut.length;
  }

  over(): Segment {
    return { ...this.#facts, from: this.#from, to: this.#to };
  }

  /**
   * Reads the ranges and checks them against the file's size. A damaged file may have wrong ranges,
   * and its checksum is complete only at the end of the file.
   */
  #begin(): void {
    const { lanes, placeBytes } = this.#ledger;
    const numbers = new Float64Array(this.#head.buffer);
    [this.#from, this.#to] = [numbers.slice(0, lanes), numbers.slice(lanes)];
    let places = 0;
    for (let lane = 0; lane < lanes; lane++) {
      const [from, to] = [this.#from[lane] as number, this.#to[lane] as number];
      if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to) || from < 0 || to < from)
        places = Number.NaN;
      places += to - from;
    }
    if (this.#head.length + places * placeBytes !== this.#facts.bytes)
      throw rangeError(
        `'${this.#facts.file}' is damaged: its ranges do not fit its ${this.#facts.bytes} bytes`,
      );
    this.#place = this.#from[0] as number;
  }

  #nextLane(): void {
    while (this.#place >= (this.#to[this.#lane] as number))
      this.#place = this.#from[++this.#lane] as number;
  }
  #put(bytes: Uint8Array, count: number): void {
    this.#nextLane();
    this.#ledger.put(this.#lane, this.#place, count, bytes);
    this.#place += count;
  }
}
