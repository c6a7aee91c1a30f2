/** A small seeded generator for initial weights (sfc32): repeatable everywhere, and nothing that needs to equal torch. */

/** Numbers uniform in [0, 1), 32 bits each; the same seed gives the same numbers. */
export function uniformGenerator(seed: number): () => number {
  let a = seed | 0;
  let b = Math.floor(seed / 2 ** 32) | 0;
  let c = 0x9e3779b9 | 0;
  let count = 1;
  const next = () => {
    const sum = (a + b + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return (sum >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 12; i++) next();
  return next;
}
