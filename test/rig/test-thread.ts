/**
 * A worker thread of a test. Its module gets a task, posts values and ends. This file has both
 * sides of the communication.
 */
import { statSync } from 'node:fs';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { fromPlain, toPlain } from '../../src/base/plain-error.ts';

/** What a thread posts, or `thrown` for the error that ended the thread. */
type Message = { said: unknown } | { refused: unknown } | { thrown: unknown };

/** The ending of a bundle's name: see one-file.ts. */
export const ONE_FILE = '.one.js';

/** Returns what a thread loads for this module: its bundle, unless that is missing or older. */
function oneFileOf(module: URL): URL {
  const one = new URL(module.href.replace(/\.js$/, ONE_FILE));
  const [made, compiled] = [one, module].map(
    (url) => statSync(url, { throwIfNoEntry: false })?.mtimeMs,
  );
  return made !== undefined && compiled !== undefined && made > compiled ? one : module;
}

export class TestThread<Task> {
  readonly worker: Worker;
  /** Resolves when the thread has ended, by itself or by terminate(). */
  readonly ended: Promise<void>;
  /** messages that next() has not returned yet */
  readonly #heard: Message[] = [];
  /** calls of next() that still wait for a message */
  readonly #asking: ((message: Message) => void)[] = [];
  /** the result of next() after the thread has ended and no message is left */
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
   * Returns the next value that the thread says. No value is missed. Rejects with the thread's
   * error, or if the thread ends without a message.
   */
  async next<T = unknown>(): Promise<T> {
    const message =
      this.#heard.shift() ??
      this.#end ??
      (await new Promise<Message>((resolve) => this.#asking.push(resolve)));
    if ('said' in message) return message.said as T;
    throw 'refused' in message ? fromPlain(message.refused) : message.thrown;
  }

  /** Returns the next value, after the thread has ended by itself. */
  async result<T = unknown>(): Promise<T> {
    try {
      return await this.next<T>();
    } finally {
      await this.ended;
    }
  }

  /** Terminates the thread. Rejects with an error of the thread that no test has read. */
  async terminate(): Promise<void> {
    await this.worker.terminate();
    for (const message of this.#heard.splice(0)) {
      if ('refused' in message) throw fromPlain(message.refused);
      if ('thrown' in message) throw message.thrown;
    }
  }
}

/** Called in the thread: returns its task. */
export const givenTask = <Task>(): Task => workerData as Task;

/** Called in the thread: says a value. perform() says the last one. */
export function say(said: unknown): void {
  parentPort!.postMessage({ said } satisfies Message);
}

/** Called in the thread: runs `work`, and says what it returns or the error that it throws. */
export async function perform(work: () => unknown): Promise<void> {
  let message: Message;
  try {
    message = { said: await work() };
  } catch (error) {
    message = { refused: toPlain(error) };
  }
  parentPort!.postMessage(message);
}
