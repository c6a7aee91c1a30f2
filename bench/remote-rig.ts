/**
 * Starts what the benchmark `remote` runs: a learner in this process, and collectors and clients in
 * other processes.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { RemoteCollectors, type RemoteCollectorsOptions } from '../src/entries/remote.ts';
import type { ReplayBuffer } from '../src/index.ts';
import { internalsOfBuffer } from '../src/store/rows/replay-buffer.ts';
import type { TestServer } from '../test/remote/server.ts';
import { sinceStamp } from './remote-clock.ts';
import type { HostTask } from './remote-host.ts';
import type { PlainTask } from './remote-plain.ts';
import type { SwarmTask } from './remote-swarm.ts';

/** A child process that has reported that it is ready. */
export class Child {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }
  static async open(file: string, task: HostTask | PlainTask | SwarmTask): Promise<Child> {
    const child = new Child(
      fork(new URL(`./${file}.js`, import.meta.url), [JSON.stringify(task)], { execArgv: [] }),
    );
    await child.answer();
    return child;
  }
  get pid(): number {
    return this.#child.pid!;
  }
  tell(what: unknown): void {
    this.#child.send(what as never);
  }
  answer<T>(): Promise<T> {
    return new Promise((resolve, reject) => {
      const ended = (code: number) =>
        reject(new Error(`a process of the benchmark ended with ${code}`));
      this.#child.once('exit', ended);
      this.#child.once('message', (said) => {
        this.#child.off('exit', ended);
        resolve(said as T);
      });
    });
  }
  async ask<T>(what: unknown): Promise<T> {
    const answer = this.answer<T>();
    this.tell(what);
    return answer;
  }
  async close(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.disconnect();
    await gone;
  }
}

/** Returns the seconds of CPU time that a process has used in all its threads. */
export function processorTime(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number);
  return (user! + system!) / 100;
}

/** A measured period: its bytes, its seconds, and the CPU seconds of server, reader and writer. */
export interface Span {
  bytes: number;
  seconds: number;
  server: number;
  reader: number;
  writer: number;
}

/** A writer and a reader connected by a server: Hotslot's, or the server's own client. */
export interface Line {
  /** sets the bytes per second: 0 stops the writer, Infinity is as fast as possible */
  pace(bytes: number): Promise<void>;
  /** returns the bytes that have arrived */
  bytes(): Promise<number>;
  readonly pids: { readonly server: number; readonly reader: number; readonly writer: number };
  /** returns the ms from creation to arrival of each row or message since the last call */
  lags(): Promise<number[]>;
  close(): Promise<void>;
}

/** Sets the pace, waits `warmMs`, then measures for `ms`. */
export async function spanOf(line: Line, pace: number, ms: number, warmMs = 300): Promise<Span> {
  await line.pace(pace);
  await wait(warmMs);
  await line.lags();
  const times = () => Object.values(line.pids).map(processorTime) as [number, number, number];
  const [before, bytes, begin] = [times(), await line.bytes(), performance.now()];
  await wait(ms);
  const [after, more, end] = [times(), await line.bytes(), performance.now()];
  const [server, reader, writer] = after.map((time, i) => time - before[i]!) as [
    number,
    number,
    number,
  ];
  return { bytes: more - bytes, seconds: (end - begin) / 1000, server, reader, writer };
}

export async function plainLine(server: TestServer, bytes: number): Promise<Line> {
  const task = { url: server.url, ca: server.ca, bytes };
  const reader = await Child.open('remote-plain', { ...task, role: 'reader' });
  const writer = await Child.open('remote-plain', { ...task, role: 'writer' });
  type Told = { bytes: number; lags: number[] };
  let kept: number[] = [];
  const look = async () => {
    const told = await reader.ask<Told>('tell');
    kept.push(...told.lags);
    return told;
  };
  return {
    pids: { server: server.pid, reader: reader.pid, writer: writer.pid },
    async pace(pace) {
      writer.tell(`${pace}`);
      if (pace === 0) await wait(100);
    },
    bytes: async () => (await look()).bytes,
    async lags() {
      await look();
      const lags = kept;
      kept = [];
      return lags;
    },
    async close() {
      await writer.close();
      await reader.close();
    },
  };
}

export interface OursOptions {
  readonly server: TestServer;
  readonly buffer: ReplayBuffer;
  readonly flushBytes: number;
  readonly run: string;
  /** whether every row's time stamp is read, which takes CPU time of this process */
  readonly watched?: boolean;
}

export const learnerOf = (server: TestServer, given: Omit<RemoteCollectorsOptions, 'url' | 'ca'>) =>
  RemoteCollectors.open({ url: server.url, ...(server.ca && { ca: server.ca }), ...given });

export async function ourLine({
  server,
  buffer,
  flushBytes,
  run,
  watched = false,
}: OursOptions): Promise<Line> {
  const remote = await learnerOf(server, { run, buffer });
  const host = await Child.open('remote-host', { url: server.url, ca: server.ca, run, flushBytes });
  const watch = watched ? new Watch(buffer) : null;
  return {
    pids: { server: server.pid, reader: process.pid, writer: host.pid },
    async pace(pace) {
      host.tell(`${pace}`);
      // Waits until the rows that are already sent have arrived.
      if (pace === 0) for (let last = -1; last !== buffer.ptr; await wait(100)) last = buffer.ptr;
    },
    bytes: async () => buffer.ptr * buffer.rowBytes,
    lags: async () => watch?.taken() ?? [],
    async close() {
      watch?.close();
      const closing = host.close();
      await remote.close();
      await closing;
    },
  };
}

/** Reads the time stamps of rows as soon as they are committed. */
class Watch {
  readonly #buffer: ReplayBuffer;
  #lags: number[] = [];
  #open = true;

  constructor(buffer: ReplayBuffer) {
    this.#buffer = buffer;
    void this.#watch();
  }
  taken(): number[] {
    const lags = this.#lags;
    this.#lags = [];
    return lags;
  }
  close(): void {
    this.#open = false;
  }
  async #watch(): Promise<void> {
    const buffer = this.#buffer;
    const { bells } = internalsOfBuffer(buffer);
    const bell = bells.claim()!;
    const row = new Float32Array(buffer.rowBytes / 4);
    const step = Math.max(1, Math.floor(16_384 / buffer.rowBytes));
    for (let seen = buffer.ptr; this.#open; ) {
      const count = bell.read();
      for (const now = buffer.ptr; seen < now; seen += step) {
        buffer.gather(Uint32Array.of(seen % buffer.capacity), row);
        this.#lags.push(sinceStamp(row[0]!));
      }
      await bell.parkAsync(count, 50);
    }
    bells.release(bell);
  }
}
