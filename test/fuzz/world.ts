/**
 * The live objects of the calls: at least one of each class, all small, also closed objects and
 * objects of another device.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as collect from '../../src/entries/collect.ts';
import * as formats from '../../src/entries/formats.ts';
import * as graph from '../../src/entries/graph.ts';
import * as halo from '../../src/entries/halo.ts';
import * as learner from '../../src/entries/learner.ts';
import * as linop from '../../src/entries/linop.ts';
import * as memory from '../../src/entries/memory.ts';
import * as monitor from '../../src/entries/monitor.ts';
import * as ranks from '../../src/entries/ranks.ts';
import * as remote from '../../src/entries/remote.ts';
import * as transfer from '../../src/entries/transfer.ts';
import * as hotslot from '../../src/index.ts';

export const doors = {
  hotslot,
  learner,
  graph,
  memory,
  linop,
  halo,
  formats,
  monitor,
  transfer,
  collect,
  remote,
  ranks,
} as const;

export type Things = Readonly<Record<string, object>>;

const { openDevice, ReplayBuffer, ReplayPipeline, TrajectoryBuffer } = hotslot;

/** Rows for the buffer `w.rows`. */
const rows = (n: number) => ({ a: new Float32Array(2 * n).fill(1), b: new Uint8Array(n).fill(2) });
const steps = (lanes: number, n: number) => ({
  obs: new Float32Array(2 * lanes).fill(n),
  goal: new Float32Array(lanes),
  action: new Uint8Array(lanes),
  rewards: new Float32Array(lanes).fill(1),
  terminated: new Uint8Array(lanes),
  truncated: new Uint8Array(lanes),
});
const specOf = () =>
  new halo.QuantityHaloSpec({
    nPoints: 1,
    shape: [4, 5],
    origin: [1, 1],
    extent: [2, 3],
    dims: ['i', 'j'],
    dtype: 'float32',
  });

function onDevices(name: string) {
  const device = openDevice(name);
  const again = openDevice(name);
  const host = openDevice('host:1');
  const stream = device.createStream();
  const tensor = device.allocate({ shape: [4] }).write(Float32Array.of(1, 2, 3, 4));
  const matrix = device.allocate({ shape: [2, 3] });
  const lent = device.registerHost(new Uint8Array(new SharedArrayBuffer(64)), { pin: false });
  const closedTensor = device.allocate({ shape: [4] });
  const closedStream = device.createStream();
  const closedEvent = device.createEvent();
  closedTensor.close();
  closedStream.close();
  closedEvent.close();
  // A device creates these on the first request, so they are requested before the calls.
  for (const each of [device, host]) {
    graph.getSharedCaptureStream(each);
    graph.getSharedGraphPool(each);
  }
  stream.beginCapture();
  stream.fill(tensor, 1);
  const captured = stream.endCapture();
  return {
    device,
    again,
    host,
    stream,
    stream2: again.createStream({ priority: -1 }),
    hostStream: host.createStream(),
    tensor,
    matrix,
    strided: matrix.view({ shape: [2, 2], strides: [3, 1] }),
    lent,
    lentTensor: lent.tensor({ shape: [4], dtype: 'float32' }),
    ints: device.allocate({ shape: [4], dtype: 'int32' }),
    bytes: device.allocate({ shape: [64], dtype: 'uint8' }),
    doubles: device.allocate({ shape: [20], dtype: 'float64' }),
    halves: device.allocate({ shape: [8], dtype: 'float16' }),
    longs: device.allocate({ shape: [3], dtype: 'int64' }),
    big: device.allocate({ shape: [64] }),
    empty: device.allocate({ shape: [0] }),
    hostTensor: host.allocate({ shape: [4] }),
    closedTensor,
    closedStream,
    closedEvent,
    storage: tensor.storage,
    event: device.createEvent({ timing: true }),
    event2: device.createEvent(),
    hostEvent: host.createEvent(),
    captured,
    exec: captured.instantiate(),
    generator: new graph.DeviceGenerator(device),
    loader: new graph.StaticBufferLoader(device),
    wrapper: new graph.FullGraphWrapper(() => null, { device }),
    pool: graph.getGraphPool(device, false),
    spec: new linop.DeviceSpec(device),
    cpuSpec: new linop.DeviceSpec('cpu'),
    toDevice: new linop.ToDevice('cpu', device),
    toHost: new linop.ToDevice(device, 'cpu'),
    identity: new linop.Identity(['a']),
    backend: transfer.buildReplayTransferBackend({ device: name, ringDepth: 2, timed: true }),
  };
}

function learners(device: hotslot.Device, parameters: hotslot.Tensor<'float32'>) {
  const mlp = new learner.Mlp({ sizes: [2, 3, 1] });
  const actor = { obsDim: 2, actionDim: 1, actorHidden: [2] };
  const critic = { ...actor, batchSize: 2, criticHidden: [2] };
  const dqn = new learner.DqnLearner(device, { obsDim: 2, actions: 2, hidden: [2], batchSize: 2 });
  return {
    mlp,
    workspace: mlp.workspace(device, 2, { backward: true }),
    adam: new learner.Adam(device, parameters),
    policy: new learner.MlpPolicy({ sizes: [2, 2] }),
    dqn,
    td3: new learner.Td3Learner(device, critic),
    sac: new learner.SacLearner(device, critic),
    watch: dqn.watch(),
    td3Policy: new learner.Td3Policy(actor),
    sacPolicy: new learner.SacPolicy(actor),
    gaussian: new learner.SquashedGaussian(device, { actionDim: 1, rows: 2 }),
    normalizer: new learner.Normalizer(device, { size: 3, rows: 2 }),
  };
}

