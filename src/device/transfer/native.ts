/**
 * The classes of submit.node, poll.node and replay.node, as TypeScript types. Backends and actors
 * use them.
 */
import { checkLayout, loadAddon } from '../../base/addon.ts';

export interface Submitter {
  /**
   * Enqueues the copy of the slot's first `bytes` bytes, then records the slot's `copied` event.
   * Returns the host seconds spent.
   */
  submit(slot: number, bytes: number): number;
  /**
   * Makes a stream wait for the slot's copy. In mode `deferred`, `bytes` is the number of bytes to
   * copy on that stream now, or 0 if the copy was made before. Returns the host seconds spent.
   */
  waitReady(stream: number, slot: number, bytes: number): number;
  close(): void;
}

export interface Poller {
  /**
   * Returns the number of watched events that became done. Before it returns 0, it runs work of the
   * device for at most `ns` nanoseconds and checks again.
   */
  check(ns: number): number;
  /**
   * Sleeps on the thread's bell until a watched event is done, the bell's count differs from
   * `seen`, or `ms` are over. Returns the number of watched events that became done.
   */
  wait(seen: number, ms: number): number;
  /**
   * Declares that the thread will sleep in JavaScript until it calls back(). Meanwhile, completed
   * work does not ring its bell, and the device does not expect the thread to run work.
   */
  away(): void;
  back(): void;
  close(): void;
}

export interface Replayer {
  /**
   * Launches the graph of a slot. Then enqueues the copy of the weights to byte `mailboxOffset` of
   * the mailbox, and records the slot's `spent` event. If `mailboxOffset` is −1, omits the copy.
   *
   * Pass the result to answered() before you hand the slot on. The same applies to every method of
   * a Replayer that returns a value.
   */
  launch(slot: number, mailboxOffset: number): true;
  /**
   * Does what launch() does, except that it launches no graph. Use it for an update whose graph was
   * launched before its replay actor died.
   */
  mark(slot: number, mailboxOffset: number): true;
  drained(): boolean;
  close(): void;
}

/** How host bytes reach the device buffer. submit.node numbers the modes in this order. */
// No device here needs `deferred`, in which the consumer's stream makes the copy. The mode exists
// because UniLab has it. It costs the state words of ArmedSlots, a mode of submit.node, and a
// second event after a manual tick.
export const TransferMode = Object.freeze({
  immediate: 'immediate',
  deferred: 'deferred',
  direct: 'direct',
} as const);
export type TransferMode = (typeof TransferMode)[keyof typeof TransferMode];
/** A transfer mode. 'auto' means `direct` on the CPU device and `immediate` on GPUs. */
export type TransferChoice = TransferMode | 'auto';

/** Values of a watch word. JavaScript writes pending, and native code writes done. */
export const Watch = { idle: 0, pending: 1, done: 2 } as const;

interface SubmitterOptions {
  stream: number;
  copied: readonly number[];
  /** events recorded before each slot's copy, empty or omitted if copies are not timed */
  begins?: readonly number[];
  hosts: readonly number[];
  hostOffsets: readonly number[];
  slots: readonly number[];
  mode: TransferMode;
}

interface PollerOptions {
  device: number;
  events: readonly number[];
  watch: Int32Array;
  /** for each event, the time at which it was found done, in ms */
  times: Float64Array;
  /**
   * number of events in each ring. The rings follow each other in `events`. Each ring is queried in
   * order, from the index in `oldest` on, up to the first event that is not done. Without `counts`,
   * every event is queried
   */
  counts?: readonly number[];
  oldest?: Int32Array;
  bell?: Int32Array;
  /** longest single sleep in nanoseconds, short if completions cannot ring the bell */
  sleepNs: number;
  spinNs: number;
}

interface ReplayerOptions {
  stream: number;
  spent: readonly number[];
  graphs: readonly number[];
  /** events recorded before each slot's graph, empty or omitted if launches are not timed */
  begins?: readonly number[];
  /** begin and end of the last launch() or mark() call, in ms */
  times: Float64Array;
  weights?: number;
  weightsOffset?: number;
  weightsBytes?: number;
  mailbox?: number;
}

export function newSubmitter(options: SubmitterOptions): Submitter {
  const { Submitter } = loadAddon<{ Submitter: new (o: object) => Submitter }>('submit');
  return new Submitter({ ...options, mode: Object.keys(TransferMode).indexOf(options.mode) });
}
export function newPoller(options: PollerOptions): Poller {
  const { Poller, watch } = loadAddon<{
    Poller: new (o: PollerOptions) => Poller;
    watch: typeof Watch;
  }>('poll');
  checkLayout('poll', 'watch words', Watch, watch);
  return new Poller(options);
}
export function newReplayer(options: ReplayerOptions): Replayer {
  return new (loadAddon<{ Replayer: new (o: ReplayerOptions) => Replayer }>('replay').Replayer)(
    options,
  );
}
