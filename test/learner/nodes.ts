/** Built-in learners of one size each, whose updates tests count. */
import {
  CqlLearner,
  DiscreteSacLearner,
  DqnLearner,
  IqlLearner,
  type Learner,
  QrDqnLearner,
  SacLearner,
  Td3Learner,
  TqcLearner,
} from '../../src/entries/learner.ts';
import type { Device } from '../../src/index.ts';

const hidden = [512, 256, 128];
const fast = {
  ...{ obsDim: 98, actionDim: 29, batchSize: 2048, actorHidden: hidden, criticHidden: hidden },
  ...{ layerNorm: true, activation: 'silu' as const },
  critic: { kind: 'categorical', atoms: 101, min: -20, max: 20 },
} as const;
const box = { obsDim: 17, actionDim: 6, batchSize: 256 };
const q = { obsDim: 4, actions: 2, hidden: [120, 84], batchSize: 128 };
const head = { kind: 'categorical', min: -10, max: 10 } as const;

/** A learner, its batch's dimensions, and the minibatches of a captured update. */
interface Case {
  readonly make: (device: Device) => Learner;
  readonly obs: number;
  /** number of floats of an action, or 1 for an index */
  readonly actions: number;
  readonly k?: number;
  /** an event that an update may record */
  readonly event: string;
}

const ofQ = { obs: 4, actions: 1, event: 'q' };
const ofBox = { obs: 17, actions: 6, event: 'q' };

export const builtIn: Readonly<Record<string, Case>> = {
  'double DQN': { ...ofQ, make: (device) => new DqnLearner(device, q) },
  'double DQN with clipping': {
    ...ofQ,
    make: (device) => new DqnLearner(device, { ...q, maxGradNorm: 10, targetEvery: 100 }),
  },
  'dueling DQN': { ...ofQ, make: (device) => new DqnLearner(device, { ...q, dueling: true }) },
  C51: { ...ofQ, make: (device) => new DqnLearner(device, { ...q, head }) },
  'QR-DQN': { ...ofQ, make: (device) => new QrDqnLearner(device, q) },
  'discrete SAC': { ...ofQ, event: 'critics', make: (device) => new DiscreteSacLearner(device, q) },
  SAC: { ...ofBox, make: (device) => new SacLearner(device, box) },
  TD3: { ...ofBox, k: 2, make: (device) => new Td3Learner(device, box) },
  TQC: { ...ofBox, event: 'logAlpha', make: (device) => new TqcLearner(device, box) },
  IQL: { ...ofBox, event: 'value', make: (device) => new IqlLearner(device, box) },
  CQL: { ...ofBox, event: 'logAlpha', make: (device) => new CqlLearner(device, box) },
  FastSAC: {
    ...{ obs: 98, actions: 29, event: 'q' },
    make: (device) => new SacLearner(device, fast),
  },
};

/**
 * Counts the nodes of a captured update, and the launches, depth and bytes of its plan.
 *
 * @returns nodes of all minibatches, then launches, depth and KiB of the plan
 */
export async function counted(device: Device, name: string): Promise<readonly number[]> {
  const { make, obs, actions, k = 1 } = builtIn[name] as Case;
  using learner = make(device);
  const rows = learner.batchSize * k;
  const zeros = (...shape: number[]) => device.allocate({ shape });
  const batch = {
    ...{ obs: zeros(rows, obs), nextObs: zeros(rows, obs) },
    actions: actions === 1 ? zeros(rows) : zeros(rows, actions),
    ...{ rewards: zeros(rows), discounts: zeros(rows) },
  };
  const out = zeros(learner.scalars.length);
  await learner.ready;
  const stream = device.currentStream;
  await stream.synchronize();
  stream.beginCapture();
  learner.update(stream, batch, out);
  using graph = stream.endCapture();
  const { launches, depth, bytes } = learner.plan;
  for (const tensor of [...Object.values(batch), out]) tensor.close();
  return [graph.nodeCount, launches, depth, Math.round(bytes / 1024)];
}

/** Returns the state and the scalars of a learner after updates that record a loss, or none, as text. */
export async function bitsOf(device: Device, name: string, records: boolean): Promise<string> {
  const { make, obs, actions, k = 1, event } = builtIn[name] as Case;
  using learner = make(device);
  const rows = learner.batchSize * k;
  const numbers = (n: number, of: (i: number) => number, ...shape: number[]) =>
    device
      .allocate({ shape: [rows, ...shape] })
      .write(Float32Array.from({ length: n }, (_, i) => of(i)));
  const random = (seed: number, ...shape: number[]) =>
    numbers(rows * shape.reduce((a, b) => a * b, 1), (i) => Math.sin(seed + i * i), ...shape);
  const batch = {
    ...{ obs: random(1, obs), nextObs: random(2, obs), rewards: random(3) },
    actions: actions === 1 ? numbers(rows, (i) => i % 2) : random(4, actions),
    discounts: numbers(rows, () => 0.99),
  };
  const out = device.allocate({ shape: [learner.scalars.length] });
  const loss = device.allocate({ shape: [1] });
  await learner.ready;
  const all: string[] = [];
  for (let i = 0; i < 2; i++) {
    const record = records ? { [event]: { loss } } : {};
    learner.update(device.currentStream, batch, out, { record });
    all.push(`scalars ${await out.toArray()}`);
  }
  for (const [part, { data }] of Object.entries(await learner.state()))
    all.push(
      `${part} ${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex')}`,
    );
  for (const tensor of [...Object.values(batch), out, loss]) tensor.close();
  return all.join('\n');
}
