/** Loads rows of a data set into a replay buffer, and writes a buffer's rows to a file. */

import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { type ArrayOf, arrayOf, type DType, elementCount } from '../../base/dtype.ts';
import { rangeError, stateError } from '../../base/errors.ts';
import { noteActions } from '../../base/loaded-actions.ts';
import { unpackMasks } from '../../base/mask-bits.ts';
import type { RateLimiter } from '../rate-limiter.ts';
import { actionCheck } from './action-check.ts';
import {
  type Column,
  checkAdmitted,
  checkStill,
  DataSet,
  gated,
  type LoadOptions,
  pause,
  pieceOf,
  writeColumns,
} from './data-set.ts';
import { type FieldLayout, type PackLayout, shownField } from './pack-layout.ts';
import { endsOf, flagColumns, type RowEnds, type Take, taker } from './row-ends.ts';

/** The members of ReplayBuffer that load() and dump() use. */
interface Rows {
  readonly capacity: number;
  readonly layout: PackLayout;
  readonly rowBytes: number;
  readonly limiter: RateLimiter | null;
  readonly ptr: number;
  add(rows: object): number;
  gather(indices: Uint32Array, out: Uint8Array): Uint8Array;
}

/** The rows to add: how to read each field's elements, and which rows to leave out. */
interface Plan {
  readonly fields: Readonly<Record<string, { take: Take; elements: number }>>;
  /** returns 1 for each row that is left out, else 0. Undefined if every row is added */
  readonly left?: (from: number, to: number) => Uint8Array;
}

/** D4RL's column names, by field of an off-policy buffer. */
const others: Readonly<Record<string, string>> = {
  obs: 'observations',
  nextObs: 'next_observations',
};
/** For each field of a next state, the field of the state before the step. */
const before: Readonly<Record<string, string>> = {
  nextObs: 'obs',
  nextCritic: 'critic',
  nextActionMask: 'actionMask',
};

/** Implements ReplayBuffer.load(). */
export async function loadRows(
  buffer: Rows,
  {
    offPolicy,
    look: check,
  }: { offPolicy: boolean; look(rows: object, name: (row: number) => string): void },
  given: unknown,
  options: LoadOptions,
): Promise<number> {
  const fields = Object.values(buffer.layout.fields).map(shownField);
  const known = [...fields.map(({ key }) => key), ...(offPolicy ? flagColumns : [])];
  const data = await DataSet.of(given, options, known);
  const plan = offPolicy ? transitions(data, fields) : plain(data, fields);
  const { from, to } = data.span(options);
  const count = to - from - (plan.left ? sum(plan.left(from, to)) : 0);
  if (count > buffer.capacity)
    throw rangeError(
      `load: ${count} rows are more than the capacity of ${buffer.capacity}: pick some with rows: { from, to }, or make the buffer larger`,
    );
  checkAdmitted(buffer.limiter, count);
  const actions = fields.find(({ key }) => key === 'actions');
  const checkActions = actionCheck(options.actionSpace, fields) ?? noteActions(buffer);
  const piece = pieceOf(buffer.rowBytes);
  // Checks all rows before the first one is added. Throws for a value that its field cannot hold,
  // or that is not finite.
  for (let at = from; at < to; at += piece) {
    const rows = taken(plan, at, Math.min(at + piece, to));
    if (rows !== null) {
      const name = (row: number) => `row ${at + rows.placeOf(row)} of the loaded data`;
      check(rows.arrays, name);
      if (actions)
        checkActions(
          (rows.arrays as { actions: ArrayOf<DType> }).actions,
          elementCount(actions.shape),
          name,
        );
    }
    await pause();
  }
  let added = 0;
  for (let at = from; at < to; at += piece) {
    const rows = taken(plan, at, Math.min(at + piece, to));
    if (rows === null) continue;
    const now = buffer.add(rows.arrays);
    if (now === 0)
      throw gated(
        buffer.limiter?.addWaitingFor(rows.count) ?? 'others add too',
        `${added} of ${count} rows were added`,
      );
    added += now;
    await pause();
  }
  return added;
}

const sum = (flags: Uint8Array): number => flags.reduce((all, flag) => all + flag, 0);

interface Taken {
  readonly arrays: object;
  readonly count: number;
  /**
   * converts the index of a row in `arrays` to its index in the range that taken() read. That range
   * also contains the rows that were left out
   */
  placeOf(row: number): number;
}

/**
 * Returns the rows from `from` to before `to` without those to leave out, or null if none remain.
 */
function taken({ fields, left }: Plan, from: number, to: number): Taken | null {
  const out = left?.(from, to);
  const count = to - from - (out ? sum(out) : 0);
  if (count === 0) return null;
  const arrays = Object.entries(fields).map(([key, { take, elements }]) => {
    const all = take(from, to);
    return [key, out && count < to - from ? withoutLeftOut(all, elements, out) : all];
  });
  const placeOf = (row: number) => {
    let place = out?.indexOf(0) ?? row;
    for (let n = 0; out && n < row; n++) place = out.indexOf(0, place + 1);
    return place;
  };
  return { arrays: Object.fromEntries(arrays), count, placeOf };
}

