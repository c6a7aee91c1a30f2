/**
 * Ordered experience in shared memory. The steps of each environment are in one ring, its lane.
 * native/rows/lanes.hpp describes the bytes and which threads may access them. This file checks
 * arguments, calls native code and rings the bells.
 */

import type { NamedTensors } from '../../base/arrays/tensors.ts';
import { checkCount, checkFlag, checkInternal, checkKeys, INTERNAL } from '../../base/checks.ts';
import { closedError, rangeError, stateError } from '../../base/errors.ts';
import { BellBoard } from '../../shm/bell.ts';
import { claimWords, nextClaim } from '../../shm/claim.ts';
import { allocateShared, checkRoom, checkShared, LINE, roundUp } from '../../shm/memory.ts';
import type { PrioritizedSampler } from '../prioritized.ts';
import { checkLimiter, RateLimiter } from '../rate-limiter.ts';
import type { LoadOptions } from '../rows/data-set.ts';
import { checkNonFinite, type NonFiniteNumbers, stepKind } from '../rows/field-roles.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import { MAX_DRAW_SIZE, seedWord } from '../rows/sampler.ts';
import type { SnapshotIO } from '../rows/snapshot-io.ts';
import {
  type TransitionsOptions,
  transitionsSpec,
  View,
  type WindowsOptions,
  windowsSpec,
} from '../views/views.ts';
import { dumpSteps } from './dump.ts';
import { type LanesHandle, lanesAddon, spanOf } from './lanes-addon.ts';
import { loadSteps } from './load.ts';
import { BufferReader, type PlacesRead } from './reader.ts';
import type { SampleOf } from './samples.ts';
import { type StepFields, type StepLayout, stepLayout } from './schema.ts';
import { checkHeader, KIND, type SharedTrajectoryBuffer } from './shared-steps.ts';
import { lanesSnapshotIO } from './snapshot-io.ts';
import { TrajectoryWriter, type WriterSetup } from './trajectory-writer.ts';

/**
 * Returns parts of a buffer for other modules of the package. The package does not export this
 * function.
 */
export let internalsOfTrajectories: (buffer: TrajectoryBuffer) => {
  /** rung after every commit */
  readonly bells: BellBoard;
  /**
   * the buffer's header and lanes, for native code that opens them by itself. Keep a reference to
   * this array until that code has ended
   */
  readonly memory: Float64Array;
  readonly reader: BufferReader;
  /** access for checkpoints */
  readonly ledger: SnapshotIO;
};

/**
 * Stores the steps of each environment in order, in a ring of shared memory per environment. A view
 * defines how samples are built: n-step transitions, windows, stacked frames and hindsight goals.
 * `S` are the fields, which create() infers.
 * @example
 * const fields = { obs: { shape: [4], observation: true }, actions: { shape: [] } } as const;
 * const buffer = TrajectoryBuffer.create({ capacity: 100_000, lanes: 8, fields });
 * const writer = buffer.writer();
 * writer.add({ obs, actions, rewards, terminated, truncated, finalObs });
 * const batch = buffer.sample({ view: buffer.transitions({ nStep: 3 }), seed: 7, count: 256 });
 */
export class TrajectoryBuffer<S extends StepFields = StepFields> {
  /** number of places in all lanes, for steps and final observations */
  readonly capacity: number;
  /** number of environments */
  readonly lanes: number;
  /** places of one lane: capacity / lanes */
  readonly laneCapacity: number;
  /** layout of the fields in a place */
  readonly layout: StepLayout;
  /**
   * bounds the steps sampled per step inserted, or null if the buffer was created without a limiter
   */
  readonly limiter: RateLimiter | null;
  readonly #shared: SharedTrajectoryBuffer<S>;
  readonly #memory: Float64Array;
  readonly #bells: BellBoard;
  /** a counter of claims in its own cache line, then a claim word for each lane */
  readonly #claims: Int32Array;
  readonly #counts = new Float64Array(2);
  readonly #reader: BufferReader;
  #handle: LanesHandle | null;

