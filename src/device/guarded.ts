/** Guarded work: work of the CPU device that runs only if a word in its memory allows it. */
import { checkCount, checkKeys } from '../base/checks.ts';
import { typeError } from '../base/errors.ts';
import { checkFunction, checkStream, checkTensor } from './checks.ts';
import type { Stream, Tensor } from './device.ts';
import { checkEnqueued } from './graph/shared.ts';
import { nativeStreams } from './native.ts';

/** The largest `every`, because the word is an int32. */
const MAX_EVERY = 2 ** 31 - 1;

/**
 * Runs `fn`, and guards the launches, copies and fills that it enqueues on `stream`.
 *
 * When the device reaches such work, the work runs only if `word[0] % every` is 0. Otherwise the
 * device skips it. Each piece of work reads the word anew, also in every replay of a graph. Work
 * that `fn` enqueues on other streams, and work of other threads, is not guarded.
 *
 * @param guard `word` is int32 and has at least one element. `every` is 1 to 2³¹ − 1.
 * @param fn enqueues the work before it returns. Its calls of `stream` that record or wait for an
 * event, replay a graph, prefetch, or begin or end a capture throw.
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if the stream is not one of a CPU device
 * @throws {ERR_HOTSLOT_STATE_BUSY} inside another guarded function, because guards do not nest
 * @throws {TypeError|RangeError} for wrong arguments, or if `fn` returns a promise
 */
export function guarded(
  stream: Stream,
  guard: { word: Tensor<'int32'>; every: number },
  fn: () => void,
): void {
  checkStream('guarded', stream);
  checkKeys('guarded', guard, ['word', 'every']);
  const { word, every } = guard;
  if (checkTensor('guarded', word).dtype !== 'int32' || word.size === 0)
    throw typeError(
      `guarded takes a word of int32, got ${word.dtype} of shape [${word.shape}]; allocate({ shape: [1], dtype: 'int32' }) returns one`,
    );
  checkCount('every', every, 1, MAX_EVERY);
  checkFunction('guarded', fn);
  nativeStreams().openGuard(stream.handle, word.handle, word.byteOffset, every);
  try {
    checkEnqueued('a guarded function', fn());
  } finally {
    nativeStreams().closeGuard();
  }
}
