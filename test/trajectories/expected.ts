/**
 * The rules of views, computed from the lists of episodes alone: which steps are drawable, and what
 * a sample of them contains.
 */
import { hindsight, type TypedArray, uniformIndices, type View } from '../../src/index.ts';
import { type History, type Key, keys, observations, put, type Step, zeros } from './history.ts';

export interface Rule {
  readonly kind: 'transitions' | 'windows';
  readonly n: number;
  readonly gamma: number;
  readonly length: number;
  readonly burnIn: number;
  readonly edges: 'full' | 'tail' | 'anchor';
  readonly stack: Readonly<Partial<Record<Key, number>>>;
  readonly pad: 'repeat' | 'zero';
  readonly strategy: 'future' | 'final' | 'episode' | null;
  readonly ratio: number;
}
const plain: Rule = {
  kind: 'transitions',
  n: 1,
  gamma: 0.99,
  length: 1,
  burnIn: 0,
  edges: 'full',
  stack: {},
  pad: 'repeat',
  strategy: null,
  ratio: 0.8,
} as const;
export const rule = (given: Partial<Rule>): Rule => ({ ...plain, ...given });
export const ruleName = (given: Partial<Rule>): string =>
  JSON.stringify(given).replaceAll('"', '').replaceAll(',', ', ').slice(1, -1);

/** Creates the view that the rule describes. */
export function viewOf(buffer: History['buffer'], r: Rule): View {
  const { stack, pad } = r;
  if (r.kind === 'windows')
    return buffer.windows({ length: r.length, burnIn: r.burnIn, edges: r.edges, stack, pad });
  const relabel =
    r.strategy &&
    hindsight({ goal: 'goal', achieved: 'reached', strategy: r.strategy, ratio: r.ratio });
  return buffer.transitions({
    nStep: r.n,
    gamma: r.gamma,
    stack,
    pad,
    ...(relabel ? { relabel } : {}),
  });
}
const framesOf = (r: Rule): number => Math.max(1, ...Object.values(r.stack));
export const placesNeeded = (r: Rule): number =>
  (r.kind === 'windows' ? r.burnIn + r.length : r.n) + framesOf(r);

/**
 * Returns which steps of its episode a row covers: the first one, their number, and the number of
 * padding steps before them.
 */
function reachOf(
  r: Rule,
  { episode, index }: Step,
): { first: number; steps: number; before: number } {
  const left = episode.steps.length - index;
  if (r.kind === 'transitions') return { first: index, steps: Math.min(r.n, left), before: 0 };
  if (r.edges !== 'anchor')
    return { first: index, steps: Math.min(r.burnIn + r.length, left), before: 0 };
  const first = Math.max(0, index - r.burnIn);
  return {
    first,
    steps: index - first + Math.min(r.length, left),
    before: r.burnIn - (index - first),
  };
}

function isDrawable(history: History, r: Rule, step: Step): boolean {
  const { episode, index } = step;
  const ended = episode.final !== null;
  if (r.strategy !== null && !ended) return false;
  const { first } = reachOf(r, step);
  const ahead =
    r.kind === 'transitions' ? r.n : r.edges === 'anchor' ? r.length : r.burnIn + r.length;
  const least =
    r.kind === 'transitions' || r.edges === 'anchor'
      ? 1
      : r.edges === 'tail'
        ? r.burnIn + 1
        : ahead;
  const there = episode.steps.length - index;
  // If the episode continues, the observation after the last step is that of one further step.
  if (ended ? there < least : there < ahead + 1) return false;
  const lowest = r.strategy === 'episode' ? 0 : Math.max(0, first - (framesOf(r) - 1));
  return history.has(episode.lane, episode.steps[lowest]!);
}

export const drawableIds = (history: History, r: Rule): number[] =>
  history.steps().filter((id) => isDrawable(history, r, history.at(id)));

/**
 * Returns the columns of these ids. `goals` has the step whose achieved goal each row gets, or −1.
 */
