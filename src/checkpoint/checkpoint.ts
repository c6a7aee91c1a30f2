/**
 * A run that can be stopped at any moment and gone on with: what its parts are between two ticks, in a folder that holds the last
 * whole checkpoint whatever happens to a later one. docs/checkpoints.md says what is kept, docs/design.md why so.
 */
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'eventemitter3';
import { checkKeys, checkOurs, OURS } from '../checks.ts';
import { nowMs } from '../clock.ts';
import { type HeldPool, holders } from '../collectors/pool-hold.ts';
import { closedError, stateError, unavailableError } from '../errors.ts';
import { fillSafetensors } from '../formats/safetensors.ts';
import { insideOf } from '../pipeline/replay-pipeline.ts';
import { parseEvery } from './every.ts';
import { type FileFacts, Folder } from './folder.ts';
import { checkFit, checkFresh, give } from './give.ts';
import { type CheckpointContents, contentsOf } from './inspect.ts';
import { filesOf, type Lineage, lineageOf, remember } from './lineage.ts';
import { type Manifest, readManifest, writeManifest } from './manifest.ts';
import type { CheckpointEvents, CheckpointOptions, RestoredCheckpoint, SavedCheckpoint } from './options.ts';
import { checkParts, type KnownParts } from './parts.ts';
import { type Segment, Segments } from './segments.ts';
import { type Taken, take } from './take.ts';

export class Checkpoint extends EventEmitter<CheckpointEvents> implements AsyncDisposable {
  readonly folder: string;
  readonly #known: KnownParts;
  readonly #folder: Folder;
  readonly #run: string;
  #lineage: Lineage | null;
  /** files of those before, where it is not known whether the newest manifest's name is on the disk */
  #doubted: ReadonlySet<string> = new Set();
  #saves: number;
  #saving: Promise<SavedCheckpoint> | null = null;
  #next: Promise<SavedCheckpoint> | null = null;
  #timer: NodeJS.Timeout | undefined;
  #closing: Promise<void> | null = null;

  /**
   * Opens a folder to save these parts into; it is made where it is not there. Nothing is written yet but its lock: one checkpoint
   * at a time has a folder, over all processes. A folder that holds another run's checkpoint is refused: restore() it first, or
   * name another. Throws TypeError or RangeError for parts that are none, for a folder that holds something else, and for a
   * checkpoint that cannot be read; ERR_HOTSLOT_STATE_BUSY while another has the folder; ERR_HOTSLOT_UNAVAILABLE in the system's
   * words.
   */
  static async open(folder: string | URL, options: CheckpointOptions): Promise<Checkpoint> {
    checkKeys('Checkpoint.open', options, [...partKeys, 'every']);
    const known = checkParts('Checkpoint.open', options);
    const everyMs = options.every === undefined ? null : parseEvery(options.every);
    const place = new Folder('Checkpoint.open', folder);
    await place.holdsOne();
    await place.make();
    place.lock();
    try {
      const manifest = (await place.holdsOne()) ? await readManifest(place) : null;
      const lineage = lineageOf(known);
      if (manifest && (lineage?.manifest.run !== manifest.run || lineage.manifest.save !== manifest.save))
        throw stateError(
          'BUSY',
          `'${place.path}' holds the checkpoint of another run, at tick ${manifest.tick}: Checkpoint.restore() it into these parts first, or name another folder`,
        );
      return new Checkpoint(OURS, { known, folder: place, lineage: manifest && lineage, everyMs });
    } catch (error) {
      place.unlock();
      throw error;
    }
  }

