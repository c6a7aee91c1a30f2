/** Writes files atomically, and reads byte ranges of files. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { unavailableError } from '../errors.ts';
import { malformed } from './tensors.ts';

/** Appends bytes to a file. The caller may change `bytes` after the promise has resolved. */
export type Put = (bytes: Uint8Array) => Promise<void>;

/** Maximum bytes of one read or write call. */
export const PIECE = 1 << 24;
/** Size of the write buffer in bytes. Longer pieces are written directly. */
const SMALL = 1 << 16;

/**
 * Returns an ERR_HOTSLOT_UNAVAILABLE error with the text of a system error. Returns any other error
 * unchanged.
 */
function described(what: string, error: unknown): unknown {
  const { syscall, message } = error as NodeJS.ErrnoException;
  return syscall === undefined ? error : unavailableError(`${what}: ${message}`, undefined, error);
}

/**
 * Writes a file atomically. Writes the bytes that `fill` passes to `put` into a temporary file next
 * to `path`, flushes it, renames it to `path`, and flushes the folder. Before the renaming, `path`
 * is unchanged. If a step up to the renaming fails, removes the temporary file.
 */
export async function writeWhole(
  what: string,
  path: string,
  fill: (put: Put) => Promise<void>,
): Promise<void> {
  const temporary = await writeAtomically(what, path, fill);
  await temporary.place();
  await flushFolder(dirname(path)).catch((error) => {
    throw described(what, error);
  });
}

/** A temporary file that is written, but not flushed. Call place() or drop(). */
export interface AtomicWrite {
  /** Flushes the file and renames it to its path. The caller must flush the folder. */
  place(): Promise<void>;
  /** Removes the file. Does nothing after place(). */
  drop(): Promise<void>;
}

/**
 * Writes the temporary file of writeWhole(). The caller flushes and renames it later by place().
 */
export async function writeAtomically(
  what: string,
  path: string,
  fill: (put: Put) => Promise<void>,
): Promise<AtomicWrite> {
  const temporaryPath = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  let file: FileHandle | null = null;
  const drop = async () => {
    if (file === null) return;
    const open = file;
    file = null;
    await open.close().catch(() => {});
    await unlink(temporaryPath).catch(() => {}); // the caller throws the earlier error, if any
  };
  const trying = async (act: (file: FileHandle) => Promise<void>) => {
    try {
      file ??= await open(temporaryPath, 'wx');
      await act(file);
    } catch (error) {
      await drop();
      throw described(what, error);
    }
  };
  await trying((opened) => written(opened, fill));
  const place = () =>
    trying(async (opened) => {
      await opened.sync();
      await opened.close();
      await rename(temporaryPath, path);
      file = null;
    });
  return { place, drop };
}

async function written(file: FileHandle, fill: (put: Put) => Promise<void>): Promise<void> {
  const kept = new Uint8Array(SMALL);
  let count = 0;
  const flush = async () => {
    const bytes = kept.subarray(0, count);
    count = 0;
    await writeAll(file, bytes);
  };
  await fill(async (bytes) => {
    if (count + bytes.length > SMALL) await flush();
    if (bytes.length > SMALL) return writeAll(file, bytes);
    kept.set(bytes, count);
    count += bytes.length;
  });
  await flush();
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; )
    at += (await file.write(bytes, at, Math.min(PIECE, bytes.length - at))).bytesWritten;
}

/**
 * Creates a folder and its missing parents, and flushes the parent of each new folder. Does not use
 * mkdir's option `recursive`, which loops forever on a file system that always returns ENOENT.
 */
export async function makeFolder(path: string): Promise<void> {
  const make = async () => {
    try {
      await mkdir(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !(await stat(path)).isDirectory())
        throw error;
      return;
    }
    await flushFolder(dirname(path));
  };
  try {
    await make();
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    const above = dirname(path);
    if (code !== 'ENOENT' || syscall !== 'mkdir' || above === path) throw error;
    await makeFolder(above);
    await make();
  }
}

/** Flushes a folder to the disk. Only after that does a new name in it survive a loss of power. */
export async function flushFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return; // Windows cannot open a folder as a file
  const folder = await open(path);
  try {
    await folder.sync();
  } catch (error) {
    // Some file systems do not support this call, because they flush folders by themselves.
    if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await folder.close();
  }
}

/** A file that is open for reading. */
export interface Reading {
  /** size of the file in bytes */
  readonly size: number;
  /** Fills `into` with the bytes from offset `place`. Throws if the file ends before. */
  read(into: Uint8Array, place: number): Promise<void>;
}

/**
 * Opens a file, calls `use` with it, closes the file, and returns the result of `use`. Throws
 * ERR_HOTSLOT_UNAVAILABLE with the system's text if the file cannot be read.
 */
export async function reading<T>(
  what: string,
  path: string,
  use: (file: Reading) => Promise<T>,
): Promise<T> {
  try {
    // Checks this before open(), because opening a named pipe would wait for a writer.
    if (!(await stat(path)).isFile()) throw unavailableError(`${what}: it is not a file`);
    const file = await open(path);
    try {
      const { size } = await file.stat();
      const read = async (into: Uint8Array, place: number) => {
        for (let at = 0; at < into.length; ) {
          const { bytesRead } = await file.read(
            into,
            at,
            Math.min(PIECE, into.length - at),
            place + at,
          );
          if (bytesRead === 0)
            throw malformed(
              what,
              `it ends at byte ${place + at}, before the end of its declared contents`,
            );
          at += bytesRead;
        }
      };
      return await use({ size, read });
    } finally {
      await file.close();
    }
  } catch (error) {
    throw described(what, error);
  }
}
