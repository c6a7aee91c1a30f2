/**
 * Parts of training runs, which make the calls. Each part gives the same bits in every run, and
 * closes everything even if it fails.
 */
import {
  FullGraphWrapper,
  getSharedCaptureStream,
  type IterationFunction,
} from '../../src/entries/graph.ts';
import { SacLearner } from '../../src/entries/learner.ts';
import { ToDevice } from '../../src/entries/linop.ts';
import {
  adviseManagedTensorAccessedBy,
  adviseManagedTensorPreferredLocation,
  compileAllocator,
  createUnifiedMempool,
  prefetchManagedTensor,
} from '../../src/entries/memory.ts';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import {
  CpuTensor,
  type Placement,
  prioritized,
  RateLimiter,
  ReplayBuffer,
  type Tensor,
  TrajectoryBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { Part as HaloPart, plane } from '../halo/plane.ts';
import { rows, SPREAD } from '../pipeline/fixture.ts';
import { stepsBuffer, VIEW } from '../pipeline/steps.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Bits } from './bits.ts';
import type { Closing } from './closing.ts';

import { byRows, bySteps, checkpointed, dqn, opened, type Part } from './pipelines.ts';

async function rowsInProcess(closing: Closing): Promise<string> {
  const bits = new Bits();
  const limiter = RateLimiter.create({ samplesPerInsert: 8, minSize: 4, errorBuffer: 1000 });
  const buffer = ReplayBuffer.offPolicy({ capacity: 100, obsDim: 4, actionDim: 1, limiter });
  closing.add(() => buffer.close());
  buffer.add(rows(64));
  const packed = buffer.gather(Uint32Array.of(3, 5, 7), new Uint8Array(3 * buffer.rowBytes));
  buffer.addPacked(packed, 3);
  bits.add(packed);
  bits.add(buffer.gather(BigInt64Array.of(1n, 66n) as never, new Uint8Array(2 * buffer.rowBytes)));
  for (const column of Object.values(buffer.sample({ seed: 3, count: 9 }))) bits.add(column);
  const mailbox = WeightMailbox.create({ length: 5 });
  const weights = new Float32Array(5);
  mailbox.write(Float32Array.of(1, 2, 3, 4, 5));
  mailbox.read(weights);
  bits.add(weights);
  return bits.print();
}

async function stepsInProcess(closing: Closing): Promise<string> {
  const bits = new Bits();
  const { buffer, writer } = stepsBuffer(40, 200);
  closing.add(() => writer.close());
  const view = buffer.transitions(VIEW);
  const sampler = prioritized({ alpha: 0.5 });
  for (let i = 0; i < 2; i++) {
    const drawn = buffer.sample({ view, seed: 5 + i, count: 12, sampler });
    for (const column of Object.values(drawn)) if (ArrayBuffer.isView(column)) bits.add(column);
    buffer.updatePriorities(drawn.ids, (drawn as { rewards: Float32Array }).rewards);
  }
  const ids = buffer.drawableIds(view);
  bits.add(Float64Array.from(ids));
  for (const column of Object.values(buffer.read(ids.slice(0, 7))))
    if (ArrayBuffer.isView(column)) bits.add(column);
  bits.add(sampler.inspect().leaves);
  return bits.print();
}

/** The batch has enough bytes for idle cores to help. */
async function largeBatch(): Promise<string> {
  const buffer = ReplayBuffer.create({ capacity: 600, fields: { x: { shape: [1024] } } });
  buffer.add({ x: Float32Array.from({ length: 600 * 1024 }, (_, i) => i) });
  const indices = Uint32Array.from({ length: 512 }, (_, i) => (i * 7) % 600);
  const gathered = buffer.gather(indices, new Uint8Array(512 * buffer.rowBytes));
  buffer.close();
  return new Bits().add(gathered).print();
}

async function sac(closing: Closing): Promise<string> {
  const device = opened(closing);
  const learner = new SacLearner(device, {
    obsDim: 4,
    actionDim: 2,
    batchSize: 8,
    seed: 1,
    actorHidden: [7],
    criticHidden: [9],
  });
  closing.add(() => learner.close());
  await learner.ready;
  const floats = (...shape: number[]) => {
    const made = device.allocate({ shape });
    closing.add(() => made.close());
    return made.write(Float32Array.from({ length: made.size }, (_, i) => Math.sin(i)));
  };
  const batch = {
    obs: floats(16, 4),
    nextObs: floats(16, 4),
    actions: floats(16, 2),
    rewards: floats(16),
    dones: floats(16),
    truncated: floats(16),
  };
  learner.update(device.currentStream, batch, floats(learner.scalars.length));
  return new Bits().add((await learner.parameters.toArray()) as Float32Array).print();
}

/**
 * The product is large enough for blocks and for idle cores. It has its own stream, because a
 * failed kernel leaves its stream failed. A thread allocates its scratch memory in its first
 * product, in any of the runs. On the default stream the failure would last for the whole process.
 */
async function products(closing: Closing): Promise<string> {
  const device = opened(closing);
  const stream = device.createStream();
  closing.add(() => stream.close());
  const n = 160;
  const floats = (...shape: number[]) => {
    const made = device.allocate({ shape });
    closing.add(() => made.close());
    return made.write(Float32Array.from({ length: made.size }, (_, i) => (i % 7) - 3));
  };
  const c = device.withStream(stream, () => {
    const [a, b, c] = [floats(n, n), floats(n, n), floats(n, n)];
    stream.launch('gemm', {
      tensors: [c, a, b],
      wholes: [0, 0, n, n, n, n, n, n],
      reals: [1, 0],
    });
    return c;
  });
  await stream.synchronize();
  return new Bits().add((await c.toArray()) as Float32Array).print();
}

async function halo(closing: Closing): Promise<string> {
  for (const on of [opened(closing), null]) {
    const all = plane(2, 1);
    const parts = [0, 1].map((rank) => {
      const part = new HaloPart(all, rank, on);
      closing.add(() => part.close());
      return part;
    });
    const updaters = parts.map(({ rank }) => {
      const updater = new HaloUpdater(all.shared, rank, on ? { device: on } : {});
      closing.add(() => updater.close());
      return updater;
    });
    for (let n = 0; n < 2; n++) {
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(n).quantities);
      for (const each of updaters) await each.wait({ timeoutMs: 60_000 });
      for (const each of parts) {
        const wrong = await each.wrong(n);
        if (wrong !== null) return wrong;
      }
    }
  }
  return 'as it should be';
}

