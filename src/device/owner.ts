/**
 * The rules by which objects close. An object closes its parts when it closes. If a part fails to
 * close, the next close() tries it again.
 */
import { closedError } from '../base/errors.ts';
import { errorOf } from '../base/plain-error.ts';

export interface Closable {
  close(): void;
}

/**
 * Makes `part` close with `owner`, and returns `part`. This function and the next two are for
 * classes that own parts. Users of an Owner cannot call them.
 */
export let own: <T extends Closable>(owner: Owner, part: T) => T;
/**
 * Throws ERR_HOTSLOT_STATE_CLOSED after the first close(), even if that call failed, because some
 * parts may be closed.
 */
export let checkOpen: (owner: Owner) => void;
/**
 * Guards a constructor. `using construction = guardConstruction(this);` closes the parts that exist
 * so far, unless the constructor reaches `construction.done()`.
 */
export let guardConstruction: (owner: Owner) => ConstructionGuard;

/** Base class of objects that own other objects, their parts. */
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
   * `called`: the object's name in the error for its use after close(), such as 'this loader'.
   * `next`: advice in that error
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
   * Closes the parts, the latest first. If a part throws, this call throws its error, and the next
   * call starts with that part.
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

/** Owns the parts of a function, or of an object with another base class. */
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
      // The caller must get the error of the construction, so this error is only a warning.
      process.emitWarning(
        `a part that was made before the failure could not be closed: ${errorOf(error).message}`,
        'DeviceWarning',
      );
    }
  }
}

/**
 * Returns the result of `make`. If `make` throws, closes everything that `make` passed to `own`.
 */
export function allOrNothing<T>(make: (own: <P extends Closable>(part: P) => P) => T): T {
  const parts = new OwnedParts();
  using construction = parts.construction();
  const whole = make((part) => parts.own(part));
  construction.done();
  return whole;
}
