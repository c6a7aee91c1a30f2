/** Writes steps as fast as possible while its group has the turn, and counts them. */
import { parentPort, workerData } from 'node:worker_threads';
import {
  ReplayBuffer,
  type SharedReplayBuffer,
  type SharedTrajectoryBuffer,
  TrajectoryBuffer,
} from '../src/index.ts';
import type { StepFields } from '../src/store/lanes/schema.ts';
import { stepsOf } from './batches.ts';

export interface Writing {
  fields: StepFields;
  /** one of `shared` and `packed` is given */
  shared?: SharedTrajectoryBuffer;
  packed?: SharedReplayBuffer;
  firstLane: number;
  lanes: number;
  /**
   * the group of this worker. The first element of `words` is the group that has the turn: 0 is no
   * group, −1 ends the threads
   */
  turn: number;
  words: Int32Array;
  counts: BigInt64Array;
}

const { fields, shared, packed, firstLane, lanes, turn, words, counts } = workerData as Writing;
const steps = stepsOf(fields, lanes);

function opened(): () => number {
  if (packed === undefined) {
    const writer = TrajectoryBuffer.attach(shared!).writer({ firstLane, lanes });
    const truncated = new Uint8Array(lanes);
    const given = { ...steps, truncated } as never;
    return () => writer.add(given);
  }
  const buffer = ReplayBuffer.attach(packed);
  const rows = {
    obs: steps.obs,
    actions: new Float32Array(lanes * 2),
    rewards: steps.rewards,
  } as never;
  return () => buffer.add(rows);
}

const add = opened();
parentPort?.postMessage('ready');
for (let now = Atomics.load(words, 0); now !== -1; now = Atomics.load(words, 0)) {
  if (now !== turn) {
    Atomics.wait(words, 0, now);
    continue;
  }
  for (let i = 0; i < 64; i++) add();
  Atomics.add(counts, 0, BigInt(64 * lanes));
}
