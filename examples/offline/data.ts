/** The data file. makeData() lets SAC write it if it is missing, and openData() loads it. */
import { existsSync } from 'node:fs';
import { type TrainResult, train } from '../../src/entries/collect.ts';
import { type NamedTensors, readNpz } from '../../src/entries/formats.ts';
import { type OffPolicyFields, ReplayBuffer } from '../../src/index.ts';
import { Refused } from '../command-line.ts';
import { type Task, tasks } from '../train/presets.ts';

export const task = tasks.Pendulum as Task;
const { presets } = task;

export type Transitions = ReplayBuffer<OffPolicyFields>;

export interface Data {
  buffer: Transitions;
  rows: number;
  episodes: number;
  /** mean return of the file's episodes, or NaN if no episode ended */
  meanReturn: number;
}

/**
 * Trains SAC as its preset specifies, and writes all its rows to `file`. Returns null if the file
 * exists.
 */
export async function makeData(
  file: string,
  how: { seed: number; device: string; signal: AbortSignal; display: boolean },
): Promise<TrainResult | null> {
  if (existsSync(file)) return null;
  return train({
    ...presets.sac!,
    environment: task.module,
    ...how,
    // With one environment, the steps of an episode are consecutive in the file.
    environments: 1,
    dump: file,
  });
}

/**
 * Loads the file into a buffer that contains only its rows. Throws Refused if the file cannot be
 * used.
 */
export async function openData(file: string): Promise<Data> {
  try {
    const tensors = await readNpz(file);
    const rows = tensors.rewards?.shape[0] ?? 0;
    const buffer = ReplayBuffer.offPolicy({ capacity: Math.max(rows, 1), obsDim: 3, actionDim: 1 });
    const loaded = await buffer.load(tensors);
    if (loaded === 0) throw new Refused('it holds no rows');
    return { buffer, rows: loaded, ...returnsOf(tensors) };
  } catch (error) {
    throw new Refused(`--data ${file} cannot be learned from: ${(error as Error).message}`);
  }
}

/**
 * Returns count and mean return of the whole episodes in a file. Their rows must be consecutive. It
 * reads the file's columns, because the buffer has no row for a step without a next observation.
 */
function returnsOf(tensors: NamedTensors): Pick<Data, 'episodes' | 'meanReturn'> {
  const numbers = (name: string) => Array.from(tensors[name]?.data ?? [], Number);
  const ends = ['dones', 'terminals', 'timeouts'].map(numbers);
  let [episodes, sum, open] = [0, 0, 0];
  numbers('rewards').forEach((reward, row) => {
    open += reward;
    if (!ends.some((flags) => flags[row])) return;
    sum += open;
    episodes++;
    open = 0;
  });
  return { episodes, meanReturn: sum / episodes };
}