  /**
   * Gives these parts what the folder's checkpoint holds, and tells what else there is. They must be just made, and as those that
   * were saved: each difference is named. Their device may be another, of another family. Null, and nothing is changed, where the
   * folder is not there or holds no checkpoint yet. Throws, changing nothing that counts: RangeError for parts that do not fit and
   * for a checkpoint that is damaged, incomplete or of a newer format; ERR_HOTSLOT_STATE_BUSY for parts that were used already, and
   * while the folder is being saved into; ERR_HOTSLOT_UNAVAILABLE in the system's words.
   */
  static async restore(folder: string | URL, parts: CheckpointOptions): Promise<RestoredCheckpoint | null> {
    checkKeys('Checkpoint.restore', parts, [...partKeys, 'every']);
    const known = checkParts('Checkpoint.restore', parts);
    const place = new Folder('Checkpoint.restore', folder);
    if (!(await place.holdsOne())) return null;
    place.lock({ reads: true });
    try {
      const manifest = await readManifest(place);
      await checkFit(known, manifest, place);
      checkFresh(known);
      const { collectors, extra, segments } = await give(known, manifest, place);
      remember(known, { manifest, segments });
      const { save, tick, time } = manifest;
      return { save, tick, time, collectors, extra };
    } finally {
      place.unlock();
    }
  }

  /** What a folder's checkpoint holds, in numbers; throws as restore() does. Null where it holds none. */
  static async inspect(folder: string | URL): Promise<CheckpointContents | null> {
    const place = new Folder('Checkpoint.inspect', folder);
    return (await place.holdsOne()) ? contentsOf(place, await readManifest(place)) : null;
  }

  private constructor(
    key: unknown,
    given: { known: KnownParts; folder: Folder; lineage: Lineage | null; everyMs: number | null },
  ) {
    super();
    checkOurs(key, 'Checkpoint', 'Checkpoint.open()');
    this.#known = given.known;
    this.#folder = given.folder;
    this.folder = given.folder.path;
    this.#lineage = given.lineage;
    this.#run = given.lineage?.manifest.run ?? randomBytes(8).toString('hex');
    this.#saves = given.lineage?.manifest.save ?? 0;
    if (given.everyMs !== null) this.#keepSaving(given.everyMs);
  }

  /**
   * Saves. The pipeline comes to the end of the ticks that it has begun and stands still while its parts are looked at, and so do a
   * pool's collectors; rows are copied and written while all go on. Resolves when it is on the disk. A call while another is under
   * way saves once more behind it. Rejects with ERR_HOTSLOT_UNAVAILABLE where the disk refuses; the checkpoint before is as it
   * was. With manual ticks call it between afterTick() and the next sample: otherwise ERR_HOTSLOT_STATE_TICK.
   */
  save(): Promise<SavedCheckpoint> {
    return this.#queue(false);
  }

