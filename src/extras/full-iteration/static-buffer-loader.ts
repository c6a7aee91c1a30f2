/**
 * Buffers at fixed addresses, so that a captured graph can read them. Each microbatch of each stage
 * has its own, and new data is copied in on a stream of the loader's own. Megatron's
 * StaticBufferLoader.
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
 * Records that a graph was captured that reads the buffers of a stage: every key in them stays, and
 * every load must supply it. For the package itself, which does not export it.
 */
export let settleKeys: (loader: StaticBufferLoader, stage: Stage) => void;

/**
 * Static device buffers of the microbatches of an iteration.
 * @example
 * const loader = new StaticBufferLoader(device);
 * const { x } = loader.load({ x: new Float32Array(4) }, 'training', 0);
 */
export class StaticBufferLoader extends Owner {
  readonly device: Device;
  /** never handed out: a graph reads the tensors that these structures name */
  readonly #buffers: Record<Stage, Buffers[]> = { training: [], validation: [] };
  /** keys that came later and that no graph reads, which a later load may omit */
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
    // Graphs that read the buffers keep their memory.
    own(this, { close: () => closeTensorsIn(this.#buffers) });
    construction.done();
  }

  /**
   * The buffers of each microbatch, per stage: tensors on the device, in structures that the caller
   * owns.
   */
  get staticBuffers(): Record<Stage, Buffers[]> {
    return structureOf(this.#buffers);
  }

  /**
   * Copies `inputs` into the buffers of this microbatch and returns those: always the same tensors,
   * in a structure that the caller may change. The first load creates them, and later ones may
   * bring new keys. A missing key, another shape or another dtype throws with its path before
   * anything is copied. The copies run after all work already enqueued on the current stream, and
   * work enqueued there later waits for them. The calling thread never waits. An array of one
   * object is treated as the object. Microbatches come in order.
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
    // Order only: a failure on the current stream stays there.
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
        // Not by assignment: `__proto__` is a key like any other.
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
   * Returns the new keys of `given`, and changes nothing. A key that came later may be missing.
   * Throws if another key is missing.
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
