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
}

const ofQ = { obs: 4, actions: 1 };
const ofBox = { obs: 17, actions: 6 };

export const builtIn: Readonly<Record<string, Case>> = {
  'double DQN': { ...ofQ, make: (device) => new DqnLearner(device, q) },
  'double DQN with clipping': {
    ...ofQ,
    make: (device) => new DqnLearner(device, { ...q, maxGradNorm: 10, targetEvery: 100 }),
  },
  'dueling DQN': { ...ofQ, make: (device) => new DqnLearner(device, { ...q, dueling: true }) },
  C51: { ...ofQ, make: (device) => new DqnLearner(device, { ...q, head }) },
  'QR-DQN': { ...ofQ, make: (device) => new QrDqnLearner(device, q) },
  'discrete SAC': { ...ofQ, make: (device) => new DiscreteSacLearner(device, q) },
  SAC: { ...ofBox, make: (device) => new SacLearner(device, box) },
  TD3: { ...ofBox, k: 2, make: (device) => new Td3Learner(device, box) },
  TQC: { ...ofBox, make: (device) => new TqcLearner(device, box) },
  IQL: { ...ofBox, make: (device) => new IqlLearner(device, box) },
  CQL: { ...ofBox, make: (device) => new CqlLearner(device, box) },
  FastSAC: { obs: 98, actions: 29, make: (device) => new SacLearner(device, fast) },
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
