/**
 * One state of a modelled mailbox, byte by byte: what each side keeps to itself, then the shared
 * words and bytes.
 */
import { WeakMemory } from './weak-memory.ts';

/** Of what writers keep: first all that ends with them, then what oracles and the reader need. */
export const Local = {
  replay: 0,
  tick: 1,
  ticks: 2,
  version: 3,
  left: 4,
  died: 6,
  /** up to three slots: state, version, 1 + the copy that it waits for */
  slot: 7,
  /**
   * copies ordered and made; those that may be under way: version, contents, halves that have
   * landed
   */
  ordered: 16,
  copied: 17,
  copy: 18,
  poll: 27,
  polled: 28,
  odd: 29,
  phase: 30,
  refused: 31,
  host: 32,
  hosts: 33,
  writes: 34,
  contents: 35,
  /** by version: the contents written last */
  written: 36,
  /** by version: the contents that were published */
  truth: 44,
  /** the reader: its step, versions in hand and had, what it found, rounds */
  reader: 52,
  hand: 53,
  had: 54,
  half: 55,
  counted: 57,
  rounds: 58,
  ended: 59,
} as const;
/** the most that a version's number may be */
export const MAX_VERSIONS = 7;
export const WORDS = 60;

/** Words: begun, published, and two halves of each buffer. */
export const At = { begun: 0, published: 1 } as const;
export const BUFFER = 2;
export const Thread = { replay: 0, copy: 1, poll: 4, host: 5, reader: 6 } as const;
export const memory = new WeakMemory(WORDS, [8, 8, 4, 4, 4, 4, 4, 4], 7);
export const WIDTH = (memory.end + 3) & ~3;

/** replay's steps; the last ones are where it has no more to do */
export const Replay = {
  takesOver: 0,
  firstSlot: 1,
  looksAgain: 4,
  begins: 5,
  launches: 6,
  handsOver: 7,
  over: 8,
  dead: 9,
} as const;
export const Slot = { free: 0, replaying: 1 } as const;
