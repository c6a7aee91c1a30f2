/**
 * Learners in several threads or processes whose parameters are kept equal: each trains on rows of
 * its own, and they average.
 */

import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { Bell } from '../../shm/bell.ts';
import type { Ending } from '../../shm/ending.ts';
import { checkFree, RankState } from '../../shm/exchange-control.ts';
import { checkSignal, MAX_PARK_MS, waitFor } from '../../shm/wait.ts';
import { GroupRank } from './group-rank.ts';
import { checkGroup, countsOf, type SharedLearnerGroup } from './group-shared.ts';
import { Purpose } from './letter.ts';
import { askToEnd } from './questions.ts';

const LOOK_MS = 0.05;

/** A process of a launcher, such as openMpi() opens. */
export interface GroupProcess {
  /** from 0 */
  readonly rank: number;
  /**
   * Makes a group of a rank per process. Every process calls it, in the same order as whatever else
   * they do together.
   */
  shareLearnerGroup(options: { parameters: number }): SharedLearnerGroup;
}

export type JoinOptions =
  /** in a thread: what shareLearnerGroup() made, and which of its ranks this is */
  | {
      readonly shared: SharedLearnerGroup;
      readonly rank: number;
      readonly mpi?: never;
      readonly parameters?: never;
    }
  /**
   * in a process of a launcher: one rank per process, and the number of float32 values of all
   * averaged tensors together
   */
  | {
      readonly mpi: GroupProcess;
      readonly parameters: number;
      readonly shared?: never;
      readonly rank?: never;
    };

/** For the pipeline, which hands it to its actors. The package does not export it. */
export let sharedOf: (group: LearnerGroup) => SharedLearnerGroup;
/** For the pipeline's opener, which ends runs with it. The package does not export it. */
export let internalsOfGroup: (group: LearnerGroup) => GroupInternals;

export interface GroupInternals {
  readonly rank: GroupRank;
  /** Whether a rank's run goes on. False for a rank in another process, where this is not known. */
  isRunning(rank: number): boolean;
  /** Sleeps on the rank's bell until `look` is true. */
  waitUntil(
    poll: () => boolean,
    options: { signal?: AbortSignal | undefined; longestMs?: number },
  ): Promise<void>;
  /**
   * Ends the exchange that this rank waits for, with every rank that has not taken it. The rank's
   * look() shows what it came to.
   */
  endWait(why: Ending): void;
}

/**
 * A learner's place among several. ReplayPipeline.open({ group }) and capture({ sync: 'parameters'
 * }) average parameters after ticks: UniLab's `local_sgd`. A learner that writes its own loop calls
 * average(). Close the group at the end, because the others learn of it.
 * @example
 * const shared = shareLearnerGroup({ ranks: 2, parameters: learner.parameters.size });
 * const group = await LearnerGroup.join({ shared, rank: 0 });
 * learner.loadState(await group.broadcast(await learner.state()));
 */
export class LearnerGroup implements Disposable {
  /** of this learner, from 0 */
  readonly rank: number;
  /** learners in all */
  readonly size: number;
  /** float32 values that are averaged at most */
  readonly parameters: number;
  readonly #shared: SharedLearnerGroup;
  readonly #inside: GroupRank;
  readonly #bell: Bell;

