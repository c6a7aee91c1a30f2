/**
 * Compares learners that are described with learner() and the ops of `hotslot/trace` with the built-in
 * ones: the time of an update, the nodes of its graph, the device memory and the weights. Also compares QR-DQN with the same updates in PyTorch, if it is
 * installed. Each side has one thread.
 */

import {
  DqnLearner,
  type Learner,
  QrDqnLearner,
  SacLearner,
  Td3Learner,
} from '../src/entries/learner.ts';
import type { DescribedLearner } from '../src/entries/trace.ts';
import { type Device, openDevice, Random, type Stream, type Tensor } from '../src/index.ts';
import { coreOf } from './gemm.ts';
import { type Benchmark, beside, inTurn, median, type Options, type Report } from './harness.ts';
import { nameOf, Peer, threadsOf } from './peers/peer.ts';
import {
  DECAY,
  optionsOf,
  RANGE,
  type Sizes,
  tracedDqn,
  tracedFastSac,
  tracedSac,
  tracedTd3,
} from './traced-learners.ts';

/** The least speed of a described learner, compared with the built-in one. */
const SPEED = 1 / 1.1;
/** The most memory of a traced learner, compared with the built-in one. */
const MEMORY = 1.2;

interface Case {
  readonly name: string;
  readonly sizes: Sizes;
  /** minibatches of a captured update: a cycle of the learner's phases */
  readonly minibatches: number;
  readonly rounds: number;
  readonly builtIn: (device: Device) => Learner;
  readonly traced: (device: Device) => DescribedLearner;
  /** names of the built-in learner's parts, by those of the traced one */
  readonly parts?: Readonly<Record<string, string>>;
}

const dqn: Sizes = { obs: 4, actions: 2, hidden: [120, 84], rows: 128 };
const continuous: Sizes = { obs: 17, actions: 6, hidden: [256, 256], rows: 256 };
const large: Sizes = { obs: 98, actions: 29, hidden: [512, 256, 128], rows: 2048, atoms: 101 };
const decayed = { weightDecay: DECAY, decoupled: true };

const doubleDqn = (name: string, fused: boolean): Case => ({
  name,
  sizes: dqn,
  minibatches: 1,
  rounds: 1500,
  builtIn: (device) =>
    new DqnLearner(device, {
      obsDim: dqn.obs,
      actions: dqn.actions,
      hidden: [...dqn.hidden],
      batchSize: dqn.rows,
    }),
  traced: (device) => tracedDqn(device, dqn, fused),
  parts: { q: 'online' },
});

const cases: readonly Case[] = [
  doubleDqn('double DQN', false),
  doubleDqn('double DQN, fused loss', true),
  {
    name: 'TD3',
    sizes: continuous,
    minibatches: 2,
    rounds: 30,
    builtIn: (device) => new Td3Learner(device, optionsOf(continuous)),
    traced: (device) => tracedTd3(device, continuous),
  },
  {
    name: 'SAC',
    sizes: continuous,
    minibatches: 1,
    rounds: 40,
    builtIn: (device) => new SacLearner(device, optionsOf(continuous)),
    traced: (device) => tracedSac(device, continuous),
  },
  {
    name: 'FastSAC',
    sizes: large,
    minibatches: 1,
    rounds: 15,
    builtIn: (device) =>
      new SacLearner(device, {
        ...optionsOf(large),
        layerNorm: true,
        activation: 'silu',
        critic: { kind: 'categorical', atoms: 101, ...RANGE },
        actorOptimizer: decayed,
        criticOptimizer: decayed,
      }),
    traced: (device) => tracedFastSac(device, large),
  },
];

type Batch = Readonly<Record<string, Tensor>>;

