/** Fused multiply-adds of float32 numbers, and sums of products as devices add them. */

const double = new Float64Array(1);
const bits = new BigUint64Array(double.buffer);

/** Returns a · b + c, rounded once to float32. */
export function fused(a: number, b: number, c: number): number {
  // A double has room for the product of two float32 numbers.
  const product = a * b;
  const sum = product + c;
  if (!Number.isFinite(sum)) return sum;
  const part = sum - product;
  const lost = product - (sum - part) + (c - part);
  if (lost === 0) return Math.fround(sum);
  // If the sum lost something, it gets an odd last bit. So rounding it again cannot see a tie.
  double[0] = sum;
  if ((bits[0]! & 1n) === 0n) bits[0]! += lost > 0 === sum > 0 ? 1n : -1n;
  return Math.fround(double[0]!);
}

/**
 * Returns the sum of a(k) · b(k) for k < n in the order of devices: pieces of 64 fused multiply-adds,
 * added in order.
 */
export function sumOfProducts(
  n: number,
  a: (k: number) => number,
  b: (k: number) => number,
): number {
  let sum = 0;
  for (let first = 0; first < n; first += 64) {
    let piece = 0;
    for (let k = first; k < Math.min(n, first + 64); k++) piece = fused(a(k), b(k), piece);
    sum = Math.fround(sum + piece);
  }
  return sum;
}
