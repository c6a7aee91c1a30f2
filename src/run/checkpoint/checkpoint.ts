/**
 * Saves a run, so that it can be stopped at any moment and resumed. A save stores the state of the
 * run's parts between two ticks in a folder. The folder contains the last complete checkpoint even
 * if a later save fails. docs/reference/checkpoint.md is the reference, and
 * docs/contributing/design/run.md gives the reasons.
 */
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'eventemitter3';
import { checkInternal, checkKeys, INTERNAL } from '../../base/checks.ts';
import { nowMs } from '../../base/clock.ts';
import { Closing } from '../../base/closing.ts';
import { closedError, stateError, unavailableError } from '../../base/errors.ts';
import { errorOf } from '../../base/plain-error.ts';
import { internalsOf } from '../../engine/pipeline/replay-pipeline.ts';
import { type PausedPool, pausables } from '../collectors/pool-pause.ts';
import { parseEvery } from './every.ts';
import { Folder } from './folder.ts';
import { type CheckpointContents, contentsOf } from './inspect.ts';
import { filesOf, type Lineage, lineageOf, remember } from './lineage.ts';
import { readManifest } from './manifest.ts';
import type {
  CheckpointEvents,
  CheckpointOptions,
  RestoredCheckpoint,
  SavedCheckpoint,
} from './options.ts';
import { checkParts, type KnownParts } from './parts.ts';
import { checkFit, checkFresh, restore } from './restore.ts';
import { type Snapshot, takeSnapshot } from './snapshot.ts';
import { writeTaken } from './write.ts';

/**
 * A save that waits for its turn. `patient` is true if only the interval `every` requested the
 * save. If a tick is hot, a patient save waits for the tick's end or for close(). Other saves
 * throw.
 */
interface Pending {
  patient: boolean;
}

/**
 * Saves a run to a folder between two ticks, so that the run can be stopped at any moment and
 * resumed. The folder contains the last complete checkpoint even if a later save fails. The object
 * emits the events of CheckpointEvents.
 * @example
 * const restored = await Checkpoint.restore('runs/first', { buffer, learner, pipeline });
 * const parts = { buffer, learner, pipeline };
 * await using checkpoint = await Checkpoint.open('runs/first', { ...parts, every: '60 s' });
 * await pipeline.run({ ticks: 100_000 });
 * await checkpoint.save();
 */
export class Checkpoint extends EventEmitter<CheckpointEvents> implements AsyncDisposable {
  /** absolute path of the folder */
  readonly folder: string;
  readonly #known: KnownParts;
  readonly #folder: Folder;
  readonly #run: string;
  #lineage: Lineage | null;
  /**
   * files of earlier manifests. clean() keeps them until a flush confirms that the newest
   * manifest's name is on the disk
   */
  #doubted: ReadonlySet<string> = new Set();
  #saves: number;
  #saving: Promise<SavedCheckpoint> | null = null;
  #next: (Pending & { promise: Promise<SavedCheckpoint> }) | null = null;
  /** close() aborts it. This ends the wait of an automatic save for the end of a hot tick */
  readonly #ending = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  readonly #closing = new Closing();