  /** Ends saving by itself, waits for a save that is under way, and lets go of the folder. Twice is fine. Saves nothing. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    clearTimeout(this.#timer);
    await Promise.allSettled([this.#saving, this.#next]);
    this.#folder.unlock();
  }

  #keepSaving(everyMs: number): void {
    const turn = async () => {
      try {
        await this.#queue(true);
      } catch (error) {
        if (this.#closing) return;
        if (!this.emit('error', error as Error)) process.emitWarning((error as Error).message, 'CheckpointWarning');
      }
      if (!this.#closing) wait();
    };
    const wait = () => {
      this.#timer = setTimeout(() => void turn(), everyMs).unref();
    };
    wait();
  }

  #queue(patient: boolean): Promise<SavedCheckpoint> {
    if (this.#closing) return Promise.reject(closedError('this checkpoint', 'open the folder again'));
    if (this.#next) return this.#next;
    const before = this.#saving;
    const mine = (before ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        this.#saving = mine;
        // Another may be queued behind this one already.
        if (this.#next === mine) this.#next = null;
        return this.#save(patient);
      })
      .finally(() => {
        if (this.#saving === mine) this.#saving = null;
      });
    if (before) this.#next = mine;
    else this.#saving = mine;
    return mine;
  }

  async #save(patient: boolean): Promise<SavedCheckpoint> {
    const begin = nowMs();
    const save = this.#saves + 1;
    const before = this.#lineage;
    try {
      const { taken, stillSeconds } = await this.#still(save, patient);
      const { manifest, segments, bytes } = await this.#write(save, taken);
      this.#lineage = { manifest, segments };
      remember(this.#known, this.#lineage);
      this.#doubted = new Set([...this.#doubted, ...filesOf(before?.manifest)]);
      await this.#folder.flush();
      this.#doubted = new Set();
      const saved = { save, tick: taken.tick, bytes, seconds: (nowMs() - begin) / 1000, stillSeconds };
      this.emit('saved', saved);
      return saved;
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      if (code !== 'ERR_HOTSLOT_UNAVAILABLE') throw error;
      const placed = this.#lineage !== before;
      const still = placed
        ? '; it is there, but a loss of power may bring back what was there before: save again'
        : before
          ? `; the checkpoint of tick ${before.manifest.tick} is as it was`
          : '';
      throw unavailableError(`saving into '${this.folder}' failed: ${message}${still}`, undefined, error);
    } finally {
      this.#saves = save;
      // Of a save that failed, what it wrote; of one that did not, what only the one before needed.
      const keep = new Set([...filesOf(this.#lineage?.manifest), ...this.#doubted]);
      await this.#folder.clean(keep).catch(() => {});
    }
  }

  /** Collectors first, then the pipeline, but for a tick that waits for their rows: nothing moves while the parts are looked at. */
  async #still(save: number, patient: boolean): Promise<{ taken: Taken; stillSeconds: number }> {
    const { collectors, pipeline } = this.#known;
    let pool: HeldPool | null = null;
    const others = async () => {
      const hold = collectors && holders.get(collectors);
      if (!hold) return;
      pool = await hold();
      if (pool.late.length > 0) this.#warn(pool.late);
    };
    let stillSeconds = 0;
    const look = async () => {
      const begin = nowMs();
      try {
        return await take(this.#known, this.#folder, save, pool?.state);
      } finally {
        stillSeconds = (nowMs() - begin) / 1000;
      }
    };
    try {
      if (!pipeline) await others();
      const taken = await (pipeline ? insideOf(pipeline).standstill.use(look, { patient, others }) : look());
      return { taken, stillSeconds };
    } finally {
      (pool as HeldPool | null)?.release();
    }
  }

  #warn(late: readonly number[]): void {
    const text = `collectors ${late.join(', ')} did not come back from collect(): they begin other episodes when this is restored`;
    if (!this.emit('warning', text)) process.emitWarning(text, 'CheckpointWarning');
  }

  async #write(
    save: number,
    taken: Taken,
  ): Promise<{ manifest: Manifest; segments: readonly Segment[]; bytes: number }> {
    const folder = this.#folder;
    const files: FileFacts[] = [...taken.files];
    const { ledger } = this.#known;
    const parts = { ...taken.parts };
    const arrays = { ...taken.arrays };
    let segments: readonly Segment[] = [];
    let bytes = 0;
    if (ledger && taken.lanes) {
      const written = await new Segments(ledger, this.#lineage?.segments).save(folder, save, taken.lanes);
      segments = written.segments;
      bytes += written.bytes;
      const shape = [ledger.lanes, ledger.numbers];
      arrays.lanes = { dtype: 'float64', shape, data: written.states };
      if (parts.limiter) {
        const inserts = (parts.limiter.inserts as number) + written.beyond;
        parts.limiter = { ...parts.limiter, inserts };
      }
    }
    const put = async (kind: string, fill: Parameters<Folder['write']>[1], ending = 'safetensors') => {
      files.push(await folder.write(`${kind}-${save}.${ending}`, fill));
    };
    if (taken.learner) await put('learner', fillSafetensors('learner', taken.learner, { format: 'pt' }));
    if (Object.keys(arrays).length > 0) await put('run', fillSafetensors('run', arrays));
    const { plain } = taken;
    if (plain) await put('plain', (to) => to(plain), 'v8');
    const kept = segments.map(({ file, bytes: size, crc32 }) => ({ file, bytes: size, crc32 }));
    const time = new Date().toISOString();
    const manifest: Manifest = { run: this.#run, save, tick: taken.tick, time, parts, files, segments: kept };
    const { bytes: last } = await writeManifest(folder, manifest);
    return { manifest, segments, bytes: bytes + last + files.reduce((sum, file) => sum + file.bytes, 0) };
  }
}

const partKeys = ['buffer', 'learner', 'pipeline', 'limiter', 'mailbox', 'collectors', 'extra'];
