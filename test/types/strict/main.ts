/** Code of a strict consumer, and code that must not compile. Only compiled, never run. */
import {
  type ReplayBuffer as AnyBuffer,
  type ArrayOf,
  type Batch,
  type Collector,
  CollectorPool,
  CpuTensor,
  type DTypeOf,
  type Fields,
  type Normalise,
  type Normalize,
  type OffPolicyFields,
  openDevice,
  type PrioritizedSampler,
  prioritized,
  type RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  type SharedReplayBuffer,
  type Summary,
  type Tensor,
  type Tick,
  TrajectoryBuffer,
  toFloat16,
  WeightMailbox,
} from 'hotslot';
import {
  type Environment,
  evaluate,
  type OwnLearner,
  train as trained,
  vectorCollector,
} from 'hotslot/collect';
import { encodeOnnx } from 'hotslot/formats';
import { DeviceGenerator, FullGraphWrapper } from 'hotslot/graph';
import {
  HaloDataTransformer,
  type HaloNeighbor,
  type HaloNeighbour,
  HaloUpdater,
} from 'hotslot/halo';
import {
  Adam,
  convert,
  DqnLearner,
  Mlp,
  MlpPolicy,
  type NonFiniteReport,
  type Normaliser,
  type NormaliserOptions,
  type Normalizer,
  type NormalizerOptions,
  type Odd,
  ops,
  QrDqnLearner,
  type SacLearner,
  type SacOptions,
  SacPolicy,
  type Td3Options,
} from 'hotslot/learner';
import { ToDevice } from 'hotslot/linop';
import { createUnifiedMempool } from 'hotslot/memory';
import { type Monitor, serveMonitor, tensorBoard, type WatchedCheckpoint } from 'hotslot/monitor';
import type { TracedLearner } from 'hotslot/trace';
import { buildReplayTransferBackend } from 'hotslot/transfer';
import type collector from './collector.js';
import { fields, type stepping } from './collector.js';

/** Whether the types are identical, and not merely assignable to each other. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <T extends true>(_?: T) => {};

// ---- buffers ------------------------------------------------------------------------------------

const buffer = ReplayBuffer.create({
  capacity: 100,
  fields: {
    obs: { shape: [4] },
    image: { shape: [84, 84], dtype: 'uint8' },
    action: { shape: [], dtype: 'int64' },
  },
});
const obs = new Float32Array(4);
const image = new Uint8Array(84 * 84);
const action = new BigInt64Array(1);
buffer.add({ obs, image, action });
// @ts-expect-error misspelt
buffer.add({ ops: obs, image, action });
// @ts-expect-error missing
buffer.add({ obs, image });
// @ts-expect-error one too many
buffer.add({ obs, image, action, reward: obs });
// @ts-expect-error another dtype
buffer.add({ obs, image, action: obs });
// @ts-expect-error no such dtype
ReplayBuffer.create({ capacity: 1, fields: { obs: { shape: [4], dtype: 'float23' } } });
// @ts-expect-error no such option
ReplayBuffer.create({ capacity: 1, fields: { obs: { shape: [4] } }, size: 3 });
export const packed: Uint8Array = buffer.sample({ seed: 1, count: 2 }).rows;
// @ts-expect-error no such option
buffer.sample({ seed: 1, cuont: 2 });

const transitions = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 4, actionDim: 1 });
const row = { obs, nextObs: obs, actions: obs, rewards: obs, dones: obs, truncated: obs };
transitions.add(row);
transitions.add({ ...row, terminalMask: [true], terminalNextObs: obs });
// @ts-expect-error no critic in this buffer
transitions.add({ ...row, critic: obs, nextCritic: obs });
// @ts-expect-error without rewards
transitions.add({ obs, nextObs: obs, actions: obs, dones: obs, truncated: obs });
const withCritic = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 4, actionDim: 1, criticDim: 2 });
withCritic.add({ ...row, critic: obs, nextCritic: obs });
// @ts-expect-error its critic's rows are missing
withCritic.add(row);
declare const criticDim: number;
const maybeCritic = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 4, actionDim: 1, criticDim });
maybeCritic.add(row);
maybeCritic.add({ ...row, critic: obs, nextCritic: obs });
const legal = new Uint8Array(4);
const withMasks = ReplayBuffer.offPolicy({ capacity: 10, obsDim: 4, actionDim: 1, actionMask: 2 });
withMasks.add({ ...row, actionMask: legal, nextActionMask: legal });
withMasks.add({
  ...row,
  ...{ actionMask: legal, nextActionMask: legal },
  ...{ terminalMask: [true], terminalNextObs: obs, terminalNextActionMask: legal },
});
// @ts-expect-error its masks are missing
withMasks.add(row);
// @ts-expect-error a mask is bytes
withMasks.add({ ...row, actionMask: [true, false], nextActionMask: legal });
const maskBytes: Uint8Array = withMasks.sample({ seed: 1n, count: 2 }).rows;
const masked = ReplayBuffer.create({ capacity: 10, fields: { legal: { mask: 6 } } });
masked.add({ legal: maskBytes });
// @ts-expect-error bytes, not words
masked.add({ legal: new Uint32Array(1) });
// @ts-expect-error a mask has no dtype
ReplayBuffer.create({ capacity: 10, fields: { legal: { mask: 6, dtype: 'bool' } } });
const floats: Float32Array = transitions.sample({ seed: 1n, count: 2 }).rows;

/** A function that uses no field accepts any buffer. */
const sizeOf = (any: AnyBuffer) => any.size + any.rowBytes + floats.length;
sizeOf(buffer);
sizeOf(transitions);
sizeOf(withCritic);
sizeOf(withMasks);
const attached = ReplayBuffer.attach(buffer.share());
attached.add({ obs, image, action });
// @ts-expect-error what was shared has no such field
attached.add({ obs, image, actoin: action });
declare const message: SharedReplayBuffer;
ReplayBuffer.attach(message).add({ anything: obs });

