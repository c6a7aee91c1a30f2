/** Checks rows that were packed elsewhere, and the mark that moves with them. */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { isShared } from '../../shm/memory.ts';

/**
 * A word of shared memory that says which rows of a sender have arrived. The native call that
 * commits the rows sets `words[index]` to `value` after the commit. So a thread that is terminated
 * has done both or neither, and its successor neither loses nor repeats rows.
 */
export interface Mark {
  /** over a SharedArrayBuffer */
  readonly words: BigUint64Array;
  readonly index: number;
  /** a whole number below 2⁵³ */
  readonly value: number;
}

/**
 * Throws TypeError or RangeError unless `bytes` are exactly `rows` rows, and `mark` is omitted or a
 * word of shared memory.
 */
export function checkPacked(
  bytes: unknown,
  rows: number,
  rowBytes: number,
  mark: Mark | undefined,
): void {
  if (!(bytes instanceof Uint8Array))
    throw typeError(`bytes must be a Uint8Array, got ${describeValue(bytes)}`);
  checkCount('rows', rows, 0);
  if (bytes.length !== rows * rowBytes)
    throw rangeError(
      `bytes must hold ${rows} rows × ${rowBytes} bytes = ${rows * rowBytes}, got ${bytes.length}`,
    );
  if (mark === undefined) return;
  checkKeys('mark', mark, ['words', 'index', 'value']);
  const { words, index, value } = mark;
  if (!(words instanceof BigUint64Array && isShared(words.buffer)))
    throw typeError(
      `mark.words must be a BigUint64Array over a SharedArrayBuffer, got ${describeValue(words)}`,
    );
  checkCount('mark.index', index, 0, words.length - 1);
  checkCount('mark.value', value, 0);
}
