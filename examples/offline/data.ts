/** The file: made by SAC where it is not there, and what is in it. */
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
  /** mean return of the file's episodes; NaN where none ended */
  meanReturn: number;
}

/**
 * Trains SAC for as long as its preset says, and keeps all that it saw. Null where the file is
 * there.
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
    // One, so that the steps of an episode lie one behind the other in the file.
    environments: 1,
    dump: file,
  });
}

/** The file's rows in a buffer that holds just those. */
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
 * Of whole episodes, whose rows lie one behind the other, by the columns themselves: a buffer has
 * no row without what follows.
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