/** Returns a copy of the elements without the rows whose flag in `left` is 1. */
function withoutLeftOut(all: ArrayOf<DType>, elements: number, left: Uint8Array): ArrayOf<DType> {
  const rows = all.slice() as Uint8Array;
  let at = 0;
  for (let row = 0; row < left.length; row++) {
    if (left[row]) continue;
    rows.copyWithin(at, row * elements, (row + 1) * elements);
    at += elements;
  }
  return rows.subarray(0, at);
}

function plain(data: DataSet, fields: readonly FieldLayout[]): Plan {
  const columns = fields.map((field) => data.need(field));
  return { fields: taking(fields, (_, i) => taker(columns[i] as Column)) };
}

const taking = (
  fields: readonly FieldLayout[],
  take: (field: FieldLayout, i: number) => Take,
): Plan['fields'] =>
  Object.fromEntries(
    fields.map((field, i) => [
      field.key,
      { take: take(field, i), elements: elementCount(field.shape) },
    ]),
  );

/** Plans the rows of an off-policy buffer, from columns with the buffer's own names or D4RL's. */
function transitions(data: DataSet, fields: readonly FieldLayout[]): Plan {
  const field = (key: string) => fields.find((each) => each.key === key) as FieldLayout;
  const here = fields.filter(({ key }) => !/^(next|dones|truncated)/.test(key));
  const found = new Map(here.map((each) => [each.key, data.need(each, others[each.key])] as const));
  const takes: Record<string, Take> = Object.fromEntries(
    [...found].map(([key, column]) => [key, taker(column)]),
  );
  const ends = endsOf(data, field);
  Object.assign(takes, ends.takes);
  let missing = false;
  for (const next of fields.filter(({ key }) => key.startsWith('next'))) {
    const column = data.ask(next, others[next.key]);
    if (column) takes[next.key] = taker(column);
    else {
      missing = true;
      const now = found.get(before[next.key] as string) as Column;
      takes[next.key] = nextObservations(now, ends.terminated, elementCount(next.shape));
    }
  }
  const all = { fields: taking(fields, ({ key }) => takes[key] as Take) };
  if (!missing) return all;
  ends.needBorders();
  return { ...all, left: leftOut(data.rows, ends) };
}

/**
 * Returns a reader of next observations, which are the observations of the following rows. If an
 * episode terminated at a row, learners do not bootstrap there, and the row keeps its own
 * observation.
 */
function nextObservations(
  column: Column,
  terminated: RowEnds['terminated'],
  elements: number,
): Take {
  return (from, to) => {
    const rows = column.take(from, to).slice() as Float32Array;
    const last = Math.min(to + 1, column.rows);
    const next = column.take(from + 1, last) as Float32Array;
    terminated(from, to).forEach((over, i) => {
      if (!over && from + i + 1 < last)
        rows.set(next.subarray(i * elements, (i + 1) * elements), i * elements);
    });
    return rows;
  };
}

/**
 * Returns a function that marks rows whose next observation is unknown. These are the last row of
 * each episode that was cut, and the file's last row if its episode did not terminate there.
 */
const leftOut =
  (rows: number, { terminated, truncated }: RowEnds): NonNullable<Plan['left']> =>
  (from, to) => {
    const left = truncated(from, to).slice();
    if (to === rows && to > from && !terminated(to - 1, to)[0]) left[left.length - 1] = 1;
    return left;
  };

/** Implements ReplayBuffer.dump(). */
export async function dumpRows(buffer: Rows, path: string | URL): Promise<number> {
  let count = 0;
  await writeColumns(path, async () => {
    const { ptr } = buffer;
    count = Math.min(ptr, buffer.capacity);
    if (count === 0) throw stateError('EMPTY', 'dump: the replay buffer is empty; add rows first');
    return gathered(buffer, ptr, count);
  });
  return count;
}

/** Returns every field's column, oldest row first. */
async function gathered(buffer: Rows, ptr: number, count: number): Promise<NamedTensors> {
  const { capacity, rowBytes } = buffer;
  const fields = Object.values(buffer.layout.fields);
  const columns = fields.map(({ dtype, shape }) => arrayOf(dtype, count * elementCount(shape)));
  const bytes = columns.map(({ buffer: memory }) => new Uint8Array(memory as ArrayBuffer));
  const piece = Math.min(pieceOf(rowBytes), count);
  const out = new Uint8Array(piece * rowBytes);
  for (let at = 0; at < count; at += piece) {
    const rows = Math.min(piece, count - at);
    buffer.gather(
      Uint32Array.from({ length: rows }, (_, i) => (ptr - count + at + i) % capacity),
      out,
    );
    checkStill(ptr, buffer.ptr);
    fields.forEach(({ offset, bytes: width }, f) => {
      const to = bytes[f] as Uint8Array;
      for (let row = 0; row < rows; row++) {
        const place = row * rowBytes + offset;
        to.set(out.subarray(place, place + width), (at + row) * width);
      }
    });
    await pause();
  }
  return Object.fromEntries(
    fields.map((field, f): [string, TensorData] => {
      const { dtype, shape } = shownField(field);
      const stored = columns[f] as ArrayOf<DType>;
      const data =
        field.mask === undefined ? stored : unpackMasks(stored as Uint32Array, field.mask);
      return [field.key, { dtype, shape: [count, ...shape], data }];
    }),
  );
}
