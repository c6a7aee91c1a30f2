/**
 * Shared words as C++'s memory model lets threads see them. The memory keeps every store of a word,
 * together with its view. A view says, for each word, up to which store a thread that acquires it
 * has seen. A load may find any store that its thread does not know to be overwritten. An acquire
 * fence acquires what the thread loaded before it. Sequentially consistent accesses also have one
 * common order. No store moves ahead of a load. Stores of one word become visible in the order in
 * which they are made.
 */
import type { State } from './checker.ts';

export type Order = 'bytes' | 'relaxed' | 'acquire' | 'release' | 'both' | 'total';

const acquires = (order: Order) => order === 'acquire' || order === 'both' || order === 'total';
const releases = (order: Order) => order === 'release' || order === 'both' || order === 'total';

export class WeakMemory {
  /** the first byte after this memory */
  readonly end: number;
  readonly #words: number;
  readonly #most: readonly number[];
  readonly #wordAt: number[] = [];
  readonly #threadAt: number;
  readonly #threads: number;

  /**
   * The memory begins at byte `at` of a state. `most` is, for each word, the most stores that it
   * will have.
   */
  constructor(at: number, most: readonly number[], threads: number) {
    this.#words = most.length;
    this.#most = most;
    this.#threads = threads;
    let next = at;
    for (const stores of most) {
      this.#wordAt.push(next);
      // the number of stores, the last sequentially consistent store, then a value and a view for
      // each store
      next += 2 + stores * (1 + most.length);
    }
    this.#threadAt = next;
    this.end = next + threads * 3 * most.length;
  }

  /** Returns the value of the newest store, for oracles and for threads that know every store. */
  newest(state: State, word: number): number {
    return this.#valueOf(state, word, state[this.#wordAt[word]!]!);
  }

  /**
   * Returns the value of the `choice`-th store, newest first, among those that the thread may find.
   * −1 means that there is none.
   */
  load(state: State, thread: number, word: number, order: Order, choice = 0): number {
    const at = this.#wordAt[word]!;
    const index = state[at]! - choice;
    const known = this.#view(thread, 0) + word;
    const least = order === 'total' ? Math.max(state[known]!, state[at + 1]!) : state[known]!;
    if (index < least) return -1;
    // Bytes are copied without order: two copies need not agree on what they see.
    if (order !== 'bytes') state[known] = index;
    this.#learn(state, thread, word, index, order);
    return this.#valueOf(state, word, index);
  }

  store(state: State, thread: number, word: number, value: number, order: Order): void {
    this.#append(state, thread, word, value, order, 0);
  }

  /**
   * Reads the newest value and stores `next` of it, in one atomic step. The new store keeps the
   * view of the store that it replaces.
   */
  change(
    state: State,
    thread: number,
    word: number,
    order: Order,
    next: (value: number) => number,
  ): number {
    const index = state[this.#wordAt[word]!]!;
    const found = this.#valueOf(state, word, index);
    state[this.#view(thread, 0) + word] = index;
    this.#learn(state, thread, word, index, order);
    this.#append(state, thread, word, next(found), order, index);
    return found;
  }

  acquireFence(state: State, thread: number): void {
    this.#join(state, this.#view(thread, 0), this.#view(thread, 1));
    state.fill(0, this.#view(thread, 1), this.#view(thread, 2));
  }
  releaseFence(state: State, thread: number): void {
    const from = this.#view(thread, 0);
    state.copyWithin(this.#view(thread, 2), from, from + this.#words);
  }

  /** Something else ordered the two threads: `to` learns all that `from` knows. */
  hand(state: State, from: number, to: number): void {
    this.#join(state, this.#view(to, 0), this.#view(from, 0));
  }
  /** The thread learns of every store that was made. */
  knowAll(state: State, thread: number): void {
    for (let word = 0; word < this.#words; word++)
      state[this.#view(thread, 0) + word] = state[this.#wordAt[word]!]!;
    state.fill(0, this.#view(thread, 1), this.#view(thread, 2));
  }
  /** Clears what a thread knew, because nobody needs it again and equal states would differ. */
  forget(state: State, thread: number): void {
    state.fill(0, this.#view(thread, 0), this.#view(thread, 0) + 3 * this.#words);
  }

  /** 0: what the thread knows, 1: what a fence would add, 2: what its plain stores bring */
  #view(thread: number, which: number): number {
    if (thread >= this.#threads) throw new Error('the memory has no such thread');
    return this.#threadAt + (3 * thread + which) * this.#words;
  }
  #storeAt(word: number, index: number): number {
    return this.#wordAt[word]! + 2 + (index - 1) * (1 + this.#words);
  }
  #valueOf(state: State, word: number, index: number): number {
    return index === 0 ? 0 : state[this.#storeAt(word, index)]!;
  }
  #join(state: State, into: number, from: number): void {
    for (let i = 0; i < this.#words; i++)
      if (state[from + i]! > state[into + i]!) state[into + i] = state[from + i]!;
  }

  #learn(state: State, thread: number, word: number, index: number, order: Order): void {
    if (index === 0) return;
    const known = this.#view(thread, 0);
    const unfenced = this.#view(thread, 1);
    this.#join(state, acquires(order) ? known : unfenced, this.#storeAt(word, index) + 1);
    for (let i = 0; i < this.#words; i++)
      if (state[unfenced + i]! <= state[known + i]!) state[unfenced + i] = 0;
  }

  #append(
    state: State,
    thread: number,
    word: number,
    value: number,
    order: Order,
    before: number,
  ): void {
    const at = this.#wordAt[word]!;
    const index = state[at]! + 1;
    if (index > this.#most[word]!)
      throw new Error(`the memory has no room for store ${index} of word ${word}`);
    state[at] = index;
    if (order === 'total') state[at + 1] = index;
    const known = this.#view(thread, 0);
    state[known + word] = index;
    const store = this.#storeAt(word, index);
    state[store] = value;
    const brings = releases(order) ? known : this.#view(thread, 2);
    state.copyWithin(store + 1, brings, brings + this.#words);
    state[store + 1 + word] = index;
    if (before > 0) this.#join(state, store + 1, this.#storeAt(word, before) + 1);
  }
}
