/**
 * Versioned weights from the learner to its collectors: three buffers in shared memory, one writer,
 * any number of readers, no lock, never torn. The writer's side for actors is weight-versions.ts.
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

/** For code that writes versions piece by piece. Not exported from the package. */
export let versionsOf: (mailbox: WeightMailbox) => WeightVersions;

export class WeightMailbox {
  /** float32 weights of one version */
  readonly length: number;
  readonly #shared: SharedWeightMailbox;
  readonly #versions: WeightVersions;

  /**
   * Returns true only for an object with the private field. A proxy, or an object that inherits
   * from one, lacks it.
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
   * Creates a mailbox for versions of `length` float32 weights. Throws ERR_HOTSLOT_MEMORY if three
   * versions do not fit.
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
   * Opens the same mailbox in another thread. Throws a TypeError unless `shared` came from share().
   */
  static attach(shared: SharedWeightMailbox): WeightMailbox {
    checkShared(KIND, shared, shared?.memory, 'WeightMailbox.attach() needs the result of share()');
    checkRoom(shared, mailboxBytes(checkCount('length', shared.length, 1, 2 ** 29)));
    return new WeightMailbox(INTERNAL, shared);
  }

  share(): SharedWeightMailbox {
    return this.#shared;
  }

  /** The newest whole version, or 0 before the first. Versions are dense and start at 1. */
  get published(): number {
    return this.#versions.published;
  }

  /** The highest version whose write has begun. */
  get begun(): number {
    return this.#versions.begun;
  }

  /**
   * Publishes weights that lie in host memory. Returns the version, or 0 for not yet. Writer only.
   * Throws a RangeError for a weight that is NaN or infinite, unless `nonFinite` is true.
   */
  write(weights: Float32Array, options: { nonFinite?: boolean } = {}): number {
    this.#check('weights', weights);
    checkKeys('write', options, ['nonFinite']);
    const { nonFinite = false } = options;
    checkFlag('nonFinite', nonFinite);
    const odd = nonFinite ? -1 : rowsAddon().firstNotFinite(weights, 0, weights.length);
    if (odd >= 0)
      throw rangeError(
        `weights[${odd}] is ${weights[odd]}, which would spoil the collectors' policies; { nonFinite: true } publishes it`,
      );
    const { control, view, stride, bells } = this.#versions;
    const version = rowsAddon().mailboxWrite(control, view, stride, weights);
    if (version === 0) this.#versions.notYet();
    else bells.ringAll();
    return version;
  }

  /**
   * Copies the newest version into `into` (`length` float32) and returns its number. Returns 0 if
   * none is newer than `newerThan`, and `into` may then hold anything. Any thread may call it while
   * versions are written. Throws TypeError for another array or length.
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