  /**
   * Opens a folder to save these parts into, and creates it if it does not exist. open() writes
   * only the folder's lock and, if the folder has no checkpoint yet, a mark. Only one checkpoint at
   * a time can have a folder open, over all processes.
   *
   * @param folder a path or a `file:` URL
   * @param options the parts to save, at least one. `every` is the interval of automatic saves,
   *   such as '60 s' (default: no automatic saves)
   * @throws {TypeError|RangeError} for wrong parts, for a folder that contains other files, and for
   *   an unreadable checkpoint
   * @throws {ERR_HOTSLOT_STATE_BUSY} while another checkpoint has the folder open. Also if the
   *   folder contains the checkpoint of another run: restore() it first, or name another folder
   * @throws {ERR_HOTSLOT_STATE_RUNNING} if a pipeline samples by the buffer's priorities, but is
   *   not among the parts
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the system refuses the folder
   * @example
   * const parts = { buffer, learner, pipeline, mailbox };
   * const checkpoint = await Checkpoint.open('runs/first', { ...parts, every: '60 s' });
   */
  static async open(folder: string | URL, options: CheckpointOptions): Promise<Checkpoint> {
    checkKeys('Checkpoint.open', options, [...partKeys, 'every']);
    const known = checkParts('Checkpoint.open', options);
    const everyMs = options.every === undefined ? null : parseEvery(options.every);
    const place = new Folder('Checkpoint.open', folder);
    await place.hasCheckpoint();
    await place.make();
    place.lock();
    try {
      const manifest = (await place.hasCheckpoint()) ? await readManifest(place) : null;
      const lineage = manifest && lineageOf(known, manifest);
      if (manifest && !lineage)
        throw stateError(
          'BUSY',
          `'${place.path}' holds the checkpoint of another run, at tick ${manifest.tick}: Checkpoint.restore() it into these parts first, or name another folder`,
        );
      if (!manifest) await place.begin();
      return new Checkpoint(INTERNAL, { known, folder: place, lineage, everyMs });
    } catch (error) {
      place.unlock();
      throw error;
    }
  }

  /**
   * Restores a folder's checkpoint into these parts. The parts must be new, and have the same
   * options as the saved parts. Their device may be of another family. If restore() throws, you can
   * restore into the same parts again.
   *
   * @param folder a path or a `file:` URL
   * @param parts the parts that were saved. `every` is checked and ignored. A pool or remote
   *   collectors cannot be among the parts: open them afterwards with `resume`
   * @returns `save`, `tick` and `time` of the checkpoint, and its values `collectors` and `extra`.
   *   Null if the folder does not exist or has no checkpoint yet. The parts are then unchanged
   * @throws {RangeError} for parts that differ from the saved ones. The error lists the
   *   differences. Also for a checkpoint that is damaged, incomplete or of a newer format, and for
   *   a folder that contains other files
   * @throws {TypeError} for wrong parts, and if a newer Node.js saved `collectors` or `extra`
   * @throws {ERR_HOTSLOT_STATE_BUSY} for parts that were used already, and while a checkpoint has
   *   the folder open
   * @throws {ERR_HOTSLOT_STATE_RUNNING} if a pipeline samples by the buffer's priorities, but is
   *   not among the parts
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the system refuses a file
   * @throws the error of a part's loadState()
   * @example
   * const restored = await Checkpoint.restore('runs/first', { buffer, learner, pipeline });
   * if (restored !== null) console.log(`resumed after tick ${restored.tick}`);
   */
  static async restore(
    folder: string | URL,
    parts: CheckpointOptions,
  ): Promise<RestoredCheckpoint | null> {
    checkKeys('Checkpoint.restore', parts, [...partKeys, 'every']);
    const known = checkParts('Checkpoint.restore', parts);
    if (parts.every !== undefined) parseEvery(parts.every);
    const place = new Folder('Checkpoint.restore', folder);
    if (!(await place.hasCheckpoint())) return null;
    place.lock({ reads: true });
    try {
      const manifest = await readManifest(place);
      await checkFit(known, manifest, place);
      checkFresh(known);
      const { collectors, extra, segments } = await restore(known, manifest, place);
      remember(known, place, { manifest, segments });
      const { save, tick, time } = manifest;
      return { save, tick, time, collectors, extra };
    } finally {
      place.unlock();
    }
  }

  /**
   * Returns the facts of a folder's checkpoint, without a lock: its parts, counts and files.
   *
   * @param folder a path or a `file:` URL
   * @returns the facts, or null if the folder does not exist or has no checkpoint yet
   * @throws {RangeError} for a folder that contains other files, and for a manifest that is damaged
   *   or of a newer format
   * @throws {TypeError} if `folder` is neither a path nor a `file:` URL
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if the system refuses the folder or its manifest
   */
  static async inspect(folder: string | URL): Promise<CheckpointContents | null> {
    const place = new Folder('Checkpoint.inspect', folder);
    return (await place.hasCheckpoint()) ? contentsOf(place, await readManifest(place)) : null;
  }

