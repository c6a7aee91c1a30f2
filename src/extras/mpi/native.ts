/** Declares the MPI thread of this process, which the addon ranks.node runs. */
import { loadAddon } from '../../base/addon.ts';

/** Kinds of notices from the MPI thread, with the numbers of native/ranks/thread.hpp. */
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
  /** control words of the exchange: the note of the first failure */
  note: Int32Array;
  /** control words: one cache line per rank */
  states: Int32Array;
  /** control words: one bell per rank */
  bells: Int32Array;
  /** control words: one cache line per buffer, for its two halves */
  halves: Int32Array;
  data: Uint8Array;
  /** five values per buffer: reader, sender, byte offset, stride, bytes of a half */
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
