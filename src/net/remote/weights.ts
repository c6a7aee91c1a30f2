/**
 * Sends weights to hosts: each version in pieces of 4 MiB, and a text that identifies the newest
 * version. A reader gets the newest version or nothing, because pieces of older versions expire and
 * the checksum covers all pieces.
 */

import { crc32 } from '../../base/arrays/crc32.ts';
import type { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import type { Keys } from './keys.ts';
import type { Link } from './link.ts';

/**
 * Bytes of a piece. Between two pieces, the link can send other calls. The time limit of a reply
 * assumes pieces of this size (VALUE_BYTES in redis-link.ts).
 */
const PIECE_BYTES = 4 * 2 ** 20;
/** Maximum bytes a second that the learner sends. Larger weights are sent less often. */
const BYTES_A_SECOND = 20 * 2 ** 20;
/**
 * Approximate bytes that all versions on the server may take together. The time after which a
 * version expires is derived from this, but is never shorter than MIN_LIFE_MS.
 */
const KEPT_BYTES = 256 * 2 ** 20;
const MIN_LIFE_MS = 10_000;
const MAX_LIFE_MS = 60_000;

const text = new TextDecoder();

/** Identifies the newest weights. */
interface Newest {
  readonly epoch: number;
  readonly version: number;
  readonly bytes: number;
  readonly sum: number;
}
const writeNewest = ({ epoch, version, bytes, sum }: Newest) =>
  new TextEncoder().encode(`${epoch}:${version}:${bytes}:${sum}`);
function readNewest(from: Uint8Array | null): Newest | null {
  const found = /^(\d{1,16}):(\d{1,10}):(\d{1,11}):(\d{1,10})$/.exec(
    from === null ? '' : text.decode(from),
  );
  if (found === null) return null;
  const [epoch, version, bytes, sum] = found.slice(1).map(Number) as [
    number,
    number,
    number,
    number,
  ];
  return { epoch, version, bytes, sum };
}

/** The learner's side: stores weights on the server. */
export class WeightsOut {
  readonly #link: Link;
  readonly #keys: Keys;
  readonly #mailbox: WeightMailbox;
  readonly #epoch: number;
  readonly #everyMs: number;
  readonly #lifeMs: number;
  readonly #weights: Float32Array;
  #version = 0;
  #storedAt = Number.NEGATIVE_INFINITY;
  #fresh = true;

  constructor(given: {
    link: Link;
    keys: Keys;
    mailbox: WeightMailbox;
    epoch: number;
    everyMs: number;
  }) {
    this.#link = given.link;
    this.#keys = given.keys;
    this.#mailbox = given.mailbox;
    this.#epoch = given.epoch;
    const bytes = 4 * given.mailbox.length;
    this.#everyMs = Math.max(given.everyMs, (1000 * bytes) / BYTES_A_SECOND);
    const life = (KEPT_BYTES / bytes) * this.#everyMs;
    this.#lifeMs = Math.max(MIN_LIFE_MS, 4 * this.#everyMs, Math.min(MAX_LIFE_MS, life));
    this.#weights = new Float32Array(given.mailbox.length);
  }

  /** Makes store() due at once, because the server may have none of the weights. */
  again(): void {
    this.#fresh = true;
  }

  /** ms until store() has something to do, Infinity before the first version is published */
  get dueMs(): number {
    const { published } = this.#mailbox;
    if (published === 0) return Number.POSITIVE_INFINITY;
    const since = performance.now() - this.#storedAt;
    if (this.#fresh) return 0;
    return published > this.#version ? this.#everyMs - since : this.#lifeMs / 2 - since;
  }

  /**
   * Stores the newest version and notifies hosts. Rejects as the link does. A later store() then
   * stores the newest version again.
   */
  async store(): Promise<void> {
    const newer = this.#mailbox.read(this.#weights, 0);
    if (newer === 0) return;
    this.#storedAt = performance.now();
    const bytes = new Uint8Array(this.#weights.buffer);
    const pieces = Math.ceil(bytes.length / PIECE_BYTES);
    const sum = crc32(bytes);
    // Stores one piece after the other, so that the link can send other calls in between.
    for (let i = 0; i < pieces; i++) {
      const piece = bytes.subarray(i * PIECE_BYTES, (i + 1) * PIECE_BYTES);
      await this.#link.store(this.#keys.weights(newer, i), piece, this.#lifeMs);
    }
    const newest = writeNewest({ epoch: this.#epoch, version: newer, bytes: bytes.length, sum });
    await this.#link.store(this.#keys.newest, newest, this.#lifeMs);
    await this.#link.notify(this.#keys.versions, `${newer}`);
    this.#version = newer;
    this.#fresh = false;
  }
}

/** The host's side: fetches weights from the server. */
export class WeightsIn {
  readonly #link: Link;
  readonly #keys: Keys;
  readonly #mailbox: WeightMailbox;
  readonly #bytes: Uint8Array;
  readonly #weights: Float32Array;
  /**
   * for each of the mailbox's last versions (`own`), the learner's epoch and version. The mailbox
   * numbers its versions itself, so the numbers differ from the learner's
   */
  readonly #versions: { readonly own: number; readonly epoch: number; readonly version: number }[] =
    [];
  #newest: Newest | null = null;

  constructor(given: { link: Link; keys: Keys; mailbox: WeightMailbox }) {
    this.#link = given.link;
    this.#keys = given.keys;
    this.#mailbox = given.mailbox;
    this.#weights = new Float32Array(given.mailbox.length);
    this.#bytes = new Uint8Array(this.#weights.buffer);
  }

  /**
   * Returns the learner's version that the mailbox has as version `own`. Returns 0 if that is
   * unknown, too old to be still in use, or of another epoch than `epoch`.
   */
  versionOf(own: number, epoch?: number): number {
    const known = this.#versions[own % KEPT_VERSIONS];
    return known?.own === own && (epoch === undefined || known.epoch === epoch) ? known.version : 0;
  }

  /**
   * Writes the newest version to the mailbox, unless the mailbox has it already. Returns whether it
   * wrote one. Rejects as the link does.
   */
  async fetch(): Promise<boolean> {
    for (;;) {
      const newest = readNewest(await this.#link.load(this.#keys.newest));
      if (newest === null || newest.bytes !== this.#bytes.length || this.#has(newest)) return false;
      if (!(await this.#pieces(newest))) {
        // A piece is missing or of a later version. Starts again if there is a newer version by
        // now.
        const now = readNewest(await this.#link.load(this.#keys.newest));
        if (now === null || (now.epoch === newest.epoch && now.version === newest.version))
          return false;
        continue;
      }
      this.#newest = newest;
      // The learner's publisher has checked that the weights are finite, or permits non-finite
      // ones.
      const own = this.#mailbox.write(this.#weights, { nonFinite: true });
      this.#versions[own % KEPT_VERSIONS] = { own, epoch: newest.epoch, version: newest.version };
      return true;
    }
  }

  #has({ epoch, version }: Newest): boolean {
    return this.#newest?.epoch === epoch && this.#newest.version === version;
  }

  async #pieces({ version, sum }: Newest): Promise<boolean> {
    const bytes = this.#bytes;
    for (let from = 0, i = 0; from < bytes.length; from += PIECE_BYTES, i++) {
      const piece = await this.#link.load(this.#keys.weights(version, i));
      if (piece === null || piece.length !== Math.min(PIECE_BYTES, bytes.length - from))
        return false;
      bytes.set(piece, from);
    }
    return crc32(bytes) === sum;
  }
}

/**
 * Number of the mailbox's versions in `#versions`. Collectors act with one of the last few, so
 * older ones are not needed.
 */
const KEPT_VERSIONS = 1024;
