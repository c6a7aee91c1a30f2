/**
 * Threads that this package starts. No other code makes workers: this file makes one that is sent
 * messages, and task-thread.ts one with a long task. Their owners know the interfaces alone, so
 * that a browser's Web Worker can be another form of them.
 */
import { Worker } from 'node:worker_threads';
import { callAfter } from '../base/clock.ts';
import { unavailableError } from '../base/errors.ts';
import { errorOf } from '../base/plain-error.ts';

/** A stopped thread has this long to end before it is terminated. */
const STOP_MS = 5000;

export interface StartedThread {
  /** Resolves once the thread is over, or has done its task. */
  readonly ended: Promise<unknown>;
  /** Ends the thread wherever it is, and resolves when it has ended. Idempotent. */
  terminate(): Promise<unknown>;
}

export interface MessageThread extends StartedThread {
  /**
   * Resolves to ERR_HOTSLOT_THREAD_LOST. Its cause is what the thread threw, without one if it
   * exited or was terminated.
   */
  readonly ended: Promise<Error>;
  /** messages to the thread and from it */
  readonly port: Pick<NodeJS.EventEmitter, 'on' | 'off'> & Pick<Worker, 'postMessage'>;
  /** Lets the process end while the thread runs. */
  unref(): void;
}

/**
 * Flags of this process that a module of this package can use. Others (--input-type, -e, …) are
 * about the program's entry.
 */
const execArgv = process.execArgv.filter((flag) => flag === '--enable-source-maps');

/**
 * Starts a thread with `setup` as its workerData. Throws ERR_HOTSLOT_THREAD_LOST if the system
 * gives no thread.
 */
export function startThread(
  entry: URL,
  { name, setup }: { name: string; setup?: unknown },
): MessageThread {
  let worker: Worker;
  try {
    worker = new Worker(entry, { name, execArgv, workerData: setup });
  } catch (error) {
    throw unavailableError('no thread can be started', 'ERR_HOTSLOT_THREAD_LOST', error);
  }
  const ended = new Promise<Error>((resolve) => {
    let thrown: Error | undefined;
    worker.once('error', (error) => {
      thrown = errorOf(error);
    });
    worker.once('exit', (code) => {
      const why = thrown
        ? `the thread failed: ${thrown.message}`
        : `the thread ended (exit code ${code})`;
      resolve(unavailableError(why, 'ERR_HOTSLOT_THREAD_LOST', thrown));
    });
  });
  return { ended, port: worker, unref: () => worker.unref(), terminate: () => worker.terminate() };
}

/** Resolves when a thread that was asked to stop has ended, and terminates a late one. */
export async function stopped(thread: StartedThread): Promise<void> {
  using _ = callAfter(STOP_MS, () => void thread.terminate());
  await thread.ended;
  await thread.terminate();
}
