/**
 * Keeps buffers at fixed addresses, so that a captured graph can read them. Each microbatch of each
 * stage has its own buffers. The loader copies new data into them on its own stream. This is the
 * counterpart of Megatron's StaticBufferLoader.
 */

import { checkCount, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkDevice } from '../../device/checks.ts';
import type { Device, DeviceEvent, Stream } from '../../device/device.ts';
import { checkOpen, guardConstruction, Owner, own } from '../../device/owner.ts';
import { dropFailed } from '../../device/stream.ts';
import {
  checkFits,
  cloneTensorsInStruct,
  closeTensorsIn,
  copyTensorsInStruct,
  isStruct,
  structureOf,
  type TensorStruct,
  tensorsIn,
} from './struct.ts';

export const stages = ['training', 'validation'] as const;
export type Stage = (typeof stages)[number];

type Buffers = Record<string, unknown>;

/**
 * Records that a captured graph reads the buffers of a stage. From then on, every load must supply
 * all keys that the buffers have now. The package does not export this function.
 */
export let settleKeys: (loader: StaticBufferLoader, stage: Stage) => void;

/**
 * Owns the static device buffers for the microbatches of an iteration.
 * @example
 * const loader = new StaticBufferLoader(device);
 * const { x } = loader.load({ x: new Float32Array(4) }, 'training', 0);
 */
export class StaticBufferLoader extends Owner {
  readonly device: Device;
  /**
   * structures whose tensors a graph reads. Callers get copies of the structures, so they cannot
   * replace a tensor in them
   */
  readonly #buffers: Record<Stage, Buffers[]> = { training: [], validation: [] };
  /** keys that were added after the first load and that no graph reads. A load may omit them */
  readonly #added = new WeakMap<Buffers, Set<string>>();
  #stream: Stream;
  readonly #before: DeviceEvent;
  readonly #after: DeviceEvent;

  constructor(device: Device) {
    super('this loader');
    this.device = checkDevice('StaticBufferLoader', device);
    using construction = guardConstruction(this);
    this.#before = own(this, device.createEvent());
    this.#after = own(this, device.createEvent());
    this.#stream = device.createStream();
    own(this, { close: () => this.#stream.close() });
    // A captured graph that reads the buffers keeps their memory allocated after this close().
    own(this, { close: () => closeTensorsIn(this.#buffers) });
    construction.done();
  }

  /**
   * The device tensors of each microbatch, per stage. The returned structures are copies, which the
   * caller may change.
   */
  get staticBuffers(): Record<Stage, Buffers[]> {
    return structureOf(this.#buffers);
  }

  /**
   * Copies `inputs` into the buffers of this microbatch, and returns the buffers. `inputs` is an
   * object of tensors, or an array that contains only such an object. The first load of a
   * microbatch creates its buffers. Load microbatch n − 1 before the first load of microbatch n.
   *
   * Later loads must have all keys of the first load, and may add keys. Throws with the tensor's
   * path, before it copies anything, if a key is missing or a shape or dtype differs. Every load
   * returns the same tensors, in a new structure that the caller may change.
   *
   * The copies run after all work that is already on the current stream, and before work that is
   * enqueued there later. The calling thread never waits.
   */
  load(inputs: TensorStruct, stage: Stage, microbatch: number): Buffers {
    checkOpen(this);
    if (!stages.includes(stage))
      throw rangeError(`stage must be 'training' or 'validation', got ${describeValue(stage)}`);
    const buffers = this.#buffers[stage];
    checkCount('microbatch', microbatch, 0);
    if (microbatch > buffers.length) {
      throw rangeError(
        `microbatch ${microbatch} of ${stage} skips: ${buffers.length} were loaded, so the next new one is ${buffers.length}`,
      );
    }
    const given = unwrapped(inputs);
    const known = buffers[microbatch];
    const fresh = known ? this.#check(known, given, `${stage} microbatch ${microbatch}`) : given;
    const current = this.device.currentStream;
    current.record(this.#before);
    if (dropFailed(this.#stream)) this.#stream = this.device.createStream();
    const stream = this.#stream;
    // With `orderOnly`, the loader's stream does not fail if the current stream has failed.
    stream.wait(this.#before, { orderOnly: true });
    const added = copyTensorsInStruct(fresh, this.device, stream) as Buffers;
    if (known) {
      const later = this.#added.get(known) as Set<string>;
      for (const key of later) {
        if (Object.hasOwn(given, key)) continue;
        closeTensorsIn({ gone: known[key] });
        delete known[key];
        later.delete(key);
      }
      cloneTensorsInStruct(
        known,
        only(given, (key) => Object.hasOwn(known, key)),
        stream,
      );
      for (const [key, each] of Object.entries(added)) {
        later.add(key);
        // An assignment to the key `__proto__` would set the prototype.
        Object.defineProperty(known, key, {
          value: each,
          configurable: true,
          enumerable: true,
          writable: true,
        });
      }
    } else {
      buffers.push(added);
      this.#added.set(added, new Set());
    }
    stream.record(this.#after);
    current.wait(this.#after);
    return structureOf(buffers[microbatch] as Buffers);
  }

  static {
    settleKeys = (loader, stage) => {
      for (const buffers of loader.#buffers[stage] ?? []) loader.#added.get(buffers)?.clear();
    };
  }

  /**
   * Returns the entries of `given` that have new keys. Throws if a tensor does not fit its buffer,
   * or if a key is missing. Only the keys in `#added` may be missing.
   */
  #check(known: Buffers, given: Buffers, where: string): Buffers {
    const added = this.#added.get(known) as Set<string>;
    const paths = new Set([...tensorsIn(given)].map(([path]) => path));
    for (const [path] of tensorsIn(only(known, (key) => !added.has(key))))
      if (!paths.has(path))
        throw rangeError(`${where} has no '${path}', which it had when its buffers were made`);
    try {
      checkFits(
        known,
        only(given, (key) => Object.hasOwn(known, key)),
      );
    } catch (error) {
      if (error instanceof Error) error.message = `${where}: ${error.message}`;
      throw error;
    }
    return only(given, (key) => !Object.hasOwn(known, key));
  }
}

const only = (buffers: Buffers, wanted: (key: string) => boolean): Buffers =>
  Object.fromEntries(Object.entries(buffers).filter(([key]) => wanted(key)));

export function unwrapped(inputs: unknown): Buffers {
  const given = Array.isArray(inputs) && inputs.length === 1 ? (inputs[0] as unknown) : inputs;
  if (!isStruct(given) || Array.isArray(given))
    throw typeError(`a microbatch is an object of named tensors, got ${describeValue(given)}`);
  return given as Buffers;
}
