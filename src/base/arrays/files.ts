/** Writes files as a whole or not at all, and reads them piece by piece. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { unavailableError } from '../errors.ts';
import { malformed } from './tensors.ts';

/** Puts bytes after those before. They are read before the promise resolves, and not afterwards. */
export type Put = (bytes: Uint8Array) => Promise<void>;

/** Bytes that go through the system at once. */
export const PIECE = 1 << 24;
/** Pieces up to this size are collected before they are written. */
const SMALL = 1 << 16;

/**
 * Returns an error of ours with the system's text. Errors without a system call stay as they are.
 */
function described(what: string, error: unknown): unknown {
  const { syscall, message } = error as NodeJS.ErrnoException;
  return syscall === undefined ? error : unavailableError(`${what}: ${message}`, undefined, error);
}

/**
 * Writes what `fill` puts into a file next to `path`, flushes it, gives it the name `path`, and
 * flushes the folder. Until then `path` is what it was. If a step fails, the file next to it is
 * removed.
 */
export async function writeWhole(
  what: string,
  path: string,
  fill: (put: Put) => Promise<void>,
): Promise<void> {
  const sibling = await writeAtomically(what, path, fill);
  await sibling.place();
  await flushFolder(dirname(path)).catch((error) => {
    throw described(what, error);
  });
}

/** A file that is written, but neither flushed nor named. Call one of the two. */
export interface AtomicWrite {
  /** flushes it and gives it its name. The caller flushes the folder */
  place(): Promise<void>;
  /** removes it, unless it has its name */
  drop(): Promise<void>;
}

/** Does the first half of writeWhole(), for callers that do the second half later. */
export async function writeAtomically(
  what: string,
  path: string,
  fill: (put: Put) => Promise<void>,
): Promise<AtomicWrite> {
  const sibling = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  let file: FileHandle | null = null;
  const drop = async () => {
    if (file === null) return;
    const open = file;
    file = null;
    await open.close().catch(() => {});
    await unlink(sibling).catch(() => {}); // the first error is thrown
  };
  const trying = async (act: (file: FileHandle) => Promise<void>) => {
    try {
      file ??= await open(sibling, 'wx');
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
      await rename(sibling, path);
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
 * Makes a folder, with those above it, and flushes each new name. mkdir's own `recursive` is not
 * used: it never ends if a file system answers ENOENT whatever there is.
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

/** Flushes a folder: a new name in it is safe only then. */
export async function flushFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return; // folders are not files there
  const folder = await open(path);
  try {
    await folder.sync();
  } catch (error) {
    // Some file systems flush folders by themselves, and lack the call for it.
    if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await folder.close();
  }
}

/** A file that is being read, by place. */
export interface Reading {
  /** bytes of it */
  readonly size: number;
  /** fills `into` with the bytes from `place` on */
  read(into: Uint8Array, place: number): Promise<void>;
}

/** Opens a file while `use` runs. Throws ERR_HOTSLOT_UNAVAILABLE with the system's text. */
export async function reading<T>(
  what: string,
  path: string,
  use: (file: Reading) => Promise<T>,
): Promise<T> {
  try {
    // Checked first, because opening a pipe would wait for its writer.
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
