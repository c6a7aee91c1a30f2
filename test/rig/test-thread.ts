/**
 * A worker thread of a test: its module is given a task, says values and ends. Both ends of the
 * talk are written here.
 */
import { statSync } from 'node:fs';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { fromPlain, toPlain } from '../../src/base/plain-error.ts';

/** What a thread posts, and `thrown` for the error that ended it. */
type Message = { said: unknown } | { refused: unknown } | { thrown: unknown };

/** How a module's name ends that has all it imports in it: see one-file.ts. */
export const ONE_FILE = '.one.js';

/** What a thread loads for this module: that one, unless it is older. */
function oneFileOf(module: URL): URL {
  const one = new URL(module.href.replace(/\.js$/, ONE_FILE));
  const [made, compiled] = [one, module].map(
    (url) => statSync(url, { throwIfNoEntry: false })?.mtimeMs,
  );
  return made !== undefined && compiled !== undefined && made > compiled ? one : module;
}

export class TestThread<Task> {
  readonly worker: Worker;
  /** Resolves when the thread has ended, by itself or by force. */
  readonly ended: Promise<void>;
  /** messages that next() has not taken yet */
  readonly #heard: Message[] = [];
  /** calls of next() that no message has come for yet */
  readonly #asking: ((message: Message) => void)[] = [];
  /** what next() is told once the thread has ended and no message is left */
  #end: Message | undefined;

  /** `entry` is a module that calls perform(). */
  constructor(entry: URL, task: Task) {
    this.worker = new Worker(oneFileOf(entry), { workerData: task });
    this.worker.on('message', (message: Message) => this.#hear(message));
    this.worker.on('error', (thrown) => this.#hear({ thrown }));
    this.ended = new Promise((resolve) => {
      this.worker.once('exit', (code) => {
        this.#end = { thrown: new Error(`the thread ended with ${code} and without an answer`) };
        for (const asking of this.#asking.splice(0)) asking(this.#end);
        resolve();
      });
    });
  }

  #hear(message: Message): void {
    const asking = this.#asking.shift();
    if (asking) asking(message);
    else this.#heard.push(message);
  }

  /**
   * What the thread says next; none is missed. Rejects with the error that it met, or when it ends
   * without a word.
   */
  async next<T = unknown>(): Promise<T> {
    const message =
      this.#heard.shift() ??
      this.#end ??
      (await new Promise<Message>((resolve) => this.#asking.push(resolve)));
    if ('said' in message) return message.said as T;
    throw 'refused' in message ? fromPlain(message.refused) : message.thrown;
  }

  /** What it says next, once it has ended by itself. */
  async result<T = unknown>(): Promise<T> {
    try {
      return await this.next<T>();
    } finally {
      await this.ended;
    }
  }

  /** Ends it by force. Rejects with an error of the thread that no test took. */
  async terminate(): Promise<void> {
    await this.worker.terminate();
    for (const message of this.#heard.splice(0)) {
      if ('refused' in message) throw fromPlain(message.refused);
      if ('thrown' in message) throw message.thrown;
    }
  }
}

/** In the thread: its task. */
export const givenTask = <Task>(): Task => workerData as Task;

/** In the thread: says a value, before perform() says the last one. */
export function say(said: unknown): void {
  parentPort!.postMessage({ said } satisfies Message);
}

/** In the thread: does the work and says what it returns, or the error that it throws. */
export async function perform(work: () => unknown): Promise<void> {
  let message: Message;
  try {
    message = { said: await work() };
  } catch (error) {
    message = { refused: toPlain(error) };
  }
  parentPort!.postMessage(message);
}
