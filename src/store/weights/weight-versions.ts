/**
 * A mailbox's versions and the places of their bytes: its writer's side, for the actors. There is
 * one writer at a time. The invariants (Mailbox-1 to Mailbox-4) stand next to the words they
 * govern, in native/rows/mailbox.hpp.
 */
import { answered } from '../../base/addon.ts';
import { checkCount } from '../../base/checks.ts';
import { rangeError, stateError } from '../../base/errors.ts';
import { BELL_WORDS, BellBoard } from '../../shm/bell.ts';
import { PAGE, type Place, roundUp, STRIDE } from '../../shm/memory.ts';
import { rowsAddon } from '../rows/rows-addon.ts';

const BELLS = 16;
/**
 * The bells and then whole pages follow the words of native/rows/mailbox.hpp, which the writer
 * alone writes.
 */
function placesOf(length: number) {
  const { bytes: bellsAt } = rowsAddon().layouts.mailbox;
  const dataAt = roundUp(bellsAt + BELLS * BELL_WORDS * 4, PAGE);
  return { bellsAt, dataAt, dataBytes: roundUp(3 * roundUp(length * 4, STRIDE), PAGE) };
}

/** versions are Int32 */
const LAST_VERSION = 2 ** 31 - 1;

/** Returns the bytes of a mailbox whose versions have `length` float32. */
export function mailboxBytes(length: number): number {
  const { dataAt, dataBytes } = placesOf(length);
  return dataAt + dataBytes;
}

/** The place of a version's bytes. */
export interface VersionPlace {
  version: number;
  /** version mod 3 */
  buffer: number;
  /** bytes from the start of `view` */
  byteOffset: number;
}

export class WeightVersions {
  /**
   * the three buffers: whole pages, page-aligned, without other data, for registration with a
   * driver
   */
  readonly view: Uint8Array;
  /** bytes between two buffers */
  readonly stride: number;
  /** rung after every publish */
  readonly bells: BellBoard;
  /** Int32, a cache line each */
  readonly control: Int32Array;
  readonly #begun: number;
  readonly #published: number;
  readonly #refused: number;
  /** float32 weights of a version */
  readonly length: number;

  constructor({ memory, offset, length }: Place & { length: number }) {
    this.length = length;
    this.stride = roundUp(length * 4, STRIDE);
    const { bellsAt, dataAt, dataBytes } = placesOf(length);
    const { begun, published, refused } = rowsAddon().layouts.mailbox;
    [this.#begun, this.#published, this.#refused] = [begun / 4, published / 4, refused / 4];
    this.control = new Int32Array(memory, offset, bellsAt / 4);
    this.bells = BellBoard.over({ memory, offset: offset + bellsAt }, BELLS);
    this.view = new Uint8Array(memory, offset + dataAt, dataBytes);
  }

  /** The newest whole version, or 0 before the first. */
  get published(): number {
    return Atomics.load(this.control, this.#published);
  }

  /** The highest version whose write has begun. */
  get begun(): number {
    return Atomics.load(this.control, this.#begun);
  }

  /**
   * Begins the next version: from now until publish() its bytes may be written. Null means not yet.
   */
  begin(): VersionPlace | null {
    const version = answered(rowsAddon().mailboxBegin(this.control));
    return version === 0 ? this.notYet() : this.#placement(version);
  }

  /**
   * Returns versions begun but not published, oldest first. A writer that takes over from a dead
   * one, or after one whose weights were refused, writes them again in their places and publishes
   * them. `begun` never moves back, because readers rely on it (Mailbox-3).
   */
  unpublished(): VersionPlace[] {
    const { published } = this;
    return Array.from({ length: Math.min(Math.max(0, this.begun - published), 2) }, (_, i) =>
      this.#placement(published + 1 + i),
    );
  }

  /**
   * Makes a begun version, whose bytes are all written, the one that readers get, and rings. In
   * order only: throws ERR_HOTSLOT_STATE_BUSY for a version that is not the next, or was never
   * begun. May be another thread than begin()'s.
   */
  publish(version: number): void {
    checkCount('version', version, 1, LAST_VERSION);
    if (!answered(rowsAddon().mailboxPublish(this.control, version))) {
      throw stateError(
        'BUSY',
        `version ${version} cannot be published: ${this.published} is published and ${this.begun} begun; versions go in order`,
      );
    }
    this.bells.ringAll();
  }

  /**
   * Returns the index of the first NaN or infinite weight of a version, or −1. The version is
   * wholly written and not yet published.
   */
  notFinite(version: number): number {
    return answered(
      rowsAddon().firstNotFinite(this.view, this.#placement(version).byteOffset, this.length),
    );
  }

  /** Returns a version's bytes, and where they begin in `view`. */
  bytesOf(version: number): { bytes: Uint8Array; byteOffset: number } {
    const { byteOffset } = this.#placement(version);
    return { bytes: this.view.subarray(byteOffset, byteOffset + 4 * this.length), byteOffset };
  }

  /**
   * Records that a wholly written version will not be published (Mailbox-4). Only the thread that
   * would have published it calls this. The first of two may be written again and refused again:
   * the highest stays, or the second would keep its owner forever.
   */
  refuse(version: number): void {
    if (version > this.refused) Atomics.store(this.control, this.#refused, version);
  }
  /**
   * Refuses the versions that a closing pipeline began and did not publish (Mailbox-4). Call it
   * after the copies that it ordered are over.
   */
  abandon(): void {
    const { begun } = this;
    if (begun > this.published) this.refuse(begun);
  }
  /**
   * Puts the newest version of an earlier run into a mailbox that has had none. The next version is
   * counted from there.
   */
  restore(version: number, weights: Float32Array): void {
    const { bytes } = this.bytesOf(version);
    bytes.set(new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength));
    Atomics.store(this.control, this.#begun, version);
    Atomics.store(this.control, this.#published, version);
    this.bells.ringAll();
  }
  /** The highest version that was refused, or 0. */
  get refused(): number {
    return Atomics.load(this.control, this.#refused);
  }

  /** Returns null, or throws if versions have ended. */
  notYet(): null {
    if (this.begun === LAST_VERSION)
      throw rangeError(`versions end at ${LAST_VERSION}; make a new mailbox`);
    return null;
  }

  #placement(version: number): VersionPlace {
    if (!(version >= 1))
      throw stateError('BUSY', `the mailbox's shared memory is corrupt: version ${version}`);
    const buffer = version % 3;
    return { version, buffer, byteOffset: buffer * this.stride };
  }
}