/** Returns a batch of random rows, with indices as actions if `indices` is true. */
function batchOf(device: Device, { obs, actions, rows }: Sizes, indices: boolean): Batch {
  const random = new Random(1);
  const some = (width: number, next = () => random.between(-0.5, 0.5)) => {
    const shape = width === 1 ? [rows] : [rows, width];
    const values = Float32Array.from({ length: rows * width }, next);
    return device.allocate({ shape }).write(values);
  };
  return {
    obs: some(obs),
    nextObs: some(obs),
    actions: indices ? some(1, () => random.below(actions)) : some(actions),
    rewards: some(1),
    discounts: some(1, () => 0.99),
  };
}

/** Runs `fn`, and returns its result and the bytes that it allocated and did not close. */
async function allocated<T>(device: Device, fn: () => Promise<T>): Promise<[T, number]> {
  const { allocate } = device;
  const made: Tensor[] = [];
  device.allocate = ((options: Parameters<Device['allocate']>[0]) => {
    const tensor = allocate.call(device, options);
    made.push(tensor);
    return tensor;
  }) as Device['allocate'];
  const result = await fn();
  device.allocate = allocate;
  const open = made.filter((tensor) => !tensor.closed);
  return [result, open.reduce((sum, { storage }) => sum + storage.bytes, 0)];
}

/** A learner whose update is captured. */
interface Side {
  readonly learner: Learner;
  readonly bytes: number;
  readonly nodes: number;
  replay(): void;
  issue(): void;
  close(): void;
}

/** Makes a learner, updates once, and captures the same update. */
async function sideOf(
  device: Device,
  stream: Stream,
  batch: Batch,
  make: () => Learner,
): Promise<Side> {
  const [{ learner, issue, out, graph, exec }, bytes] = await allocated(device, async () => {
    const learner = make();
    await learner.ready;
    const out = device.allocate({ shape: [Math.max(learner.scalars.length, 1)] });
    const issue = () => learner.update(stream, batch as never, out);
    issue();
    await stream.synchronize();
    stream.beginCapture();
    issue();
    const graph = stream.endCapture();
    return { learner, issue, out, graph, exec: graph.instantiate() };
  });
  return {
    learner,
    bytes,
    nodes: graph.nodeCount,
    replay: () => stream.replay(exec),
    issue,
    close: () => {
      for (const part of [exec, graph, out, learner]) part.close();
    },
  };
}

/** Returns the largest difference of two weights after the same updates. */
async function differenceOf(
  builtIn: Learner,
  traced: Learner,
  parts: Readonly<Record<string, string>>,
): Promise<number> {
  const [one, two] = [await builtIn.state(), await traced.state()];
  let [most, compared] = [0, 0];
  for (const [key, { data }] of Object.entries(two)) {
    const from = Object.keys(parts).find((name) => key.startsWith(`${name}.`));
    const other = one[from === undefined ? key : parts[from] + key.slice(from.length)];
    if (!other || key === 'numbers' || !(data instanceof Float32Array)) continue;
    compared++;
    for (const [i, x] of data.entries())
      most = Math.max(most, Math.abs(x - (other.data[i] as number)));
  }
  if (compared < 6) throw new Error(`only ${compared} parts have the same names`);
  return most;
}