// ---- what is known only when it runs ------------------------------------------------------------

export const spread = { ...buffer.share(), extra: 1 };
declare const some: boolean;
declare const dtype: 'float32' | 'uint8';
const either = ReplayBuffer.offPolicy({
  capacity: 10,
  obsDim: 4,
  actionDim: 1,
  criticDim: some ? 3 : 0,
});
either.add(row);
either.add({ ...row, critic: obs, nextCritic: obs, terminalNextCritic: obs });
const perhaps = ReplayBuffer.create({
  capacity: 1,
  fields: { obs: { shape: [4] }, ...(some && { extra: { shape: [1] } }) },
});
perhaps.add({ obs });
perhaps.add({ obs, extra: obs });
// @ts-expect-error another dtype
perhaps.add({ obs, extra: image });
const chosen = ReplayBuffer.create({ capacity: 1, fields: { obs: { shape: [4], dtype } } });
export const whichever: Float32Array | Uint8Array = chosen.sample({ seed: 1, count: 1 }).rows;
// @ts-expect-error it may be floats
export const bytesOnly: Uint8Array = chosen.sample({ seed: 1, count: 1 }).rows;

/**
 * A class that stores a buffer, typed by the name of its fields, and accepts rows as an interface.
 */
export class Holder {
  readonly #buffer: ReplayBuffer<OffPolicyFields>;
  constructor(made: ReplayBuffer<OffPolicyFields>, shared: SharedReplayBuffer) {
    this.#buffer = made;
    this.#buffer.add({ ...row, terminalMask: [true], terminalNextObs: obs });
    ReplayBuffer.attach<OffPolicyFields>(shared as SharedReplayBuffer<OffPolicyFields>).add(row);
    // @ts-expect-error no critic
    this.#buffer.add({ ...row, critic: obs });
  }
}
new Holder(transitions, transitions.share());
interface MyRows {
  obs: Float32Array;
}
export const addAny = (any: AnyBuffer, rows: MyRows) => any.add(rows);
export class MyCollector implements Collector {
  collect(): MyRows {
    return { obs };
  }
}
export const openAny = <F extends Fields, R extends object>(any: ReplayBuffer<F, R>) =>
  ReplayPipeline.open({ buffer: any, device: 'auto', sampleCount: 1 });
export async function critics(): Promise<ReplayPipeline> {
  const pipeline = await ReplayPipeline.open({
    buffer: maybeCritic,
    device: 'auto',
    sampleCount: 1,
  });
  const { critic } = await pipeline.sampleLargeBatch(0, 1);
  const there: Tensor<'float32'> = critic;
  await there.toArray();
  await openAny(either);
  await openAny(perhaps);
  return pipeline;
}

// ---- pipelines ----------------------------------------------------------------------------------

export async function wordsOfMasks(): Promise<void> {
  const pipeline = await ReplayPipeline.open({ buffer: masked, device: 'auto', sampleCount: 32 });
  pipeline.capture((batch) => same<Same<typeof batch.legal.dtype, 'uint32'>>());
}

