/** What a handle of the core names, closed at most once. */
import { native } from './native.ts';

export class Handle implements Disposable {
  readonly handle: number;
  #closed = false;
  constructor(handle: number) {
    this.handle = handle;
  }
  get closed(): boolean {
    return this.#closed;
  }
  close(): void {
    if (this.#closed) return;
    native().close(this.handle);
    this.#closed = true;
    // Closed it is: what the driver would not take back is lost to this process, and whoever watches it should know.
    for (const text of native().releaseFailures()) process.emitWarning(text, 'DeviceWarning');
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
