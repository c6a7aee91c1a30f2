/**
 * What every kind of fuzzing has. It draws calls, and makes them in a *place*: fresh objects, with
 * the names by which calls use them.
 */
import type { Random } from '../../src/index.ts';
import type { Call } from './values.ts';

export interface Place {
  /** the objects that calls use, by name */
  readonly scope: Readonly<Record<string, unknown>>;
  /** keeps the place's state after a call that changed it */
  keep?(): void;
  /** returns what a refused call has changed, or null */
  differs?(call: Call): string | null;
  /** whether an error with this text is the caller's own */
  others?(call: Call, text: string): boolean;
  /** closes what a call returned */
  tidy?(answer: unknown): unknown;
  /** returns what is wrong with an answer, or null */
  judge?(answer: unknown): string | null;
  close(): Promise<void>;
}

export interface Kind {
  draw(random: Random): Call;
  open(): Promise<Place>;
  /** number of calls in one place before it is replaced */
  readonly inOnePlace: number;
  /** ms after which a call counts as waiting */
  readonly patience: number;
}