export async function train(limiter: RateLimiter | undefined): Promise<void> {
  const pipeline = await ReplayPipeline.open({ buffer, device: 'auto', sampleCount: 32 });
  const captured = pipeline.capture(
    (batch, { stream, out, params }) => {
      same<Same<typeof batch.obs.dtype, 'float32'>>();
      same<Same<typeof batch.image.dtype, 'uint8'>>();
      stream.copy(out.view({ shape: [1] }), batch.obs.view({ shape: [1] }));
      params.view({ shape: [1] });
      // @ts-expect-error misspelt
      batch.imge;
    },
    { scalars: ['loss', 'entropy'] },
  );
  const summary = await captured.run({ ticks: 1 });
  same<Same<typeof summary, Summary<'loss' | 'entropy'>>>();
  const loss: number = summary.scalars.loss;
  // @ts-expect-error misspelt
  summary.scalars.los;
  captured.on('tick', (tick) => {
    same<Same<typeof tick, Tick<'loss' | 'entropy'>>>();
    tick.scalars.entropy.toFixed(loss);
    // @ts-expect-error no such scalar
    tick.scalars.entropi;
  });
  for await (const { scalars } of captured.ticks()) scalars.loss.toFixed();
  const unnamed = await pipeline.capture(() => {}).run({ ticks: 1 });
  // @ts-expect-error none was named
  unnamed.scalars.loss;
  // @ts-expect-error not an array
  pipeline.capture(() => {}, { scalars: 'loss' });
  // @ts-expect-error no such option
  pipeline.capture(() => {}, { scalers: ['loss'] });
  // @ts-expect-error no such event
  pipeline.on('tock', () => {});
  // @ts-expect-error no such option
  await pipeline.run({ tick: 3 });

  const batch = await pipeline.sampleLargeBatch(0, 32);
  same<
    Same<
      typeof batch,
      Batch<{ readonly obs: 'float32'; readonly image: 'uint8'; readonly action: 'int64' }>
    >
  >();
  const pixels: Uint8Array = await batch.image.toArray();
  const actions: BigInt64Array = await batch.action.toArray();
  // @ts-expect-error floats are no bytes
  const wrong: Uint8Array = await batch.obs.toArray();
  const late = await pipeline.sampleLargeBatch(1, 32, { timeoutMs: pixels.length });
  // @ts-expect-error it may be null
  late.obs;
  late?.obs.toArray();
  const board = tensorBoard('runs');
  board.listen({ pipeline });
  const stop: () => void = board.listen({ pipeline: captured, every: 1 });
  stop();
  // @ts-expect-error not a pipeline
  board.listen({ pipeline: board });
  // @ts-expect-error no such option
  tensorBoard('runs', { max: 1 });
  const checkpoint = null as unknown as WatchedCheckpoint;
  const monitor: Monitor = await serveMonitor(
    { pipeline: captured, checkpoint, title: 'x' },
    { port: 0, host: '::1' },
  );
  const where: string = monitor.url;
  monitor.scalar('evaluation/return', monitor.clients + monitor.port + where.length, 1);
  // @ts-expect-error a pipeline is needed
  await serveMonitor({});
  // @ts-expect-error no such option
  await serveMonitor({ pipeline: captured }, { adress: 'x' });
  await monitor.close();
  const anyPipeline: ReplayPipeline = captured;
  await anyPipeline.close();

  // @ts-expect-error no such option
  await ReplayPipeline.open({ buffer, device: 'auto', sampleCount: 1, dept: 3 });
  // @ts-expect-error sampleCount is missing
  await ReplayPipeline.open({ buffer, device: 'auto' });
  limiter?.share();
  wrong.at(Number(actions[0]));
}

// ---- a learner ----------------------------------------------------------------------------------

