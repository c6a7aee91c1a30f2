/**
 * Declares the functions of the addon system.node, which call the operating system. They are
 * grouped by subject.
 */
import { addonOf } from './addon.ts';

/** A file that this process has locked. */
export type LockHandle = { readonly handleOf: 'lock' };
/** A child process and two pipes, to it and from it. */
export type ChildHandle = { readonly handleOf: 'child' };

/** Addresses of shared memory. */
export const systemMemory = addonOf<{
  /** Returns the address of the view's first byte modulo `to`. */
  misalignment(view: ArrayBufferView, to: number): number;
}>('system', 'memory');

/** Locks on files. */
export const systemFiles = addonOf<{
  /**
   * Locks a file and returns a handle. Returns null if another handle has the lock, or the system's
   * error text after another failure. With `shared`, several handles may share the lock.
   */
  lockFile(path: string, keep: Uint8Array, shared: boolean): LockHandle | string | null;
  unlockFile(lock: LockHandle): void;
}>('system', 'files');

/** Child processes. */
export const systemProcesses = addonOf<{
  /**
   * Opens two pipes with a capacity of `bytes` bytes each. Sets `out` to the descriptor that the
   * child reads from, and the descriptor that it writes to.
   */
  openChild(bytes: number, out: Int32Array): ChildHandle;
  /**
   * Records that the child process has started, and closes the child's descriptors in this process.
   * From now on, the child is killed when the handle is destroyed.
   */
  childStarted(child: ChildHandle, pid: number): void;
  /** Records that the child has ended by itself. */
  childGone(child: ChildHandle): void;
  /** Closes the pipe to the child. The child then reads an end of file. */
  endWriting(child: ChildHandle): void;
  closeChild(child: ChildHandle): void;
  /**
   * Reads bytes from the child into `into`, from index `from`. Returns the number of bytes read, 0
   * after `milliseconds` without any, or −1 if the child's end is closed.
   */
  readChild(
    child: ChildHandle,
    into: Uint8Array,
    from: number,
    milliseconds: number,
  ): number | undefined;
  writeChild(
    child: ChildHandle,
    bytes: Uint8Array,
    from: number,
    milliseconds: number,
  ): number | undefined;
  /**
   * Makes the system kill this process when the thread that started it ends. `pid` is the parent's
   * process id. If the parent has already ended, kills this process at once.
   */
  endWithParent(pid: number): void;
}>('system', 'processes');

/** Bells, by which threads wake each other. */
export const systemBells = addonOf<{
  /**
   * layout of a bell in native code: the offset of each word, in words of 32 bits, the number of
   * words, and the values for how the bell's owner sleeps
   */
  readonly layout: Readonly<Record<string, number>>;
  /**
   * Wakes a thread that sleeps in native code on the futex `words[index]`. Atomics.notify() cannot
   * wake such a thread.
   */
  wakeNative(words: Int32Array, index: number): void;
  /**
   * Polls `words[index]` for at most `ms` milliseconds, and yields its core to ready threads
   * meanwhile. Returns true as soon as the word differs from `count`.
   */
  lookNative(words: Int32Array, index: number, count: number, ms: number): boolean | undefined;
  /**
   * Sleeps on the bell at `words[index]` for at most `ms` milliseconds. Native code can wake this
   * sleep. Returns true if the bell's count differs from `count` afterwards.
   */
  sleepNative(words: Int32Array, index: number, count: number, ms: number): boolean | undefined;
}>('system', 'bells');

/** Notification of a thread's end. */
export const systemThreads = addonOf<{
  /**
   * Changes `words[index]` from `before` to `from`, and watches this thread. When the thread's
   * environment ends, for any reason, native code changes the word from `from` to `to`. Returns the
   * word's earlier value. Does nothing if that value is not `before`.
   */
  watchThread(
    words: Int32Array,
    index: number,
    before: number,
    from: number,
    to: number,
  ): number | undefined;
  unwatchThread(words: Int32Array, index: number, from: number): boolean | undefined;
}>('system', 'threads');

/** The clock that all threads read. */
export const systemClock = addonOf<{
  nowMs(): number | undefined;
}>('system', 'clock');

/** Cores of the process. */
export const systemCores = addonOf<{
  /** Returns the values of CoresNow: cores, threads, helpers. */
  coresNow(): [number, number, number] | undefined;
}>('system', 'cores');
