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
   * Makes a stream wait for the slot's copy. If `bytes` is not 0 in mode `deferred`, the call makes
   * the copy on that stream instead. Returns the host seconds spent.
   */
  waitReady(stream: number, slot: number, bytes: number): number;
  close(): void;
}

export interface Poller {
  /**
   * Returns the number of watched events that became done. If none did, helps the device for at
   * most `ns` nanoseconds and checks again.
   */
  check(ns: number): number;
  /**
   * Sleeps on the thread's bell until a watched event is done, the bell's count differs from
   * `seen`, or `ms` are over. Returns the number of watched events that became done.
   */
  wait(seen: number, ms: number): number;
  /**
   * Declares that the thread will sleep in JavaScript. Completions then do not ring its bell, and
   * the device does not count on its help.
   */
  away(): void;
  back(): void;
  close(): void;
}

export interface Replayer {
  /**
   * Launches the graph of a slot. Pass the result to answered() before you hand the slot on. The
   * same applies to every method of a Replayer that returns a value.
   */
  launch(slot: number, mailboxOffset: number): true;
  /**
   * Does the same as launch(), without the graph, for an update whose graph was launched before its
   * replay actor died.
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
/** A transfer mode. 'auto' means `direct` on the host device and `immediate` on GPUs. */
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
   * the number of events in each ring, in the order of `events`. The events of a ring are queried
   * in order, from its `oldest` on, up to the first that is not done. Without `counts` every event
   * is queried
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