export async function learn(): Promise<void> {
  const device = openDevice();
  const learner = new DqnLearner(device, { obsDim: 4, actions: 2, hidden: [8], batchSize: 16 });
  await learner.ready;
  const mailbox = WeightMailbox.create({ length: learner.parameters.size });
  const pipeline = await ReplayPipeline.open({
    buffer: transitions,
    device: 'auto',
    sampleCount: 64,
    mailbox,
  });
  const { scalars } = await pipeline
    .capture((batch, { stream, out }) => learner.update(stream, batch, out), {
      scalars: learner.scalars,
      weights: learner.parameters,
    })
    .run({ ticks: 3, publishEvery: 1 });
  scalars.meanQ.toFixed();
  const images = await ReplayPipeline.open({ buffer, device: 'auto', sampleCount: 64 });
  // @ts-expect-error these rows are no transitions
  images.capture((batch, { stream, out }) => learner.update(stream, batch, out));
  const floats = device.allocate({ shape: [16] });
  const taken = device.allocate({ shape: [16], dtype: 'int64' });
  const windows = {
    obs: floats,
    nextObs: floats,
    actions: taken,
    rewards: floats,
    discounts: floats,
  };
  learner.update(device.currentStream, windows, floats);
  learner.update(device.currentStream, { ...windows, weights: floats, priorities: floats }, floats);
  const { discounts, ...endless } = windows;
  // @ts-expect-error neither what ended nor discounts
  learner.update(device.currentStream, endless, discounts);
  // @ts-expect-error weights are floats
  learner.update(device.currentStream, { ...windows, weights: taken }, floats);
  // @ts-expect-error batches bring discounts
  new DqnLearner(device, { obsDim: 4, actions: 2, hidden: [8], batchSize: 16, nStep: 3 });
  convert(device.currentStream, floats, taken, { scale: 0.5 });
  // @ts-expect-error into floats
  convert(device.currentStream, taken, floats);
  ops.mul(device.currentStream, floats, floats, 0.5);
  ops.where(device.currentStream, floats, floats, 1, Number.NEGATIVE_INFINITY);
  ops.max(device.currentStream, floats, floats);
  ops.max(device.currentStream, floats, 0, floats);
  // @ts-expect-error one number has no greatest
  ops.max(device.currentStream, floats, 3);
  // @ts-expect-error a number cannot be written
  ops.mul(device.currentStream, 0.5, floats, floats);
  // @ts-expect-error no float32
  ops.add(device.currentStream, floats, taken, 1);
  // @ts-expect-error the option is called learningRate
  new Adam(device, learner.parameters, { lr: 1e-3 });
  // @ts-expect-error no such activation
  new Mlp({ sizes: [4, 2], activation: 'rely' });
  const weights: Float32Array = await learner.parameters.toArray();
  new MlpPolicy({ sizes: [4, 2] }, weights).act(obs, 1);
}

// ---- tensors and kernels ------------------------------------------------------------------------

export async function compute(): Promise<void> {
  const device = openDevice('host:0');
  const { currentStream: stream } = device;
  const x = device.allocate({ shape: [2, 3] });
  const index = device.allocate({ shape: [2], dtype: 'int32' });
  const counts: Int32Array = await index.toArray();
  const bytes: Uint8Array = await x.view({ shape: [24], dtype: 'uint8' }).toArray();
  x.write(obs);
  // @ts-expect-error floats into integers
  index.write(obs);
  // @ts-expect-error no such dtype
  device.allocate({ shape: [1], dtype: 'complex64' });
  stream.launch('axpby', { tensors: [x, x], wholes: [6], reals: [1, 0] });
  stream.launch('copy2d', { tensors: [x, x], wholes: [2, 3, 3, 3] });
  stream.launch('random_advance', { tensors: [index], wholes: [1] });
  const found = { tensors: [index, x, index, index], wholes: [1, 1, 1] } as const;
  stream.launch('count_non_finite', found);
  stream.launch('count_odd', found); // until 0.5
  const follow = { tensors: [x, x, index], wholes: [6, 2] } as const;
  stream.launch('follow_every', { ...follow, reals: [1, 0] });
  stream.launch('copy_every', follow); // until 0.5
  // @ts-expect-error it had no reals
  stream.launch('copy_every', { ...follow, reals: [1, 0] });
  // @ts-expect-error no such kernel
  stream.launch('gem', {});
  // @ts-expect-error two tensors
  stream.launch('axpby', { tensors: [x], wholes: [6], reals: [1, 0] });
  // @ts-expect-error one whole number
  stream.launch('axpby', { tensors: [x, x], wholes: [6, 6], reals: [1, 0] });
  // @ts-expect-error two reals
  stream.launch('axpby', { tensors: [x, x], wholes: [6] });
  // @ts-expect-error copy2d takes no reals
  stream.launch('copy2d', { tensors: [x, x], wholes: [2, 3, 3, 3], reals: [1] });
  const here = new CpuTensor(new Uint16Array(4));
  same<Same<DTypeOf<Uint8Array>, 'uint8'>>();
  same<Same<ArrayOf<'bool' | 'bfloat16'>, Uint8Array | Uint16Array>>();
  const halves = new CpuTensor(toFloat16(obs), [4], 'float16');
  same<Same<typeof halves.dtype, 'float16'>>();
  const small = device.allocate({ shape: [4], dtype: 'float16' }).write(halves.data);
  // @ts-expect-error numbers are rounded first
  small.write(obs);
  same<Same<typeof here.dtype, 'uint16'>>();
  const words: Uint16Array = await here.toArray();
  const generic = async <D extends 'float32' | 'float64'>(dtype: D): Promise<ArrayOf<D>> =>
    device.allocate({ shape: [1], dtype }).toArray();
  const doubles: Float64Array = await generic('float64');
  new DeviceGenerator(device, {
    seed: counts.length + bytes.length + words.length + doubles.length,
  });
}

