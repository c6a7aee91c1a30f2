/**
 * Parameters on their way to a learner group and back. A graph's last copy brings them to the host,
 * and poll's actor sends them to the group and writes the mean over them (actors/averager.ts). This
 * is the opener's side: checks on entry, the host memory, and the end of a run that does not come
 * with a tick's mean.
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

/** The parts of averaging that poll's actor gets. */
export interface SharedAveraging {
  readonly group: SharedLearnerGroup;
  readonly rank: number;
  /** float32[parameters], also of the device */
  readonly values: Place;
  readonly valuesHandle: number;
  /** memory to which the graph writes if `values` is not pinned, 0: straight to `values` */
  readonly readbackHandle: number;
}

export interface AveragingOptions {
  /**
   * 'parameters': after every `every`-th tick of run() the parameters become the mean of all
   * learners of the pipeline's group. Needs a pipeline that was opened with one.
   */
  sync?: 'parameters';
  /**
   * what is averaged, in the same order everywhere: 1 to 8 contiguous float32 tensors on the
   * pipeline's device
   */
  parameters?: readonly Tensor<'float32'>[];
  /**
   * ticks of runs from one mean to the next, the same everywhere (default 1). Manual ticks do not
   * count.
   */
  every?: number;
}

/**
 * Returns null if nothing is averaged, without a group. Throws for options that do not go with the
 * group, or that come without one.
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

/** Tensors that capture() is given to average, and how often. */
export interface Averaged {
  readonly parameters: readonly Tensor<'float32'>[];
  readonly every: number;
}

export class Averaging {
  /** ticks of runs since the latest mean */
  carried = 0;
  readonly #group: LearnerGroup;
  #averaged: Averaged | null = null;
  readonly #place: Place;
  readonly #values: HostMemory;
  readonly #means: PinnedHost | null;

  /**
   * Returns null without a group, and for a learner that has it to itself. `owned` closes what is
   * made, and `warnings` may grow.
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
    // Whole pages: drivers pin no less, and none of somebody else's.
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

  /** In a capture: brings the parameters to the host. */
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

  /** Keeps the averaging that is captured from here on, and returns it as poll has to know it. */
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

  /** The run is over, and nobody waits for this rank any more. */
  over(): void {
    this.group.rank.setRuns(false);
  }
  /** Ticks of a run that were applied. */
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
   * A run begins: the others may wait for this rank. Throws when the group has failed, or a rank
   * has left it.
   */
  begin(): void {
    const { rank } = this.group;
    rank.checkWhole();
    rank.setRuns(true);
  }
  /**
   * The exchange that poll waits for, and whether all missing learners are in their run. Null if
   * poll waits for nobody.
   */
  get waits(): { readonly exchange: number; readonly isNext: boolean } | null {
    const { rank, isRunning } = this.group;
    const missing = rank.missing();
    return missing.length === 0
      ? null
      : { exchange: rank.exchange, isNext: missing.every(isRunning) };
  }
  /** Ends the exchange that poll waits for: the run ends, and the others did not come. */
  endWait(why: Ending): void {
    this.group.endWait(why);
  }

  /**
   * The pipeline closes while its run goes on, and its actors have stopped: the others learn it,
   * and nobody waits. `whole`: no thread was ended in the middle of something.
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
    // Those whose parts are missing find what ended the exchange when they come to it.
    if (rank.settle(true) === true) {
      const { parameters, every } = this.#averaged as Averaged;
      rank.start(Purpose.leave, this.#hostValues(parameters), every, Ending.stopped);
    }
    rank.leave();
  }

  /** The parameters as the device has them now. */
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
  /** Writes the changed values of read() back to the device. */
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
