/**
 * Manages the folder of a checkpoint: locks it, reads and writes its files with checksums, and
 * removes files that no manifest names any more.
 */
import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from '../../base/arrays/crc32.ts';
import {
  flushFolder,
  makeFolder,
  type Put,
  type Reading,
  reading,
  writeAtomically,
  writeWhole,
} from '../../base/arrays/files.ts';
import { checkPath } from '../../base/checks.ts';
import { rangeError, stateError, typeError, unavailableError } from '../../base/errors.ts';
import { type LockHandle, systemFiles } from '../../base/system-addon.ts';

/** A file as the manifest describes it. */
export interface FileFacts {
  readonly file: string;
  readonly bytes: number;
  readonly crc32: number;
}

/**
 * A file that is written, but not flushed, and that still has a temporary name. Call place() or
 * drop(). place() flushes the file and gives it its name. drop() removes the file, and does nothing
 * after place().
 */
export interface HeldFile {
  place(): Promise<FileFacts>;
  drop(): Promise<void>;
}

export const MANIFEST = 'checkpoint.json';
/**
 * Name of an empty file that marks a folder whose first save is not complete. Such a folder has no
 * manifest. Its other files are those of an interrupted save, and may be removed.
 */
export const INCOMPLETE = 'begun';
const LOCK = 'lock';
/** Names of files that only this package writes and removes. */
const ours = /^(segment|learner|run|priorities|plain)-\d+(\.\d+)?\.(rows|safetensors|v8)$/;
/** The ending of a temporary file. An interrupted write leaves such a file. */
const temporary = /\.[0-9a-f]{12}\.tmp$/;

const isOurs = (name: string) => {
  const whole = name.replace(temporary, '');
  return ours.test(whole) || whole === INCOMPLETE || (whole === MANIFEST && whole !== name);
};

/** Most bytes of one read. */
const PIECE = 1 << 20;

export class Folder {
  readonly path: string;
  #lock: LockHandle | null = null;

  constructor(what: string, path: unknown) {
    if (path instanceof URL || typeof path === 'string') this.path = checkPath(what, path);
    else throw typeError(`${what} takes a folder's path`);
  }

  /**
   * Returns the names of the folder's files, or null if the folder does not exist. Throws if the
   * path is not a folder that can be read.
   */
  async names(): Promise<string[] | null> {
    try {
      return await readdir(this.path);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return null;
      throw unavailableError(
        `'${this.path}' cannot be read as a folder: ${message}`,
        undefined,
        error,
      );
    }
  }

  /**
   * Returns whether the folder contains a checkpoint. Throws if it contains files that are not a
   * checkpoint's.
   */
  async hasCheckpoint(): Promise<boolean> {
    const names = (await this.names()) ?? [];
    if (names.includes(MANIFEST)) return true;
    const other = names.find((name) => name !== LOCK && !isOurs(name));
    if (other !== undefined)
      throw rangeError(
        `'${this.path}' is not a checkpoint: it holds '${other}'; name an empty folder, or a new one`,
      );
    // Without the mark, these files may be a user's, or those of a checkpoint whose manifest was
    // lost.
    const lone = names.find((name) => ours.test(name));
    if (lone !== undefined && !names.includes(INCOMPLETE))
      throw rangeError(
        `'${this.path}' is not a checkpoint: it holds '${lone}' and no ${MANIFEST}; put that back, or name an empty folder, or a new one`,
      );
    return false;
  }

  async make(): Promise<void> {
    try {
      await makeFolder(this.path);
    } catch (error) {
      const { syscall, message } = error as NodeJS.ErrnoException;
      const not =
        syscall === 'mkdir' ? 'cannot be made' : 'was created, but its name could not be flushed';
      throw unavailableError(`'${this.path}' ${not}: ${message}`, undefined, error);
    }
  }

  /** Writes the mark of a folder that has no checkpoint yet. */
  begin(): Promise<void> {
    const path = join(this.path, INCOMPLETE);
    return writeWhole(`'${path}'`, path, async () => {});
  }

