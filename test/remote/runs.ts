/**
 * What tests of remote runs share: learners and hosts that are closed behind each test, collectors
 * on a leash, and the oracle.
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
 * Asks until `met`, a little while apart: threads and a server need the cores too. Throws after
 * `ms`, with what `tell` returns.
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
/** For afterEach: closes what a test made, the last one first. */
export async function closeAll(): Promise<void> {
  for (const each of open.splice(0).reverse()) await each.close();
}

/**
 * Of a suite: a server of all its tests, and a client to meddle with it; without a server they are
 * left out. Closes what each made.
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

/** Collectors of this process on a leash. `name` tells pools that are driven apart. */
export function leash(name = ''): { entry: URL; words: Int32Array; to(limit: number): void } {
  const words = new Int32Array(new SharedArrayBuffer(12));
  const query = name === '' ? '' : `?${name}`;
  setEnvironmentData(`${WORDS}${query}`, words as never);
  const entry = new URL(`./run-collector.js${query}`, import.meta.url);
  return { entry, words, to: (limit) => void Atomics.store(words, Word.limit, limit) };
}

/** A buffer in which nothing is written over. */
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
/** What a host's collectors are seeded with. */
export const seedOf = (host: string, seed = 0): number => crc32(Buffer.from(`${seed} ${host}`));

export const learn = async (options: RemoteCollectorsOptions): Promise<RemoteCollectors> => {
  const made = keep(await RemoteCollectors.open(options));
  made.done.catch(() => {}); // looked at by those who expect it to fail
  return made;
};
export const host = async (options: CollectorHostOptions): Promise<CollectorHost> => {
  const made = keep(await CollectorHost.open({ flushMs: 1, ...options }));
  made.done.catch(() => {});
  return made;
};

/** What came in: of each host and worker, or lane of the learner, the numbers in order. */
export function numbersIn(buffer: Buffers): Map<string, number[]> {
  return buffer instanceof ReplayBuffer ? rowNumbers(buffer) : stepNumbers(buffer);
}
export function valuesIn(buffer: ReplayBuffer): Float64Array {
  const { size, rowBytes } = buffer;
  expect(buffer.ptr, 'nothing was written over').to.equal(size);
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
/** Also that each episode's end has its final observation behind it. */
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
 * Every row exactly once and in order: of each worker of these hosts, or each lane, the numbers [0,
 * count).
 */
export function expectWhole(buffer: Buffers, count: number, pens: number): void {
  const found = numbersIn(buffer);
  expect([...found.keys()], 'who has rows').to.have.length(pens);
  for (const [who, numbers] of found) {
    expect(numbers.length, `rows of ${who}`).to.equal(count);
    for (const [i, number] of numbers.entries())
      if (number !== i) expect(number, `row ${i} of ${who}`).to.equal(i);
  }
}
export const countIn = (buffer: Buffers): number =>
  buffer instanceof ReplayBuffer ? buffer.ptr : (buffer.limiter?.inserts ?? 0);

/** A learner or a host in a process of its own, which a test may kill or freeze. */
export class RunChild {
  readonly process: ChildProcess;
  /** the newest that it said of each kind */
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
  /** Resolves when it is open. */
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
