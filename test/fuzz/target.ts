/**
 * What every kind of fuzzing has: it draws calls, and makes them in a fresh place that has names
 * for them.
 */
import type { Random } from '../../src/index.ts';
import type { Call } from './values.ts';

export interface Place {
  /** what calls are made with, by name */
  readonly scope: Readonly<Record<string, unknown>>;
  /** behind a call that changed something: what it is like now */
  keep?(): void;
  /** behind a refusal: what it changed all the same */
  differs?(call: Call): string | null;
  /** whether an error with this text is the caller's own */
  others?(call: Call, text: string): boolean;
  /** what a call gave */
  tidy?(answer: unknown): unknown;
  /** what is wrong with an answer */
  judge?(answer: unknown): string | null;
  close(): Promise<void>;
}

export interface Kind {
  draw(random: Random): Call;
  open(): Promise<Place>;
  /** calls in one place, and then a fresh one */
  readonly inOnePlace: number;
  /** ms that a call may take before it counts as waiting for somebody */
  readonly patience: number;
}
