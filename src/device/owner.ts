/**
 * The one way in which objects close: an object's parts close with it, and a part that fails to
 * close is closed again by the next call.
 */
import { closedError } from '../base/errors.ts';
import { errorOf } from '../base/plain-error.ts';

export interface Closable {
  close(): void;
}

/**
 * Makes `part` close with `owner`, and returns it. These three functions are for classes that own,
 * and users of such an object cannot reach them.
 */
export let own: <T extends Closable>(owner: Owner, part: T) => T;
/** Throws ERR_HOTSLOT_STATE_CLOSED after the first close(), because parts may be closed since. */
export let checkOpen: (owner: Owner) => void;
/**
 * Guards a constructor: `using construction = guardConstruction(this);` closes the parts made so
 * far unless the constructor reaches `construction.done()`.
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
   * `called`: its name in the error for its use after close(), such as 'this loader'. `next`:
   * advice in that error
   */
  constructor(called: string, next?: string) {
    this.#called = called;
    this.#next = next;
  }

  /** True after every part is closed. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Closes the parts, the latest first. If a part throws, this call throws too, and the next call
   * starts with that part.
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

/** The parts of a function, or of an object with another base class. */
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
      // The caller gets the error of the construction, not this one.
      process.emitWarning(
        `a part that was made before the failure could not be closed: ${errorOf(error).message}`,
        'DeviceWarning',
      );
    }
  }
}

/**
 * Returns the result of `make`. If `make` throws, everything that it passed to `own` is closed
 * again.
 */
export function allOrNothing<T>(make: (own: <P extends Closable>(part: P) => P) => T): T {
  const parts = new OwnedParts();
  using construction = parts.construction();
  const whole = make((part) => parts.own(part));
  construction.done();
  return whole;
}
