/**
 * The control plane between the opener and its actors' threads: comlink calls for set-up. Never
 * on the hot path, never to a thread that is parked. A call is raced against the worker's end, and errors keep their class
 * name, code and cause.
 */
import type { MessagePort, Worker } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { unavailableError } from '../base/errors.ts';
import { errorOf, fromPlain, toPlain } from '../base/plain-error.ts';

// comlink's own handler keeps message, name and stack only.
const thrown = Comlink.transferHandlers.get('throw') as Comlink.TransferHandler<{ value: unknown }, unknown>;
Comlink.transferHandlers.set('throw', {
  canHandle: thrown.canHandle,
  serialize: ({ value }: { value: unknown }) => [toPlain(value), []],
  deserialize: (plain: unknown) => {
    throw fromPlain(plain);
  },
});

/** Worker side: answers calls until the port closes. */
export function expose(target: object, port: MessagePort): void {
  Comlink.expose(target, nodeEndpoint(port));
}

type Methods<T> = { [K in keyof T as T[K] extends (...args: never[]) => unknown ? K : never]: T[K] };

/** Opener side of one worker. */
export class Control<T extends object> {
  readonly worker: Worker;
  // A field keeps the proxy from being collected while a call is under way.
  readonly #remote: Comlink.Remote<T>;
  readonly #ended: Promise<Error>;

  constructor(worker: Worker) {
    this.worker = worker;
    this.#remote = Comlink.wrap<T>(nodeEndpoint(worker));
    this.#ended = new Promise((resolve) => {
      worker.once('error', (cause) =>
        resolve(unavailableError(`the thread failed: ${errorOf(cause).message}`, 'ERR_HOTSLOT_THREAD_LOST', cause)),
      );
      worker.once('exit', (code) =>
        resolve(unavailableError(`the thread ended (exit code ${code})`, 'ERR_HOTSLOT_THREAD_LOST')),
      );
    });
  }

  /** Calls a method of the exposed object; rejects with ERR_HOTSLOT_THREAD_LOST when the worker ends before it answers. */
  async call<K extends keyof Methods<T> & string>(
    method: K,
    ...args: T[K] extends (...a: infer A) => unknown ? A : never
  ): Promise<T[K] extends (...a: never[]) => infer R ? Awaited<R> : never> {
    const remote = this.#remote as unknown as Record<string, (...a: unknown[]) => Promise<unknown>>;
    const answer = (remote[method] as (...a: unknown[]) => Promise<unknown>)(...(args as unknown[]));
    const ended = this.#ended.then((error) => {
      throw error;
    });
    return (await Promise.race([answer, ended])) as never;
  }

  /** Resolves with the reason once the worker has ended. */
  get ended(): Promise<Error> {
    return this.#ended;
  }
}
