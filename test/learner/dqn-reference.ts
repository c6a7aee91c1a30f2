/** Batches for DQN tests, and one DQN step in float64. */
import type { Device, Stream, Tensor } from '../../src/device/device.ts';
import type { DqnOptions, Network } from '../../src/entries/learner.ts';
import {
  backward,
  forward,
  type ReferenceAdam,
  type Rows,
  randomRows,
  rounded,
} from './reference.ts';

/** Options of a learner that is small enough for a comparison step by step. */
export const small = {
  obsDim: 3,
  actions: 4,
  hidden: [11, 7],
  batchSize: 16,
  learningRate: 0.01,
  epsilon: 0.1,
  gamma: 0.9,
  seed: 4,
};

export interface Batch {
  obs: Rows;
  nextObs: Rows;
  actions: number[];
  rewards: number[];
  dones: number[];
  truncated: number[];
  /** used instead of the learner's gamma and the batch's dones */
  discounts?: number[];
  weights?: number[];
}

/** Creates random rows, of which every fourth is terminated and every fourth is truncated. */
export function randomBatch(seed: number, rows: number, obsDim: number, actions: number): Batch {
  const range = Array.from({ length: rows }, (_, i) => i);
  return {
    obs: rounded(randomRows(seed, rows, obsDim)),
    nextObs: rounded(randomRows(seed + 100, rows, obsDim)),
    actions: range.map((i) => (i * 7) % actions),
    rewards: rounded(randomRows(seed + 200, rows, 1, 2)).flat(),
    dones: range.map((i) => Number(i % 4 >= 2)),
    truncated: range.map((i) => Number(i % 4 === 3)),
  };
}

/**
 * Writes the batch to the device as rows in the layout of a replay buffer. Returns the packed rows
 * and their columns.
 */
export function columns(device: Device, stream: Stream, batch: Batch) {
  const rows = batch.obs.length;
  const obsDim = batch.obs[0]?.length ?? 0;
  const width = 2 * obsDim + 4;
  const packed = device.allocate({ shape: [rows, width] });
  const values = batch.obs.flatMap((row, i) => [
    ...row,
    ...(batch.nextObs[i] as number[]),
    ...[batch.actions, batch.rewards, batch.dones, batch.truncated].map(
      (column) => column[i] as number,
    ),
  ]);
  packed.write(Float32Array.from(values), stream);
  const column = (offset: number, n: number) =>
    packed.view({ shape: [rows, n], offset, strides: [width, 1] });
  const tensors: Record<
    'obs' | 'nextObs' | 'actions' | 'rewards' | 'dones' | 'truncated',
    Tensor<'float32'>
  > = {
    obs: column(0, obsDim),
    nextObs: column(obsDim, obsDim),
    actions: column(2 * obsDim, 1),
    rewards: column(2 * obsDim + 1, 1),
    dones: column(2 * obsDim + 2, 1),
    truncated: column(2 * obsDim + 3, 1),
  };
  return { packed, tensors };
}

const argmax = (row: readonly number[]) => row.indexOf(Math.max(...row));

/** Applies one step of DqnLearner in float64. Changes online, target and adam. */
export function referenceStep(
  network: Network,
  options: DqnOptions,
  online: number[],
  target: number[],
  adam: ReferenceAdam,
  batch: Batch,
): { loss: number; meanQ: number; errors: number[] } {
  const { gamma = 0.99, huberDelta = 1, double = true, tau = 0.005, maxGradNorm } = options;
  const rows = batch.obs.length;
  const value = forward(network, target, batch.nextObs).at(-1) as Rows;
  const choice = double ? (forward(network, online, batch.nextObs).at(-1) as Rows) : value;
  const passes = forward(network, online, batch.obs);
  const q = passes.at(-1) as Rows;
  let loss = 0;
  let meanQ = 0;
  const errors: number[] = [];
  const dq = q.map((row, i) => {
    const bootstraps = batch.dones[i] === 0 || batch.truncated[i] === 1;
    const next = value[i]?.[argmax(choice[i] as number[])] as number;
    const discount = batch.discounts?.[i] ?? (bootstraps ? gamma : 0);
    const weight = batch.weights?.[i] ?? 1;
    const goal = (batch.rewards[i] as number) + discount * next;
    const a = batch.actions[i] as number;
    const d = (row[a] as number) - goal;
    const near = Math.abs(d) <= huberDelta;
    const far = huberDelta * (Math.abs(d) - 0.5 * huberDelta);
    loss += (weight * (huberDelta === 0 ? d * d : near ? 0.5 * d * d : far)) / rows;
    errors.push(Math.abs(d));
    meanQ += (row[a] as number) / rows;
    const slope = huberDelta === 0 ? 2 * d : near ? d : huberDelta * Math.sign(d);
    return row.map((_, j) => (j === a ? (weight * slope) / rows : 0));
  });
  const { gradient } = backward(network, online, passes, dq);
  const norm = Math.sqrt(gradient.reduce((s, g) => s + g * g, 0));
  const clip = maxGradNorm === undefined ? 1 : Math.min(1, maxGradNorm / (norm + 1e-6));
  const clipped = gradient.map((g) => g * clip);
  adam.step(online, clipped, options.learningRate ?? 1e-3, options.epsilon ?? 1e-8);
  online.forEach((p, i) => {
    target[i] = tau * p + (1 - tau) * (target[i] as number);
  });
  return { loss, meanQ, errors };
}