async function compare(
  device: Device,
  report: Report,
  of: Case,
  { quick, explained }: Options,
): Promise<void> {
  const { name, sizes, minibatches, parts = {} } = of;
  const { obs, actions, hidden, rows } = sizes;
  const rounds = quick ? Math.ceil(of.rounds / 5) : of.rounds;
  const stream = device.createStream();
  const all = { ...sizes, rows: rows * minibatches };
  const batch = batchOf(device, all, parts.q === 'online');
  await device.currentStream.synchronize();
  const builtIn = await sideOf(device, stream, batch, () => of.builtIn(device));
  const traced = await sideOf(device, stream, batch, () => of.traced(device));
  const shape = `${name}, ${rows} rows, ${[obs, ...hidden, actions].join('-')}`;
  const pair = `described ${shape}; built-in`;
  for (const { replay } of [builtIn, traced]) for (let i = 0; i < 3; i++) replay();
  await stream.synchronize();
  report({
    case: pair,
    metric: 'largest difference',
    value: await differenceOf(builtIn.learner, traced.learner, parts),
    unit: '',
    goal: { most: 2e-6 },
  });
  const each = (list: number[]) => list.map((time) => time / minibatches);
  // Replayed and issued updates do not alternate, so that both sides follow the same work.
  for (const [metric, act] of [
    ['replayed update', 'replay'],
    ['issued update', 'issue'],
  ] as const) {
    const contenders = { traced: traced[act], builtIn: builtIn[act] };
    const times = await inTurn(rounds, contenders, () => stream.synchronize());
    report({
      case: pair,
      metric,
      ...beside(each(times.traced.done), each(times.builtIn.done)),
      unit: 'µs',
      ...(act === 'replay' && { goal: { ratio: SPEED } }),
    });
  }
  for (const [metric, unit, key, scale] of [
    ['nodes of its graph', '', 'nodes', 1 / minibatches],
    ['device memory', 'KiB', 'bytes', 1 / 1024],
  ] as const) {
    const [value, baseline] = [traced[key] * scale, builtIn[key] * scale];
    report({
      case: pair,
      metric,
      value,
      unit,
      baseline,
      ratio: baseline / value,
      ...(key === 'bytes' && { goal: { ratio: 1 / MEMORY } }),
    });
  }
  if (explained) console.error(`${shape}\n${(traced.learner as DescribedLearner).plan}`);
  traced.close();
  builtIn.close();
  for (const tensor of Object.values(batch)) tensor.close();
  stream.close();
}

/** QR-DQN's sizes. The target network chooses the next action. */
const quantiles = { obs: 4, actions: 2, hidden: [128, 128], batch: 128, quantiles: 51 };

async function qrDqn(device: Device, report: Report, { quick, explained }: Options) {
  if (!Peer.has('torch')) {
    console.error(
      'traced: python3 has no torch (apt-get install python3-torch): QR-DQN has nothing to be compared with',
    );
    return;
  }
  const { obs, actions, hidden, batch: rows, quantiles: n } = quantiles;
  const accelerator = device.family !== 'host';
  if (!accelerator) {
    // PyTorch limits its own threads, but not those of OpenBLAS.
    process.env.OPENBLAS_NUM_THREADS ??= '1';
    process.env.OPENBLAS_CORETYPE ??= coreOf();
  }
  const peer = new Peer('torch_qr_dqn.py', 'torch', { ...quantiles, accelerator });
  const said = await peer.said();
  const stream = device.createStream();
  const batch = batchOf(device, { obs, actions, hidden, rows }, true);
  await device.currentStream.synchronize();
  const side = await sideOf(
    device,
    stream,
    batch,
    () => new QrDqnLearner(device, { obsDim: obs, actions, hidden, batchSize: rows, quantiles: n }),
  );
  const [ours, theirs]: [number[], number[]] = [[], []];
  for (let round = 0; round < (quick ? 3 : 15); round++) {
    const { replay } = await inTurn(quick ? 20 : 60, { replay: side.replay }, () =>
      stream.synchronize(),
    );
    ours.push(median(replay.done));
    theirs.push(await peer.time('update'));
  }
  const shape = `${rows} rows, ${[obs, ...hidden, actions].join('-')}, ${n} quantiles`;
  report({
    case: `QR-DQN, ${shape}; ${nameOf(said)}, ${threadsOf(said.threads)}`,
    metric: 'time per update',
    ...beside(ours, theirs),
    unit: 'µs',
    goal: { ratio: 4 },
  });
  if (explained) console.error(String((side.learner as DescribedLearner).plan));
  side.close();
  peer.close();
  for (const tensor of Object.values(batch)) tensor.close();
  stream.close();
}

export const run: Benchmark = async (report, options) => {
  if (options.device.startsWith('host')) process.env.HOTSLOT_CORES ??= '1';
  const device = openDevice(options.device);
  for (const of of cases) await compare(device, report, of, options);
  await qrDqn(device, report, options);
  device.close();
};
