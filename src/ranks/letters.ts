/** What the processes of a halo exchange tell each other beside halos: that a rank failed, and that it left. */
import { decodeError, encodeError } from '../shared-error.ts';

/** native/ranks/halo.hpp */
const MOST_BYTES = 4096;
const ERROR_AT = 32;

export type Letter =
  | { readonly kind: 'note'; readonly rank: number; readonly exchange: number; readonly error: Error }
  | { readonly kind: 'left'; readonly rank: number; readonly state: number; readonly exchange: number };

/** Four float64 (0 for a note or the state that a rank has left in, rank, exchange, bytes of the error), then the error as JSON. */
export function written(letter: Letter): Uint8Array {
  const error = letter.kind === 'note' ? encodeError(letter.error, MOST_BYTES - ERROR_AT) : new Uint8Array(0);
  const bytes = new Uint8Array(ERROR_AT + error.length);
  const state = letter.kind === 'note' ? 0 : letter.state;
  new Float64Array(bytes.buffer, 0, 4).set([state, letter.rank, letter.exchange, error.length]);
  bytes.set(error, ERROR_AT);
  return bytes;
}

export function read(bytes: Uint8Array): Letter {
  const copy = Uint8Array.from(bytes);
  const [state, rank, exchange, length] = new Float64Array(copy.buffer, 0, 4) as unknown as [
    number,
    number,
    number,
    number,
  ];
  if (state !== 0) return { kind: 'left', rank, state, exchange };
  return { kind: 'note', rank, exchange, error: decodeError(copy.subarray(ERROR_AT, ERROR_AT + length)) };
}
