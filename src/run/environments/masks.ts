/**
 * Takes the action masks of environments, and checks them. A set of environments gives masks if
 * their first resets do. Each reset and step then has a mask, except a step that terminated.
 */
import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { MAX_MASKED } from '../../base/mask-bits.ts';
import type { ActOptions } from '../../learn/policy.ts';
import type { Spaces } from './spaces.ts';

/** Returns the number of legal actions of environment i. `mask` has n bytes for each environment. */
export function legalCount(mask: Uint8Array, i: number, n: number): number {
  let count = 0;
  for (let at = i * n; at < (i + 1) * n; at++) count += mask[at] as number;
  return count;
}

/**
 * Makes the options of a policy's act(). Their mask is a copy, because a policy may write into it.
 */
export class ShownMasks {
  #options: { mask: Uint8Array } | null = null;

  of(mask: Uint8Array): ActOptions {
    this.#options ??= { mask: new Uint8Array(mask.length) };
    this.#options.mask.set(mask);
    return this.#options;
  }
}

/** The masks of `count` environments. Errors name the environment, the call and the step. */
export class ActionMasks {
  /**
   * count × n bytes, 1 for a legal action of the current state. Null until an environment has given
   * a mask
   */
  current: Uint8Array | null = null;
  /** the same for the state after the last action, before an automatic reset */
  next: Uint8Array | null = null;
  readonly #action: Spaces['action'];
  readonly #count: number;
  readonly #name: (environment: number) => string;
  /** environments whose first reset gave a mask, and those whose first reset gave none */
  readonly #givers = new Set<number>();
  readonly #others = new Set<number>();

  constructor({ action }: Spaces, count: number, name: (environment: number) => string) {
    this.#action = action;
    this.#count = count;
    this.#name = name;
  }

  /** Takes the mask after a reset of environment i, undefined or null without a mask. */
  afterReset(i: number, mask: unknown): void {
    if (mask === undefined || mask === null) {
      this.#others.add(i);
      const [giver] = this.#givers;
      if (giver === undefined) return;
      throw this.#givers.has(i) ? this.#missing(i, 'reset()', '') : this.#mixed(giver, i);
    }
    this.#givers.add(i);
    const current = this.current ?? this.#open(i, 'reset()', '').current;
    if (this.#copy(i, mask, current, 'reset()', '') === 0)
      throw rangeError(
        `${this.#name(i)}: the action mask after reset() has no legal action; allow one, such as a pass`,
      );
  }

  /**
   * Takes the mask after a step of environment i. If the step terminated, the mask may be missing,
   * empty or all zero.
   */
  afterStep(
    i: number,
    mask: unknown,
    terminated: boolean,
    when: (environment: number) => string,
  ): void {
    const isMissing = mask === undefined || mask === null;
    if (this.next === null && isMissing) return;
    const next = this.next ?? this.#open(i, 'step()', when(i)).next;
    if (terminated && (isMissing || (mask as ArrayLike<unknown>).length === 0)) {
      clear(next, i, next.length / this.#count);
      return;
    }
    if (isMissing) throw this.#missing(i, 'step()', when(i));
    if (this.#copy(i, mask, next, 'step()', when(i)) === 0 && !terminated)
      throw rangeError(
        `${this.#name(i)}: the action mask after step() has no legal action${when(i)}; allow one, such as a pass, or return terminated: true`,
      );
  }

  /** Makes the state after the last action environment i's current state. */
  goOn(i: number): void {
    const { current, next } = this;
    if (current === null || next === null) return;
    const n = next.length / this.#count;
    for (let at = i * n; at < (i + 1) * n; at++) current[at] = next[at] as number;
  }

  /** Leaves environment i without a legal action, because its episode is over. */
  rest(i: number): void {
    if (this.current !== null) clear(this.current, i, this.current.length / this.#count);
  }

  /** Creates the arrays. Environment i is the first that gives a mask. */
  #open(i: number, by: string, when: string): { current: Uint8Array; next: Uint8Array } {
    const action = this.#action;
    const who = `${this.#name(i)}: the action mask after ${by}`;
    if (action.kind !== 'discrete')
      throw typeError(
        `${who} cannot apply${when}: its actions are a box, and masks are for an actionSpace of { n }; leave the mask out`,
      );
    if (this.#others.has(i))
      throw rangeError(
        `${who} is its first one${when}; give a mask after each reset() and each step(), or never`,
      );
    const [other] = this.#others;
    if (other !== undefined) throw this.#mixed(i, other);
    const { n } = action;
    if (n > MAX_MASKED)
      throw rangeError(
        `${who} is for ${thousands(n)} actions${when}, and at most ${thousands(MAX_MASKED)} actions can have masks; leave the mask out`,
      );
    this.current = new Uint8Array(this.#count * n);
    this.next = new Uint8Array(this.#count * n);
    return { current: this.current, next: this.next };
  }

  /** Checks and copies a mask. Returns the number of legal actions. */
  #copy(i: number, given: unknown, to: Uint8Array, by: string, when: string): number {
    const n = to.length / this.#count;
    const who = `${this.#name(i)}: the action mask after ${by}`;
    const mask = given as ArrayLike<unknown>;
    if (typeof mask !== 'object' || typeof mask.length !== 'number')
      throw typeError(
        `${who} must be an array of ${n} numbers or booleans, got ${describeValue(given)}${when}`,
      );
    if (mask.length !== n)
      throw rangeError(
        `${who} has ${mask.length} entries, but the environment has ${n} actions${when}`,
      );
    let legal = 0;
    for (let at = 0; at < n; at++) {
      const value = mask[at];
      const isLegal = typeof value === 'boolean' ? value : value !== 0;
      if (typeof value !== 'boolean' && (typeof value !== 'number' || Number.isNaN(value)))
        throw typeError(
          `${who} has ${describeValue(value)} as entry ${at}${when}; entries are numbers or booleans`,
        );
      to[i * n + at] = isLegal ? 1 : 0;
      if (isLegal) legal++;
    }
    return legal;
  }

  #missing(i: number, by: string, when: string): Error {
    return rangeError(
      `${this.#name(i)}: no action mask after ${by}${when}, but an earlier reset() gave one; give a mask after each reset() and each step()`,
    );
  }

  #mixed(giver: number, other: number): Error {
    return rangeError(
      `${this.#name(giver)} gives action masks, and ${this.#name(other)} gives none; all environments of a set give masks, or none of them does`,
    );
  }
}

const thousands = (count: number): string => count.toLocaleString('en-US');

function clear(mask: Uint8Array, i: number, n: number): void {
  mask.fill(0, i * n, (i + 1) * n);
}
