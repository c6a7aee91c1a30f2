/**
 * Shared by tests of remote runs: learners and hosts that are closed after each test, collectors
 * that a test controls, and checks of the rows.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { setEnvironmentData } from 'node:worker_threads';
import { expect } from 'chai';
import { crc32 } from '../../src/base/arrays/crc32.ts';
import {
  CollectorHost,
  type CollectorHostOptions,
  RemoteCollectors,
  type RemoteCollectorsOptions,
} from '../../src/entries/remote.ts';
import { ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { stepsOutgoing } from '../../src/store/lanes/outgoing.ts';
import type { ChildIsTold } from './run-child.ts';
import { rowFields, stepFields, WORDS, Word } from './run-collector.ts';
import { needServer, startServer, type TestServer } from './server.ts';

export type Kind = 'rows' | 'steps';
type Buffers = ReplayBuffer | TrajectoryBuffer;

/**
 * Calls `met` until it returns true, with a pause between calls, because threads and the server
 * also need the cores. Throws after `ms`, with what `tell` returns.
 */
export async function untilAsked(
  what: string,
  met: () => unknown | Promise<unknown>,
  { ms = 60_000, tell = () => '' }: { ms?: number; tell?: () => string } = {},
): Promise<void> {
  for (const end = performance.now() + ms; !(await met()); await wait(3))
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what} ${tell()}`);
}

const open: { close(): unknown }[] = [];
export function keep<T extends { close(): unknown }>(made: T): T {
  open.push(made);
  return made;
}
/** For afterEach(): closes what a test opened, the latest first. */
export async function closeAll(): Promise<void> {
  for (const each of open.splice(0).reverse()) await each.close();
}

/**
 * Starts a server for all tests of a suite, and a client that can change its contents. Skips the
 * tests if no server is installed. Closes what each test opened.
 */
export function sharedServer() {
  const shared = {} as {
    server: TestServer;
    url: string;
    client: Awaited<ReturnType<TestServer['client']>>;
  };
  before(async function () {
    needServer(this);
    shared.server = await startServer();
    shared.url = shared.server.url;
    shared.client = await shared.server.client();
  });
  afterEach(closeAll);
  after(() => shared.server?.stop());
  return shared;
}

/**
 * Limits the rows of the collectors of this process. Pools with different names are controlled
 * separately.
 */
export function leash(name = ''): { entry: URL; words: Int32Array; to(limit: number): void } {
  const words = new Int32Array(new SharedArrayBuffer(12));
  const query = name === '' ? '' : `?${name}`;
  setEnvironmentData(`${WORDS}${query}`, words as never);
  const entry = new URL(`./run-collector.js${query}`, import.meta.url);
  return { entry, words, to: (limit) => void Atomics.store(words, Word.limit, limit) };
}

/** Creates a buffer that is large enough that no row is overwritten. */
export function bufferOf(
  kind: Kind,
  lanes = 2,
  limiter?: Parameters<typeof ReplayBuffer.create>[0]['limiter'],
) {
  const more = limiter && { limiter };
  const made: unknown =
    kind === 'rows'
      ? ReplayBuffer.create({ capacity: 400_000, fields: rowFields, ...more })
      : TrajectoryBuffer.create({ capacity: 200_000 * lanes, lanes, fields: stepFields, ...more });
  return made as Buffers;
}

let runs = 0;
export const newRun = (): string => `run-${process.pid}-${++runs}`;
/** Returns the seed of a host's collectors. */
export const seedOf = (host: string, seed = 0): number => crc32(Buffer.from(`${seed} ${host}`));

export const learn = async (options: RemoteCollectorsOptions): Promise<RemoteCollectors> => {
  const made = keep(await RemoteCollectors.open(options));
  made.done.catch(() => {}); // Tests that expect an error read `done` themselves.
  return made;
};
export const host = async (options: CollectorHostOptions): Promise<CollectorHost> => {
  const made = keep(await CollectorHost.open({ flushMs: 1, ...options }));
  made.done.catch(() => {});
  return made;
};

/**
 * Returns the numbers of the stored rows in order, by host and worker, or by lane of the learner.
 */
export function numbersIn(buffer: Buffers): Map<string, number[]> {
  return buffer instanceof ReplayBuffer ? rowNumbers(buffer) : stepNumbers(buffer);
}
export function valuesIn(buffer: ReplayBuffer): Float64Array {
  const { size, rowBytes } = buffer;
  expect(buffer.ptr, 'rows added and rows stored').to.equal(size);
  const bytes = new Uint8Array(size * rowBytes);
  const all = Uint32Array.from({ length: size }, (_, i) => i);
  if (size > 0) buffer.gather(all, bytes);
  return new Float64Array(bytes.buffer);
}
function rowNumbers(buffer: ReplayBuffer): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const values = valuesIn(buffer);
  for (let at = 0; at < values.length; at += 4)
    into(found, `${values[at]}/${values[at + 1]}`, values[at + 2]!);
  return found;
}
/** Also checks that a final observation follows each end of an episode. */
function stepNumbers(buffer: TrajectoryBuffer): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const outgoing = stepsOutgoing(buffer);
  const { rowBytes } = outgoing;
  const { offset } = buffer.layout.fields[0]!;
  const bytes = new Uint8Array(1000 * rowBytes);
  const view = new DataView(bytes.buffer);
  const final = new Map<number, number>();
  for (;;) {
    const { rows } = outgoing.take(bytes, 1000);
    if (rows === 0) return found;
    for (let at = 0; at < rows * rowBytes; at += rowBytes) {
      const [lane, kind] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
      const [seed, number] = [0, 8].map((plus) =>
        view.getFloat64(at + 8 + offset + plus, true),
      ) as [number, number];
      if (kind === 4) {
        expect(number, `final observation of lane ${lane}`).to.equal(final.get(lane));
        final.delete(lane);
        continue;
      }
      expect(final.has(lane), `lane ${lane} lacks a final observation`).to.equal(false);
      if ((kind & 3) !== 0) final.set(lane, number + 0.5);
      into(found, `${seed}/${lane}`, number);
    }
  }
}
function into(found: Map<string, number[]>, who: string, number: number): void {
  const numbers = found.get(who);
  if (numbers) numbers.push(number);
  else found.set(who, [number]);
}

/**
 * Checks that the buffer holds the rows [0, count) of each worker or lane exactly once and in
 * order. `pens` is the number of workers or lanes.
 */
export function expectWhole(buffer: Buffers, count: number, pens: number): void {
  const found = numbersIn(buffer);
  expect([...found.keys()], 'workers or lanes with rows').to.have.length(pens);
  for (const [who, numbers] of found) {
    expect(numbers.length, `rows of ${who}`).to.equal(count);
    for (const [i, number] of numbers.entries())
      if (number !== i) expect(number, `row ${i} of ${who}`).to.equal(i);
  }
}
export const countIn = (buffer: Buffers): number =>
  buffer instanceof ReplayBuffer ? buffer.ptr : (buffer.limiter?.inserts ?? 0);

/** A learner or a host in a process of its own, which a test may kill or suspend. */
export class RunChild {
  readonly process: ChildProcess;
  /** the latest message of each kind */
  readonly said: Record<string, unknown> = {};

  private constructor(role: 'learner' | 'host', options: object) {
    this.process = fork(
      new URL('./run-child.js', import.meta.url),
      [role, JSON.stringify(options)],
      {
        execArgv: [],
        serialization: 'advanced',
      },
    );
    this.process.on('message', (said) => Object.assign(this.said, said));
  }
  /** Resolves when the learner or host is open. */
  static async open(role: 'learner' | 'host', options: object): Promise<RunChild> {
    const child = keep(new RunChild(role, options));
    await untilAsked(
      `the ${role} is open`,
      () => child.said.open || child.process.exitCode !== null,
    );
    expect(child.said.open, `${child.said.ended}`).to.equal(true);
    return child;
  }
  tell(told: ChildIsTold): void {
    this.process.send(told);
  }
  async ask<T>(what: string): Promise<T> {
    delete this.said[what];
    this.tell({ ask: what });
    await untilAsked(`${what} is said`, () => what in this.said);
    return this.said[what] as T;
  }
  signal(name: NodeJS.Signals): void {
    this.process.kill(name);
  }
  async close(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await gone;
  }
}
