/**
 * Writes curves for TensorBoard. Scalars are collected in memory, and written to event files within
 * `flushMs` milliseconds.
 */
import {
  checkCount,
  checkInternal,
  checkKeys,
  checkPath,
  describeValue,
  INTERNAL,
} from '../../base/checks.ts';
import { Closing } from '../../base/closing.ts';
import { closedError, rangeError, typeError, unavailableError } from '../../base/errors.ts';
import { EventFiles } from './event-files.ts';
import type { Scalar } from './events.ts';
import { checkListen, type ListenOptions, listenTo } from './listening.ts';

export interface TensorBoardOptions {
  /**
   * maximum milliseconds until a scalar is on the disk, if nothing blocks the event loop, default
   * 2000
   */
  flushMs?: number;
  /** bytes of an event file after which the next one begins, at least 4096, default 256 MiB */
  maxBytes?: number;
}

/** Number of collected scalars at which they are written at once, before `flushMs` is over. */
const MAX_EVENTS = 1 << 14;

/** Advice by the error code of the disk. */
const advice: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full: make room',
  EDQUOT: 'the quota is used up: make room',
  EFBIG: 'the file may not grow further: give a smaller maxBytes',
  EEXIST: 'it is a file: name another folder',
  ENOTDIR: 'part of the path is a file: name another folder',
  EACCES: 'this user may not write there: name another folder',
  EPERM: 'this user may not write there: name another folder',
  EROFS: 'the file system is read-only: name another folder',
};

/** Writes event files. Returned by tensorBoard(). */
export class TensorBoardWriter implements AsyncDisposable {
  readonly folder: string;
  readonly #files: EventFiles;
  readonly #flushMs: number;
  readonly #stops = new Set<() => void>();
  #buffered: Scalar[] = [];
  #timer: NodeJS.Timeout | undefined;
  /**
   * resolves when all writes so far have ended, and never rejects: writes run one after the other
   */
  #writing: Promise<void> = Promise.resolve();
  #failure: Error | null = null;
  readonly #closing = new Closing();

  constructor(key: unknown, folder: string, options: TensorBoardOptions) {
    checkInternal(key, 'TensorBoardWriter', 'tensorBoard()');
    if (typeof folder !== 'string')
      throw typeError(`tensorBoard takes a folder's path, got ${describeValue(folder)}`);
    if (folder === '' || folder.includes('\0'))
      throw rangeError(`tensorBoard needs a folder's path, got ${describeValue(folder)}`);
    const absolute = checkPath('tensorBoard', folder);
    checkKeys('tensorBoard', options, ['flushMs', 'maxBytes']);
    const { flushMs = 2000, maxBytes = 2 ** 28 } = options;
    this.folder = absolute;
    this.#flushMs = checkCount('flushMs', flushMs, 0, 2 ** 31 - 1);
    this.#files = new EventFiles(absolute, checkCount('maxBytes', maxBytes, 4096));
  }

  /**
   * Adds a value to a curve. scalar() only buffers it, and the value is written later. NaN and
   * infinities are written unchanged, and other values as float32.
   *
   * @param tag the curve's name, such as 'train/loss'
   * @param step a whole number from 0 on
   * @param wallTime seconds since 1970, default now
   * @throws {TypeError|RangeError} for an empty tag or a wrong step
   */
  scalar(tag: string, value: number, step: number, wallTime = Date.now() / 1000): void {
    if (typeof tag !== 'string')
      throw typeError(`scalar: tag must be a string, got ${describeValue(tag)}`);
    if (tag === '') throw rangeError("scalar: tag must name a curve, such as 'train/loss', got ''");
    if (typeof value !== 'number')
      throw typeError(`scalar: value must be a number, got ${describeValue(value)}`);
    checkCount('scalar: step', step, 0);
    if (typeof wallTime !== 'number')
      throw typeError(`scalar: wallTime must be a number, got ${describeValue(wallTime)}`);
    if (!Number.isFinite(wallTime))
      throw rangeError(`scalar: wallTime must be seconds since 1970, got ${wallTime}`);
    this.#checkOpen();
    this.#keep({ tag, value, step, wallTime });
  }