  /**
   * Locks the folder, so that only this checkpoint saves into it until unlock(). With `reads`,
   * several readers may lock the folder at once, and a read-only folder is read without a lock.
   */
  lock({ reads = false } = {}): void {
    const lock = systemFiles().lockFile(join(this.path, LOCK), new Uint8Array(1), reads);
    if (lock === null)
      throw stateError(
        'BUSY',
        `'${this.path}' is in use: another checkpoint is open there${reads ? '' : ', or is read'}, in this process or another`,
      );
    if (typeof lock !== 'string') this.#lock = lock;
    else if (!reads) throw unavailableError(`'${this.path}' cannot be locked for saving: ${lock}`);
  }
  unlock(): void {
    if (this.#lock) systemFiles().unlockFile(this.#lock);
    this.#lock = null;
  }

  /**
   * Writes and flushes a file. When write() resolves, the file's bytes are on the disk. The file's
   * name is on the disk after the next manifest was written. The manifest's own name is on the disk
   * after the next flush().
   *
   * `fill` passes the bytes to its `put`, piece by piece. Each put() adds its bytes to the checksum
   * at once, and writes them after those of earlier calls.
   */
  async write(file: string, fill: (put: Put) => Promise<void>): Promise<FileFacts> {
    if (file === MANIFEST) await this.flush();
    return (await this.writeHeld(file, fill)).place();
  }

  /** Writes a file as write() does. Only place() of the result flushes and names the file. */
  async writeHeld(file: string, fill: (put: Put) => Promise<void>): Promise<HeldFile> {
    let [bytes, sum] = [0, 0];
    let last = Promise.resolve();
    const counted = (put: Put) =>
      fill((part) => {
        bytes += part.length;
        sum = crc32(part, sum);
        // Writes the pieces in order, even if the caller calls put() again before the last call has
        // resolved.
        last = last.then(() => put(part));
        last.catch(() => {}); // the caller that awaits put() gets the error
        return last;
      });
    const path = join(this.path, file);
    const { place, drop } = await writeAtomically(`'${path}'`, path, counted);
    return { place: () => place().then(() => ({ file, bytes, crc32: sum })), drop };
  }

  async flush(): Promise<void> {
    try {
      await flushFolder(this.path);
    } catch (error) {
      throw unavailableError(
        `'${this.path}' cannot be flushed: ${(error as Error).message}`,
        undefined,
        error,
      );
    }
  }

  /**
   * Passes the bytes of a file to `use`, in order. Throws if the file is not as it was written. The
   * length is checked before the first call of `use`, and the checksum after the last one.
   */
  async read(
    { file, bytes, crc32: expected }: FileFacts,
    use: (piece: Uint8Array) => void,
  ): Promise<void> {
    const path = join(this.path, file);
    let sum = 0;
    await reading(`'${path}'`, path, async ({ size, read }: Reading) => {
      if (size !== bytes)
        throw rangeError(`'${path}' is damaged: it has ${size} bytes, ${bytes} were written`);
      const pieces = [0, 1].map(() => new Uint8Array(Math.min(PIECE, size)));
      const begin = (at: number) => {
        const part = pieces[(at / PIECE) % 2]!.subarray(0, Math.max(0, size - at));
        const done = read(part, at);
        done.catch(() => {}); // `await done` throws it
        return { part, done };
      };
      // The system reads the next piece while this one is checked and used.
      let next = begin(0);
      for (let at = 0; at < size; at += PIECE) {
        const { part, done } = next;
        await done;
        next = begin(at + PIECE);
        sum = crc32(part, sum);
        use(part);
      }
    });
    if (sum !== expected)
      throw rangeError(`'${path}' is damaged: its checksum is not the one that was written`);
  }

  /**
   * Removes this package's files that are not in `keep`. If a file cannot be removed, the next call
   * tries again.
   */
  async clean(keep: ReadonlySet<string>): Promise<void> {
    for (const name of (await this.names()) ?? [])
      if (isOurs(name) && !keep.has(name)) await unlink(join(this.path, name)).catch(() => {});
  }
}
