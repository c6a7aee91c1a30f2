/**
 * Ordered experience in shared memory: the steps of each environment lie in a ring of their own.
 * native/rows/lanes.hpp describes the bytes and who may touch them. This file checks arguments,
 * calls native code and rings the bells.
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

/** For the package itself. Not exported from it. */
export let internalsOfTrajectories: (buffer: TrajectoryBuffer) => {
  /** rung after every commit */
  readonly bells: BellBoard;
  /** for native code that draws by itself: keep it referenced until that code has ended */
  readonly memory: Float64Array;
  readonly reader: BufferReader;
  /** for checkpoints */
  readonly ledger: SnapshotIO;
};

export class TrajectoryBuffer<S extends StepFields = StepFields> {
  /** places in all: steps and final observations */
  readonly capacity: number;
  readonly lanes: number;
  /** places of one lane: capacity / lanes */
  readonly laneCapacity: number;
  readonly layout: StepLayout;
  /** bounds steps sampled per step inserted, or null if the buffer was created without one */
  readonly limiter: RateLimiter | null;
  readonly #shared: SharedTrajectoryBuffer<S>;
  readonly #memory: Float64Array;
  readonly #bells: BellBoard;
  /** a count of claims, a line on a word for each lane */
  readonly #claims: Int32Array;
  readonly #counts = new Float64Array(2);
  readonly #reader: BufferReader;
  #handle: LanesHandle | null;

  /**
   * Returns true only for an object with the private field. A proxy, or an object that inherits
   * from one, lacks it.
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
   * Creates a buffer of `capacity` places (at most 2³² − 1, a multiple of `lanes`, two or more a
   * lane) of these fields. Each step also has `rewards` (float32), `terminated` and `truncated`
   * (bool). If a limiter is given, its counts follow this buffer, and it may gate add().
   * `nonFinite: 'keep'` stores NaN and infinite numbers as they are. A writer's add() describes the
   * default, 'refuse'. Throws TypeError or RangeError for an invalid option, and ERR_HOTSLOT_MEMORY
   * if the buffer does not fit.
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
   * Opens the same buffer in another thread (or again in this one). Throws a TypeError unless
   * `shared` came from share().
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

  /** Returns a plain object for postMessage or workerData, with the limiter in it. */
  share(): SharedTrajectoryBuffer<S> {
    this.#open();
    return this.#shared;
  }

  /** Steps ever committed, of all lanes, without final observations. */
  get ptr(): number {
    return this.#count(0);
  }
  /** Steps in the rings now, without final observations. */
  get size(): number {
    return this.#count(1);
  }

  /**
   * Takes lanes (by default all) for this thread until close() or the end of the thread. Throws
   * ERR_HOTSLOT_STATE_BUSY, and takes none, if one of them has a living writer. An episode that the
   * previous writer left unfinished stays without an end. With `resume` this writer continues it:
   * its first step of a lane follows the last step in the lane.
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

  /** Returns a view of transitions: n steps from each step on, and the observation after them. */
  transitions(options: TransitionsOptions = {}): View<S, 'transitions'> {
    const spec = transitionsSpec(options, this.layout, this.laneCapacity);
    return new View<S, 'transitions'>(
      INTERNAL,
      this.#reader.signed({ ...spec, kind: 'transitions' }),
    );
  }
  /** Returns a view of windows: burn-in and steps to learn from, of one episode. */
  windows(options: WindowsOptions): View<S, 'windows'> {
    const spec = windowsSpec(options, this.layout, this.laneCapacity);
    return new View<S, 'windows'>(INTERNAL, this.#reader.signed({ ...spec, kind: 'windows' }));
  }

  /** Counts the steps that the view can sample now. */
  drawable(view: View): number {
    this.#open();
    return this.#reader.count(view);
  }
  /** Returns the ids of the drawable steps in the order of the draw: lane by lane, oldest first. */
  drawableIds(view: View): Float64Array {
    this.#open();
    return this.#reader.ids(view);
  }

  /**
   * Samples `count` drawable steps of a view with replacement: uniformly, as torch's randint draws
   * ordinals, or by a sampler's priorities. Returns a dense typed array for each column
   * (docs/reference/trajectory-buffer.md). Throws ERR_HOTSLOT_STATE_EMPTY while no step can be drawn, and
   * ERR_HOTSLOT_STATE_RUNNING while a pipeline has the sampler.
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
   * Returns the same columns for chosen steps. For views with hindsight, `goalIds` names the step
   * whose achieved goal each row gets, or −1 for the row's own goal. Throws a RangeError that names
   * the first id that is not drawable.
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
   * Returns the places with these ids as they were added, final observations too. Throws a
   * RangeError that names the first id that is not there.
   */
  read(ids: Float64Array | readonly number[]): PlacesRead<S> {
    this.#open();
    return this.#reader.read(ids) as PlacesRead<S>;
  }

  /**
   * Sets the priorities |p| of steps, in order: if an id occurs twice, the last priority counts.
   * Ids that were overwritten meanwhile are ignored. Throws before anything changes: for priorities
   * that are NaN, infinite or negative, for ids that were never written, before a sampler was used,
   * and while a pipeline has it.
   */
  updatePriorities(
    ids: Float64Array | readonly number[],
    priorities: Float32Array | Float64Array | readonly number[],
  ): void {
    this.#open();
    this.#reader.update(ids, priorities);
  }

  /**
   * Adds the steps of an npz file, or of arrays as readNpz() returns them, with writers of its own.
   * Resolves to the number of steps. Columns have the names that dump() writes, or D4RL's
   * (docs/how-to/offline-data.md). Rejects before anything is added: with a RangeError that names the column or
   * lane, or with ERR_HOTSLOT_STATE_BUSY if a lane has a writer or the limiter says not yet.
   */
  async load(from: string | URL | NamedTensors, options: LoadOptions = {}): Promise<number> {
    return this.#open() && loadSteps(this as unknown as TrajectoryBuffer, from, options);
  }
  /**
   * Writes all steps, lane by lane, and final observations as an npz file, as a whole or not at
   * all. Resolves to the number of steps. Rejects with ERR_HOTSLOT_STATE_EMPTY if there are none,
   * and with ERR_HOTSLOT_STATE_BUSY if some are added meanwhile.
   */
  async dump(path: string | URL): Promise<number> {
    const handle = this.#open();
    return dumpSteps(this, (lane) => spanOf(handle, lane), path);
  }

  /** Removes all steps. Ids continue, and so do running episodes, from their next step. */
  clear(): void {
    lanesAddon().clearLanes(this.#open());
  }

  /** Releases this object's handle. Objects of other threads stay open. Idempotent. */
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
