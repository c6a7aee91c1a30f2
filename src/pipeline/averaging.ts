/**
 * Parameters on their way to a learner group and back: a graph's last copy brings them to the host, poll's actor tells them to the
 * group and writes the mean over them (actors/averager.ts). The opener's side: what is checked at the door, and the host memory.
 */
import { checkCount, shown } from '../checks.ts';
import { type Device, type HostMemory, type Stream, Tensor } from '../device/device.ts';
import { homeFor, lendHost } from '../device/lend.ts';
import type { Parts } from '../device/owner.ts';
import type { PinnedHost } from '../device/storage.ts';
import { rangeError, stateError, typeError } from '../errors.ts';
import { type LearnerGroup, sharedOf } from '../ranks/group.ts';
import type { SharedLearnerGroup } from '../ranks/group-shared.ts';
import { type Averages, MOST_AVERAGED } from '../ring/run-fields.ts';
import { allocateShared, PAGE, type Place, roundUp } from '../shared-memory.ts';

/** What poll's actor has of it. */
export interface SharedAveraging {
  readonly group: SharedLearnerGroup;
  readonly rank: number;
  /** float32[parameters], also of the device */
  readonly values: Place;
  readonly valuesHandle: number;
  /** where the graph writes to when `values` is not pinned; 0: straight there */
  readonly homeHandle: number;
}

export interface AveragingOptions {
  /**
   * 'parameters': behind every `every`-th tick of run() the parameters become the mean of all learners of the pipeline's group.
   * Needs a pipeline that was opened with one.
   */
  sync?: 'parameters';
  /** what is averaged, in the same order everywhere: 1 to 8 contiguous float32 tensors on the pipeline's device */
  parameters?: readonly Tensor<'float32'>[];
  /** ticks from one mean to the next, the same everywhere; 1 by default */
  every?: number;
}

/** Null where nothing is averaged: without a group. Throws for what does not go with the group, or comes without one. */
export function checkAveraging(
  { sync, parameters, every = 1 }: AveragingOptions,
  group: LearnerGroup | null,
  device: string,
): { parameters: readonly Tensor<'float32'>[]; every: number } | null {
  if (sync === undefined) {
    if (parameters !== undefined) throw typeError("parameters are for sync: 'parameters'");
    if (group !== null)
      throw stateError(
        'CAPTURE',
        "the pipeline was opened with a group: capture() takes sync: 'parameters' and parameters",
      );
    return null;
  }
  if (sync !== 'parameters')
    throw typeError(
      `sync can be 'parameters', got ${shown(sync)}: gradients are not averaged inside graphs (docs/ranks.md)`,
    );
  if (group === null) throw stateError('CAPTURE', "sync: 'parameters' needs a pipeline that was opened with a group");
  checkCount('every', every, 1);
  if (!Array.isArray(parameters) || parameters.length === 0 || parameters.length > MOST_AVERAGED)
    throw typeError(`parameters is an array of 1 to ${MOST_AVERAGED} tensors, got ${shown(parameters)}`);
  for (const [i, tensor] of parameters.entries()) {
    if (!(tensor instanceof Tensor)) throw typeError(`parameters[${i}] must be a tensor, got ${shown(tensor)}`);
    tensor.checkOpen();
    if (tensor.device.name !== device)
      throw typeError(`parameters[${i}] must be on ${device}, got a tensor on ${tensor.device.name}`);
    if (tensor.dtype !== 'float32' || !tensor.contiguous)
      throw typeError(`parameters[${i}] must be a contiguous float32 tensor`);
  }
  const total = parameters.reduce((sum: number, { size }) => sum + size, 0);
  if (total > group.parameters)
    throw rangeError(`parameters are ${total} values, the group averages ${group.parameters} at most`);
  return { parameters, every };
}

export class Averaging {
  readonly #group: LearnerGroup;
  readonly #place: Place;
  readonly #values: HostMemory;
  readonly #home: PinnedHost | null;

  /** Null without a group, and of a learner that has it to itself. `owned` closes what is made; `warnings` may become more. */
  static make(group: LearnerGroup | null, device: Device, owned: Parts, warnings: string[]): Averaging | null {
    return group !== null && group.size > 1 ? new Averaging(group, device, owned, warnings) : null;
  }

  private constructor(group: LearnerGroup, device: Device, owned: Parts, warnings: string[]) {
    const warn = (text: string) => void warnings.push(text);
    const bytes = 4 * group.parameters;
    this.#group = group;
    // Whole pages: drivers pin no less, and none of somebody else's.
    this.#place = allocateShared("a learner group's parameters", roundUp(bytes, PAGE), PAGE);
    const view = new Float32Array(this.#place.memory, this.#place.offset, group.parameters);
    [this.#values] = lendHost(device, 'host memory is', [view], warn) as [HostMemory];
    owned.own(this.#values);
    this.#home = homeFor(device, this.#values.kind, bytes, warn);
    if (this.#home) owned.own(this.#home);
  }

  share(): SharedAveraging {
    return {
      group: sharedOf(this.#group),
      rank: this.#group.rank,
      values: this.#place,
      valuesHandle: this.#values.handle,
      homeHandle: this.#home?.handle ?? 0,
    };
  }

  /** In a capture: brings the parameters to the host. */
  bring(parameters: readonly Tensor<'float32'>[], stream: Stream): void {
    let at = 0;
    for (const tensor of parameters) {
      const to = { shape: [tensor.size], dtype: 'float32' as const, byteOffset: at };
      const home = this.#home ? new Tensor(this.#home, [tensor.size], 'float32', at) : this.#values.tensor(to);
      stream.copy(home, tensor.view({ shape: [tensor.size] }));
      at += tensor.bytes;
    }
  }

  /** What poll has to know of a capture. */
  static of(checked: { parameters: readonly Tensor<'float32'>[]; every: number }, firstSequence: number): Averages {
    const { parameters, every } = checked;
    const tensors = parameters.map(({ handle, byteOffset, bytes }) => ({ handle, byteOffset, bytes }));
    return { every, firstSequence, tensors };
  }
}
