/**
 * An object for one handle of the native core. Only its owner closes the handle, and at most once.
 */
import { isMainThread } from 'node:worker_threads';
import { stateError } from '../base/errors.ts';
import { nativeHandles } from './native.ts';

/**
 * Maximum milliseconds that close() waits for other threads to unpin an object. Also the maximum
 * that registerHost() waits for pages of a closed registration. The main thread never waits.
 */
export const PATIENCE_MS = isMainThread ? 0 : 2000;

/**
 * The owner that closes a handle. A device's handle closes with the device, and an earlier close()
 * does nothing. A pipeline's handle closes with the pipeline, and an earlier close() throws.
 */
export type HandleOwner = 'caller' | 'device' | 'pipeline';

export class Handle implements Disposable {
  /**
   * Returns whether `made` is a handle with this class's private fields. A proxy of a handle, or an
   * object that inherits from one, lacks them.
   */
  static is(made: unknown): boolean {
    return typeof made === 'object' && made !== null && #closed in made;
  }

  readonly handle: number;
  readonly #owner: HandleOwner;
  /** the object with which the handle closes, or null if the caller closes it */
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
   * Closes the handle. Every later native call with this handle throws ERR_HOTSLOT_STALE_HANDLE.
   *
   * An actor of another thread may have pinned the object. The main thread then returns at once,
   * and the object is freed when the actor is closed. A worker thread sleeps until the actor unpins
   * the object, for up to 2 s.
   * @throws ERR_HOTSLOT_STATE_BUSY in a worker thread if the object is still pinned after 2 s. The
   *   object stays open then, so call close() again. Also on any thread for an object that belongs
   *   to a pipeline.
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
    // The handle is closed now. If the driver refused twice to free an object, the process keeps
    // that object, and a warning reports it.
    for (const text of nativeHandles().releaseFailures())
      process.emitWarning(text, 'DeviceWarning');
  }
  [Symbol.dispose](): void {
    this.close();
  }
  /** kind of the object, for error texts */
  protected get called(): string {
    return 'handle';
  }
}
