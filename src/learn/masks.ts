/** Masks of legal actions in the batches of learners: their checks, and their conversion to float32. */
import { describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { maskWords } from '../base/mask-bits.ts';
import { type Stream, Tensor } from '../device/device.ts';
import { rowStride } from './checks.ts';
import { convert } from './convert.ts';

type Floats = Tensor<'float32'>;

/**
 * Throws a TypeError if a batch has masks for a learner that does not use them, because its targets
 * could be values of illegal actions.
 *
 * @param batch a plain object, as an update makes of the batch
 */
export function refuseMasks(what: string, batch: object): void {
  if ((batch as { nextActionMask?: unknown }).nextActionMask !== undefined)
    throw typeError(
      `${what}: this batch has nextActionMask, and the learner was made without masks; make it with the option actionMask: true`,
    );
}

/** Dtypes of a mask with one element for each action. */
const plain: ReadonlySet<string> = new Set(['bool', 'uint8', 'float32']);

/**
 * Returns a mask as rows of adjacent elements: bits in uint32 [rows, words], or one element for each
 * action. Any number of rows is valid if `rows` is undefined.
 *
 * @throws {TypeError} for another value or dtype
 * @throws {RangeError} for another shape, or for other strides
 */
export function checkMask(name: string, mask: unknown, rows: number | undefined, n: number) {
  const words = maskWords(n);
  const kinds = `uint32 [${rows ?? 'rows'}, ${words}] of bits, or bool, uint8 or float32 [${rows ?? 'rows'}, ${n}]`;
  if (!(mask instanceof Tensor))
    throw typeError(`${name} must be ${kinds}, got ${describeValue(mask)}`);
  mask.checkOpen();
  const bits = mask.dtype === 'uint32';
  if (!bits && !plain.has(mask.dtype))
    throw typeError(`${name} must be ${kinds}, got ${mask.dtype}`);
  const [r = -1, columns] = mask.shape;
  const width = bits ? words : n;
  if (mask.shape.length !== 2 || columns !== width || (rows !== undefined && r !== rows))
    throw rangeError(`${name} must be ${kinds}, got ${mask.dtype} [${mask.shape.join(', ')}]`);
  const step = r > 1 ? (mask.strides[0] as number) : width;
  if ((width > 1 && mask.strides[1] !== 1) || step < width)
    throw rangeError(
      `${name} must be rows of neighboring elements, got strides [${mask.strides.join(', ')}]`,
    );
  return mask.view({ shape: [r, width], strides: [step, 1] });
}

/**
 * Returns a mask of one minibatch as float32 [rows, n], in which 0 is illegal. Enqueues its
 * conversion into `into`, unless the mask is float32.
 *
 * @param mask a result of checkMask()
 * @param into float32 [rows, n]
 */
export function maskFloats(stream: Stream, into: Floats, mask: Tensor): Floats {
  if (mask.dtype === 'float32') return mask as Floats;
  if (mask.dtype !== 'uint32') {
    convert(stream, into, mask);
    return into;
  }
  const [rows, n] = into.shape as [number, number];
  // A single row has no distance to the next one.
  const step = rows > 1 ? (mask.strides[0] as number) : maskWords(n);
  stream.launch('unpack_bits', {
    tensors: [into, mask],
    wholes: [rows, n, rowStride(into), step],
  });
  return into;
}
