/** A pipeline's first failure, in shared memory (I7): role, slot, tick, code and message, written once and then only read. */
import { PipelineError } from '../errors.ts';
import { type Role, roles } from './slot.ts';

export interface Failure {
  role: Role | 'opener';
  slot: number;
  tick: number;
  error: unknown;
}

const State = { none: 0, writing: 1, written: 2 } as const;
/** words: state, role, slot, code bytes, message bytes, spare, then tick (float64), then the text */
const TICK_AT = 8;
const TEXT_AT = 16;
const TEXT_BYTES = 1984;

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

  write({ role, slot, tick, error }: Failure): void {
    if (Atomics.compareExchange(this.#words, 0, State.none, State.writing) !== State.none) return;
    const { code, message } = error as { code?: unknown; message?: unknown };
    const encoder = new TextEncoder();
    const codeBytes = encoder.encode(typeof code === 'string' ? code : '').subarray(0, 64);
    const textBytes = encoder.encode(String(message ?? error)).subarray(0, TEXT_BYTES - codeBytes.length);
    this.#text.set(codeBytes);
    this.#text.set(textBytes, codeBytes.length);
    this.#tick[0] = tick;
    this.#words[1] = role === 'opener' ? -1 : roles.indexOf(role);
    this.#words[2] = slot;
    this.#words[3] = codeBytes.length;
    this.#words[4] = textBytes.length;
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
    const [, role = -1, slot = -1, codeLength = 0, textLength = 0] = this.#words;
    const decoder = new TextDecoder();
    // slice(): TextDecoder refuses views of shared memory.
    const code = decoder.decode(this.#text.slice(0, codeLength));
    const message = decoder.decode(this.#text.slice(codeLength, codeLength + textLength));
    const actor = role < 0 ? 'opener' : (roles[role] as Role);
    const cause = Object.assign(new Error(message), code ? { code } : {});
    const tickId = this.#tick[0] as number;
    const where = tickId < 0 ? '' : ` at tick ${tickId}, slot ${slot}`;
    return new PipelineError(`${actor} failed${where}: ${message}`, { actor, tickId, slot, cause });
  }
}
