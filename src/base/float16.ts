/**
 * Converts between float32 numbers and the bits of two-byte floats. Buffers and tensors of
 * `float16` and `bfloat16` store these bits. The conversion from float32 rounds, and the conversion
 * to float32 is exact. `convert` of hotslot/learner converts to float32 on a device.
 */
import { describeValue } from './checks.ts';
import { typeError } from './errors.ts';

/**
 * Returns the bits of IEEE's binary16 (1 sign, 5 exponent, 10 mantissa) for each number. Rounds to
 * nearest, ties to even. Magnitudes of 65,520 and more become infinity. Magnitudes below 2⁻¹⁴
 * become subnormal or 0. A NaN becomes a quiet NaN with the same sign and the upper bits of its
 * payload.
 *
 * @param values float32 numbers
 * @returns a new array of the same length, for `float16` fields and tensors
 * @throws {TypeError} for anything but a Float32Array
 * @example
 * const half = device.allocate({ shape: [2], dtype: 'float16' });
 * half.write(toFloat16(Float32Array.of(0.5, 1e-3)));
 */
export function toFloat16(values: Float32Array): Uint16Array {
  const bits = bitsOf('toFloat16', values);
  const out = new Uint16Array(bits.length);
  for (let i = 0; i < bits.length; i++) out[i] = narrowed(bits[i] as number);
  return out;
}

/**
 * Returns the exact float32 numbers of binary16 bits in a new array. A NaN becomes a quiet NaN.
 * @param values bits of `float16` elements
 * @throws {TypeError} for anything but a Uint16Array
 * @example
 * const numbers = fromFloat16(await half.toArray());
 */
export function fromFloat16(values: Uint16Array): Float32Array {
  checkHalves('fromFloat16', values);
  const out = new Uint32Array(values.length);
  for (let i = 0; i < out.length; i++) out[i] = widened(values[i] as number);
  return new Float32Array(out.buffer);
}

/**
 * Returns the bits of bfloat16 (1 sign, 8 exponent, 7 mantissa) for each number: the upper half of
 * its float32 bits. Rounds to nearest, ties to even. A number that would round to more than the
 * largest bfloat16 becomes infinity. NaN is handled as in toFloat16().
 *
 * @param values float32 numbers
 * @returns a new array of the same length, for `bfloat16` fields and tensors
 * @throws {TypeError} for anything but a Float32Array
 * @example
 * const brain = device.allocate({ shape: [2], dtype: 'bfloat16' });
 * brain.write(toBfloat16(Float32Array.of(0.5, 1e-3)));
 */
export function toBfloat16(values: Float32Array): Uint16Array {
  const bits = bitsOf('toBfloat16', values);
  const out = new Uint16Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const b = bits[i] as number;
    const upper = b >>> 16;
    out[i] = isNaNBits(b) ? upper | 0x40 : (b + 0x7fff + (upper & 1)) >>> 16;
  }
  return out;
}

/**
 * Returns the exact float32 numbers of bfloat16 bits in a new array. A NaN becomes a quiet NaN.
 * @param values bits of `bfloat16` elements
 * @throws {TypeError} for anything but a Uint16Array
 * @example
 * const numbers = fromBfloat16(await brain.toArray());
 */
export function fromBfloat16(values: Uint16Array): Float32Array {
  checkHalves('fromBfloat16', values);
  const out = new Uint32Array(values.length);
  for (let i = 0; i < out.length; i++) {
    const b = ((values[i] as number) << 16) >>> 0;
    out[i] = isNaNBits(b) ? b | 0x400000 : b;
  }
  return new Float32Array(out.buffer);
}

const isNaNBits = (bits: number): boolean => (bits & 0x7fffffff) > 0x7f800000;

/** Converts the bits of a float32 to the bits of a binary16. */
function narrowed(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00 | ((size >>> 13) & 0x3ff);
  // Magnitudes of 2¹⁶ and more become infinity here. Those from 65,520 to 2¹⁶ become infinity by
  // the rounding below.
  if (size >= 0x47800000) return sign | 0x7c00;
  if (size >= 0x38800000) return sign | ((size - 0x38000000 + 0xfff + ((size >>> 13) & 1)) >>> 13);
  // Magnitudes up to half of the smallest subnormal round to 0, including the tie.
  if (size <= 0x33000000) return sign;
  const drop = 126 - (size >>> 23);
  const mantissa = (size & 0x7fffff) | 0x800000;
  const kept = mantissa >>> drop;
  const rest = mantissa & ((1 << drop) - 1);
  const tie = 1 << (drop - 1);
  return sign | (kept + (rest > tie || (rest === tie && (kept & 1) === 1) ? 1 : 0));
}

/** Converts the bits of a binary16 to the bits of a float32. */
function widened(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 31;
  const mantissa = half & 0x3ff;
  if (exponent === 31)
    return sign | 0x7f800000 | (mantissa === 0 ? 0 : 0x400000 | (mantissa << 13));
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (mantissa << 13);
  if (mantissa === 0) return sign;
  const up = Math.clz32(mantissa) - 21;
  return sign | ((113 - up) << 23) | (((mantissa << up) & 0x3ff) << 13);
}

function bitsOf(what: string, values: Float32Array): Uint32Array {
  if (!(values instanceof Float32Array))
    throw typeError(`${what} takes a Float32Array, got ${describeValue(values)}`);
  // An array whose memory was transferred has length 0, and a view of its buffer would throw.
  return values.length === 0
    ? new Uint32Array()
    : new Uint32Array(values.buffer, values.byteOffset, values.byteLength >> 2);
}

function checkHalves(what: string, values: Uint16Array): void {
  if (!(values instanceof Uint16Array))
    throw typeError(`${what} takes a Uint16Array, got ${describeValue(values)}`);
}
