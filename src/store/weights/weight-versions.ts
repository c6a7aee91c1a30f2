/**
 * The versions of a mailbox and the offsets of their bytes: the writer's side, for the actors. A
 * mailbox has one writer at a time. native/rows/mailbox.hpp has the rules Mailbox-1 to Mailbox-4,
 * next to the words that they govern.
 */
import { answered } from '../../base/addon.ts';
import { checkCount } from '../../base/checks.ts';
import { rangeError, stateError } from '../../base/errors.ts';
import { BELL_WORDS, BellBoard } from '../../shm/bell.ts';
import { PAGE, type Place, roundUp, STRIDE } from '../../shm/memory.ts';
import { rowsAddon } from '../rows/rows-addon.ts';

const BELLS = 16;
/**
 * Returns the offsets of a mailbox's parts. The words of native/rows/mailbox.hpp come first, and
 * only the writer stores them. Then come the bells, and then whole pages with the versions' bytes.
 */
function placesOf(length: number) {
  const { bytes: bellsAt } = rowsAddon().layouts.mailbox;
  const dataAt = roundUp(bellsAt + BELLS * BELL_WORDS * 4, PAGE);
  return { bellsAt, dataAt, dataBytes: roundUp(3 * roundUp(length * 4, STRIDE), PAGE) };
}

/** The last version, because versions are Int32. */
const LAST_VERSION = 2 ** 31 - 1;

/** Returns the bytes of a mailbox whose versions have `length` float32 weights. */
export function mailboxBytes(length: number): number {
  const { dataAt, dataBytes } = placesOf(length);
  return dataAt + dataBytes;
}

/** The location of a version's bytes. */
export interface VersionPlace {
  version: number;
  /** index of the version's buffer: version mod 3 */
  buffer: number;
  /** bytes from the start of `view` */
  byteOffset: number;
}

export class WeightVersions {
  /** the three buffers, on whole pages without other data, so that a driver can register them */
  readonly view: Uint8Array;
  /** bytes from the start of one buffer to the next */
  readonly stride: number;
  /** rung after every publish */
  readonly bells: BellBoard;
  /** the words of native/rows/mailbox.hpp, Int32, each in its own cache line */
  readonly control: Int32Array;
  readonly #begun: number;
  readonly #published: number;
  readonly #refused: number;
  /** number of float32 weights in a version */
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

  /** The newest published version, or 0 before the first. */
  get published(): number {
    return Atomics.load(this.control, this.#published);
  }

  /** The highest version whose write has begun. */
  get begun(): number {
    return Atomics.load(this.control, this.#begun);
  }

  /**
   * Begins the next version, and returns the location of its bytes, which may be written until
   * publish(). Returns null while two versions are unpublished.
   */
  begin(): VersionPlace | null {
    const version = answered(rowsAddon().mailboxBegin(this.control));
    return version === 0 ? this.notYet() : this.#placement(version);
  }

  /**
   * Returns the versions that were begun and not published, oldest first. After a writer died, or
   * its versions were refused, the next writer calls it. That writer writes these versions again,
   * each in the same buffer, and then publishes them. `begun` never falls, because readers rely on
   * it (Mailbox-3).
   */
  unpublished(): VersionPlace[] {
    const { published } = this;
    return Array.from({ length: Math.min(Math.max(0, this.begun - published), 2) }, (_, i) =>
      this.#placement(published + 1 + i),
    );
  }

  /**
   * Publishes a version whose bytes are all written, and rings the bells. Versions must be
   * published in order. Throws ERR_HOTSLOT_STATE_BUSY for a version that is not the next one, or
   * that was never begun. The calling thread may be another than begin()'s.
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
   * Returns the index of the first NaN or infinite weight of a version, or −1 if all are finite.
   * The version must be completely written and not yet published.
   */
  notFinite(version: number): number {
    return answered(
      rowsAddon().firstNotFinite(this.view, this.#placement(version).byteOffset, this.length),
    );
  }

  /** Returns a version's bytes, and their offset in `view`. */
  bytesOf(version: number): { bytes: Uint8Array; byteOffset: number } {
    const { byteOffset } = this.#placement(version);
    return { bytes: this.view.subarray(byteOffset, byteOffset + 4 * this.length), byteOffset };
  }

  /**
   * Records that a completely written version will not be published (Mailbox-4). Only the thread
   * that would have published the version calls it. The next writer reads `refused`, and writes the
   * unpublished versions up to it again.
   *
   * The older of two refused versions may be written and refused again. `refused` then stays at the
   * higher version. If it fell, no writer would write the higher version again, and no version
   * could be begun any more.
   */
  refuse(version: number): void {
    if (version > this.refused) Atomics.store(this.control, this.#refused, version);
  }
  /**
   * Refuses the versions that a pipeline began and did not publish, when it closes (Mailbox-4).
   * Call it after the copies that the pipeline enqueued are done.
   */
  abandon(): void {
    const { begun } = this;
    if (begun > this.published) this.refuse(begun);
  }
  /**
   * Stores the newest version of an earlier run in a mailbox that has no version yet. The next
   * version is `version` + 1.
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

  /**
   * Returns null, which means that no version can be begun now. Throws a RangeError if none can
   * ever be begun, because versions have run out.
   */
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
