/**
 * The one way in which objects close: what an object is made of goes with it, and a part that
 * refuses is asked again.
 */
import { closedError } from '../base/errors.ts';
import { errorOf } from '../base/plain-error.ts';

export interface Closable {
  close(): void;
}

/**
 * For the classes that own: `part` closes with `owner`. Users of such an object have no way to
 * these three.
 */
export let own: <T extends Closable>(owner: Owner, part: T) => T;
/** Throws ERR_HOTSLOT_STATE_CLOSED from the first close() on, as parts may be gone since. */
export let checkOpen: (owner: Owner) => void;
/**
 * For a constructor: `using construction = guardConstruction(this);` closes what there is unless it
 * comes as far as `construction.done()`.
 */
export let guardConstruction: (owner: Owner) => ConstructionGuard;

/** Base class of objects that are made of others. */
export abstract class Owner implements Disposable {
  readonly #called: string;
  readonly #next: string | undefined;
  readonly #parts: Closable[] = [];
  #closing = false;
  #closed = false;

  static {
    own = (owner, part) => {
      owner.#parts.push(part);
      return part;
    };
    checkOpen = (owner) => {
      if (owner.#closing) throw closedError(owner.#called, owner.#next);
    };
    guardConstruction = (owner) => new ConstructionGuard(owner);
  }

  /**
   * `called`: its name in the error of a caller that uses it closed, such as 'this loader'; `next`:
   * what that one can do
   */
  constructor(called: string, next?: string) {
    this.#called = called;
    this.#next = next;
  }

  /** True once every part is gone. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Closes the parts, the latest first. When a part throws, so does this, and the next call starts
   * with that part.
   */
  close(): void {
    if (this.#closed) return;
    this.#closing = true;
    for (let part = this.#parts.at(-1); part; part = this.#parts.at(-1)) {
      part.close();
      this.#parts.pop();
    }
    this.#closed = true;
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** What a function or an object with another base class is made of. */
export class OwnedParts extends Owner {
  constructor(called = 'this') {
    super(called);
  }
  own<T extends Closable>(part: T): T {
    return own(this, part);
  }
  construction(): ConstructionGuard {
    return guardConstruction(this);
  }
}

class ConstructionGuard implements Disposable {
  #half: Closable | null;
  constructor(half: Closable) {
    this.#half = half;
  }
  done(): void {
    this.#half = null;
  }
  [Symbol.dispose](): void {
    try {
      this.#half?.close();
    } catch (error) {
      // The caller is thrown why the construction failed, not this.
      process.emitWarning(
        `what was half made is not given back: ${errorOf(error).message}`,
        'DeviceWarning',
      );
    }
  }
}

/** What `make` returns; when it throws, everything that it gave to `own` is closed again. */
export function allOrNothing<T>(make: (own: <P extends Closable>(part: P) => P) => T): T {
  const parts = new OwnedParts();
  using construction = parts.construction();
  const whole = make((part) => parts.own(part));
  construction.done();
  return whole;
}
