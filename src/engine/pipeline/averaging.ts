/**
 * The opener's part of averaging parameters with a learner group. It checks options, allocates the
 * host memory, and ends a run between two means. The last copy of each graph writes the parameters
 * to the host. Poll's actor then sends them to the group, and overwrites the parameters with the
 * mean (actors/averager.ts).
 */
import { answered } from '../../base/addon.ts';
import { checkCount, describeValue } from '../../base/checks.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { type Device, type HostMemory, type Stream, Tensor } from '../../device/device.ts';
import { lendHost, readbackBufferFor } from '../../device/lend.ts';
import { nativeMemory } from '../../device/native.ts';
import type { OwnedParts } from '../../device/owner.ts';
import type { PinnedHost } from '../../device/storage.ts';
import { Ending } from '../../shm/ending.ts';
import { allocateShared, PAGE, type Place, roundUp } from '../../shm/memory.ts';
import {
  type GroupInternals,
  internalsOfGroup,
  type LearnerGroup,
  sharedOf,
} from '../group/group.ts';
import type { SharedLearnerGroup } from '../group/group-shared.ts';
import { Purpose } from '../group/letter.ts';
import { type Averages, MAX_AVERAGED } from '../ring/run-fields.ts';

/** The data of averaging that poll's actor needs. */
export interface SharedAveraging {
  readonly group: SharedLearnerGroup;
  readonly rank: number;
  /** float32[parameters] in host memory that the device can read */
  readonly values: Place;
  readonly valuesHandle: number;
  /**
   * handle of the memory to which the graph copies the parameters if `values` is not pinned, 0 if
   * it copies to `values`
   */
  readonly readbackHandle: number;
}

export interface AveragingOptions {
  /**
   * 'parameters': after every `every`-th tick of run(), the parameters of all learners in the
   * pipeline's group become their mean. The pipeline must be opened with a group.
   */
  sync?: 'parameters';
  /**
   * tensors that are averaged, in the same order in every rank: 1 to 8 contiguous float32 tensors
   * on the pipeline's device
   */
  parameters?: readonly Tensor<'float32'>[];
  /**
   * ticks of runs from one mean to the next, equal in every rank (default 1). Manual ticks do not
   * count.
   */
  every?: number;
}

/**
 * Returns what is averaged and how often, or null without a group. Throws if the options do not fit
 * the group, or need a group that the pipeline does not have.
 */
export function checkAveraging(
  { sync, parameters, every = 1 }: AveragingOptions,
  group: LearnerGroup | null,
  device: string,
): { parameters: readonly Tensor<'float32'>[]; every: number } | null {
  if (sync === undefined) {
    if (parameters !== undefined) throw typeError("the option parameters needs sync: 'parameters'");
    if (group !== null)
      throw stateError(
        'CAPTURE',
        "the pipeline was opened with a group: capture() takes sync: 'parameters' and parameters",
      );
    return null;
  }
  if (sync !== 'parameters')
    throw typeError(
      `sync can be 'parameters', got ${describeValue(sync)}: gradients are not averaged inside graphs (docs/extras/ranks.md)`,
    );
  if (group === null)
    throw stateError('CAPTURE', "sync: 'parameters' needs a pipeline that was opened with a group");
  checkCount('every', every, 1);
  if (!Array.isArray(parameters) || parameters.length === 0 || parameters.length > MAX_AVERAGED)
    throw typeError(
      `parameters is an array of 1 to ${MAX_AVERAGED} tensors, got ${describeValue(parameters)}`,
    );
  for (const [i, tensor] of parameters.entries()) {
    if (!(tensor instanceof Tensor))
      throw typeError(`parameters[${i}] must be a tensor, got ${describeValue(tensor)}`);
    tensor.checkOpen();
    if (tensor.device.name !== device)
      throw typeError(
        `parameters[${i}] must be on ${device}, got a tensor on ${tensor.device.name}`,
      );
    if (tensor.dtype !== 'float32' || !tensor.contiguous)
      throw typeError(`parameters[${i}] must be a contiguous float32 tensor`);
  }
  const total = parameters.reduce((sum: number, { size }) => sum + size, 0);
  if (total > group.parameters)
    throw rangeError(
      `parameters are ${total} values, the group averages ${group.parameters} at most`,
    );
  return { parameters, every };
}

/** Tensors that are averaged after each `every`-th tick, as given to capture(). */
export interface Averaged {
  readonly parameters: readonly Tensor<'float32'>[];
  readonly every: number;
}

export class Averaging {
  /** number of ticks of runs since the latest mean */
  carried = 0;
  readonly #group: LearnerGroup;
  #averaged: Averaged | null = null;
  readonly #place: Place;
  readonly #values: HostMemory;
  readonly #means: PinnedHost | null;

  /**
   * Allocates the memory for averaging, and adds it to `owned`, which frees it when the pipeline
   * closes. Returns null without a group, or if the group has one rank. Warnings are added to
   * `warnings`.
   */
  static make(
    group: LearnerGroup | null,
    device: Device,
    owned: OwnedParts,
    warnings: string[],
  ): Averaging | null {
    return group !== null && group.size > 1 ? new Averaging(group, device, owned, warnings) : null;
  }