  private constructor(
    key: unknown,
    given: { known: KnownParts; folder: Folder; lineage: Lineage | null; everyMs: number | null },
  ) {
    super();
    checkInternal(key, 'Checkpoint', 'Checkpoint.open()');
    this.#known = given.known;
    this.#folder = given.folder;
    this.folder = given.folder.path;
    this.#lineage = given.lineage;
    this.#run = given.lineage?.manifest.run ?? randomBytes(8).toString('hex');
    this.#saves = given.lineage?.manifest.save ?? 0;
    if (given.everyMs !== null) this.#keepSaving(given.everyMs);
  }

  /**
   * Saves the parts. The pipeline first finishes the ticks that it has begun. Then the pipeline and
   * a pool's collectors stand still while the state of the parts is taken. They resume before the
   * rows are copied and written. If you call save() during a save, another save follows that one.
   * With manual ticks, call save() between afterTick() and the next sample.
   *
   * @returns the counts of the save, after the checkpoint is on the disk
   * @throws {ERR_HOTSLOT_UNAVAILABLE} if a file cannot be written, or a collector cannot return its
   *   state. The text says which checkpoint the folder contains then
   * @throws {ERR_HOTSLOT_STATE_TICK} while a manual tick is hot
   * @throws {ERR_HOTSLOT_STATE_BUSY} while another checkpoint pauses the same collectors
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   * @throws {TypeError} for `collectors` or `extra` that structured cloning refuses
   * @throws the error of a part's state(), or of the pipeline
   * @example
   * const { tick, bytes } = await checkpoint.save();
   */
  async save(): Promise<SavedCheckpoint> {
    this.#checkOpen();
    const { pipeline } = this.#known;
    // Throws before the save is queued. Otherwise this caller would wait for a save under way,
    // which may wait for this caller's afterTick(). Neither wait would end.
    if (pipeline) internalsOf(pipeline).control.checkCold();
    return this.#queue({ patient: false });
  }

