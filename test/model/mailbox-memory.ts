/**
 * One state of a modelled mailbox, byte by byte: what each side keeps for itself, then the shared
 * words and buffers.
 */
import { WeakMemory } from './weak-memory.ts';

/**
 * Bytes of the writers. The first ones are cleared when the writers end. The checks and the reader
 * need the others.
 */
export const Local = {
  replay: 0,
  tick: 1,
  ticks: 2,
  version: 3,
  left: 4,
  died: 6,
  /** up to three slots: state, version, 1 + the number of the copy that the slot waits for */
  slot: 7,
  /**
   * number of copies ordered and made; for each copy in progress: version, contents, and the halves
   * that have landed
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
  /** by version: the contents that were written last */
  written: 36,
  /** by version: the contents that were published */
  truth: 44,
  /**
   * of the reader: its step, the version it reads, the version it was given last, what it found,
   * and its rounds
   */
  reader: 52,
  hand: 53,
  had: 54,
  half: 55,
  counted: 57,
  rounds: 58,
  ended: 59,
} as const;
/** the highest number of a version */
export const MAX_VERSIONS = 7;
export const WORDS = 60;

/** Words of the weak memory: begun, published, then two halves of each buffer. */
export const At = { begun: 0, published: 1 } as const;
export const BUFFER = 2;
export const Thread = { replay: 0, copy: 1, poll: 4, host: 5, reader: 6 } as const;
export const memory = new WeakMemory(WORDS, [8, 8, 4, 4, 4, 4, 4, 4], 7);
export const WIDTH = (memory.end + 3) & ~3;

/** replay's steps; in the last ones it has ended or died */
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
