/** Seeded random numbers for environments and exploration: 32 bits a draw, one object per thread or environment set. */

/** Numbers uniform in [0, 1) by splitmix32; the same seed and stream give the same numbers. */
export class Random {
  #state: number;

  /** `stream` keeps generators of one seed apart. */
  constructor(seed: number, stream = 0) {
    this.#state = mix(mix(seed | 0) ^ Math.floor(seed / 2 ** 32)) ^ mix(stream + 0x51ed270b);
  }

  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    return (mix(this.#state) >>> 0) / 2 ** 32;
  }

  /** Uniform in [low, high). */
  between(low: number, high: number): number {
    return low + (high - low) * this.next();
  }

  /** A whole number in [0, count). */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }
}

function mix(word: number): number {
  let z = word | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return z ^ (z >>> 15);
}