export function sampleOf(
  history: History,
  r: Rule,
  ids: readonly number[],
  goals?: readonly number[],
): Record<string, TypedArray> {
  const T = r.kind === 'windows' ? r.burnIn + r.length : 0;
  const count = ids.length;
  const out: Record<string, TypedArray> = {};
  const extents = ids.map((id) => ({ step: history.at(id), ...reachOf(r, history.at(id)) }));
  /**
   * Fills a column with all slots of each row, frame by frame. `index` returns an index of the
   * episode, or null for padding.
   */
  const column = (
    name: string,
    key: Key,
    slots: number,
    index: (row: number, slot: number) => number | null,
  ) => {
    const frames = r.stack[key] ?? 1;
    const array = zeros(key, count * slots * frames);
    for (let row = 0; row < count; row++)
      for (let slot = 0; slot < slots; slot++) {
        const at = index(row, slot);
        if (at === null) continue;
        const { episode } = extents[row]!.step;
        for (let f = 0; f < frames; f++) {
          const frame = at - frames + 1 + f;
          if (frame < 0 && r.pad === 'zero') continue;
          put(
            array,
            (row * slots + slot) * frames + f,
            key,
            history.idOf(episode, Math.max(0, frame)),
          );
        }
      }
    out[name] = array;
  };
  const next = (key: Key) => `next${key.charAt(0).toUpperCase()}${key.slice(1)}`;
  /** Fills a column with a value for each step of each window. */
  const each = <A extends TypedArray>(array: A, value: (step: Step, slot: number) => number): A => {
    extents.forEach(({ step, first, steps, before }, row) => {
      for (let s = 0; s < steps; s++) {
        const at = history.at(history.idOf(step.episode, first + s));
        (array as unknown as number[])[row * T + before + s] = value(at, before + s);
      }
    });
    return array;
  };
  const of = <A extends TypedArray>(
    array: A,
    value: (row: (typeof extents)[number]) => number,
  ): A => {
    extents.forEach((row, i) => {
      (array as unknown as number[])[i] = value(row);
    });
    return array;
  };
  for (const key of keys) {
    const observation = observations.includes(key);
    if (T > 0) {
      column(key, key, T + (observation ? 1 : 0), (row, slot) => {
        const { first, steps, before } = extents[row]!;
        const s = slot - before;
        return s < 0 || s >= steps + (observation ? 1 : 0) ? null : first + s;
      });
      continue;
    }
    column(key, key, 1, (row) => extents[row]!.first);
    if (observation) column(next(key), key, 1, (row) => extents[row]!.first + extents[row]!.steps);
  }
  if (T > 0) {
    out.rewards = each(new Float32Array(count * T), ({ reward }) => reward);
    out.terminated = each(new Uint8Array(count * T), ({ terminated }) => terminated);
    out.truncated = each(new Uint8Array(count * T), ({ truncated }) => truncated);
    out.mask = each(new Float32Array(count * T), () => 1);
    out.learn = each(new Float32Array(count * T), (_, slot) => (slot < r.burnIn ? 0 : 1));
  } else {
    const power = (j: number) => Math.fround(r.gamma ** j);
    const steps = ({ step, steps: k }: (typeof extents)[number]) =>
      Array.from({ length: k }, (_, j) => history.at(history.idOf(step.episode, step.index + j)));
    const last = (row: (typeof extents)[number]) => steps(row).at(-1)!;
    out.rewards = of(new Float32Array(count), (row) =>
      steps(row).reduce(
        (sum, { reward }, j) => Math.fround(sum + Math.fround(power(j) * reward)),
        0,
      ),
    );
    out.discounts = of(new Float32Array(count), (row) =>
      last(row).terminated ? 0 : power(row.steps),
    );
    out.terminated = of(new Uint8Array(count), (row) => last(row).terminated);
    out.truncated = of(new Uint8Array(count), (row) => last(row).truncated);
  }
  out.steps = of(new Int32Array(count), ({ steps }) => steps);
  out.ids = Float64Array.from(ids);
  if (r.strategy === null) return out;
  out.relabelled = Uint8Array.from(ids, (_, i) => ((goals?.[i] ?? -1) >= 0 ? 1 : 0));
  const achieved = zeros('reached', count * r.n);
  extents.forEach(({ step, first, steps }, row) => {
    for (let j = 0; j < steps; j++)
      put(achieved, row * r.n + j, 'reached', history.idOf(step.episode, first + j + 1));
    if (!out.relabelled![row]) return;
    const by = history.at(goals![row]!);
    for (const name of ['goal', 'nextGoal'])
      put(out[name]!, row, 'reached', history.idOf(by.episode, by.index + 1));
  });
  out.nextAchieved = achieved;
  return out;
}

/**
 * Returns the goal of each row that hindsight draws. A row uses one random word for the ratio and
 * one for the step.
 */
export function drawnGoals(
  history: History,
  r: Rule,
  ids: readonly number[],
  seed: number,
  before: number,
): number[] {
  const count = ids.length;
  // The size 2³² − 1 returns every 32-bit word unchanged, except for one.
  const words = uniformIndices({ seed, size: 2 ** 32 - 1, count: before + 2 * count }).subarray(
    before,
  );
  return ids.map((id, i) => {
    if (words[i]! / 2 ** 32 >= r.ratio) return -1;
    const { episode, index } = history.at(id);
    const [word, length] = [words[count + i]!, episode.steps.length];
    if (r.strategy === 'final') return history.idOf(episode, length - 1);
    const first = r.strategy === 'episode' ? 0 : index;
    return history.idOf(episode, first + (word % (length - first)));
  });
}

/**
 * Checks that both samples have the same columns, bit for bit. The error names the first element
 * that differs.
 */
export function sameSample(
  what: string,
  got: object,
  want: Readonly<Record<string, TypedArray>>,
): void {
  const columns = got as Readonly<Record<string, TypedArray>>;
  const names = (of: object) => Object.keys(of).sort().join(' ');
  if (names(got) !== names(want))
    throw new Error(`${what}: columns ${names(got)}, not ${names(want)}`);
  for (const [name, expected] of Object.entries(want)) {
    const found = columns[name]!;
    if (found.constructor !== expected.constructor || found.length !== expected.length)
      throw new Error(
        `${what}: ${name} is ${found.constructor.name} of ${found.length}, not ${expected.length}`,
      );
    const bytes = (array: TypedArray) =>
      Buffer.from(array.buffer, array.byteOffset, array.byteLength);
    if (bytes(found).equals(bytes(expected))) continue;
    const at = (found as Float64Array).findIndex((value, i) => !Object.is(value, expected[i]));
    const row = Math.floor(at / (found.length / (want.ids?.length ?? 1)));
    throw new Error(
      `${what}: ${name}[${at}] of row ${row}, id ${want.ids?.[row]}, is ${found[at]}, not ${expected[at]}`,
    );
  }
}
