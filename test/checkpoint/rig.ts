/**
 * A rig for checkpoint tests: small parts of a run that tests change, compare byte by byte and
 * create again.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from '../../src/base/arrays/crc32.ts';
import {
  Checkpoint,
  type CheckpointOptions,
  openDevice,
  type PipelineOptions,
  type PrioritizedOptions,
  type PrioritizedSampler,
  prioritized,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  type Stream,
  type Tensor,
  TrajectoryBuffer,
  type TrajectoryPipelineOptions,
  type TransitionsOptions,
  WeightMailbox,
} from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

/** All parts of a run, with a buffer of rows or of trajectories. */
export interface Run {
  readonly parts: CheckpointOptions;
  readonly learner: Standin;
  readonly mailbox: WeightMailbox;
  readonly limiter: RateLimiter;
  readonly pipeline: ReplayPipeline;
  /** adds `count` rows, or `count` steps of each lane, each with its number */
  add(count: number): void;
  /** returns the complete state of the run as text */
  print(): Promise<string>;
  close(): Promise<void>;
}
export type Kind = 'rows' | 'uniform' | 'steps';

/** A learner of two arrays. A captured update adds every batch to its tensor `seen`. */
export class Standin {
  readonly weights = Float32Array.of(0.5, -1, 2, 3, 4, 5);
  readonly count = new Int32Array(1);
  readonly seen: Tensor;
  constructor(length: number) {
    this.seen = openDevice(TESTED).allocate({ shape: [length] });
  }
  update(): void {
    this.count[0]!++;
    for (const [i, weight] of this.weights.entries())
      this.weights[i] = Math.fround(weight * 1.01 + i);
  }
  /** Adds the batch to `seen` in a way that depends on the order of batches. */
  look(stream: Stream, values: Tensor): void {
    stream.launch('axpby', {
      tensors: [this.seen, values],
      wholes: [this.seen.size],
      reals: [0.25, 0.75],
    });
  }
  async state() {
    const { size } = this.seen;
    const seen = (await this.seen.toArray()) as Float32Array<ArrayBuffer>;
    return {
      weights: { dtype: 'float32', shape: [2, 3], data: this.weights.slice() },
      count: { dtype: 'int32', shape: [], data: this.count.slice() },
      seen: { dtype: 'float32', shape: [size], data: seen },
    } as const;
  }
  loadState(state: object): void {
    const { weights, count, seen } = state as Awaited<ReturnType<Standin['state']>>;
    this.weights.set(weights.data);
    this.count.set(count.data);
    this.seen.write(seen.data);
  }
}

export interface Options {
  capacity?: number;
  lanes?: number;
  fields?: object;
  limiter?: object;
  length?: number;
  view?: TransitionsOptions;
  sampling?: PrioritizedOptions;
  pipeline?: Partial<PipelineOptions> | undefined;
  every?: string;
}
export const ROWS = 8;
export const DEPTH = 3;

export function limiterOf(options: object = {}): RateLimiter {
  return RateLimiter.create({ samplesPerInsert: 4, minSize: 4, errorBuffer: 1e6, ...options });
}

const rowFields = { value: { shape: [3] } } as const;
const stepFields = {
  obs: { shape: [2], observation: true },
  number: { shape: [], dtype: 'float64' },
} as const;

/** Creates rows whose values follow from their numbers. */
export function rowsFrom(first: number, count: number) {
  return {
    value: Float32Array.from(
      { length: count * 3 },
      (_, i) => (first + Math.floor(i / 3)) * 1.7 + (i % 3),
    ),
  };
}
/**
 * Creates one step of each lane. Episodes have 5 + lane steps, and every second one is truncated.
 */
export function stepOf(lanes: number, t: number) {
  const each = <A>(make: (lane: number) => A) =>
    Array.from({ length: lanes }, (_, lane) => make(lane));
  const ends = each((lane) =>
    t % (5 + lane) === 4 + lane ? 1 + (Math.floor(t / (5 + lane)) % 2) : 0,
  );
  const obs = (plus: number) =>
    Float32Array.from(each((lane) => [lane + t * 1.3 + plus, -t]).flat());
  return {
    obs: obs(0),
    finalObs: obs(0.5),
    number: Float64Array.from(each((lane) => t * lanes + lane)),
    rewards: Float32Array.from(each((lane) => ((t * 7 + lane * 3) % 11) / 4)),
    terminated: Uint8Array.from(ends.map((end) => Number(end === 1))),
    truncated: Uint8Array.from(ends.map((end) => Number(end === 2))),
  };
}

