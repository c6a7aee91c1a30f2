/**
 * Minari's columns as D4RL's, which load() knows: `terminations` and `truncations` become
 * `terminals` and `timeouts`. Minari keeps one observation more than steps for each episode. Those
 * columns are split into the observations of the steps and the next ones.
 */

import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { type ArrayOf, arrayOf, type DType } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';

const renamed = { terminations: 'terminals', truncations: 'timeouts' } as const;
const OBSERVATIONS = 'observations';

/**
 * Steps that end an episode: 1 each. The last step of the data ends one too: Minari has an
 * observation after it.
 */
function endsOf(flags: readonly TensorData[]): Uint8Array {
  const ends = new Uint8Array(flags[0]?.shape[0] ?? 0);
  for (const { data } of flags)
    for (let row = 0; row < ends.length; row++) if (Number(data[row]) !== 0) ends[row] = 1;
  if (ends.length > 0) ends[ends.length - 1] = 1;
  return ends;
}

/**
 * The name of the next observations of a column, which is what load() looks for. `columns`: names
 * by key, as the caller gave them.
 */
function nextOf(name: string, columns: Readonly<Record<string, string>>): string {
  if (name === OBSERVATIONS && !Object.values(columns).includes(name)) return 'next_observations';
  const key = Object.keys(columns).find((each) => columns[each] === name) ?? name;
  return `next${key.slice(0, 1).toUpperCase()}${key.slice(1)}`;
}

/**
 * Returns the record itself if it has no column of Minari's, otherwise one with D4RL's columns
 * added.
 */
export function withMinari(
  tensors: NamedTensors,
  columns: Readonly<Record<string, string>>,
): NamedTensors {
  const names = Object.keys(renamed).filter((name) =>
    Object.hasOwn(tensors, name),
  ) as (keyof typeof renamed)[];
  const flags = names.map((name) => tensors[name] as TensorData);
  const steps = flags[0]?.shape[0];
  // Lengths that differ are named when the columns are compared with each other.
  if (
    steps === undefined ||
    flags.some(({ shape, data }) => shape[0] !== steps || data.length !== steps)
  )
    return tensors;
  const made: Record<string, TensorData> = Object.assign(Object.create(null), tensors);
  for (const name of names)
    if (!Object.hasOwn(tensors, renamed[name])) made[renamed[name]] = tensors[name] as TensorData;
  const ends = endsOf(flags);
  const episodes = ends.reduce((sum, end) => sum + end, 0);
  const given = new Set([OBSERVATIONS, 'obs', ...(columns.obs === undefined ? [] : [columns.obs])]);
  for (const [name, tensor] of Object.entries(tensors)) {
    const rows = tensor.shape[0];
    const next = nextOf(name, columns);
    if (rows === steps + episodes && !Object.hasOwn(tensors, next)) {
      made[name] = rowsOf(tensor, ends, 0);
      made[next] = rowsOf(tensor, ends, 1);
    } else if (given.has(name) && rows !== steps)
      throw rangeError(
        `load: column '${name}' has ${rows} rows; '${names[0]}' has ${steps} steps in ${episodes} episodes: it must have ${steps} rows, ` +
          `one for each step, or ${steps + episodes}, one more for each episode`,
      );
  }
  return made;
}

/** Returns a row for each step, `behind` rows after the step's own. */
function rowsOf(
  { dtype, shape, data }: TensorData,
  ends: Uint8Array,
  following: number,
): TensorData {
  const [rows, ...each] = shape;
  const elements = rows ? data.length / rows : 0;
  const made = arrayOf(dtype, ends.length * elements);
  const from = data as ArrayOf<DType> & Uint8Array;
  // Every ended episode before a step has a row more. Steps of one episode lie together.
  for (let step = 0, episode = 0; step < ends.length; ) {
    const last = ends.indexOf(1, step) + 1;
    const begin = step + episode + following;
    (made as Uint8Array).set(
      from.subarray(begin * elements, (begin + last - step) * elements),
      step * elements,
    );
    [step, episode] = [last, episode + 1];
  }
  return { dtype, shape: [ends.length, ...each], data: made };
}
