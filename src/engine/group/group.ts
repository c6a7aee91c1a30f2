/**
 * Learners in several threads or processes that average their parameters. Each trains on different
 * rows.
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

/** A process that a launcher started, such as openMpi() returns. */
export interface GroupProcess {
  /** number of the process, from 0 */
  readonly rank: number;
  /**
   * Creates a group with one rank per process. Every process must call it, in the same order as its
   * other collective calls.
   */
  shareLearnerGroup(options: { parameters: number }): SharedLearnerGroup;
}

export type JoinOptions =
  /** in a thread: the result of shareLearnerGroup(), and the number of this learner's rank */
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

/**
 * Returns a group's shared memory, which the pipeline passes to its actors. The package does not
 * export it.
 */
export let sharedOf: (group: LearnerGroup) => SharedLearnerGroup;
/**
 * Returns the methods with which the pipeline's opener ends runs. The package does not export it.
 */
export let internalsOfGroup: (group: LearnerGroup) => GroupInternals;

export interface GroupInternals {
  readonly rank: GroupRank;
  /**
   * Returns true if a rank is in a run. Returns false for a rank in another process, because its
   * state is unknown here.
   */
  isRunning(rank: number): boolean;
  /** Sleeps on the rank's bell until `poll` returns true. */
  waitUntil(
    poll: () => boolean,
    options: { signal?: AbortSignal | undefined; longestMs?: number },
  ): Promise<void>;
  /**
   * Ends the exchange in which this rank waits. This ends it for every rank, unless a rank has
   * already taken its result. advance() and outcome() then return what was decided.
   */
  endWait(why: Ending): void;
}

/**
 * One learner of a group. ReplayPipeline.open({ group }) and capture({ sync: 'parameters' })
 * average parameters after ticks: UniLab's `local_sgd`. A learner that writes its own loop calls
 * average(). Close the group at the end, so that the other learners do not wait for this one.
 * @example
 * const shared = shareLearnerGroup({ ranks: 2, parameters: learner.parameters.size });
 * const group = await LearnerGroup.join({ shared, rank: 0 });
 * learner.loadState(await group.broadcast(await learner.state()));
 */
export class LearnerGroup implements Disposable {
  /** rank of this learner, from 0 */
  readonly rank: number;
  /** number of learners in the group */
  readonly size: number;
  /** maximum number of float32 values that are averaged */
  readonly parameters: number;
  readonly #shared: SharedLearnerGroup;
  readonly #inside: GroupRank;
  readonly #bell: Bell;

  /**
   * Returns true only for an object that has the private fields. A proxy of a group, or an object
   * that inherits from one, does not have them.
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
   * Joins the group as one rank. Each rank can join once. Over MPI, every process must call it in
   * the same order as its other collective calls. If the options of processes differ, the group
   * fails in every process.
   *
   * @param options `{ shared, rank }` in this process, or `{ mpi, parameters }`
   * @throws {RangeError} for a rank that does not exist or belongs to another process
   * @throws {ERR_HOTSLOT_STATE_BUSY} if the rank has joined before
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

  /** Number of exchanges that this rank has begun: averages and broadcasts. */
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
   * Replaces `values` by the mean over all ranks, with the same bits everywhere. Learners that
   * write their own loop use it. Every rank must call it.
   *
   * @param values as many elements in every rank
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
    // A transferred or shrunken buffer has length 0.
    if (values.length === 0) throw rangeError('average takes at least one parameter, got none');
    await this.#exchange(Purpose.average, values, options.signal, () =>
      this.#inside.average(values),
    );
  }

  /**
   * Returns as text which ranks have not reached the exchange in which this rank waits, or '' if
   * this rank waits for none.
   */
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
   * Fails the group because this learner cannot continue. Every rank that waits in an exchange or
   * starts one throws an error with `error` as its cause. The first failure wins.
   */
  fail(error: unknown): void {
    this.#inside.fail(error);
    this.#bell.ring();
  }

  /**
   * Leaves the group. Ranks that wait for data that this rank has not sent throw an error.
   * Idempotent.
   */
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
      // If another process wakes this thread, the wake costs a turn of the event loop. So the rank
      // spins first, because the data may arrive within LOOK_MS.
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
      // A vector that was sent cannot be taken back, and the other ranks cannot continue without
      // this rank. So the group fails.
      if (!inside.words.failed) inside.fail(error);
      throw error;
    }
    inside.finish();
  }
}