  /**
   * Ends automatic saves, waits for a save under way, and unlocks the folder. close() itself saves
   * nothing. It cancels an automatic save that waits for the end of a hot tick. Idempotent.
   */
  close(): Promise<void> {
    return this.#closing.once(async () => {
      clearTimeout(this.#timer);
      this.#ending.abort(this.#closed());
      await Promise.allSettled([this.#saving, this.#next?.promise]);
      this.#folder.unlock();
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #closed(): Error {
    return closedError('this checkpoint', 'open the folder again');
  }
  #checkOpen(): void {
    if (this.#closing.begun) throw this.#closed();
  }

  #keepSaving(everyMs: number): void {
    const turn = async () => {
      // Ignores an error of the queued save, because the caller that requested the save gets it.
      if (this.#next) await this.#next.promise.catch(() => {});
      else
        await this.#queue({ patient: true }).catch((error: unknown) =>
          this.#failed(errorOf(error)),
        );
      if (!this.#closing.begun) wait();
    };
    const wait = () => {
      this.#timer = setTimeout(() => void turn(), everyMs).unref();
    };
    wait();
  }

  #failed(error: Error): void {
    if (this.#closing.begun) return;
    if (!this.#emit('error', error)) process.emitWarning(error.message, 'CheckpointWarning');
  }

  /**
   * Emits an event, and returns whether it has a listener. If a listener throws, its error becomes
   * an uncaught exception. The save still succeeds, because it is already on the disk.
   */
  #emit<E extends keyof CheckpointEvents>(event: E, ...args: CheckpointEvents[E]): boolean {
    try {
      return this.emit(
        event,
        ...(args as Parameters<EventEmitter.EventListener<CheckpointEvents, E>>),
      );
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
      return true;
    }
  }

  #queue(requested: Pending): Promise<SavedCheckpoint> {
    if (this.#next) {
      // If a caller requests the queued save too, the save is not patient any more, and close()
      // does not cancel it.
      this.#next.patient &&= requested.patient;
      return this.#next.promise;
    }
    const before = this.#saving;
    const { pipeline } = this.#known;
    // Asks the run for a pause before this function returns. So the run requests no tick after the
    // caller's call. If another save is under way, this save asks for the pause only at its turn.
    const release = pipeline && !before ? internalsOf(pipeline).control.ask() : () => {};
    const mine: Promise<SavedCheckpoint> = (before ?? Promise.resolve<unknown>(null))
      .catch(() => {})
      .then(() => {
        this.#saving = mine;
        // `#next` may already be another save, which was queued after this one.
        if (this.#next === next) this.#next = null;
        if (next.patient) this.#checkOpen();
        return this.#save(next.patient, release);
      })
      .finally(() => {
        release();
        if (this.#saving === mine) this.#saving = null;
      });
    const next = Object.assign(requested, { promise: mine });
    if (before) this.#next = next;
    else this.#saving = mine;
    return mine;
  }

  async #save(patient: boolean, release: () => void): Promise<SavedCheckpoint> {
    const begin = nowMs();
    const save = this.#saves + 1;
    const before = this.#lineage;
    let taken: Snapshot | null = null;
    try {
      const still = await this.#still(save, patient).finally(release);
      ({ taken } = still);
      const { stillSeconds } = still;
      const written = { run: this.#run, save, taken, before };
      const { manifest, segments, bytes } = await writeTaken(this.#folder, this.#known, written);
      this.#lineage = { manifest, segments };
      remember(this.#known, this.#folder, this.#lineage);
      this.#doubted = new Set([...this.#doubted, ...filesOf(before?.manifest)]);
      await this.#folder.flush();
      this.#doubted = new Set();
      const saved = {
        save,
        tick: taken.tick,
        bytes,
        seconds: (nowMs() - begin) / 1000,
        stillSeconds,
      };
      this.#emit('saved', saved);
      return saved;
    } catch (error) {
      const { code, message } = errorOf(error) as Error & { code?: string };
      if (code !== 'ERR_HOTSLOT_UNAVAILABLE') throw error;
      const placed = this.#lineage !== before;
      const still = placed
        ? '; the checkpoint is there, but a loss of power may bring back the one before; save again'
        : before
          ? `; the checkpoint of tick ${before.manifest.tick} is unchanged`
          : '';
      throw unavailableError(
        `saving into '${this.folder}' failed: ${message}${still}`,
        undefined,
        error,
      );
    } finally {
      this.#saves = save;
      for (const held of (taken as Snapshot | null)?.held ?? []) await held.drop();
      // Removes the files that no checkpoint needs: those of a failed save, or those that only the
      // previous checkpoint needed.
      const keep = new Set([...filesOf(this.#lineage?.manifest), ...this.#doubted]);
      await this.#folder.clean(keep).catch(() => {});
    }
  }

  /**
   * Takes a snapshot while the collectors and the pipeline stand still. The collectors stop first.
   * If a tick waits for their rows, they stop after that tick has its rows.
   */
  async #still(save: number, patient: boolean): Promise<{ taken: Snapshot; stillSeconds: number }> {
    const { collectors, pipeline } = this.#known;
    const ending = patient ? this.#ending.signal : null;
    let pool: PausedPool | null = null;
    const others = async () => {
      const hold = collectors && pausables.get(collectors);
      if (!hold) return;
      pool = await hold();
      if (pool.late.length > 0) this.#warn(pool.late);
    };
    let stillSeconds = 0;
    const snapshot = async () => {
      const begin = nowMs();
      try {
        return await takeSnapshot(this.#known, this.#folder, save, pool?.state);
      } finally {
        stillSeconds = (nowMs() - begin) / 1000;
      }
    };
    try {
      if (!pipeline) await others();
      const taken = await (pipeline
        ? internalsOf(pipeline).control.use(snapshot, { patient: ending, others })
        : snapshot());
      return { taken, stillSeconds };
    } finally {
      (pool as PausedPool | null)?.release();
    }
  }

  #warn(late: readonly number[]): void {
    const text = `collectors ${late.join(', ')} did not return from collect() in time; they begin new episodes when this checkpoint is restored`;
    if (!this.#emit('warning', text)) process.emitWarning(text, 'CheckpointWarning');
  }
}

const partKeys = ['buffer', 'learner', 'pipeline', 'limiter', 'mailbox', 'collectors', 'extra'];
