/**
 * The set of states seen so far: records of fixed width in one growing array, which are found
 * through an open-addressing hash table.
 */
export class Visited {
  readonly width: number;
  count = 0;
  #arena: Uint32Array;
  #table = new Int32Array(1 << 16);

  /** `width` is the number of 32-bit words of one state. */
  constructor(width: number) {
    this.width = width;
    this.#arena = new Uint32Array(width << 15);
  }

  /** Adds `state` and returns its index. Returns `~index` if the state was already in the set. */
  add(state: Uint32Array): number {
    const { width } = this;
    const mask = this.#table.length - 1;
    let at = hash(state) & mask;
    for (let held = this.#table[at]!; held !== 0; held = this.#table[at]!) {
      if (this.#equals(held - 1, state)) return ~(held - 1);
      at = (at + 1) & mask;
    }
    if ((this.count + 1) * width > this.#arena.length) this.#arena = grown(this.#arena);
    this.#arena.set(state, this.count * width);
    this.#table[at] = ++this.count;
    if (this.count * 2 > this.#table.length) this.#rehash();
    return this.count - 1;
  }

  /** Copies state `index` into `out`. */
  read(index: number, out: Uint32Array): void {
    const from = index * this.width;
    for (let i = 0; i < this.width; i++) out[i] = this.#arena[from + i]!;
  }

  #equals(index: number, state: Uint32Array): boolean {
    const from = index * this.width;
    for (let i = 0; i < this.width; i++) if (this.#arena[from + i] !== state[i]) return false;
    return true;
  }

  #rehash(): void {
    this.#table = new Int32Array(this.#table.length * 4);
    const mask = this.#table.length - 1;
    const state = new Uint32Array(this.width);
    for (let index = 0; index < this.count; index++) {
      this.read(index, state);
      let at = hash(state) & mask;
      while (this.#table[at] !== 0) at = (at + 1) & mask;
      this.#table[at] = index + 1;
    }
  }
}

function grown(arena: Uint32Array): Uint32Array {
  const larger = new Uint32Array(arena.length * 2);
  larger.set(arena);
  return larger;
}

function hash(state: Uint32Array): number {
  let h = 0x9e3779b9 | 0;
  for (let i = 0; i < state.length; i++) {
    h = Math.imul(h ^ state[i]!, 0x85ebca6b);
    h ^= h >>> 15;
  }
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
