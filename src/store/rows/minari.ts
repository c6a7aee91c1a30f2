/**
 * Converts Minari's columns to D4RL's, which load() knows. `terminations` and `truncations` become
 * `terminals` and `timeouts`. Minari stores one more observation than steps for each episode. Such
 * a column is split into the steps' observations and their next observations.
 */

import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { type ArrayOf, arrayOf, type DType } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';

const renamed = { terminations: 'terminals', truncations: 'timeouts' } as const;
const OBSERVATIONS = 'observations';

/**
 * Returns 1 for each step that ends an episode, else 0. The last step of the data always ends an
 * episode, because Minari stores an observation after it.
 */
function endsOf(flags: readonly TensorData[]): Uint8Array {
  const ends = new Uint8Array(flags[0]?.shape[0] ?? 0);
  for (const { data } of flags)
    for (let row = 0; row < ends.length; row++) if (Number(data[row]) !== 0) ends[row] = 1;
  if (ends.length > 0) ends[ends.length - 1] = 1;
  return ends;
}

/**
 * Returns the name under which load() looks for a column's next observations. `columns`: column
 * names by key, as the caller gave them.
 */
function nextOf(name: string, columns: Readonly<Record<string, string>>): string {
  if (name === OBSERVATIONS && !Object.values(columns).includes(name)) return 'next_observations';
  const key = Object.keys(columns).find((each) => columns[each] === name) ?? name;
  return `next${key.slice(0, 1).toUpperCase()}${key.slice(1)}`;
}

/**
 * Returns the record itself if it has no column of Minari's. Otherwise returns a copy to which
 * D4RL's columns are added.
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
  // If the columns of flags differ in length, this function converts nothing. DataSet.ask() then
  // throws an error about the lengths.
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
  const observations = new Set([
    OBSERVATIONS,
    'obs',
    ...(columns.obs === undefined ? [] : [columns.obs]),
  ]);
  for (const [name, tensor] of Object.entries(tensors)) {
    const rows = tensor.shape[0];
    const next = nextOf(name, columns);
    if (rows === steps + episodes && !Object.hasOwn(tensors, next)) {
      made[name] = rowsOf(tensor, ends, 0);
      made[next] = rowsOf(tensor, ends, 1);
    } else if (observations.has(name) && rows !== steps)
      throw rangeError(
        `load: column '${name}' has ${rows} rows; '${names[0]}' has ${steps} steps in ${episodes} episodes: it must have ${steps} rows, ` +
          `one for each step, or ${steps + episodes}, one more for each episode`,
      );
  }
  return made;
}

/** Returns one row for each step: the row that is `offset` rows after the step's own. */
function rowsOf({ dtype, shape, data }: TensorData, ends: Uint8Array, offset: number): TensorData {
  const [rows, ...each] = shape;
  const elements = rows ? data.length / rows : 0;
  const made = arrayOf(dtype, ends.length * elements);
  const from = data as ArrayOf<DType> & Uint8Array;
  // Each earlier episode has one more row than steps. The rows of one episode are contiguous.
  for (let step = 0, episode = 0; step < ends.length; ) {
    const last = ends.indexOf(1, step) + 1;
    const begin = step + episode + offset;
    (made as Uint8Array).set(
      from.subarray(begin * elements, (begin + last - step) * elements),
      step * elements,
    );
    [step, episode] = [last, episode + 1];
  }
  return { dtype, shape: [ends.length, ...each], data: made };
}
