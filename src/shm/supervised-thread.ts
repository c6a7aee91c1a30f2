/**
 * Threads that run one after the other in one place: started, waited for, watched, replaced and
 * stopped.
 */
import { type MessageThread, stopped } from './thread.ts';

export interface Supervision {
  start(): MessageThread;
  /** Resolves when the thread is ready, for start(). */
  ready(thread: MessageThread): Promise<unknown>;
  /** A thread that was ready has ended: the owner may replace() it. */
  lost(reason: Error, supervised: SupervisedThread): void;
}

export class SupervisedThread {
  readonly #how: Supervision;
  /** null while none runs */
  running: MessageThread | null = null;

  constructor(how: Supervision) {
    this.#how = how;
  }

  /**
   * Starts a thread. Rejects with the reason if it ends before it is ready, and ends one that
   * cannot become ready.
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
   * Starts another thread in place of one that ended, and again if that ends before it is ready,
   * while `again` returns true for the latest reason. Resolves to whether one is ready.
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
   * Asks the thread to stop, and terminates it if it does not. The owner starts none afterwards.
   */
  async stop(report: (thread: MessageThread) => void): Promise<void> {
    const thread = this.running;
    if (thread === null) return;
    report(thread);
    await stopped(thread);
  }
}
