/**
 * Starts the threads of this package. Only two files create workers: this one for threads that
 * exchange messages, and task-thread.ts for threads with one long task. The owners of threads use
 * only the two interfaces, so that a browser's Web Worker can implement them later.
 */
import { Worker } from 'node:worker_threads';
import { callAfter } from '../base/clock.ts';
import { unavailableError } from '../base/errors.ts';
import { errorOf } from '../base/plain-error.ts';

/**
 * Milliseconds that a thread has to end after it was asked to stop. If the thread needs longer,
 * stopped() terminates it.
 */
const STOP_MS = 5000;

export interface StartedThread {
  /** Resolves when the thread has ended, or has finished its task. */
  readonly ended: Promise<unknown>;
  /** Ends the thread at any point of its code, and resolves when it has ended. Idempotent. */
  terminate(): Promise<unknown>;
}

export interface MessageThread extends StartedThread {
  /**
   * Resolves to ERR_HOTSLOT_THREAD_LOST. The error's cause is what the thread threw. The error has
   * no cause if the thread exited or was terminated.
   */
  readonly ended: Promise<Error>;
  /** port for messages to the thread and from it */
  readonly port: Pick<NodeJS.EventEmitter, 'on' | 'off'> & Pick<Worker, 'postMessage'>;
  /** Lets the process end while the thread runs. */
  unref(): void;
}

/**
 * Flags of this process that each thread gets. Other flags (--input-type, -e, …) concern the
 * program's entry module.
 */
const execArgv = process.execArgv.filter((flag) => flag === '--enable-source-maps');

/**
 * Starts a thread with `setup` as its workerData. Throws ERR_HOTSLOT_THREAD_LOST if the system
 * cannot start a thread.
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

/** Waits until a thread that was asked to stop has ended. Terminates the thread after STOP_MS. */
export async function stopped(thread: StartedThread): Promise<void> {
  using _ = callAfter(STOP_MS, () => void thread.terminate());
  await thread.ended;
  await thread.terminate();
}
