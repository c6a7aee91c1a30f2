/**
 * A pipeline's first failure, in shared memory (Slot-7): role, slot, tick and error. It is written
 * once, and then only read.
 */
import { PipelineError } from '../../base/errors.ts';
import { NOTE_WORDS, SharedNote } from '../../shm/note.ts';
import { type Role, roles } from './slot.ts';

export interface Failure {
  role: Role | 'opener';
  slot: number;
  tick: number;
  error: unknown;
}

export class FailureNote {
  static readonly words = NOTE_WORDS;
  readonly #note: SharedNote;

  constructor(words: Int32Array) {
    this.#note = new SharedNote(words);
  }

  get set(): boolean {
    return this.#note.written;
  }

  /**
   * Writes the failure, unless another one is written already. `takeOver` is true if the thread
   * that began to write died before it finished. Only the opener can know this.
   */
  write({ role, slot, tick, error }: Failure, options: { takeOver?: boolean } = {}): void {
    this.#note.write([role === 'opener' ? -1 : roles.indexOf(role), slot, tick], error, options);
  }

  /** Clears the error that a replaced actor threw. Only the opener calls it. */
  clear(): void {
    this.#note.clear();
  }

  /**
   * Returns the failure as an error that a waiter throws, or null without a failure. Each call
   * creates a new error with the waiter's own stack.
   */
  read(): PipelineError | null {
    const note = this.#note.read();
    if (note === null) return null;
    const { facts, error: cause } = note;
    const [role, slot, tickId] = facts as [number, number, number];
    const actor = role < 0 ? 'opener' : (roles[role] as Role);
    const where = tickId < 0 ? '' : ` at tick ${tickId}, slot ${slot}`;
    return new PipelineError(`${actor} failed${where}: ${cause.message}`, {
      actor,
      tickId,
      slot,
      cause,
    });
  }
}
