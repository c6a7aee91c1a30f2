/**
 * Sums of all elements of a value. Those that only a report needs come after the last section of a plan,
 * where the kernel `step_end` computes all of them in one launch.
 */
import { type LanePlan, type LaneUse, withLanes } from './lanes.ts';
import type { Buffer, Launch, View } from './launches.ts';

/** Kinds of sums in native/kernels/step_end.gk. */
const COLUMN = 1;
const ROWS = 2;

/** A sum as `step_end` and `sum_chain` compute it, in the order of the launches that it replaces. */
export interface Sum {
  readonly kind: typeof COLUMN | typeof ROWS;
  /** the operand, and the offset of its first element there */
  readonly buffer: Buffer;
  readonly offset: number;
  /** number of elements that are `columns` elements apart, or of rows of `columns` elements */
  readonly rows: number;
  readonly columns: number;
  readonly factor: number;
}

/** A sum after the last section. */
export interface LateSum extends Sum {
  /** section that computes the operand */
  readonly section: number;
  /** memory that receives the sum */
  readonly result: Buffer;
}

/** Number of a sum among the reductions of `reduce_rows`. */
const SUM = 0;

/** Returns the sum that a launch computes, or null if other kernels cannot compute it. */
export function sumOf({ kernel, views, wholes, reals }: Launch): Sum | null {
  const [, x] = views as [View, View?];
  if (x?.buffer.kind !== 'arena' || x.buffer.tensor || x.buffer.output) return null;
  const { buffer, offset } = x;
  const common = { buffer, offset, factor: reals[0] as number };
  const [rows, columns, stride] = wholes as readonly number[];
  if (kernel === 'column_sums' && columns === 1 && reals[1] === 0)
    return { ...common, kind: COLUMN, rows: rows!, columns: stride! };
  if (rows !== 1) return null;
  if (kernel === 'reduce_rows' && wholes.at(-1) === SUM)
    return { ...common, kind: ROWS, rows, columns: columns! };
  if (kernel === 'sum_long') return { ...common, kind: ROWS, rows: columns!, columns: stride! };
  return null;
}

/**
 * Moves sums after the last section, unless a later launch writes their operands.
 *
 * @param launches in the order of their sections
 * @param sections the moved launches get the number of sections as their section
 * @param reported memory of the results that only a report needs
 */
export function withLateSums(
  launches: readonly Launch[],
  sections: readonly { readonly records?: boolean }[],
  reported: ReadonlySet<Buffer>,
): { readonly launches: readonly Launch[]; readonly sums: readonly LateSum[] } {
  const users = new Map<Buffer, Launch[]>();
  for (const launch of launches)
    for (const buffer of new Set(launch.views.map((view) => view.buffer)))
      users.set(buffer, [...(users.get(buffer) ?? []), launch]);
  const sums: LateSum[] = [];
  const moved = new Map<Launch, Launch>();
  for (const [i, launch] of launches.entries()) {
    const result = launch.views[0]?.buffer;
    if (!result || launch.writes !== 1 || !reported.has(result)) continue;
    const readers = users.get(result)!.filter((each) => each !== launch);
    if (result.size !== 1 || readers.some(({ section }) => !sections[section]!.records)) continue;
    const sum = sumOf(launch);
    if (!sum) continue;
    const overwritten = launches
      .slice(i + 1)
      .some(({ views, writes }) =>
        views.slice(0, writes).some(({ buffer }) => buffer === sum.buffer),
      );
    if (overwritten) continue;
    sums.push({ ...sum, section: launch.section, result });
    moved.set(launch, { ...launch, section: sections.length, late: launch.section });
  }
  return {
    launches: [...launches.filter((launch) => !moved.has(launch)), ...moved.values()],
    sums,
  };
}

/** Largest offset in the table of `step_end`. */
const MAX_OFFSET = 2 ** 31 - 1;

/** A late sum with the offset of its operand in the memory of the plan. */
export type PlannedSum = Omit<LateSum, 'buffer'>;

/** Launches with their places in memory, and the sums among them that `step_end` can compute. */
export interface Arranged {
  readonly planned: LanePlan;
  readonly sums: readonly PlannedSum[];
}

/**
 * Returns the launches of a plan with their places in memory. Sums move after the last section if the table
 * of `step_end` can have their offsets, which it cannot in a plan of more than 8 GB.
 *
 * @param launches in the order of their sections
 * @param reported memory of the results that only a report needs
 * @param options `late` false: no sum moves
 */
export function arranged(
  launches: readonly Launch[],
  sections: readonly { readonly records?: boolean }[],
  reported: ReadonlySet<Buffer>,
  {
    late,
    use,
    poison,
  }: { readonly late: boolean; readonly use: LaneUse; readonly poison: boolean },
): Arranged {
  const found = late ? withLateSums(launches, sections, reported) : { launches, sums: [] };
  const planned = withLanes(found.launches, use, poison);
  const { offsets } = planned.layout;
  const sums = found.sums.map(
    ({ buffer, offset, ...sum }): PlannedSum => ({ ...sum, offset: offset + offsets.get(buffer)! }),
  );
  if (sums.every(({ offset }) => offset <= MAX_OFFSET)) return { planned, sums };
  return { planned: withLanes(launches, use, poison), sums: [] };
}
