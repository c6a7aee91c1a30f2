/**
 * Passes versions of weights from the learner to its collectors. A mailbox has three buffers in
 * shared memory, one writer and any number of readers. No call takes a lock, and no reader gets
 * torn weights. weight-versions.ts is the writer's side for actors.
 */
import { checkCount, checkFlag, checkInternal, checkKeys, INTERNAL } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { allocateShared, checkRoom, checkShared, PAGE } from '../../shm/memory.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import { mailboxBytes, WeightVersions } from './weight-versions.ts';

const KIND = 'hotslot.WeightMailbox';

/** The object that share() returns and attach() accepts. postMessage sends it as it is. */
export interface SharedWeightMailbox {
  readonly kind: typeof KIND;
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
  readonly length: number;
}

/**
 * Returns a mailbox's versions, for code that writes them piece by piece. The package does not
 * export this function.
 */
export let versionsOf: (mailbox: WeightMailbox) => WeightVersions;

/**
 * Passes versions of a flat float32 vector from one writer to any number of readers, without a
 * lock. A reader never sees a torn version.
 * @example
 * const mailbox = WeightMailbox.create({ length: 3 });
 * mailbox.write(Float32Array.of(1, 2, 3));
 * const mine = new Float32Array(3);
 * const version = mailbox.read(mine); // 1
 */
export class WeightMailbox {
  /** number of float32 weights in a version */
  readonly length: number;
  readonly #shared: SharedWeightMailbox;
  readonly #versions: WeightVersions;

  /**
   * Returns true only for an object with this class's private field. A proxy of a mailbox, or an
   * object that inherits from a mailbox, lacks the field.
   */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #shared in made;
  }

  static {
    versionsOf = (mailbox) => mailbox.#versions;
  }

  private constructor(key: unknown, shared: SharedWeightMailbox) {
    checkInternal(key, 'WeightMailbox', 'WeightMailbox.create() or attach()');
    this.#shared = shared;
    this.length = shared.length;
    this.#versions = new WeightVersions(shared);
  }

  /**
   * Creates a mailbox in new shared memory, with room for three versions.
   *
   * @param options `length`: float32 weights of a version, 1 to 2²⁹
   * @throws {TypeError|RangeError} for another length
   * @throws {ERR_HOTSLOT_MEMORY} if three versions do not fit into memory
   * @example
   * const mailbox = WeightMailbox.create({ length: learner.parameters.size });
   */
  static create(options: { length: number }): WeightMailbox {
    checkKeys('WeightMailbox.create', options, ['length']);
    const { length } = options;
    checkCount('length', length, 1, 2 ** 29);
    const place = allocateShared(
      `a mailbox of 3 × ${length} float32 weights`,
      mailboxBytes(length),
      PAGE,
      1,
    );
    return new WeightMailbox(INTERNAL, Object.freeze({ kind: KIND, ...place, length }));
  }

  /**
   * Opens the same mailbox in another thread, or again in this one.
   *
   * @param shared the result of share()
   * @throws {TypeError|RangeError} unless `shared` came from share()
   */
  static attach(shared: SharedWeightMailbox): WeightMailbox {
    checkShared(KIND, shared, shared?.memory, 'WeightMailbox.attach() needs the result of share()');
    checkRoom(shared, mailboxBytes(checkCount('length', shared.length, 1, 2 ** 29)));
    return new WeightMailbox(INTERNAL, shared);
  }

  /** Returns a plain object for postMessage or workerData. */
  share(): SharedWeightMailbox {
    return this.#shared;
  }

  /**
   * The newest published version, or 0 before the first. Versions are consecutive and start at 1.
   */
  get published(): number {
    return this.#versions.published;
  }

  /** The highest version whose write has begun. */
  get begun(): number {
    return this.#versions.begun;
  }

  /**
   * Publishes weights of host memory as the next version. Only one writer at a time may call it.
   *
   * @param weights float32 [length]
   * @param options `nonFinite` (default false): whether to publish NaN and infinities
   * @returns the version, or 0 if two versions are being written already. After 0, call write()
   *   again later
   * @throws {TypeError} for another array or length
   * @throws {RangeError} for a NaN or infinite weight, and after version 2³¹ − 1
   */
  write(weights: Float32Array, options: { nonFinite?: boolean } = {}): number {
    this.#check('weights', weights);
    checkKeys('write', options, ['nonFinite']);
    const { nonFinite = false } = options;
    checkFlag('nonFinite', nonFinite);
    const at = nonFinite ? -1 : rowsAddon().firstNotFinite(weights, 0, weights.length);
    if (at >= 0)
      throw rangeError(
        `weights[${at}] is ${weights[at]}, which would spoil the collectors' policies; { nonFinite: true } publishes it`,
      );
    const { control, view, stride, bells } = this.#versions;
    const version = rowsAddon().mailboxWrite(control, view, stride, weights);
    if (version === 0) this.#versions.notYet();
    else bells.ringAll();
    return version;
  }

  /**
   * Copies the newest version into `into`. Any thread may call it while versions are written.
   *
   * @param into float32 [length]
   * @param newerThan the version that the caller has, default 0
   * @returns the version, or 0 if no newer version could be copied. After 0, `into` may have any
   *   content
   * @throws {TypeError} for another array or length
   * @throws {TypeError|RangeError} for a wrong `newerThan`
   * @example
   * const newer = mailbox.read(mine, version);
   * if (newer > 0) version = newer;
   */
  read(into: Float32Array, newerThan = 0): number {
    this.#check('into', into);
    const { control, view, stride } = this.#versions;
    checkCount('newerThan', newerThan, 0);
    return rowsAddon().mailboxRead(control, view, stride, into, newerThan);
  }

  #check(name: string, array: unknown): asserts array is Float32Array {
    if (!(array instanceof Float32Array) || array.length !== this.length) {
      const got = array instanceof Float32Array ? `${array.length} elements` : typeof array;
      throw typeError(`${name} must be a Float32Array of ${this.length} elements, got ${got}`);
    }
  }
}
