/**
 * Writes finished ticks as a Chrome/Perfetto trace, to a file or to any function that takes text.
 * The trace has one track for each actor, the copy stream, the learner's stream, and each thread
 * that brings rows of other machines. The trace contains only what the journal and the spans
 * recorded.
 */
import { once } from 'node:events';
import { createWriteStream, openSync, type WriteStream } from 'node:fs';
import type { JournalEntry } from '../ring/journal.ts';
import { Field } from '../ring/slot.ts';
import type { Span } from './spans.ts';

/** Facts about the transfer in a trace. */
export interface TraceFacts {
  hostPinned: boolean;
  directPinnedShared: boolean;
  h2dSubmitter: string;
  rowsKept: 'host' | 'device';
}
/** Facts about the rows in a trace. */
export interface TraceShape {
  /** bytes of a batch in a slot */
  bytes: number;
  /** names of the batch's fields */
  names: readonly string[];
  baseSeed: number;
}

/** A span of a thread that brings rows of other machines. These threads are counted from 0. */
export interface FedSpan extends Span {
  readonly thread: number;
}
/** The source of the time spans of threads that bring rows of other machines. */
export interface Fed {
  /**
   * Calls `each` with every span since the last call. Returns the number of spans that were
   * overwritten before they could be read.
   */
  collect(each: (span: FedSpan) => void): number;
}

/**
 * A trace of every tick. finish() resolves with the error that made the trace incomplete, or null.
 */
export interface Recorded {
  add(entry: JournalEntry): void;
  /** Adds the new spans of threads that bring rows. */
  collect(): void;
  finish(): Promise<Error | null>;
}

const tracks = [
  'requester',
  'pack',
  'submit',
  'poll',
  'replay',
  'copy stream',
  'compute stream',
] as const;
type Track = (typeof tracks)[number];

/** Writes the text of a trace, which is complete after end(). */
export class TraceWriter {
  readonly #write: (text: string) => unknown;
  readonly #deviceEvents: boolean;
  #last = -1;
  #missedSpans = 0;
  /** threads whose tracks have been named */
  readonly #named = new Set<number>();