  /**
   * True only for an object that has the private fields: a proxy of one, or an object that inherits
   * from one, has not.
   */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #shared in made;
  }

  static {
    sharedOf = (group) => group.#shared;
    internalsOfGroup = (group) => ({
      rank: group.#inside,
      isRunning: (rank) => countsOf(group.#shared, rank).runs.load() === 1,
      waitUntil: (poll, options) => group.#waitUntil(poll, options),
      endWait: (why) => group.#endWait(why),
    });
  }

  /**
   * Takes a rank, once. Over MPI every process must call it in the same order as its other
   * collective calls. Processes that differ fail the group in every process.
   *
   * @param options `{ shared, rank }` in this process, or `{ mpi, parameters }`
   * @throws {RangeError} for a rank that does not exist or is of another process
   * @throws {ERR_HOTSLOT_STATE_BUSY} for a rank that was taken before
   */
  static async join(options: JoinOptions): Promise<LearnerGroup> {
    if (options?.mpi !== undefined) {
      checkKeys('LearnerGroup.join', options, ['mpi', 'parameters']);
      const { mpi, parameters } = options;
      return new LearnerGroup(mpi.shareLearnerGroup({ parameters }), mpi.rank);
    }
    checkKeys('LearnerGroup.join', options, ['shared', 'rank']);
    return new LearnerGroup(options.shared, options.rank);
  }

  private constructor(shared: SharedLearnerGroup, rank: number) {
    checkGroup('LearnerGroup.join', shared);
    checkCount('rank', rank, 0, shared.ranks - 1);
    this.rank = rank;
    this.size = shared.ranks;
    this.parameters = shared.parameters;
    this.#shared = shared;
    this.#inside = new GroupRank(shared, rank);
    const { words } = this.#inside;
    words.checkHere(rank);
    checkFree(rank, words.claim(rank), 'LearnerGroup', 'group');
    this.#bell = words.bell(rank);
  }

  /** Exchanges that were begun: averages and broadcasts. */
  get exchanges(): number {
    return this.#inside.exchange;
  }

  /**
   * Returns the values of rank 0 to every rank. Every rank must call it.
   *
   * @param state arrays of equal lengths in every rank, such as `await learner.state()`
   * @param options `signal` ends the wait
   * @throws {TypeError} if the ranks' arrays differ, and the error that the group failed with
   */
  async broadcast(
    state: NamedTensors,
    options: { signal?: AbortSignal } = {},
  ): Promise<NamedTensors> {
    if (
      typeof state !== 'object' ||
      state === null ||
      Object.values(state).some((each) => !ArrayBuffer.isView(each?.data))
    )
      throw typeError(
        `broadcast takes the result of a learner's state(), got ${describeValue(state)}`,
      );
    const entries = Object.entries(state);
    const bytes = entries.map(
      ([, { data }]) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    );
    const total = bytes.reduce((sum, each) => sum + each.length, 0);
    const flat = new Uint8Array(Math.ceil(total / 4) * 4);
    let at = 0;
    for (const each of bytes) {
      flat.set(each, at);
      at += each.length;
    }
    const floats = new Float32Array(flat.buffer);
    for (let from = 0; from < floats.length; from += this.parameters) {
      const part = floats.subarray(from, from + this.parameters);
      await this.#exchange(Purpose.broadcast, part, options.signal, () =>
        this.#inside.take(0, part),
      );
    }
    at = 0;
    return Object.fromEntries(
      entries.map(([name, saved]) => {
        const { data } = saved;
        const copy = flat.slice(at, at + data.byteLength);
        at += data.byteLength;
        const array = data.constructor as new (buffer: ArrayBuffer) => TensorData['data'];
        return [name, { ...saved, data: new array(copy.buffer) }];
      }),
    );
  }

  /**
   * Replaces `values` by the mean over all ranks, with the same bits everywhere. For learners that
   * write their own loop. Every rank must call it.
   *
   * @param values equally many in every rank
   * @param options `signal` ends the wait
   * @throws as broadcast(), and ERR_HOTSLOT_STATE_BUSY while a pipeline averages
   */
  async average(values: Float32Array, options: { signal?: AbortSignal } = {}): Promise<void> {
    if (!(values instanceof Float32Array))
      throw typeError(`average takes a Float32Array, got ${describeValue(values)}`);
    if (values.length > this.parameters)
      throw rangeError(
        `this group averages ${this.parameters} parameters at most, got ${values.length}`,
      );
    // Memory that was transferred away, or shrank, has none.
    if (values.length === 0) throw rangeError('average takes at least one parameter, got none');
    await this.#exchange(Purpose.average, values, options.signal, () =>
      this.#inside.average(values),
    );
  }

  /** Returns as text which ranks the others wait for, or '' if no rank waits. */
  waitingFor(): string {
    const missing = this.#inside.missing();
    if (missing.length === 0) return '';
    const who =
      missing.length === 1
        ? `rank ${missing[0]}, which has`
        : `ranks ${missing.join(', ')}, which have`;
    return `${who} not come to exchange ${this.exchanges} of the learner group`;
  }

  /**
   * Fails the group because this learner cannot continue. Every rank that waits or starts throws an
   * error with `error` as its cause. The first failure wins.
   */
  fail(error: unknown): void {
    this.#inside.fail(error);
    this.#bell.ring();
  }

  /** Leaves the group. Ranks that wait for a part that this rank has not sent throw. Idempotent. */
  close(): void {
    this.#inside.words.leave(this.rank, RankState.closed);
  }
  [Symbol.dispose](): void {
    this.close();
  }

  async #waitUntil(
    poll: () => boolean,
    options: { signal?: AbortSignal | undefined; longestMs?: number },
  ): Promise<void> {
    const { signal, longestMs = MAX_PARK_MS } = options;
    const park = async (count: number, left: number) => {
      // A wake by another process costs an event loop's turn: what is nearly there is looked for.
      if (this.#shared.elsewhere !== null && this.#inside.spin(LOOK_MS)) return;
      await this.#bell.parkAsync(count, Math.min(left, longestMs));
    };
    await waitFor(this.#bell, poll, { signal, park });
  }

  #endWait(why: Ending): void {
    const inside = this.#inside;
    if (!inside.underWay) return;
    const { exchange } = inside;
    if (this.#shared.elsewhere === null) inside.endExchange(exchange, why);
    else if (!askToEnd(this.#shared, { exchange, rank: this.rank, why }))
      inside.fail(
        stateError(
          'CLOSED',
          `a run ended while it waited in exchange ${exchange}, in a thread that did not open MPI`,
        ),
      );
  }

  async #exchange(
    purpose: Purpose,
    vector: Float32Array,
    signal: AbortSignal | undefined,
    use: () => void,
  ): Promise<void> {
    checkSignal(signal);
    signal?.throwIfAborted();
    const inside = this.#inside;
    inside.check();
    if (inside.underWay)
      throw stateError(
        'BUSY',
        `exchange ${inside.exchange} of rank ${this.rank} is under way; await it first`,
      );
    let sent = false;
    try {
      await this.#waitUntil(
        () => {
          if (!sent && inside.settle(false) !== true) return false;
          if (!sent) inside.start(purpose, vector, 0);
          sent = true;
          return inside.advance();
        },
        { signal },
      );
      use();
    } catch (error) {
      // A part that was sent cannot be taken back: without this rank the others cannot go on
      // either.
      if (!inside.words.failed) inside.fail(error);
      throw error;
    }
    inside.finish();
  }
}
