/**
 * The classes of submit.node, poll.node and replay.node, as TypeScript sees them. Backends and
 * actors share them.
 */
import { checkLayout, loadAddon } from '../../base/addon.ts';

export interface Submitter {
  /**
   * Enqueues the copy of `bytes` and the slot's `copied` event, and returns the host seconds it
   * took.
   */
  submit(slot: number, bytes: number): number;
  /**
   * Orders a stream after the slot's copy. With bytes, it makes the deferred copy on that stream
   * first. Returns the host seconds it took.
   */
  waitReady(stream: number, slot: number, bytes: number): number;
  close(): void;
}

export interface Poller {
  /**
   * Helps the device for at most `ns`, and returns the count of watched events that became done.
   */
  check(ns: number): number;
  /** Sleeps on the thread's bell until an event is done, the bell rang, or `ms` are over. */
  wait(seen: number, ms: number): number;
  /**
   * Declares that the thread sleeps in JavaScript: completions no longer ring it, and the device
   * does not count on its help.
   */
  away(): void;
  back(): void;
  close(): void;
}

export interface Replayer {
  /**
   * Launches the graph of a slot. Like every answer here, the result must pass answered() before
   * the slot is handed on.
   */
  launch(slot: number, mailboxOffset: number): true;
  /** Records `spent` alone, for an update whose graph was launched before its actor died. */
  mark(slot: number, mailboxOffset: number): true;
  drained(): boolean;
  close(): void;
}

/** How host bytes reach the device buffer. submit.node numbers the modes in this order. */
// No device here needs `deferred`, the consumer's copy on its own stream: it is UniLab's. It costs
// the arming words, a mode of submit.node, and a second event after a manual tick.
export const TransferMode = Object.freeze({
  immediate: 'immediate',
  deferred: 'deferred',
  direct: 'direct',
} as const);
export type TransferMode = (typeof TransferMode)[keyof typeof TransferMode];
/** 'auto': `direct` on the host device, `immediate` on GPUs. */
export type TransferChoice = TransferMode | 'auto';

/** Values of a watch word. JavaScript writes pending, and native code writes done. */
export const Watch = { idle: 0, pending: 1, done: 2 } as const;

interface SubmitterOptions {
  stream: number;
  copied: readonly number[];
  /** one per slot, recorded before its copy, none if nothing is timed */
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
  /** when each event was seen done, ms */
  times: Float64Array;
  /**
   * Divides the events into rings, one count each. A ring's events are queried in its order, from
   * its `oldest` on, up to the first that is not done. Without it every event is queried.
   */
  counts?: readonly number[];
  oldest?: Int32Array;
  bell?: Int32Array;
  /** longest single sleep, short if completions cannot ring */
  sleepNs: number;
  spinNs: number;
}

interface ReplayerOptions {
  stream: number;
  spent: readonly number[];
  graphs: readonly number[];
  /** one per slot, recorded before its graph, none if nothing is timed */
  begins?: readonly number[];
  /** begin and end of the last launch, ms */
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
