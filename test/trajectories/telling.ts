/**
 * Steps in which every element encodes lane, place and index in the episode, and checks of samples
 * of them.
 */
import type { TrajectoryBuffer } from '../../src/index.ts';

export const LANES = 2;
/**
 * `words` is the number of elements of an observation. They are float64, which can hold all encoded
 * values.
 */
export const fields = (words: number) =>
  ({
    obs: { shape: [words], dtype: 'float64', observation: true },
    id: { shape: [], dtype: 'float64' },
  }) as const;
export type Telling = TrajectoryBuffer<ReturnType<typeof fields>>;

const told = (id: number, step: number): number => (id * 256 + (step % 256)) * 4096;
export const rewardAt = (place: number): number => place % 8;
/**
 * Returns whether and how the episode ends with this step. Episodes have random lengths from one
 * on.
 */
export function endAt(id: number): 'no' | 'terminated' | 'truncated' {
  const dice = Math.imul(id + 1, 0x9e3779b1) >>> 8;
  if (dice % 13 !== 0) return 'no';
  return dice & 64 ? 'terminated' : 'truncated';
}

export function tell(to: Float64Array, row: number, words: number, id: number, step: number): void {
  const first = told(id, step);
  for (let e = 0; e < words; e++) to[row * words + e] = first + e;
}

/** Returns what is wrong with a place that was read, or null. */
export function misplaced(read: object, words: number, id: number): string | null {
  const { obs, id: own, rewards, episodeStep } = read as Record<string, ArrayLike<number>>;
  const first = told(id, episodeStep![0]!);
  for (let e = 0; e < words; e++)
    if (obs![e] !== first + e) return `id ${id}: element ${e} is of another place`;
  if (own![0] !== id) return `id ${id} has the action of ${own![0]}`;
  return rewards![0] === rewardAt(Math.floor(id / LANES))
    ? null
    : `id ${id} has reward ${rewards![0]}`;
}

interface Sample {
  obs: ArrayLike<number>;
  nextObs?: ArrayLike<number>;
  id: ArrayLike<number>;
  rewards: ArrayLike<number>;
  terminated: ArrayLike<number>;
  truncated: ArrayLike<number>;
  steps: ArrayLike<number>;
  ids: ArrayLike<number>;
  mask?: ArrayLike<number>;
}

/**
 * Returns what is wrong with a sample of n-step transitions (gamma ½) or of windows of T steps, or
 * null.
 */
export function fault(sample: object, words: number, n: number, T = 0): string | null {
  const {
    obs,
    nextObs,
    id: own,
    rewards,
    terminated,
    truncated,
    steps,
    ids,
    mask,
  } = sample as Sample;
  const wrong = (array: ArrayLike<number>, row: number, id: number, step: number): boolean => {
    const first = told(id, step);
    for (let e = 0; e < words; e++) if (array[row * words + e] !== first + e) return true;
    return false;
  };
  const stepAt = (row: number) => Math.floor(obs[row * words]! / 4096) % 256;
  for (let i = 0; i < ids.length; i++) {
    const [id, k] = [ids[i]!, steps[i]!];
    const place = Math.floor(id / LANES);
    if (k < 1 || k > (T || n)) return `id ${id} has ${k} steps`;
    if (T === 0) {
      const step = stepAt(i);
      if (own[i] !== id) return `id ${id} has the action of ${own[i]}`;
      if (wrong(obs, i, id, step)) return `id ${id} has an observation of another place`;
      if (wrong(nextObs!, i, id + k * LANES, step + k))
        return `id ${id} has a next observation of another place`;
      let sum = 0;
      for (let j = 0; j < k; j++) sum += 0.5 ** j * rewardAt(place + j);
      if (rewards[i] !== sum) return `id ${id} has rewards ${rewards[i]}, not ${sum}`;
      const end = endAt(id + (k - 1) * LANES);
      if (k < n && end === 'no') return `id ${id} has ${k} steps, and nothing ended`;
      if (terminated[i] !== +(end === 'terminated') || truncated[i] !== +(end === 'truncated'))
        return `id ${id}: flags`;
      continue;
    }
    let before = 0;
    while (before < T && mask![i * T + before] === 0) before++;
    // The steps of the window must include the step of the id.
    const first = Array.from({ length: k }, (_, s) => own[i * T + before + s]!);
    const at = first.indexOf(id);
    if (at < 0) return `id ${id} is not in its window of ${first}`;
    const step = stepAt(i * (T + 1) + before);
    for (let s = 0; s <= k; s++) {
      const here = id + (s - at) * LANES;
      if (s < k && own[i * T + before + s] !== here) return `id ${id} has ${first} for a window`;
      if (wrong(obs, i * (T + 1) + before + s, here, step + s))
        return `id ${id}: observation ${s} is of another place`;
      if (s < k && rewards[i * T + before + s] !== rewardAt(Math.floor(here / LANES)))
        return `id ${id}: reward ${s}`;
      if (s + 1 < k && endAt(here) !== 'no') return `id ${id}: an episode goes on behind its end`;
    }
  }
  return null;
}
