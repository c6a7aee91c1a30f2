/** A pipeline's first failure, in shared memory (I7): role, slot, tick, code and message, written once and then only read. */
import { PipelineError } from '../errors.ts';
import { decodeError, encodeError } from '../shared-error.ts';
import { type Role, roles } from './slot.ts';

export interface Failure {
  role: Role | 'opener';
  slot: number;
  tick: number;
  error: unknown;
}

const State = { none: 0, writing: 1, written: 2 } as const;
/** words: state, role, slot, text bytes, then tick (float64), then the error as JSON */
const TICK_AT = 8;
const TEXT_AT = 16;
const TEXT_BYTES = 4032;

export class FailureNote {
  static readonly words = TEXT_AT + TEXT_BYTES / 4;
  readonly #words: Int32Array;
  readonly #tick: Float64Array;
  readonly #text: Uint8Array;

  constructor(words: Int32Array) {
    this.#words = words;
    this.#tick = new Float64Array(words.buffer, words.byteOffset + TICK_AT * 4, 1);
    this.#text = new Uint8Array(words.buffer, words.byteOffset + TEXT_AT * 4, TEXT_BYTES);
  }

  get set(): boolean {
    return Atomics.load(this.#words, 0) === State.written;
  }

  /**
   * The first one wins. `takeOver`: the writer before died with its pen in hand (the opener alone can know), so a note begun
   * and not finished is written anew.
   */
  write({ role, slot, tick, error }: Failure, { takeOver = false } = {}): void {
    const before = Atomics.compareExchange(this.#words, 0, State.none, State.writing);
    if (before === State.written || (before === State.writing && !takeOver)) return;
    const text = encodeError(error, TEXT_BYTES);
    this.#text.set(text);
    this.#tick[0] = tick;
    this.#words[1] = role === 'opener' ? -1 : roles.indexOf(role);
    this.#words[2] = slot;
    this.#words[3] = text.length;
    // Publishes everything above to whoever reads `set`.
    Atomics.store(this.#words, 0, State.written);
  }

  /** The opener's, for a note of what a replaced actor threw. */
  clear(): void {
    Atomics.store(this.#words, 0, State.none);
  }

  /** The failure as an error for a waiter to throw, or null. A fresh one each time, so that stacks are the waiters' own. */
  read(): PipelineError | null {
    if (!this.set) return null;
    const [, role = -1, slot = -1, length = 0] = this.#words;
    const cause = decodeError(this.#text.subarray(0, length));
    const actor = role < 0 ? 'opener' : (roles[role] as Role);
    const tickId = this.#tick[0] as number;
    const where = tickId < 0 ? '' : ` at tick ${tickId}, slot ${slot}`;
    return new PipelineError(`${actor} failed${where}: ${cause.message}`, { actor, tickId, slot, cause });
  }
}
