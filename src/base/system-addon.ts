/**
 * The functions of system.node by subject, as TypeScript sees them: calls to the operating system
 * and the process.
 */
import { addonOf } from './addon.ts';

/** A file that this process has locked. */
export type LockHandle = { readonly handleOf: 'lock' };
/** A child process and the two pipes to it. */
export type ChildHandle = { readonly handleOf: 'child' };

/** Addresses of shared memory. */
export const systemMemory = addonOf<{
  /** the address of the view's first byte mod `to` */
  misalignment(view: ArrayBufferView, to: number): number;
}>('system', 'memory');

/** Locks on files. */
export const systemFiles = addonOf<{
  /**
   * Returns a handle, null if another has it, or else the system's text. `shared`: others that
   * share the lock may have it too
   */
  lockFile(path: string, keep: Uint8Array, shared: boolean): LockHandle | string | null;
  unlockFile(lock: LockHandle): void;
}>('system', 'files');

/** Child processes. */
export const systemProcesses = addonOf<{
  /**
   * Opens pipes that hold `bytes` bytes. `out`: the descriptors that the child reads from, and
   * writes to
   */
  openChild(bytes: number, out: Int32Array): ChildHandle;
  /** the child has them now: they close here, and the child is ended with the handle */
  childStarted(child: ChildHandle, pid: number): void;
  /** it ended by itself */
  childGone(child: ChildHandle): void;
  /** what it reads from has ended */
  endWriting(child: ChildHandle): void;
  closeChild(child: ChildHandle): void;
  /** Returns how many bytes, 0 if `milliseconds` were not enough, −1 if the other end is closed */
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
   * This process, whose parent is said to be `pid`, is killed when the thread that started it ends.
   */
  endWithParent(pid: number): void;
}>('system', 'processes');

/** How threads wake each other. */
export const systemBells = addonOf<{
  /**
   * native code's places of a bell's words, in words of 32 bits from its start, the count of all,
   * and how its owner sleeps
   */
  readonly layout: Readonly<Record<string, number>>;
  /** Wakes by futex at the word at `index` of `words`: only this reaches a native sleeper */
  wakeNative(words: Int32Array, index: number): void;
  /**
   * Looks at that word for at most `ms`, and lends its core to threads that are ready meanwhile.
   * Returns true when it is not `seen`
   */
  lookNative(words: Int32Array, index: number, count: number, ms: number): boolean | undefined;
  /**
   * Sleeps on that word for at most `ms`, as native code wakes it. Returns true when it is not
   * `seen`
   */
  sleepNative(words: Int32Array, index: number, count: number, ms: number): boolean | undefined;
}>('system', 'bells');

/** Threads' ends. */
export const systemThreads = addonOf<{
  /**
   * Changes the word from `before` to `from`. However this thread's environment ends, the word
   * becomes `to` if it is `from` then. Returns what it was (see `answered`), and does nothing if it
   * was not `before`.
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

/** The process's cores. */
export const systemCores = addonOf<{
  /** cores of the process, threads that run the library's code, helpers that a large job has now */
  coresNow(): [number, number, number] | undefined;
}>('system', 'cores');