async function buffers(device: string, folder: string) {
  const limiter = hotslot.RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 9 });
  const gated = hotslot.RateLimiter.create({
    samplesPerInsert: 1,
    minSize: 2,
    errorBuffer: 8,
    gateAdd: true,
  });
  const buffer = ReplayBuffer.offPolicy({ capacity: 8, obsDim: 2, actionDim: 1 });
  const filled = ReplayBuffer.create({
    capacity: 8,
    fields: { a: { shape: [2] }, b: { shape: [], dtype: 'uint8' } },
  });
  filled.add(rows(3));
  const limited = ReplayBuffer.create({
    capacity: 4,
    fields: { a: { shape: [2] }, b: { shape: [], dtype: 'uint8' } },
    limiter: gated,
  });
  const closedBuffer = ReplayBuffer.create({ capacity: 4, fields: { a: { shape: [1] } } });
  closedBuffer.close();
  const trajectories = TrajectoryBuffer.create({
    capacity: 32,
    lanes: 4,
    fields: {
      obs: { shape: [2], observation: true },
      goal: { shape: [], observation: true },
      action: { shape: [], dtype: 'uint8' },
    },
  });
  const writer = trajectories.writer({ firstLane: 0, lanes: 2 });
  for (let i = 0; i < 4; i++) writer.add(steps(2, i));
  const transitions = trajectories.transitions({ nStep: 2, gamma: 0.9 });
  const mailbox = hotslot.WeightMailbox.create({ length: 4 });
  const sampler = hotslot.prioritized();
  const inline = { device, sampleCount: 2, placement: 'inline', depth: 2 } as const;
  const pipeline = await ReplayPipeline.open({ buffer: filled, ...inline, mailbox });
  const stepped = await ReplayPipeline.open({
    buffer: trajectories,
    view: trajectories.transitions(),
    ...inline,
  });
  const closedPipeline = await ReplayPipeline.open({ buffer: filled, ...inline });
  await closedPipeline.close();
  for (const each of [pipeline, stepped]) each.on('warning', () => {}).on('error', () => {});
  const checkpoint = await hotslot.Checkpoint.open(join(folder, 'checkpoint'), {
    buffer: filled,
    limiter,
  });
  checkpoint.on('error', () => {}).on('warning', () => {});
  return {
    limiter,
    gated,
    buffer,
    filled,
    limited,
    closedBuffer,
    trajectories,
    writer,
    transitions,
    mailbox,
    sampler,
    pipeline,
    stepped,
    windows: trajectories.windows({ length: 2 }),
    relabel: hotslot.hindsight({ goal: 'goal', achieved: 'goal' }),
    closedPipeline,
    checkpoint,
    random: new hotslot.Random(1),
    cpuTensor: new hotslot.CpuTensor(new Float32Array(4)),
    tensorBoard: monitor.tensorBoard(join(folder, 'events')),
    shared: filled.share(),
    sharedSteps: trajectories.share(),
    monitor: await monitor.serveMonitor({ pipeline, title: 'fuzz' }),
    sharedMailbox: mailbox.share(),
    sharedLimiter: limiter.share(),
  };
}

function halos(device: hotslot.Device) {
  const specification = specOf();
  const slices = [
    [0, 1],
    [0, 5],
  ] as const;
  const exchange = new halo.HaloExchangeSpec({
    specification,
    packSlices: slices,
    packClockwiseRotation: 0,
    unpackSlices: slices,
  });
  const { nPoints, shape, origin, extent, dims, dtype } = specification;
  const topology = halo.periodicTopology({ layout: [1, 1] });
  const sharedExchange = halo.shareHaloExchange({
    topology,
    x: [{ nPoints, shape, origin, extent, dims, dtype }],
  });
  return {
    specification,
    exchange,
    topology,
    sharedExchange,
    updater: new halo.HaloUpdater(sharedExchange, 0),
    onHost: halo.HaloDataTransformer.get('cpu', [exchange]),
    onDevice: halo.HaloDataTransformer.get(device, [exchange]),
    plane: device.allocate({ shape: [4, 5] }),
    sharedGroup: ranks.shareLearnerGroup({ ranks: 1, parameters: 4 }),
  };
}

export class World {
  readonly things: Things;
  readonly folder: string;
  private constructor(things: Things, folder: string) {
    this.things = things;
    this.folder = folder;
  }

  static async open(device: string): Promise<World> {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-fuzz-'));
    process.chdir(folder);
    const first = onDevices(device);
    const things = {
      ...first,
      ...learners(first.device, first.big),
      ...(await buffers(device, folder)),
      ...halos(first.device),
      ...(first.device.traits.noManaged === ''
        ? { mempool: memory.createUnifiedMempool(first.device) }
        : {}),
    };
    return new World(
      { ...things, group: await ranks.LearnerGroup.join({ shared: things.sharedGroup, rank: 0 }) },
      folder,
    );
  }

  /** Closes pipelines first, because other objects lend memory to them. */
  async close(): Promise<void> {
    const late = ['pool', 'device', 'again', 'host'];
    const names = [
      ...Object.keys(this.things)
        .filter((name) => !late.includes(name))
        .reverse(),
      ...late,
    ];
    for (const name of names) {
      const made = this.things[name] as { close?: unknown; finalize?: unknown };
      const end = (made.close ?? made.finalize) as (() => unknown) | undefined;
      if (typeof end === 'function') await end.call(made);
    }
    process.chdir(tmpdir());
    rmSync(this.folder, { recursive: true, force: true });
  }
}