  /**
   * Returns true only for an object with this class's private field. A proxy of a buffer, or an
   * object that inherits from a buffer, lacks the field.
   */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #shared in made;
  }

  static {
    internalsOfTrajectories = (buffer) => ({
      bells: buffer.#bells,
      memory: buffer.#memory,
      reader: buffer.#reader,
      ledger: lanesSnapshotIO(buffer, buffer.#memory),
    });
  }

  private constructor(key: unknown, shared: SharedTrajectoryBuffer<S>) {
    checkInternal(key, 'TrajectoryBuffer', 'TrajectoryBuffer.create() or attach()');
    const { memory, offset, capacity, lanes, layout } = shared;
    this.capacity = capacity;
    this.lanes = lanes;
    this.laneCapacity = capacity / lanes;
    this.layout = layout;
    this.limiter = shared.limiter && RateLimiter.attach(shared.limiter);
    this.#shared = shared;
    const bytes = lanesAddon().lanesBytes(lanes, this.laneCapacity, layout.placeBytes);
    checkRoom(shared, bytes + (LINE + lanes) * 4);
    this.#memory = new Float64Array(memory, offset, bytes / 8);
    const { bells, bellCount } = rowsAddon().layouts.lanes;
    this.#bells = BellBoard.over({ memory, offset: offset + bells }, bellCount);
    this.#claims = new Int32Array(memory, offset + bytes, LINE + lanes);
    this.#handle = lanesAddon().openLanes(this.#memory);
    this.#reader = new BufferReader(this.#handle, {
      memory,
      layout,
      lanes,
      perLane: this.laneCapacity,
    });
  }

  /**
   * Creates a buffer of steps with these fields. Each step also has `rewards` (float32),
   * `terminated` and `truncated` (bool).
   *
   * @param options `capacity`: places of all lanes, a multiple of `lanes` with two or more a lane,
   *   at most 2³² − 1. `lanes`: environments, 1 to 2²⁰. `fields`: shape, dtype (default float32)
   *   and `observation` (default false) of one step by name, with at least one observation.
   *   `limiter` (default: none) counts the steps of this buffer, and may gate add(). `nonFinite`
   *   (default 'refuse', see a writer's add()): 'keep' stores NaN and infinities as they are
   * @throws {TypeError|RangeError} for an invalid option or field
   * @throws {ERR_HOTSLOT_MEMORY} if the places do not fit into memory
   * @example
   * const fields = { obs: { shape: [84, 84], dtype: 'uint8', observation: true } } as const;
   * const buffer = TrajectoryBuffer.create({ capacity: 1_000_000, lanes: 8, fields });
   */
  static create<const S extends StepFields>(options: {
    capacity: number;
    lanes: number;
    fields: S;
    limiter?: RateLimiter;
    nonFinite?: NonFiniteNumbers;
  }): TrajectoryBuffer<S> {
    checkKeys('TrajectoryBuffer.create', options, [
      'capacity',
      'lanes',
      'fields',
      'limiter',
      'nonFinite',
    ]);
    const { limiter = null } = options;
    const nonFinite = checkNonFinite(options.nonFinite ?? 'refuse');
    const capacity = checkCount('capacity', options.capacity, 2, MAX_DRAW_SIZE);
    const lanes = checkCount('lanes', options.lanes, 1, 2 ** 20);
    if (capacity % lanes !== 0 || capacity / lanes < 2)
      throw rangeError(
        `capacity must be a multiple of lanes with at least two places each, got ${capacity} for ${lanes} lanes: ${capacity / lanes} a lane`,
      );
    checkLimiter(limiter);
    const layout = stepLayout(options.fields);
    const perLane = capacity / lanes;
    const bytes = lanesAddon().lanesBytes(lanes, perLane, layout.placeBytes);
    const what = `a trajectory buffer of ${capacity} places × ${layout.placeBytes} bytes`;
    const place = allocateShared(what, bytes + roundUp((LINE + lanes) * 4, 8), 64);
    const memory = new Float64Array(place.memory, place.offset, bytes / 8);
    lanesAddon().formatLanes(memory, lanes, perLane, layout.placeBytes);
    const how = { capacity, lanes, layout, nonFinite, limiter: limiter?.share() ?? null };
    return new TrajectoryBuffer<S>(INTERNAL, Object.freeze({ kind: KIND, ...place, ...how }));
  }

  /**
   * Opens the same buffer in another thread, or again in this one.
   *
   * @param shared the result of share()
   * @throws {TypeError|RangeError} unless `shared` came from share()
   * @example
   * const buffer = TrajectoryBuffer.attach(workerData.shared);
   */
  static attach<S extends StepFields = StepFields>(
    shared: SharedTrajectoryBuffer<S>,
  ): TrajectoryBuffer<S> {
    checkShared(
      KIND,
      shared,
      shared?.memory,
      'TrajectoryBuffer.attach() needs the result of share()',
    );
    checkHeader(shared);
    return new TrajectoryBuffer<S>(INTERNAL, shared);
  }

  /** Returns a plain object for postMessage or workerData, which includes the limiter. */
  share(): SharedTrajectoryBuffer<S> {
    this.#open();
    return this.#shared;
  }

  /** Number of steps ever committed in all lanes, without final observations. */
  get ptr(): number {
    return this.#count(0);
  }
  /** Number of steps stored now, without final observations. */
  get size(): number {
    return this.#count(1);
  }

  /**
   * Claims lanes for this thread until close() or the end of the thread. The previous writer's
   * unfinished episodes stay without an end, unless `resume` is true.
   *
   * @param options `firstLane` (default 0). `lanes` (default: all from `firstLane` on). `resume`
   *   (default false) continues those episodes: the first step of a lane follows the lane's last
   *   step
   * @throws {TypeError|RangeError} for an invalid option
   * @throws {ERR_HOTSLOT_STATE_BUSY} if one of the lanes has a living writer. No lane is claimed
   *   then
   * @example
   * const writer = buffer.writer({ firstLane: 4, lanes: 4 });
   */
  writer(
    options: { firstLane?: number; lanes?: number; resume?: boolean } = {},
  ): TrajectoryWriter<S> {
    const handle = this.#open();
    checkKeys('writer', options, ['firstLane', 'lanes', 'resume']);
    const { resume = false } = options;
    checkFlag('resume', resume);
    const firstLane = checkCount('firstLane', options.firstLane ?? 0, 0, this.lanes - 1);
    const lanes = checkCount(
      'lanes',
      options.lanes ?? this.lanes - firstLane,
      1,
      this.lanes - firstLane,
    );
    const words = this.#claims;
    const at = (lane: number) => LINE + lane;
    const claim = nextClaim(words, 0);
    const taken = claimWords(words, at(firstLane), lanes, claim);
    if (taken >= 0) {
      const among = `lane ${taken - LINE} of lanes ${firstLane} to ${firstLane + lanes - 1}`;
      throw stateError('BUSY', `${among} has an open writer; close that writer first`);
    }
    const { nonFinite } = this.#shared;
    const table = this.layout.fields.flatMap((field) => [
      field.offset,
      field.bytes,
      field.observation ? 1 : 0,
      ...stepKind(field, nonFinite),
    ]);
    const finite = nonFinite === 'refuse';
    return new TrajectoryWriter<S>(INTERNAL, {
      firstLane,
      lanes,
      layout: this.layout,
      limiter: this.limiter,
      bells: this.#bells,
      handle: lanesAddon().openWriter(
        handle,
        firstLane,
        lanes,
        Uint32Array.from(table),
        resume,
        finite,
      ),
      claims: { words, at, claim },
    } satisfies WriterSetup);
  }

  /**
   * Returns a view of n-step transitions. A transition has the n steps from a drawn step on, and
   * the observation after them.
   *
   * @param options `nStep` (default 1), `gamma` (default 0.99), `stack`, `pad` and `relabel`
   * @throws {TypeError|RangeError} for an invalid option, and for a view that needs more places
   *   than a lane has
   * @example
   * const view = buffer.transitions({ nStep: 3, gamma: 0.99, stack: { obs: 4 } });
   */
  transitions(options: TransitionsOptions = {}): View<S, 'transitions'> {
    const spec = transitionsSpec(options, this.layout, this.laneCapacity);
    return new View<S, 'transitions'>(
      INTERNAL,
      this.#reader.signed({ ...spec, kind: 'transitions' }),
    );
  }
  /**
   * Returns a view of windows. A window has burn-in steps and then steps to learn from, all of one
   * episode.
   *
   * @param options `length`, `burnIn` (default 0), `edges` (default 'full'), `stack` and `pad`
   * @throws {TypeError|RangeError} for an invalid option, and for a view that needs more places
   *   than a lane has
   * @example
   * const view = buffer.windows({ length: 40, burnIn: 20, edges: 'tail' });
   */
  windows(options: WindowsOptions): View<S, 'windows'> {
    const spec = windowsSpec(options, this.layout, this.laneCapacity);
    return new View<S, 'windows'>(INTERNAL, this.#reader.signed({ ...spec, kind: 'windows' }));
  }

  /**
   * Returns the number of steps that the view can sample now.
   *
   * @throws {TypeError|RangeError} unless the view is of these fields and lane capacity
   */
  drawable(view: View): number {
    this.#open();
    return this.#reader.count(view);
  }
  /**
   * Returns the ids of the drawable steps in the order of the draw: lane by lane, oldest first.
   *
   * @returns float64 [drawable steps]
   * @throws {TypeError|RangeError} as drawable()
   */
  drawableIds(view: View): Float64Array {
    this.#open();
    return this.#reader.ids(view);
  }

  /**
   * Samples drawable steps of a view with replacement. Without a sampler, each row is the step of
   * drawableIds() at an index that torch's randint returns. With a sampler, steps are drawn by
   * their priorities. The limiter neither gates nor counts the call.
   *
   * @param options `view`. `seed`: as for uniformIndices(). `count`: rows, at least 1. `sampler`:
   *   the result of prioritized(), which its first use binds to this buffer and view. `beta`:
   *   exponent of the importance weights, 0 to 1, default 0.4
   * @returns a dense typed array for each column (docs/reference/trajectory-buffer.md)
   * @throws {TypeError|RangeError} for an invalid option, a view of other fields or lane capacity,
   *   and a sampler of another buffer or view
   * @throws {ERR_HOTSLOT_STATE_EMPTY} while no step is drawable, or all priorities are 0
   * @throws {ERR_HOTSLOT_STATE_RUNNING} while a pipeline uses the sampler
   * @throws {ERR_HOTSLOT_MEMORY} if the batch or the priorities do not fit into memory
   * @example
   * const view = buffer.transitions({ nStep: 3 });
   * const { obs, rewards, discounts, nextObs } = buffer.sample({ view, seed: 7, count: 256 });
   */
  sample<V extends View>(options: {
    view: V;
    seed: number | bigint;
    count: number;
    sampler?: PrioritizedSampler;
    beta?: number;
  }): SampleOf<S, V> {
    this.#open();
    checkKeys('sample', options, ['view', 'seed', 'count', 'sampler', 'beta']);
    const word = seedWord(options.seed);
    const count = checkCount('count', options.count, 1, MAX_DRAW_SIZE);
    return this.#reader.sample({ ...options, word, count }) as SampleOf<S, V>;
  }

  /**
   * Returns a view's columns for steps that you choose. The view may be of either kind.
   *
   * @param options `view`. `ids`: drawable steps. `goalIds`, for a view with hindsight goals: the
   *   step whose achieved goal each row gets, or −1 for the row's own goal
   * @returns the columns of sample() without a sampler
   * @throws {TypeError|RangeError} for an invalid option, and for an id that is not drawable. The
   *   text names the first such id
   * @throws {ERR_HOTSLOT_MEMORY} if the batch does not fit into memory
   * @example
   * const ids = buffer.drawableIds(view).subarray(0, 32);
   * const { rewards, nextObs } = buffer.transitionsAt({ view, ids });
   */
  transitionsAt<V extends View>(options: {
    view: V;
    ids: Float64Array | readonly number[];
    goalIds?: Float64Array | readonly number[];
  }): SampleOf<S, V> {
    this.#open();
    checkKeys('transitionsAt', options, ['view', 'ids', 'goalIds']);
    return this.#reader.take(options) as SampleOf<S, V>;
  }

  /**
   * Returns steps and final observations as they were added.
   *
   * @param ids ids of places, whether drawable or not
   * @throws {TypeError} for other ids
   * @throws {RangeError} for an id whose place was never written, is overwritten, or is cleared.
   *   The text names the first such id
   */
  read(ids: Float64Array | readonly number[]): PlacesRead<S> {
    this.#open();
    return this.#reader.read(ids) as PlacesRead<S>;
  }

  /**
   * Sets the priorities |p| of steps, in order: if an id occurs twice, the last priority counts.
   * Ids whose steps were overwritten are ignored. If it throws, it has changed nothing.
   *
   * @param ids of the sampled steps
   * @param priorities one for each id, such as absolute TD errors
   * @throws {TypeError} for other arrays
   * @throws {RangeError} for a priority that is NaN, infinite or negative, for another length, and
   *   for an id that was never written
   * @throws {ERR_HOTSLOT_STATE_EMPTY} before a sampler was used
   * @throws {ERR_HOTSLOT_STATE_RUNNING} while a pipeline uses the sampler
   * @example
   * const { ids } = buffer.sample({ view, seed: 7, count: 256, sampler });
   * buffer.updatePriorities(ids, tdErrors);
   */
  updatePriorities(
    ids: Float64Array | readonly number[],
    priorities: Float32Array | Float64Array | readonly number[],
  ): void {
    this.#open();
    this.#reader.update(ids, priorities);
  }

  /**
   * Adds the steps of an npz file, or of arrays as readNpz() returns them. It opens the writers
   * itself. Columns have the names that dump() writes, or those of D4RL and Minari
   * (docs/how-to/offline-data.md).
   *
   * @param from a path, a `file:` URL, or arrays by name
   * @param options `columns`, `rows` and `actionSpace`. By default all steps are added
   * @returns the number of added steps
   * @throws {TypeError} for a wrong argument, or a dtype that Hotslot lacks. Every TypeError and
   *   RangeError comes before the first step is added
   * @throws {RangeError} if a column is missing, has another shape, or has a value that a writer,
   *   the field's dtype or `actionSpace` rejects. Also if a lane has too few places
   * @throws {ERR_HOTSLOT_STATE_BUSY} if a lane has a writer, or a gating limiter admits no more
   *   steps now
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be read
   * @example
   * const steps = await buffer.load('halfcheetah.npz', { rows: { to: 100_000 } });
   */
  async load(from: string | URL | NamedTensors, options: LoadOptions = {}): Promise<number> {
    return this.#open() && loadSteps(this as unknown as TrajectoryBuffer, from, options);
  }
  /**
   * Writes all steps, lane by lane, and final observations as an npz file that load() reads. The
   * complete file replaces `path`. If dump() fails, `path` stays as it was.
   *
   * @param path a path or a `file:` URL
   * @returns the number of steps
   * @throws {TypeError} for another path, and for a bfloat16 field, which numpy lacks
   * @throws {ERR_HOTSLOT_STATE_EMPTY} if the buffer is empty
   * @throws {ERR_HOTSLOT_STATE_BUSY} if steps are added meanwhile
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the file cannot be written
   * @example
   * await buffer.dump('steps.npz');
   */
  async dump(path: string | URL): Promise<number> {
    const handle = this.#open();
    return dumpSteps(this, (lane) => spanOf(handle, lane), path);
  }

  /**
   * Removes all steps. Ids and `ptr` continue to count. Running episodes continue with their next
   * step.
   */
  clear(): void {
    lanesAddon().clearLanes(this.#open());
  }

  /**
   * Releases this object's handle. Objects of other threads stay open. Idempotent. Later calls
   * throw ERR_HOTSLOT_STATE_CLOSED, except transitions() and windows().
   */
  close(): void {
    this.#handle = null;
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #open(): LanesHandle {
    if (this.#handle === null) throw closedError('this trajectory buffer');
    return this.#handle;
  }
  #count(which: 0 | 1): number {
    lanesAddon().laneCounts(this.#open(), this.#counts);
    return this.#counts[which]!;
  }
}