  /**
   * Writes values that a pipeline and collectors report. Ends when these close, when this writer
   * closes, or when you call the returned function. The curves are:
   *
   * - `train/<name>`: the named scalars of ticks, by tick id, at most one tick every `every`
   *   seconds
   * - `speed/updates_per_second`: ticks, about once a second
   * - `episodes/return`, `episodes/length`: of each episode that collectors report, by environment
   *   steps so far
   * - `speed/steps_per_second`: environment steps of all collectors, about once a second
   *
   * Close the pipeline and the pool before this writer, because they report their last ticks and
   * episodes when they close.
   */
  listen(what: ListenOptions): () => void {
    checkListen(what);
    this.#checkOpen();
    const stop = listenTo(what, (tag, value, step) =>
      this.#keep({ tag, value, step, wallTime: Date.now() / 1000 }),
    );
    const once = () => {
      if (this.#stops.delete(once)) stop();
    };
    this.#stops.add(once);
    return once;
  }

  /**
   * Resolves when all scalars given so far are on the disk. No scalar is written after an error of
   * the disk.
   *
   * @throws {ERR_HOTSLOT_UNAVAILABLE} after an error of the disk
   */
  async flush(): Promise<void> {
    this.#checkOpen();
    await this.#write();
    if (this.#failure) throw this.#failure;
  }

  /** Stops listening and writes the remaining scalars. Rejects as flush() does. Idempotent. */
  close(): Promise<void> {
    return this.#closing.once(async () => {
      for (const stop of this.#stops) stop();
      await this.#write();
      if (!this.#failure) await this.#files.close().catch((error) => this.#fail(error));
      if (this.#failure) throw this.#failure;
    });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #keep(scalar: Scalar): void {
    if (this.#failure || this.#closing.begun) return;
    this.#buffered.push(scalar);
    // The timer keeps the process alive until the write, so that a process that ends by itself
    // writes first.
    this.#timer ??= setTimeout(() => void this.#write(), this.#flushMs);
    if (this.#buffered.length === MAX_EVENTS) void this.#write();
  }

  #write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kept = this.#buffered;
    this.#buffered = [];
    this.#writing = this.#writing.then(async () => {
      if (this.#failure) return;
      await this.#files.write(kept).catch((error) => this.#fail(error));
    });
    return this.#writing;
  }

  /** Stops writing, and emits one warning. The training continues without curves. */
  async #fail(cause: NodeJS.ErrnoException): Promise<void> {
    const next = advice[cause.code ?? ''] ?? 'see the cause';
    const text = `tensorBoard cannot write to '${this.folder}'; ${next}. No more events are written there (${cause.message})`;
    this.#failure = unavailableError(text, 'ERR_HOTSLOT_UNAVAILABLE', cause);
    this.#buffered = [];
    process.emitWarning(text, 'MonitorWarning');
    await this.#files.abandon();
  }

  #checkOpen(): void {
    if (this.#closing.begun)
      throw closedError('this TensorBoard writer', 'make another with tensorBoard()');
  }
}

/**
 * Writes TensorBoard's event files in a folder. `tensorboard --logdir <folder>` shows the curves
 * while the training runs. The first scalars create the folder and a file. Every write is flushed,
 * so a killed process loses only scalars after its last write. An error of the disk emits one
 * process warning, and flush() and close() reject with the error. Use one writer at a time for a
 * folder.
 *
 * @param folder path of the folder
 * @throws {TypeError|RangeError} for wrong options
 * @example
 * const board = tensorBoard('runs/first');
 * board.listen({ pipeline });
 * await board.close();
 */
export function tensorBoard(folder: string, options: TensorBoardOptions = {}): TensorBoardWriter {
  return new TensorBoardWriter(INTERNAL, folder, options);
}