async function managed(closing: Closing): Promise<string> {
  await compileAllocator();
  const pool = createUnifiedMempool(TESTED);
  closing.add(() => pool.close());
  const tensor = pool.allocate({ shape: [5000] });
  prefetchManagedTensor(tensor, { device: 0 });
  adviseManagedTensorAccessedBy(tensor, { device: 0 });
  adviseManagedTensorPreferredLocation(tensor, { device: 0 });
  tensor.write(Float32Array.from({ length: 5000 }, (_, i) => i));
  return new Bits().add((await tensor.toArray()) as Float32Array).print();
}

async function moved(closing: Closing): Promise<string> {
  const bits = new Bits();
  const one = opened(closing);
  const there = new ToDevice('cpu', TESTED);
  closing.add(() => there.close());
  const x = new CpuTensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
  const y = (await there.forward(x)) as Tensor;
  closing.add(() => y.close());
  bits.add((await y.toArray()) as Float32Array);
  const across = new ToDevice(TESTED, 'host:1');
  closing.add(() => across.close());
  const z = (await across.forward(y)) as Tensor;
  closing.add(() => z.close());
  bits.add((await z.toArray()) as Float32Array);
  bits.add(Float64Array.of(one.memoryInfo().total > 0 ? 1 : 0));
  return bits.print();
}

async function graphs(closing: Closing): Promise<string> {
  const device = opened(closing);
  getSharedCaptureStream(device);
  const sum = device.allocate({ shape: [2] });
  closing.add(() => sum.close());
  const adds: IterationFunction<unknown, unknown> = ({ dataIterator }, { stream }) => {
    const { x } = (dataIterator as Iterator<{ x: Tensor }>).next().value as { x: Tensor };
    stream.launch('axpby', { tensors: [sum, x], wholes: [2], reals: [1, 1] });
    return { sum };
  };
  const wrapper = new FullGraphWrapper<unknown, unknown>(adds, { device, warmupSteps: 1 });
  closing.add(() => wrapper.close());
  const of = { model: null, numMicrobatches: 1, seqLength: 2, forwardOnly: false };
  for (let i = 0; i < 4; i++)
    wrapper.run({ ...of, dataIterator: [{ x: Float32Array.of(i, 1) }].values() });
  return new Bits().add((await sum.toArray()) as Float32Array).print();
}

/** Leaves a capture open: its stream is closed while another stream takes part. */
async function leftOpen(closing: Closing): Promise<string> {
  const device = opened(closing);
  const closed = <T extends { close(): void }>(part: T): T => {
    closing.add(() => part.close());
    return part;
  };
  const [origin, side] = [closed(device.createStream()), closed(device.createStream())];
  const fork = closed(device.createEvent());
  const values = closed(device.allocate({ shape: [2] }));
  origin.beginCapture();
  origin.fill(values, 1);
  origin.record(fork);
  side.wait(fork);
  side.fill(values, 2);
  origin.close();
  side.fill(values, 3);
  return new Bits().add((await values.toArray(side)) as Float32Array).print();
}

async function files(closing: Closing, folder: string): Promise<string> {
  const buffer = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1 });
  closing.add(() => buffer.close());
  buffer.add(rows(40));
  await buffer.dump(`${folder}/rows.npz`);
  const other = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1 });
  await other.load(`${folder}/rows.npz`);
  const bits = new Bits().add(
    other.gather(Uint32Array.of(0, 39), new Uint8Array(2 * other.rowBytes)),
  );
  const steps = TrajectoryBuffer.create({
    capacity: 30,
    lanes: 2,
    fields: { obs: { shape: [1], observation: true } },
  });
  const writer = steps.writer();
  closing.add(() => writer.close());
  const two = {
    obs: Float32Array.of(1, 2),
    rewards: Float32Array.of(1, 2),
    terminated: new Uint8Array(2),
    truncated: new Uint8Array(2),
  };
  for (let i = 0; i < 5; i++) writer.add(two as never);
  await steps.dump(`${folder}/steps.npz`);
  return bits.print();
}

/** A place is tried in the first part that reaches it, so quick parts come first. */
export const parts: Readonly<Record<string, Part>> = {
  rowsInProcess,
  stepsInProcess,
  largeBatch,
  halo,
  managed,
  moved,
  graphs,
  leftOpen,
  products,
  files,
  byRows: byRows('inline'),
  bySteps: bySteps('inline'),
  rowsKept: byRows('inline', {
    rows: 'device',
    transfer: undefined,
    deviceRing: { guard: 16, chunkBytes: 512 },
  }),
  stepsKept: bySteps('inline', { rows: 'device' }),
  dqn,
  sac,
  rowsSaved: checkpointed('rows'),
  stepsSaved: checkpointed('steps'),
  rowsInThreads: byRows(SPREAD as unknown as Placement),
  stepsInThreads: bySteps(SPREAD as unknown as Placement),
};