// ---- collectors ---------------------------------------------------------------------------------

export async function collect(): Promise<void> {
  const entry = new URL('./collector.js', import.meta.url);
  const small = ReplayBuffer.create({
    capacity: 10,
    fields: { obs: { shape: [4] }, action: { shape: [], dtype: 'int64' } },
  });
  await using pool = await CollectorPool.open<typeof collector>({
    entry,
    buffer: small,
    options: { environments: 8 },
  });
  for await (const episode of pool.episodes()) episode.return.toFixed();
  tensorBoard('runs').listen({ collectors: pool });
  await CollectorPool.open<typeof collector>({
    entry,
    buffer: small,
    // @ts-expect-error misspelt
    options: { environmants: 8 },
  });
  // @ts-expect-error the module wants options
  await CollectorPool.open<typeof collector>({ entry, buffer: small });
  await CollectorPool.open<typeof collector>({
    entry,
    // @ts-expect-error this buffer has other fields
    buffer: transitions,
    options: { environments: 8 },
  });
  await CollectorPool.open({ entry, buffer: transitions, options: { anything: 1 } });
  // @ts-expect-error no such option
  await CollectorPool.open({ entry, buffer: transitions, worker: 2 });

  const lanes = TrajectoryBuffer.create({ capacity: 100, lanes: 4, fields });
  const options = { environments: 8 };
  await CollectorPool.open<typeof stepping>({ entry, buffer: lanes, options });
  await CollectorPool.open({ entry, buffer: lanes });
  // @ts-expect-error its collectors need a writer
  await CollectorPool.open<typeof stepping>({ entry, buffer: small, options });
  // @ts-expect-error these rows are no steps
  await CollectorPool.open<typeof collector>({ entry, buffer: lanes, options });
  const doubles = { ...fields, actions: { shape: [], dtype: 'float64' } } as const;
  const others = TrajectoryBuffer.create({ capacity: 100, lanes: 4, fields: doubles });
  // @ts-expect-error this buffer has other fields
  await CollectorPool.open<typeof stepping>({ entry, buffer: others, options });
}

// A list with one name of each entry, so that the compiler checks every entry's declarations.
export const entries = [
  FullGraphWrapper,
  HaloDataTransformer,
  HaloUpdater,
  ToDevice,
  createUnifiedMempool,
];
export const backends = [buildReplayTransferBackend];

const mlp = new Mlp({ sizes: [4, 2] });
export const files: Uint8Array[] = [
  encodeOnnx(new MlpPolicy(mlp)),
  encodeOnnx(new SacPolicy({ obsDim: 4, actionDim: 1 })),
  encodeOnnx(mlp, { parameters: mlp.initialize(1) }),
];
// @ts-expect-error not a policy
encodeOnnx(new Float32Array(3));

// ---- old names, until 0.5 ------------------------------------------------------------------------

