/** Finds the rows of a data set that end an episode, from the flags that the data set has. */
import type { ArrayOf, DType } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import type { Column, DataSet, Wanted } from './data-set.ts';

/** Returns a field's elements of rows `from` to before `to`. */
export type Take = (from: number, to: number) => ArrayOf<DType>;
export const taker =
  (column: Column): Take =>
  (from, to) =>
    column.take(from, to);

export interface RowEnds {
  readonly takes: Readonly<Record<'dones' | 'truncated', Take>>;
  readonly terminated: (from: number, to: number) => Uint8Array;
  readonly truncated: (from: number, to: number) => Uint8Array;
  /** throws if the data set has no column that says where episodes were cut */
  needBorders(): void;
}

const flag = (key: string) => ({ key, dtype: 'bool', shape: [] }) as const;
/** Names of columns with flags that are not fields of an off-policy buffer. */
export const flagColumns = ['terminated', 'terminals', 'timeouts'];

/**
 * Reads `dones` and `truncated`, or Gymnasium's `terminated` and `truncated`, or D4RL's `terminals`
 * and `timeouts`. With `dones`, a row terminated if it is done and not truncated. With the other
 * two pairs, a row with both flags terminated. If the data set has `dones`, `terminated` and
 * `truncated`, dones must equal terminated or truncated in each row.
 */
export function endsOf(data: DataSet, field: (key: string) => Wanted): RowEnds {
  const dones = data.ask(field('dones'));
  const terminated = data.ask(flag('terminated'));
  if (dones) return endsOfDones(data, dones, terminated, field);
  if (terminated) return endsOfPair(terminated, data.need(flag('truncated')), () => {});
  const timeouts = data.ask(flag('timeouts'));
  return endsOfPair(data.need(flag('terminals')), timeouts, () => {
    if (!timeouts)
      throw rangeError(
        "load: without 'next_observations' the column 'timeouts' is needed, and it is missing; name them with columns, or add a column of zeros if no episode was cut",
      );
  });
}

function endsOfDones(
  data: DataSet,
  dones: Column,
  terminated: Column | undefined,
  field: (key: string) => Wanted,
): RowEnds {
  const truncated = data.need(field('truncated'));
  const [ended, cut] = ['dones', 'truncated'].map((key) =>
    flags(data.need({ ...field(key), dtype: 'bool' })),
  ) as [Flags, Flags];
  const checked: Take = (from, to) => {
    const rows = dones.take(from, to);
    if (terminated) checkDones(from, ended(from, to), flags(terminated)(from, to), cut(from, to));
    return rows;
  };
  return {
    takes: { dones: checked, truncated: taker(truncated) },
    terminated: (from, to) => both(ended(from, to), cut(from, to), (d, t) => d & ~t & 1),
    truncated: cut,
    needBorders: () => {},
  };
}

function checkDones(
  from: number,
  dones: Uint8Array,
  terminated: Uint8Array,
  truncated: Uint8Array,
): void {
  const at = dones.findIndex((done, i) => done !== (terminated[i]! | truncated[i]!));
  if (at >= 0)
    throw rangeError(
      `load: dones of row ${from + at} is ${dones[at]}, with terminated ${terminated[at]} and truncated ${truncated[at]}: ` +
        'a row is done if it terminated or was truncated',
    );
}

function endsOfPair(
  terminals: Column,
  timeouts: Column | undefined,
  needBorders: () => void,
): RowEnds {
  const terminated = flags(terminals);
  const truncated: Flags = (from, to) =>
    timeouts
      ? both(flags(timeouts)(from, to), terminated(from, to), (o, t) => o & ~t & 1)
      : new Uint8Array(to - from);
  return {
    takes: {
      dones: (from, to) =>
        Float32Array.from(both(terminated(from, to), truncated(from, to), (t, o) => t | o)),
      truncated: (from, to) => Float32Array.from(truncated(from, to)),
    },
    terminated,
    truncated,
    needBorders,
  };
}

type Flags = (from: number, to: number) => Uint8Array;
const flags =
  (column: Column): Flags =>
  (from, to) =>
    column.take(from, to) as Uint8Array;

const both = (
  one: Uint8Array,
  other: Uint8Array,
  of: (a: number, b: number) => number,
): Uint8Array => one.map((a, i) => of(a, other[i] as number));
