/** The process's own MPI thread, as ranks.node has it. */
import { loadAddon } from '../../base/addon.ts';

/** Kinds of the thread's notices, numbered as in native/ranks/thread.hpp. */
export const Notice = {
  opened: 0,
  failed: 1,
  agreed: 2,
  drained: 3,
  closed: 4,
  note: 5,
  left: 6,
  mail: 7,
  wake: 8,
} as const;

export type Notify = (
  kind: number,
  job: number,
  a: number,
  b: number,
  c: number,
  bytes: Uint8Array,
) => void;

export interface HaloJob {
  /**
   * the exchange's words: the failure's note, a line per rank for states and bells, a line per
   * buffer for its halves
   */
  note: Int32Array;
  states: Int32Array;
  bells: Int32Array;
  halves: Int32Array;
  data: Uint8Array;
  /** five per buffer: reader, sender, byte offset, stride, bytes of a half */
  buffers: Float64Array;
  /** the process of each rank */
  process: Int32Array;
  here: number;
}

export interface Ranks {
  hold(on: boolean): void;
  agree(token: number, bytes: Uint8Array): void;
  halo(job: number, options: HaloJob): void;
  send(job: number, bytes: Uint8Array): void;
  left(job: number, rank: number, state: number, exchange: number): void;
  drain(token: number): void;
  close(token: number): void;
}

export const newRanks = (libraries: readonly string[], bell: Int32Array, notify: Notify): Ranks =>
  new (loadAddon<{ Ranks: new (...given: [readonly string[], Int32Array, Notify]) => Ranks }>(
    'ranks',
  ).Ranks)(libraries, bell, notify);
