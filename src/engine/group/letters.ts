/**
 * Letters between processes that are not part of an exchange: a rank failed, a rank left, or a
 * question about the end of an exchange.
 */

import type { Ending } from '../../shm/ending.ts';
import { decodeError, encodeError } from '../../shm/error.ts';
import type { QuestionLetter } from './questions.ts';

/** Maximum bytes of a letter, as in native/ranks/halo.hpp. */
const MAX_BYTES = 4096;
const ERROR_AT = 32;

export type Letter =
  | {
      readonly kind: 'note';
      readonly rank: number;
      readonly exchange: number;
      readonly error: Error;
    }
  | {
      readonly kind: 'left';
      readonly rank: number;
      readonly state: number;
      readonly exchange: number;
    }
  | QuestionLetter;

/**
 * First float64 of a question's letter. It is negative, because other letters begin with a state or
 * 0 there.
 */
const questions = { asked: -1, answered: -2, decided: -3 } as const;
const QUESTION_NUMBERS = 6;

/**
 * Encodes a letter. A note or a 'left' letter is four float64, then the error as JSON, which only a
 * note has. The four are the state in which the rank left (0 for a note), the rank, the exchange,
 * and the number of bytes of the error. question() encodes questions.
 */
export function written(letter: Letter): Uint8Array {
  if (letter.kind !== 'note' && letter.kind !== 'left') return question(letter);
  const error =
    letter.kind === 'note' ? encodeError(letter.error, MAX_BYTES - ERROR_AT) : new Uint8Array(0);
  const bytes = new Uint8Array(ERROR_AT + error.length);
  const state = letter.kind === 'note' ? 0 : letter.state;
  new Float64Array(bytes.buffer, 0, 4).set([state, letter.rank, letter.exchange, error.length]);
  bytes.set(error, ERROR_AT);
  return bytes;
}

/**
 * Encodes a question as six float64: the kind, rank, exchange, reason, the process that answers,
 * and whether it took the exchange.
 */
function question(letter: QuestionLetter): Uint8Array {
  const { kind, rank, exchange, why } = letter;
  const from = letter.kind === 'answered' ? letter.from : 0;
  const taken = letter.kind !== 'asked' && letter.taken ? 1 : 0;
  return new Uint8Array(Float64Array.of(questions[kind], rank, exchange, why, from, taken).buffer);
}

function readQuestion(numbers: Float64Array): QuestionLetter {
  const [of, rank, exchange, why, from, taken] = numbers as unknown as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const about = { rank, exchange, why: why as Ending };
  if (of === questions.asked) return { kind: 'asked', ...about };
  if (of === questions.decided) return { kind: 'decided', taken: taken === 1, ...about };
  return { kind: 'answered', from, taken: taken === 1, ...about };
}

export function read(bytes: Uint8Array): Letter {
  const copy = Uint8Array.from(bytes);
  if (new Float64Array(copy.buffer, 0, 1)[0]! < 0)
    return readQuestion(new Float64Array(copy.buffer, 0, QUESTION_NUMBERS));
  const [state, rank, exchange, length] = new Float64Array(copy.buffer, 0, 4) as unknown as [
    number,
    number,
    number,
    number,
  ];
  if (state !== 0) return { kind: 'left', rank, state, exchange };
  return {
    kind: 'note',
    rank,
    exchange,
    error: decodeError(copy.subarray(ERROR_AT, ERROR_AT + length)),
  };
}
