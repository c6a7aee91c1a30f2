/**
 * Calls from the thread that opened a pipeline (the opener) to its actors' threads, through
 * comlink. These calls are for set-up only: the opener makes no call on the hot path, nor to a
 * parked thread.
 *
 * If a thread ends, SupervisedThread ends the opener's wait for the answer. Errors keep their class
 * name, code and cause.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { fromPlain, toPlain } from '../base/plain-error.ts';
import type { MessageThread } from './thread.ts';

// comlink's own handler of thrown errors. It keeps only message, name and stack, so the lines below
// replace it.
const thrown = Comlink.transferHandlers.get('throw') as Comlink.TransferHandler<
  { value: unknown },
  unknown
>;
Comlink.transferHandlers.set('throw', {
  canHandle: thrown.canHandle,
  serialize: ({ value }: { value: unknown }) => [toPlain(value), []],
  deserialize: (plain: unknown) => {
    throw fromPlain(plain);
  },
});

/** Worker side: answers the opener's calls of the methods of `target`, until the port closes. */
export function expose(target: object, port: MessagePort): void {
  Comlink.expose(target, nodeEndpoint(port));
}

/** Opener side: calls the methods that one thread exposes. */
export class Control<T extends object> {
  // This field keeps the proxy from being garbage-collected during a call.
  readonly #remote: Record<keyof T, (...args: unknown[]) => Promise<never>>;

  constructor({ port }: MessageThread) {
    this.#remote = Comlink.wrap(nodeEndpoint(port)) as never;
  }

  /** Calls a method of the exposed object. Never settles if the thread ends before it answers. */
  call<K extends keyof T>(
    method: K,
    ...args: T[K] extends (...a: infer A) => unknown ? A : never
  ): Promise<T[K] extends (...a: never[]) => infer R ? Awaited<R> : never> {
    return this.#remote[method](...(args as unknown[]));
  }
}
