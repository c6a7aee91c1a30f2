/**
 * Versioned weights from the learner to its collectors: three buffers in shared memory, one writer, any number of
 * readers, no lock, never torn. The invariants (M1–M3) stand beside the words they govern, in native/rows/mailbox.hpp.
 */
import { answered } from '../addon.ts';
import { checkCount, checkKeys, rangeError, stateError, typeError } from '../errors.ts';
import { allocateShared, roundUp } from '../shared-memory.ts';
import { BELL_WORDS, BellBoard } from '../wait/bell.ts';
import { rowsAddon } from './rows-addon.ts';

const PAGE = 4096;
const BELLS = 16;
/** begun, then published: Int32, a cache line each, written by the writer only; the bells follow, then whole pages */
const BEGUN = 0;
const PUBLISHED = 16;
const CONTROL_WORDS = 32;
const DATA_AT = roundUp((CONTROL_WORDS + BELLS * BELL_WORDS) * 4, PAGE);
/** device copies are fastest from and to multiples of it */
const STRIDE = 256;

/** versions are Int32 */
const LAST_VERSION = 2 ** 31 - 1;

const KIND = 'hotslot.WeightMailbox';

/** What share() gives and attach() takes; goes through postMessage as it is. */
export interface SharedWeightMailbox {
  readonly kind: typeof KIND;
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
  readonly length: number;
}

/** Where a version's bytes belong. */
export interface VersionPlace {
  version: number;
  /** version mod 3 */
  buffer: number;
  /** bytes from the start of `view` */
  byteOffset: number;
}

export class WeightMailbox {
  /** float32 weights of one version */
  readonly length: number;
  /** the three buffers: whole pages, page-aligned, nothing else inside, for registration with a driver */
  readonly view: Uint8Array;
  /** bytes between two buffers */
  readonly stride: number;
  /** rung after every publish */
  readonly bells: BellBoard;
  readonly #shared: SharedWeightMailbox;
  readonly #control: Int32Array;

  private constructor(shared: SharedWeightMailbox) {
    this.#shared = shared;
    this.length = shared.length;
    this.stride = roundUp(shared.length * 4, STRIDE);
    this.#control = new Int32Array(shared.memory, shared.offset, CONTROL_WORDS);
    const bells = new Int32Array(shared.memory, shared.offset + CONTROL_WORDS * 4, BELLS * BELL_WORDS);
    this.bells = new BellBoard(bells, BELLS);
    this.view = new Uint8Array(shared.memory, shared.offset + DATA_AT, dataBytes(shared.length));
  }

  /** `length`: float32 weights of one version. Throws ERR_HOTSLOT_MEMORY when three of them do not fit. */
  static create(options: { length: number }): WeightMailbox {
    checkKeys('WeightMailbox.create', options, ['length']);
    const { length } = options;
    checkCount('length', length, 1, 2 ** 29);
    const place = allocateShared(`a mailbox of 3 × ${length} float32 weights`, DATA_AT + dataBytes(length), PAGE);
    return new WeightMailbox(Object.freeze({ kind: KIND, ...place, length }));
  }

  /** The same mailbox in another thread. Throws a TypeError unless it came from share(). */
  static attach(shared: SharedWeightMailbox): WeightMailbox {
    if (shared?.kind !== KIND || !(shared.memory instanceof SharedArrayBuffer)) {
      throw typeError('WeightMailbox.attach() needs what share() of a mailbox returned');
    }
    return new WeightMailbox(shared);
  }

  share(): SharedWeightMailbox {
    return this.#shared;
  }

  /** The newest whole version; 0 before the first. Versions are dense and start at 1. */
  get published(): number {
    return Atomics.load(this.#control, PUBLISHED);
  }

  /** The highest version whose write has begun. */
  get begun(): number {
    return Atomics.load(this.#control, BEGUN);
  }

  /** Whether begin() would answer: fewer than two versions are begun and not published. Writer only. */
  canBegin(): boolean {
    return this.begun - this.published < 2;
  }

  /** Begins the next version: from now until publish() its bytes may be written. Null means not yet. Writer only. */
  begin(): VersionPlace | null {
    const version = answered(rowsAddon().mailboxBegin(this.#control));
    return version === 0 ? this.#notYet() : this.#place(version);
  }

  /**
   * Versions begun but not published, oldest first. A writer that takes over from a dead one writes them again in their
   * places and publishes them: `begun` never moves back, because readers rely on it (M3).
   */
  unpublished(): VersionPlace[] {
    const published = this.published;
    return Array.from({ length: this.begun - published }, (_, i) => this.#place(published + 1 + i));
  }

  /**
   * Makes a begun version, whose bytes are all written, the one readers get, and rings. In order only: throws
   * ERR_HOTSLOT_STATE_BUSY for a version that is not the next, or was never begun. May be another thread than begin()'s.
   */
  publish(version: number): void {
    checkCount('version', version, 1, LAST_VERSION);
    if (!answered(rowsAddon().mailboxPublish(this.#control, version))) {
      throw stateError(
        'BUSY',
        `version ${version} cannot be published: ${this.published} is published and ${this.begun} begun; versions go in order`,
      );
    }
    this.bells.ringAll();
  }

  /** Publishes weights that lie in host memory, in one native call. Returns the version, or 0 for not yet. Writer only. */
  write(weights: Float32Array): number {
    this.#check('weights', weights);
    const version = rowsAddon().mailboxWrite(this.#control, this.view, this.stride, weights);
    if (version === 0) this.#notYet();
    else this.bells.ringAll();
    return version;
  }

  /**
   * Copies the newest version into `into` (`length` float32) and returns it; 0 when none is newer than `newerThan`, and
   * then `into` may hold anything. Any thread, while versions are written. Throws TypeError for another array or length.
   */
  read(into: Float32Array, newerThan = 0): number {
    this.#check('into', into);
    return rowsAddon().mailboxRead(this.#control, this.view, this.stride, into, newerThan);
  }

  #notYet(): null {
    if (this.begun === LAST_VERSION) throw rangeError(`versions end at ${LAST_VERSION}; make a new mailbox`);
    return null;
  }

  #place(version: number): VersionPlace {
    const buffer = version % 3;
    return { version, buffer, byteOffset: buffer * this.stride };
  }

  #check(name: string, array: unknown): asserts array is Float32Array {
    if (!(array instanceof Float32Array) || array.length !== this.length) {
      const got = array instanceof Float32Array ? `${array.length} elements` : typeof array;
      throw typeError(`${name} must be a Float32Array of ${this.length} elements, got ${got}`);
    }
  }
}

function dataBytes(length: number): number {
  return roundUp(3 * roundUp(length * 4, STRIDE), PAGE);
}