const open = new Set<Run>();
/** For afterEach(): closes all runs that a test created, also if the test failed. */
export async function closeAll(): Promise<void> {
  await Promise.all([...open].map((run) => run.close()));
}

export async function make(kind: Kind, options: Options = {}): Promise<Run> {
  const limiter = limiterOf(options.limiter);
  const mailbox = WeightMailbox.create({ length: options.length ?? 5 });
  const learner = new Standin(kind === 'rows' ? 3 * ROWS : ROWS);
  const common = {
    device: TESTED,
    sampleCount: ROWS,
    depth: DEPTH,
    baseSeed: 7,
    placement: 'inline' as const,
  };
  let sampler: PrioritizedSampler | undefined;
  let buffer: ReplayBuffer | TrajectoryBuffer;
  let pipeline: ReplayPipeline;
  let add: Run['add'];
  if (kind === 'rows') {
    const rows = ReplayBuffer.create({
      capacity: options.capacity ?? 40,
      fields: (options.fields ?? rowFields) as typeof rowFields,
      limiter,
    });
    add = (count) => {
      for (const end = rows.ptr + count; rows.ptr < end; )
        rows.add(rowsFrom(rows.ptr, Math.min(20, end - rows.ptr)));
    };
    pipeline = await ReplayPipeline.open({ ...common, buffer: rows, ...options.pipeline });
    if (!options.fields && !options.pipeline?.sampleCount) {
      pipeline.capture(
        (batch, { stream, out }) => {
          learner.look(stream, (batch.value as Tensor).view({ shape: [3 * ROWS] }));
          stream.copy(out.view({ shape: [1] }), learner.seen.view({ shape: [1] }));
        },
        { scalars: ['seen'] },
      );
    }
    buffer = rows as unknown as ReplayBuffer;
  } else {
    const lanes = options.lanes ?? 3;
    const fields = (options.fields ?? stepFields) as typeof stepFields;
    const steps = TrajectoryBuffer.create({
      capacity: options.capacity ?? 30 * lanes,
      lanes,
      fields,
      limiter,
    });
    let t = -1;
    let writer: ReturnType<typeof steps.writer> | undefined;
    add = (count) => {
      // A restored run continues its episodes. The number of stored steps gives the position in
      // them.
      writer ??= steps.writer({ resume: steps.ptr > 0 });
      if (t < 0) t = steps.ptr / lanes;
      for (let i = 0; i < count; i++) writer.add(stepOf(lanes, t++));
    };
    const view = steps.transitions(options.view ?? { nStep: 2, gamma: 0.5 });
    if (kind === 'steps') sampler = prioritized({ alpha: 0.6, ...options.sampling });
    const bySampler = sampler ? { sampler } : {};
    pipeline = await ReplayPipeline.open({
      ...common,
      view,
      ...bySampler,
      ...options.pipeline,
      buffer: steps,
    } as TrajectoryPipelineOptions);
    if (!options.pipeline?.sampleCount) {
      pipeline.capture(
        (batch, { stream, out, priorities }) => {
          const rewards = batch.rewards as unknown as Tensor;
          learner.look(stream, rewards);
          if (priorities) stream.copy(priorities, rewards);
          stream.copy(out.view({ shape: [1] }), learner.seen.view({ shape: [1] }));
        },
        { scalars: ['seen'] },
      );
    }
    buffer = steps as unknown as TrajectoryBuffer;
  }
  const run: Run = {
    learner,
    mailbox,
    limiter,
    pipeline,
    add,
    parts: {
      buffer,
      learner,
      mailbox,
      pipeline,
      extra: () => ({ updates: learner.count[0] }),
      ...every(options),
    },
    print: async () => JSON.stringify(await told(buffer, limiter, mailbox, learner, sampler)),
    close: async () => {
      open.delete(run);
      await pipeline.close();
      learner.seen.close();
    },
  };
  open.add(run);
  return run;
}
const every = (options: Options) => (options.every === undefined ? {} : { every: options.every });

const bytesOf = (array: ArrayBufferView) =>
  Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');

