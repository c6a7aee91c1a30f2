/**
 * The folder of a checkpoint: its lock, its files with their checksums, and what no manifest names
 * any more.
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
  writeBeside,
  writeWhole,
} from '../../base/arrays/files.ts';
import { checkPath } from '../../base/checks.ts';
import { rangeError, stateError, typeError, unavailableError } from '../../base/errors.ts';
import { type LockHandle, systemFiles } from '../../base/system-addon.ts';

/** What a manifest knows of a file. */
export interface FileFacts {
  readonly file: string;
  readonly bytes: number;
  readonly crc32: number;
}

/**
 * A file that is written, and neither flushed nor named. One of the two is called; drop() of one
 * that is placed does nothing.
 */
export interface HeldFile {
  place(): Promise<FileFacts>;
  drop(): Promise<void>;
}

export const MANIFEST = 'checkpoint.json';
/** There is no manifest yet: what lies beside this is of a save that was cut off, and nobody's. */
export const INCOMPLETE = 'begun';
const LOCK = 'lock';
/** Names that are this package's to write and to remove. */
const ours = /^(segment|learner|run|priorities|plain)-\d+(\.\d+)?\.(rows|safetensors|v8)$/;
/** What a write that was cut off leaves beside. */
const beside = /\.[0-9a-f]{12}\.tmp$/;

const isOurs = (name: string) => {
  const whole = name.replace(beside, '');
  return ours.test(whole) || whole === INCOMPLETE || (whole === MANIFEST && whole !== name);
};

/** The first bytes of a file are looked at with the rest: a piece at a time. */
const PIECE = 1 << 20;

export class Folder {
  readonly path: string;
  #lock: LockHandle | null = null;

  constructor(what: string, path: unknown) {
    if (path instanceof URL || typeof path === 'string') this.path = checkPath(what, path);
    else throw typeError(`${what} takes a folder's path`);
  }

  /** Names in it; null when it is not there. Throws unless it is a folder. */
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

  /** Whether it holds a checkpoint; throws where it holds something else. */
  async hasCheckpoint(): Promise<boolean> {
    const names = (await this.names()) ?? [];
    if (names.includes(MANIFEST)) return true;
    const other = names.find((name) => name !== LOCK && !isOurs(name));
    if (other !== undefined)
      throw rangeError(
        `'${this.path}' is not a checkpoint: it holds '${other}'; name an empty folder, or a new one`,
      );
    // Without the mark they are somebody's, or of a checkpoint whose manifest is lost.
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
        syscall === 'mkdir' ? 'cannot be made' : 'is made, and its name cannot be flushed';
      throw unavailableError(`'${this.path}' ${not}: ${message}`, undefined, error);
    }
  }

  /** Marks a folder without a checkpoint as one that the first is coming to. */
  begin(): Promise<void> {
    const path = join(this.path, INCOMPLETE);
    return writeWhole(`'${path}'`, path, async () => {});
  }

  /**
   * Nobody else saves there until unlock(). `reads`: others may read too, and a folder that cannot
   * be written needs no lock.
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
   * Writes a file as a whole; what is put is summed at once, and written behind what was put
   * before. Its bytes are on the disk when this resolves, its name when the manifest is written
   * behind it; the manifest's, when flush() resolves.
   */
  async write(file: string, fill: (put: Put) => Promise<void>): Promise<FileFacts> {
    if (file === MANIFEST) await this.flush();
    return (await this.writeHeld(file, fill)).place();
  }

  /** The same up to where it is flushed. */
  async writeHeld(file: string, fill: (put: Put) => Promise<void>): Promise<HeldFile> {
    let [bytes, sum] = [0, 0];
    let last = Promise.resolve();
    const counted = (put: Put) =>
      fill((part) => {
        bytes += part.length;
        sum = crc32(part, sum);
        // In order, for who puts the next before the last is through.
        last = last.then(() => put(part));
        last.catch(() => {}); // told to who awaits it
        return last;
      });
    const path = join(this.path, file);
    const { place, drop } = await writeBeside(`'${path}'`, path, counted);
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
   * Throws unless the file is as it was written. `use` sees the bytes first, in order, of a file of
   * the right length.
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
        done.catch(() => {}); // told when it is awaited
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
   * Removes what is this package's and not in `keep`. What cannot be removed stays until the next
   * time.
   */
  async clean(keep: ReadonlySet<string>): Promise<void> {
    for (const name of (await this.names()) ?? [])
      if (isOurs(name) && !keep.has(name)) await unlink(join(this.path, name)).catch(() => {});
  }
}
