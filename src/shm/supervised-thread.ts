/**
 * Starts a thread, waits until it is ready, and stops it. If the thread ends by itself, its owner
 * can replace it.
 */
import { type MessageThread, stopped } from './thread.ts';

export interface Supervision {
  start(): MessageThread;
  /** Resolves when the thread is ready. start() waits for this. */
  ready(thread: MessageThread): Promise<unknown>;
  /** Called when a thread that was ready has ended. The owner may then call replace(). */
  lost(reason: Error, supervised: SupervisedThread): void;
}

export class SupervisedThread {
  readonly #how: Supervision;
  /** the thread that runs, or null */
  running: MessageThread | null = null;

  constructor(how: Supervision) {
    this.#how = how;
  }

  /**
   * Starts a thread and waits until it is ready. Rejects with the reason if the thread ends before
   * that. If `ready` rejects, it terminates the thread and rejects with the same error.
   */
  async start(): Promise<void> {
    const thread = this.#how.start();
    this.running = thread;
    const ended = thread.ended.then((reason) => {
      this.running = null;
      throw reason;
    });
    try {
      await Promise.race([this.#how.ready(thread), ended]);
    } catch (error) {
      await thread.terminate();
      throw error;
    }
    ended.catch((reason: Error) => this.#how.lost(reason, this));
  }

  /**
   * Replaces a thread that ended, and tries again if the new thread ends before it is ready. Before
   * each attempt, replace() calls `again` with the latest reason, and gives up if `again` returns
   * false. Resolves to true when a thread is ready, and to false if it gave up.
   */
  async replace(reason: Error, again: (reason: Error) => boolean): Promise<boolean> {
    for (let latest = reason; again(latest); ) {
      try {
        await this.start();
        return true;
      } catch (error) {
        latest = error as Error;
      }
    }
    return false;
  }

  /**
   * Asks the thread to stop, by calling `report`, and terminates the thread if it does not end.
   * After stop(), the owner must not start another thread.
   */
  async stop(report: (thread: MessageThread) => void): Promise<void> {
    const thread = this.running;
    if (thread === null) return;
    report(thread);
    await stopped(thread);
  }
}
