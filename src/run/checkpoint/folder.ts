/**
 * The folder of a checkpoint: its lock, its files with their checksums, and files that no manifest
 * names any more.
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
 * A file that is written, but neither flushed nor named yet. Call one of the two. drop() does
 * nothing after place().
 */
export interface HeldFile {
  place(): Promise<FileFacts>;
  drop(): Promise<void>;
}

export const MANIFEST = 'checkpoint.json';
/**
 * The mark of a folder without a manifest: its other files are of a save that was cut off, and may
 * be removed.
 */
export const INCOMPLETE = 'begun';
const LOCK = 'lock';
/** Names of files that only this package writes and removes. */
const ours = /^(segment|learner|run|priorities|plain)-\d+(\.\d+)?\.(rows|safetensors|v8)$/;
/** The ending of a temporary file, which a write that was cut off leaves. */
const sibling = /\.[0-9a-f]{12}\.tmp$/;

const isOurs = (name: string) => {
  const whole = name.replace(sibling, '');
  return ours.test(whole) || whole === INCOMPLETE || (whole === MANIFEST && whole !== name);
};

/** Bytes that are read at once, also of the beginning of a file. */
const PIECE = 1 << 20;

export class Folder {
  readonly path: string;
  #lock: LockHandle | null = null;

  constructor(what: string, path: unknown) {
    if (path instanceof URL || typeof path === 'string') this.path = checkPath(what, path);
    else throw typeError(`${what} takes a folder's path`);
  }

  /** Returns the names in the folder, or null if it is missing. Throws unless it is a folder. */
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

  /** Returns whether the folder holds a checkpoint. Throws if it holds something else. */
  async hasCheckpoint(): Promise<boolean> {
    const names = (await this.names()) ?? [];
    if (names.includes(MANIFEST)) return true;
    const other = names.find((name) => name !== LOCK && !isOurs(name));
    if (other !== undefined)
      throw rangeError(
        `'${this.path}' is not a checkpoint: it holds '${other}'; name an empty folder, or a new one`,
      );
    // Without the mark the files may be a user's, or of a checkpoint whose manifest is lost.
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

  /** Marks a folder without a checkpoint as one that gets its first. */
  begin(): Promise<void> {
    const path = join(this.path, INCOMPLETE);
    return writeWhole(`'${path}'`, path, async () => {});
  }

  /**
   * Locks the folder, so that only this checkpoint saves there until unlock(). With `reads`, others
   * may read too, and a read-only folder needs no lock.
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
   * Writes a whole file. Each part is summed at once and written after the part before it. The
   * bytes are on the disk when this resolves. The name is on the disk once a later manifest has
   * been written, and the manifest's name when flush() resolves.
   */
  async write(file: string, fill: (put: Put) => Promise<void>): Promise<FileFacts> {
    if (file === MANIFEST) await this.flush();
    return (await this.writeHeld(file, fill)).place();
  }

  /** Writes as write() does, but leaves the file to be flushed. */
  async writeHeld(file: string, fill: (put: Put) => Promise<void>): Promise<HeldFile> {
    let [bytes, sum] = [0, 0];
    let last = Promise.resolve();
    const counted = (put: Put) =>
      fill((part) => {
        bytes += part.length;
        sum = crc32(part, sum);
        // Keeps the order, even if the caller puts the next part before the last is written.
        last = last.then(() => put(part));
        last.catch(() => {}); // the awaiting caller gets the error
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
   * Throws unless the file is as it was written. If the length is right, `use` gets the bytes in
   * order, before the checksum is compared.
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
        done.catch(() => {}); // thrown when it is awaited
        return { part, done };
      };
      // The system reads the next piece while this one is summed and used.
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
   * Removes this package's files that are not in `keep`. A file that cannot be removed stays until
   * the next call.
   */
  async clean(keep: ReadonlySet<string>): Promise<void> {
    for (const name of (await this.names()) ?? [])
      if (isOurs(name) && !keep.has(name)) await unlink(join(this.path, name)).catch(() => {});
  }
}