  constructor(write: (text: string) => unknown, deviceEvents: boolean) {
    this.#write = write;
    this.#deviceEvents = deviceEvents;
    write('{"displayTimeUnit":"ms","traceEvents":[\n');
    write('{"ph":"M","pid":1,"name":"process_name","args":{"name":"hotslot"}}');
    for (const [i, name] of tracks.entries()) this.#name(i, name);
  }
  #name(i: number, name: string): void {
    this.#write(
      `,\n{"ph":"M","pid":1,"tid":${i + 1},"name":"thread_name","args":{"name":"${name}"}}`,
    );
    this.#write(
      `,\n{"ph":"M","pid":1,"tid":${i + 1},"name":"thread_sort_index","args":{"sort_index":${i}}}`,
    );
  }

  /**
   * Ends the trace. `missed` is the number of ticks that the trace does not contain. If ticks or
   * spans were missed, the trace records their numbers.
   */
  end(missed = 0): void {
    const missing = {
      ...(missed > 0 && { missed }),
      ...(this.#missedSpans > 0 && { missedSpans: this.#missedSpans }),
    };
    const otherData =
      Object.keys(missing).length > 0 ? `,"otherData":${JSON.stringify(missing)}` : '';
    this.#write(`\n]${otherData}}\n`);
  }

  /** Adds the spans since the last call, with a track for each thread that brings rows. */
  addFed(fed: Fed): void {
    this.#missedSpans += fed.collect(({ thread, name, beginMs, endMs, messages, rows, bytes }) => {
      const track = tracks.length + thread;
      if (!this.#named.has(thread)) this.#name(track, `remote ${thread}`);
      this.#named.add(thread);
      this.#span(track, name, beginMs, endMs, {
        messages,
        ...(name === 'remote/commit' && { rows }),
        bytes,
      });
    });
  }

  add({ record, slot }: JournalEntry, facts: TraceFacts, shape: TraceShape): void {
    const at = (field: number) => record[field] as number;
    const sequence = at(Field.sequence);
    // A successor of a dead poll actor may have journaled the same tick again.
    if (sequence === this.#last) return;
    this.#last = sequence;
    const tick = { tick: at(Field.tick), slot };
    const rows = at(Field.rows);
    // If rows live on the device, only a head travels next to the parameters, and for a view the
    // steps that are new there.
    const moved = facts.rowsKept === 'device' ? at(Field.moved) : shape.bytes;
    this.#spanOf('requester', 'request', at(Field.requestedAt), at(Field.requestedAt), tick);
    this.#spanOf('pack', 'pack', at(Field.packBegin), at(Field.packEnd), {
      ...tick,
      rows,
      bytes: shape.bytes,
    });
    this.#spanOf(
      'submit',
      'replay_pipeline_batch_h2d',
      at(Field.submitBegin),
      at(Field.submitEnd),
      {
        ...tick,
        snapshot_ptr: at(Field.snapshotPtr),
        snapshot_size: at(Field.snapshotSize),
        seed: shape.baseSeed + tick.tick,
        sample_count: rows,
        bytes: moved,
        pinned: facts.hostPinned,
        shared: facts.directPinnedShared,
        layout: shape.names.join(' '),
        executor: 'pack actor',
        submitter: facts.h2dSubmitter,
      },
    );
    if (this.#deviceEvents) {
      const copy = { ...tick, bytes: moved, pinned: facts.hostPinned };
      // If poll made the slot Ready before its copy was done, the copy is assumed to begin when it
      // was submitted.
      const copied = Math.max(at(Field.readyAt), at(Field.submitEnd) + at(Field.copyMs));
      this.#deviceSpan(
        'copy stream',
        'gpu/replay_pipeline_batch_h2d',
        at(Field.copyMs),
        copied,
        copy,
      );
      this.#deviceSpan('compute stream', 'gpu/update', at(Field.updateMs), at(Field.doneAt), tick);
    }
    this.#spanOf('poll', 'ready', at(Field.readyAt), at(Field.readyAt), tick);
    this.#spanOf('replay', 'launch', at(Field.replayBegin), at(Field.replayEnd), tick);
    this.#spanOf('poll', 'spent seen', at(Field.doneAt), at(Field.doneAt), {
      ...tick,
      version: at(Field.version),
    });
  }

  /**
   * Adds a span whose duration the device's events measured, unless it was not measured (−1). The
   * span ends at `endMs`, when poll saw the event. The device was done slightly earlier.
   */
  #deviceSpan(track: Track, name: string, ms: number, endMs: number, args: object): void {
    if (ms >= 0) this.#spanOf(track, name, endMs - ms, endMs, args);
  }

  #spanOf(track: Track, name: string, beginMs: number, endMs: number, args: object): void {
    this.#span(tracks.indexOf(track), name, beginMs, endMs, args);
  }
  #span(track: number, name: string, beginMs: number, endMs: number, args: object): void {
    const ts = (beginMs * 1000).toFixed(3);
    const dur = Math.max(0, (endMs - beginMs) * 1000).toFixed(3);
    const shape = endMs === beginMs ? '"ph":"i","s":"t"' : `"ph":"X","dur":${dur}`;
    this.#write(
      `,\n{${shape},"pid":1,"tid":${track + 1},"ts":${ts},"name":"${name}","args":${JSON.stringify(args)}}`,
    );
  }
}

export class TraceRecorder {
  /** null once finished */
  #file: WriteStream | null = null;
  #failed: Error | null = null;
  readonly #writer: TraceWriter;

  constructor({ file, deviceEvents }: { file: string; deviceEvents: boolean }) {
    // The file is opened here, so that the constructor throws if the path cannot be written.
    const stream = createWriteStream(file, { fd: openSync(file, 'w') });
    stream.on('error', (error) => {
      this.#failed ??= error;
    });
    this.#file = stream;
    this.#writer = new TraceWriter((text) => stream.write(text), deviceEvents);
  }

  /** Returns the recorder of one pipeline's entries. */
  of(facts: TraceFacts, shape: TraceShape, fed: Fed): Recorded {
    return {
      add: (entry) => {
        if (this.#file) this.#writer.add(entry, facts, shape);
      },
      collect: () => {
        if (this.#file) this.#writer.addFed(fed);
      },
      finish: () => this.finish(),
    };
  }

  /**
   * Ends the file. Resolves with the error if the file could not be written completely, else with
   * null.
   */
  async finish(): Promise<Error | null> {
    const file = this.#file;
    if (!file) return this.#failed;
    this.#file = null;
    if (!this.#failed) {
      this.#writer.end();
      file.end();
      await once(file, 'close').catch(() => {});
    }
    return this.#failed;
  }
}