async function told(
  buffer: ReplayBuffer | TrajectoryBuffer,
  limiter: RateLimiter,
  mailbox: WeightMailbox,
  learner: Standin,
  sampler: PrioritizedSampler | undefined,
): Promise<object> {
  const weights = new Float32Array(mailbox.length);
  const version = mailbox.read(weights);
  return {
    buffer: contents(buffer),
    version,
    weights: [...weights],
    inserts: limiter.inserts,
    samples: limiter.samples,
    learner: bytesOf(learner.weights),
    count: learner.count[0],
    seen: bytesOf((await learner.state()).seen.data),
    priorities: sampler ? prioritiesOf(sampler) : null,
  };
}

export function prioritiesOf(sampler: PrioritizedSampler): object {
  const { leaves, ...facts } = sampler.inspect();
  return { leaves: bytesOf(leaves), ...facts };
}

/** Returns the bytes of every stored row or place. */
export function contents(buffer: ReplayBuffer | TrajectoryBuffer): object {
  const { ptr, size } = buffer;
  if (buffer instanceof ReplayBuffer) {
    const indices = Uint32Array.from(
      { length: size },
      (_, i) => (ptr - size + i) % buffer.capacity,
    );
    return { ptr, rows: bytesOf(buffer.gather(indices, new Uint8Array(size * buffer.rowBytes))) };
  }
  const ids = buffer.drawableIds(buffer.transitions());
  const read = buffer.read(ids) as Readonly<Record<string, ArrayBufferView>>;
  return {
    ptr,
    size,
    ids: [...ids],
    ...Object.fromEntries(Object.entries(read).map(([key, values]) => [key, bytesOf(values)])),
  };
}

/** Makes the n-th change of all parts. */
export async function change(run: Run, n: number): Promise<void> {
  run.add(9 + n);
  run.learner.update();
  run.mailbox.write(Float32Array.from({ length: run.mailbox.length }, (_, i) => n + i / 8));
  if (!(run.parts.buffer instanceof ReplayBuffer))
    return void (await run.pipeline.run({ ticks: 4 }));
  for (let tick = (n - 1) * 4; tick < n * 4; tick++) await manualTick(run, tick);
}

/** Runs a manual tick with the work of the captured update. */
export async function manualTick({ pipeline, learner }: Run, tick: number): Promise<void> {
  const batch = (await pipeline.sampleLargeBatch(tick, ROWS)) as Readonly<Record<string, Tensor>>;
  const { device } = learner.seen;
  if ('value' in batch)
    learner.look(device.currentStream, batch.value!.view({ shape: [3 * ROWS] }));
  else learner.look(device.currentStream, batch.rewards!);
  if ('priorities' in batch) device.currentStream.copy(batch.priorities!, batch.rewards!);
  pipeline.afterTick();
}

/** Creates a run and changes it `times` times. */
export async function changed(kind: Kind, times: number, options?: Options): Promise<Run> {
  const run = await make(kind, options);
  for (let n = 1; n <= times; n++) await change(run, n);
  return run;
}

/** Restores a folder into a new run. Returns the run and its state as text. */
export async function restored(
  kind: Kind,
  folder: string,
  options?: Options,
): Promise<{ run: Run; print: string }> {
  const run = await make(kind, options);
  if ((await Checkpoint.restore(folder, run.parts)) === null)
    throw new Error(`there is no checkpoint in ${folder}`);
  return { run, print: await run.print() };
}

export { withFastFolder as inFolder } from '../rig/fast-folder.ts';

/** Returns the names and bytes of a folder's files, without the lock. */
export function filesIn(folder: string): Record<string, string> {
  const names = readdirSync(folder).filter(
    (name) => name !== 'lock' && statSync(join(folder, name)).isFile(),
  );
  const sum = (name: string) =>
    createHash('sha256')
      .update(readFileSync(join(folder, name)))
      .digest('hex')
      .slice(0, 16);
  return Object.fromEntries(names.sort().map((name) => [name, sum(name)]));
}
/** Returns the names of the files that belong to the folder's checkpoint. */
export async function namedIn(folder: string): Promise<string[]> {
  const contents = await Checkpoint.inspect(folder);
  return [
    'checkpoint.json',
    ...(contents?.files ?? []).map(({ path }) => path.slice(folder.length + 1)),
  ].sort();
}

/** Returns the text of an edited manifest with the checksum of its new body. */
export function signed(whole: { body: unknown }): string {
  return JSON.stringify({ ...whole, checksum: crc32(Buffer.from(JSON.stringify(whole.body))) });
}
