/** The object that a handle of the core names, closed at most once and by its owner only. */
import { isMainThread } from 'node:worker_threads';
import { stateError } from '../base/errors.ts';
import { nativeHandles } from './native.ts';

/**
 * Milliseconds that a call waits for objects that other threads use. The main thread never waits.
 */
export const PATIENCE_MS = isMainThread ? 0 : 2000;

/**
 * The owner that closes a handle. A device's handle closes with the device, and closing it before
 * does nothing. A pipeline's handle closes with the pipeline, and closing it before throws.
 */
export type HandleOwner = 'caller' | 'device' | 'pipeline';

export class Handle implements Disposable {
  /**
   * Returns whether `made` is a handle. A proxy of one, or an object that inherits from one, lacks
   * its private fields.
   */
  static is(made: unknown): boolean {
    return typeof made === 'object' && made !== null && #closed in made;
  }

  readonly handle: number;
  readonly #owner: HandleOwner;
  /** the object with which the handle closes, if it is not the caller's */
  readonly #lender: { readonly closed: boolean } | null;
  #closed = false;

  constructor(
    handle: number,
    owner: HandleOwner = 'caller',
    lender: { readonly closed: boolean } | null = null,
  ) {
    this.handle = handle;
    this.#owner = owner;
    this.#lender = lender;
  }
  get closed(): boolean {
    return this.#lender?.closed ?? this.#closed;
  }
  /**
   * Makes the handle stale. If an actor of another thread has it pinned, the main thread returns at
   * once, and the object is freed when the actor is closed. A worker thread sleeps until then, for
   * up to 2 s.
   * @throws ERR_HOTSLOT_STATE_BUSY in a worker thread when the object is still pinned after 2 s: it
   * stays open, so call close() again. Also on any thread for an object that belongs to a pipeline.
   */
  close(): void {
    if (this.#owner === 'pipeline')
      throw stateError(
        'BUSY',
        `this ${this.called} belongs to the pipeline; close the pipeline instead`,
      );
    if (this.#owner === 'device' || this.#closed) return;
    nativeHandles().close(this.handle, PATIENCE_MS);
    this.#closed = true;
    // The handle is closed. The process keeps what the driver refused twice to take back, and the
    // warning says so.
    for (const text of nativeHandles().releaseFailures())
      process.emitWarning(text, 'DeviceWarning');
  }
  [Symbol.dispose](): void {
    this.close();
  }
  /** name in errors */
  protected get called(): string {
    return 'handle';
  }
}
