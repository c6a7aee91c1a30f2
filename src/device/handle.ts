/** What a handle of the core names, closed at most once and by its owner only. */
import { isMainThread } from 'node:worker_threads';
import { stateError } from '../base/errors.ts';
import { nativeHandles } from './native.ts';

/** How long a call waits for what other threads have in use. The main thread never waits. */
export const PATIENCE_MS = isMainThread ? 0 : 2000;

/**
 * What closes a handle. A device's goes with the device, and closing it before does nothing; a
 * pipeline's goes with the pipeline, and closing it before is refused.
 */
export type HandleOwner = 'caller' | 'device' | 'pipeline';

export class Handle implements Disposable {
  /**
   * Whether it is one, and not a proxy of one or what inherits from one: these lack what is private
   * to it.
   */
  static is(made: unknown): boolean {
    return typeof made === 'object' && made !== null && #closed in made;
  }

  readonly handle: number;
  readonly #owner: HandleOwner;
  /** closed when that is, where the handle is not the caller's */
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
   * Makes the handle stale. When an actor of another thread has it pinned, the main thread returns
   * at once, and the object is freed when the actor is closed. A worker thread sleeps until then,
   * for up to 2 s.
   * @throws ERR_HOTSLOT_STATE_BUSY in a worker thread when the object is still pinned after 2 s: it
   * stays open, call close() again; on any thread for an object that belongs to a pipeline.
   */
  close(): void {
    if (this.#owner === 'pipeline')
      throw stateError(
        'BUSY',
        `this ${this.called} belongs to the pipeline: close the pipeline instead`,
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
  /** in errors */
  protected get called(): string {
    return 'handle';
  }
}
