/**
 * The control plane between the opener and its actors' threads: comlink calls for set-up. They are
 * never made on the hot path, nor to a thread that is parked. SupervisedThread ends the wait if the
 * thread ends. Errors keep their class name, code and cause.
 */
import type { MessagePort } from 'node:worker_threads';
import * as Comlink from 'comlink';
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';
import { fromPlain, toPlain } from '../base/plain-error.ts';
import type { MessageThread } from './thread.ts';

// comlink's own handler keeps message, name and stack only.
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

/** Worker side: answers calls until the port closes. */
export function expose(target: object, port: MessagePort): void {
  Comlink.expose(target, nodeEndpoint(port));
}

/** Opener side of one thread. */
export class Control<T extends object> {
  // A field keeps the proxy from being collected while a call is under way.
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
