/**
 * The event files of one folder. The latest file is open for appending. When write() resolves, its
 * records are on the disk. If the process ends during a write, the last record is incomplete, and
 * readers stop there.
 */
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { flushFolder, makeFolder } from '../../base/arrays/files.ts';
import { restartRecord, type Scalar, scalarRecord, versionRecord } from './events.ts';

/** Bytes of collected records at which they are written to the file. */
const CHUNK = 1 << 20;

/** Number of files that this process has created. Each file's name contains this number. */
let made = 0;

export class EventFiles {
  readonly #folder: string;
  readonly #maxBytes: number;
  #file: FileHandle | null = null;
  /** bytes that were written to the open file */
  #size = 0;
  /**
   * time in the latest file's name, in seconds. It only grows, even over several runs, because
   * readers order files by name
   */
  #second = 0;
  /** true until the first write has read the contents of the folder */
  #fresh = true;
  /**
   * true if the folder has files of an earlier run, or a curve went back to an earlier step. New
   * files then have version 1 (restartRecord())
   */
  #restarts = false;
  /** true if the folder had files of an earlier run */
  #resumed = false;
  /** the last step of each curve */
  readonly #steps = new Map<string, number>();
  #chunk: Uint8Array[] = [];
  #chunkBytes = 0;

  /** Does no I/O: the first write creates the folder and the file. */
  constructor(folder: string, maxBytes: number) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
  }

  /**
   * Appends the scalars, in files of at most maxBytes, and waits for the disk. A file takes at
   * least one record, even if the record exceeds maxBytes.
   */
  async write(scalars: readonly Scalar[]): Promise<void> {
    if (scalars.length === 0) return;
    if (this.#fresh) await this.#readFolder();
    for (const scalar of scalars) {
      const { tag, step, wallTime } = scalar;
      const before = this.#steps.get(tag);
      const back = before === undefined ? this.#resumed : step < before;
      this.#steps.set(tag, step);
      if (back && !this.#restarts) {
        this.#restarts = true;
        if (this.#file) await this.#end();
      }
      const bytes = back
        ? Buffer.concat([restartRecord(wallTime), scalarRecord(scalar)])
        : scalarRecord(scalar);
      if (this.#file && this.#size + this.#chunkBytes + bytes.length > this.#maxBytes)
        await this.#end();
      if (!this.#file) await this.#begin();
      this.#chunk.push(bytes);
      this.#chunkBytes += bytes.length;
      if (this.#chunkBytes >= CHUNK) await this.#append();
    }
    await this.#append();
    await this.#file?.datasync();
  }

  /**
   * Writes the remaining records and closes the latest file. A later write would begin another
   * file.
   */
  async close(): Promise<void> {
    if (this.#file) await this.#end();
  }

  /** Closes the file after a failure, and ignores errors of closing it. */
  async abandon(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.close().catch(() => {});
  }

  async #readFolder(): Promise<void> {
    await makeFolder(this.#folder);
    const seconds = (await readdir(this.#folder)).flatMap(
      (name) => /\.tfevents\.(\d{10})\./.exec(name)?.[1] ?? [],
    );
    this.#fresh = false;
    this.#resumed = seconds.length > 0;
    this.#restarts = this.#resumed;
    this.#second = seconds.reduce((latest, second) => Math.max(latest, Number(second)), 0);
  }

  async #begin(): Promise<void> {
    await makeFolder(this.#folder);
    const now = Date.now() / 1000;
    this.#second = Math.max(Math.floor(now), this.#second + 1);
    const host = hostname().replaceAll(/[^\w.-]/g, '_') || 'localhost';
    const name = `events.out.tfevents.${this.#second}.${host}.${process.pid}`;
    // The flag 'ax' creates a new file only. If machines or containers share the whole name, tries
    // the next number.
    while (!this.#file)
      this.#file = await open(join(this.#folder, `${name}.${made++}`), 'ax').catch((error) => {
        if (error.code === 'EEXIST') return null;
        throw error;
      });
    await flushFolder(this.#folder);
    this.#size = 0;
    const version = versionRecord(now, this.#restarts ? 1 : 2);
    this.#chunk = [version];
    this.#chunkBytes = version.length;
  }

  async #append(): Promise<void> {
    const bytes = Buffer.concat(this.#chunk);
    this.#chunk = [];
    this.#chunkBytes = 0;
    for (let at = 0; at < bytes.length; )
      at += (await (this.#file as FileHandle).write(bytes, at)).bytesWritten;
    this.#size += bytes.length;
  }

  async #end(): Promise<void> {
    await this.#append();
    const file = this.#file as FileHandle;
    await file.datasync();
    this.#file = null;
    await file.close();
  }
}