  private constructor(group: LearnerGroup, device: Device, owned: OwnedParts, warnings: string[]) {
    const warn = (text: string) => void warnings.push(text);
    const bytes = 4 * group.parameters;
    this.#group = group;
    // Whole pages, because drivers pin whole pages and must not pin memory of others.
    this.#place = allocateShared("a learner group's parameters", roundUp(bytes, PAGE), PAGE);
    const view = new Float32Array(this.#place.memory, this.#place.offset, group.parameters);
    [this.#values] = lendHost(device, 'host memory is', [view], warn) as [HostMemory];
    owned.own(this.#values);
    this.#means = readbackBufferFor(device, this.#values.kind, bytes, warn);
    if (this.#means) owned.own(this.#means);
  }

  share(): SharedAveraging {
    return {
      group: sharedOf(this.#group),
      rank: this.#group.rank,
      values: this.#place,
      valuesHandle: this.#values.handle,
      readbackHandle: this.#means?.handle ?? 0,
    };
  }

  /** Enqueues the copies of the parameters to the host, at the end of a capture. */
  bring(parameters: readonly Tensor<'float32'>[], stream: Stream): void {
    let at = 0;
    for (const tensor of parameters) {
      const to = { shape: [tensor.size], dtype: 'float32' as const, byteOffset: at };
      const readback = this.#means
        ? new Tensor(this.#means, [tensor.size], 'float32', at)
        : this.#values.tensor(to);
      stream.copy(readback, tensor.view({ shape: [tensor.size] }));
      at += tensor.bytes;
    }
  }

  /** Stores what the captured learner averages, and returns it as data for poll's actor. */
  captured(averaged: Averaged): Averages {
    this.#averaged = averaged;
    this.carried = 0;
    const tensors = averaged.parameters.map(({ handle, byteOffset, bytes }) => ({
      handle,
      byteOffset,
      bytes,
    }));
    return { every: averaged.every, tensors };
  }

  /** Marks this rank's run as over: no other rank waits for this rank any more. */
  over(): void {
    this.group.rank.setRuns(false);
  }
  /** Adds the ticks that a run applied. */
  ran(ticks: number): void {
    this.carried = (this.carried + ticks) % this.every;
  }

  get group(): GroupInternals {
    return internalsOfGroup(this.#group);
  }
  get every(): number {
    return this.#averaged?.every ?? 1;
  }
  /**
   * Marks this rank's run as begun: the other ranks may wait for this rank. Throws if the group has
   * failed or a rank has left it.
   */
  begin(): void {
    const { rank } = this.group;
    rank.checkWhole();
    rank.setRuns(true);
  }
  /**
   * The exchange in which poll waits for other learners, or null if it waits for none. `allRunning`
   * is true if all missing learners are in a run.
   */
  get waits(): { readonly exchange: number; readonly allRunning: boolean } | null {
    const { rank, isRunning } = this.group;
    const missing = rank.missing();
    return missing.length === 0
      ? null
      : { exchange: rank.exchange, allRunning: missing.every(isRunning) };
  }
  /**
   * Ends the exchange in which poll waits, because the run ends and the missing ranks have not
   * come.
   */
  endWait(why: Ending): void {
    this.group.endWait(why);
  }

  /**
   * Informs the other ranks that this pipeline was closed during a run. Call it after its actors
   * have stopped. It does not wait. `whole` is false if a thread was terminated and may not have
   * finished an action. In that case the group fails.
   */
  abandon(whole: boolean): void {
    const { rank } = this.group;
    if (!rank.runs || rank.hasLeft || rank.words.failed) return;
    rank.setRuns(false);
    if (!whole) {
      rank.fail(stateError('CLOSED', 'its pipeline was closed in the middle of an exchange'));
      return;
    }
    if (rank.underWay) {
      this.endWait(Ending.stopped);
      const { isEnded } = rank;
      rank.leave();
      if (isEnded) return;
    }
    // If vectors of an earlier exchange are still missing, this rank sends nothing. The missing
    // ranks find who ended that exchange when they reach it.
    if (rank.settle(true) === true) {
      const { parameters, every } = this.#averaged as Averaged;
      rank.start(Purpose.leave, this.#hostValues(parameters), every, Ending.stopped);
    }
    rank.leave();
  }

  /** Reads the parameters from the device. */
  async read(stream: Stream): Promise<Float32Array> {
    const { parameters } = this.#averaged as Averaged;
    this.bring(parameters, stream);
    await stream.synchronize();
    const values = this.#hostValues(parameters);
    if (this.#means)
      answered(
        nativeMemory().copyOut(
          this.#means.handle,
          new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
        ),
      );
    return values;
  }
  #hostValues(parameters: readonly Tensor<'float32'>[]): Float32Array {
    const size = parameters.reduce((sum, each) => sum + each.size, 0);
    return new Float32Array(this.#place.memory, this.#place.offset, size);
  }
  /** Writes the values that read() returned, after the caller changed them, back to the device. */
  async write(stream: Stream): Promise<void> {
    let at = 0;
    for (const tensor of (this.#averaged as Averaged).parameters) {
      const from = this.#values.tensor({
        shape: [tensor.size],
        dtype: 'float32' as const,
        byteOffset: at,
      });
      stream.copy(tensor.view({ shape: [tensor.size] }), from);
      at += tensor.bytes;
    }
    await stream.synchronize();
  }
}