same<Same<Normaliser, Normalizer>>();
same<Same<NormaliserOptions, NormalizerOptions>>();
same<Same<Normalise, Normalize>>();
same<Same<HaloNeighbour, HaloNeighbor>>();
same<Same<Odd, NonFiniteReport>>();
const presentSac: SacOptions = {
  obsDim: 4,
  actionDim: 1,
  batchSize: 8,
  normalizer: { clip: 5 },
  actorOptimizer: { learningRate: 1e-3 },
  criticOptimizer: {},
  temperatureOptimizer: {},
};
const oldSac: SacOptions = {
  obsDim: 4,
  actionDim: 1,
  batchSize: 8,
  normaliser: { clip: 5 },
  actorOptimiser: { learningRate: 1e-3 },
  criticOptimiser: {},
  temperatureOptimiser: {},
};
const presentTd3: Td3Options = { ...presentSac, behaviorCloning: { alpha: 2 } };
const oldTd3: Td3Options = { ...oldSac, behaviourCloning: { alpha: 2 } };
// @ts-expect-error an option with neither name
export const wrongSac: SacOptions = { ...presentSac, normalize: true };
export const bothNames = (sac: SacLearner, dqn: DqnLearner, sampler: PrioritizedSampler) => {
  same<Same<typeof sac.actorOptimizer, typeof sac.actorOptimiser>>();
  same<Same<typeof sac.criticOptimizer, typeof sac.criticOptimiser>>();
  same<Same<typeof sac.temperatureOptimizer, typeof sac.temperatureOptimiser>>();
  same<Same<typeof sac.normalizer, typeof sac.normaliser>>();
  same<Same<typeof dqn.optimizer, typeof dqn.optimiser>>();
  same<Same<typeof sampler.normalize, typeof sampler.normalise>>();
  same<Same<typeof mlp.initialize, typeof mlp.initialise>>();
  prioritized({ normalize: 'batch' });
  prioritized({ normalise: 'batch' });
  return [presentTd3, oldTd3];
};

// ---- environments -------------------------------------------------------------------------------

class Swing implements Environment<Float32Array> {
  readonly observationSpace = { shape: [2] };
  readonly actionSpace = { shape: [1], low: -1, high: 1 };
  reset(seed: number) {
    return { obs: [seed, 0] };
  }
  async step([force = 0]: Float32Array) {
    return { obs: Float32Array.of(force, 0), reward: force, terminated: false };
  }
}
export const swings = vectorCollector<{ count: number }>({
  make: ({ options }) => (options.count > 1 ? new Swing() : Promise.resolve(new Swing())),
  policy: ({ spaces }) =>
    new SacPolicy({ obsDim: spaces.observation.size, actionDim: spaces.action.size }),
  explore: { randomSteps: 10, hold: 2 },
});
export class Stuck implements Environment<number> {
  readonly observationSpace = { shape: [2] };
  readonly actionSpace = { n: 2 };
  reset = () => [0, 0];
  // @ts-expect-error a step lacks its reward
  step = () => ({ obs: [0, 0], terminated: false });
}
declare const environment: URL;
export async function learned(): Promise<number> {
  const { curve, policy, meanReturn } = await trained({
    environment,
    learner: {
      algorithm: 'td3',
      critic: { kind: 'categorical', min: -1, max: 1 },
      actorHidden: [8],
    },
    evaluation: { episodes: 3 },
    onPoint: ({ steps, meanReturn }, evaluated) =>
      steps + meanReturn + encodeOnnx(evaluated.policy).length,
  });
  // @ts-expect-error the environment says it
  await trained({ environment, learner: { algorithm: 'dqn', actions: 3 } });
  // @ts-expect-error no such algorithm
  await trained({ environment, learner: { algorithm: 'ppo' } });
  const model: Uint8Array = encodeOnnx(policy);
  const { returns } = await evaluate({ environments: [new Swing()], policy });
  return (curve[0]?.meanReturn ?? 0) + (meanReturn ?? 0) + returns.length + model.length;
}

// ---- train() with a learner of one's own --------------------------------------------------------

declare const own: OwnLearner;
declare function made<T>(): T;
export async function taught(): Promise<number> {
  const { policy, best } = await trained({
    environment,
    learner: ({ device, obsDim, seed }) =>
      new QrDqnLearner(device, { obsDim, seed, actions: 2, hidden: [8], batchSize: 32 }),
    policy: { network: 'q' },
    gamma: 0.9,
    nStep: 3,
    onPoint: (_, evaluated) => encodeOnnx(evaluated.policy).length,
  });
  const model: Uint8Array = encodeOnnx(policy);
  const result = await trained({
    environment,
    learner: own,
    policy: environment,
    evaluation: ({ policy: acting, episodes }) => acting.act(obs, 1).length + episodes,
    onPoint: (point, { save }) => save(`${point.steps}.safetensors`),
  });
  // @ts-expect-error a policy of one's own need not be one of hotslot/learner
  encodeOnnx(result.policy);
  // @ts-expect-error without its policy
  await trained({ environment, learner: own });
  // @ts-expect-error a learner of { algorithm } has its own policy
  await trained({ environment, learner: { algorithm: 'dqn' }, policy: environment });
  return model.length + (best?.policy.network.outputs ?? 0);
}
export const mine: OwnLearner[] = [
  made<DqnLearner>(),
  made<SacLearner>(),
  made<QrDqnLearner>(),
  made<TracedLearner>(),
];
