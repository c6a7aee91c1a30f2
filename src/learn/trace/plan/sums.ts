/**
 * Joins sums of a plan: two sums of equal length whose results are neighbors become one launch. The
 * scalars of a learner are such results.
 */
import type { Buffer, Launch, View } from './launches.ts';

/** Returns the only element that a launch writes, in memory that the plan does not own, or null. */
function resultOf({ views, writes }: Launch): { buffer: Buffer; place: number } | null {
  const [out] = views as [View];
  const { tensor } = out.buffer;
  const one = writes === 1 && tensor?.size === 1 && out.offset === 0;
  return one ? { buffer: out.buffer, place: tensor.byteOffset } : null;
}

/** Whether a launch sums rows of contiguous elements that fill a buffer. */
const sumsBuffer = ({ kernel, wholes, views }: Launch): boolean => {
  if (kernel !== 'reduce_rows' && kernel !== 'sum_long') return false;
  const { kind, size, tensor, output } = views[1]!.buffer;
  const [rows, ...rest] = wholes as readonly number[];
  const [columns, stride] =
    kernel === 'sum_long' ? [rest[0]! * rest[1]!, rest[3]] : [rest[0], rest[2]];
  const whole = kind === 'arena' && !tensor && !output && columns === size && rows === 1;
  return whole && stride === size;
};

/** Whether a launch sums one column of rows. */
const sumsColumn = ({ kernel, wholes, reals }: Launch): boolean =>
  kernel === 'column_sums' && wholes[1] === 1 && typeof wholes[2] === 'number' && reals[1] === 0;

/** Whether two launches have equal arguments and neighboring results, and may be one launch. */
function together(one: Launch, two: Launch): boolean {
  if (one.kernel !== two.kernel || one.section !== two.section) return false;
  const [a, b] = [resultOf(one), resultOf(two)];
  const near =
    a && b && a.buffer.tensor!.handle === b.buffer.tensor!.handle && b.place === a.place + 4;
  if (!near) return false;
  const equal =
    `${one.wholes}` === `${two.wholes}` &&
    one.reals.every((real, i) => Object.is(real, two.reals[i]));
  if (!equal) return false;
  const [x, y] = [one.views[1]!, two.views[1]!];
  if (sumsColumn(one) && sumsColumn(two))
    return x.buffer === y.buffer && y.offset === x.offset + 1 && (one.wholes[2] as number) > 1;
  return sumsBuffer(one) && sumsBuffer(two) && x.buffer !== y.buffer;
}

/** Returns one launch in place of two that are together(). */
function joined(one: Launch, two: Launch): { launch: Launch; moved: ReadonlyMap<Buffer, View> } {
  const [{ buffer: result }] = one.views as [View];
  const tensor = result.tensor!.view({ shape: [2] });
  const out: View = {
    buffer: { ...result, size: 2, tensor },
    ...{ offset: 0, shape: [2, 1], strides: [1, 1] },
  };
  const chain = [one, two].flatMap((launch) => launch.chain ?? [launch.node]);
  const [x, y] = [one.views[1]!, two.views[1]!];
  if (one.kernel === 'column_sums') {
    const [rows, , stride] = one.wholes as [number, number, number];
    const views = [
      { ...out, shape: [1, 2], strides: [2, 1] },
      { ...x, shape: [rows, 2], strides: [stride, 1] },
    ];
    return { launch: { ...two, views, wholes: [rows, 2, stride], chain }, moved: new Map() };
  }
  const { size } = x.buffer;
  const both: Buffer = { ...x.buffer, size: 2 * size };
  const from: View = { buffer: both, offset: 0, shape: [2, size], strides: [size, 1] };
  const [, ...rest] = two.wholes;
  const wholes = [2, ...rest];
  const moved = new Map([
    [x.buffer, from],
    [y.buffer, { ...from, offset: size }],
  ]);
  return { launch: { ...two, views: [out, from], wholes, chain }, moved };
}

/**
 * Returns the launches of a plan with joined sums. The joined launch has the place of the second one,
 * so no launch between them may write the operand of the first one or use its result.
 */
export function withJoinedSums(launches: readonly Launch[]): readonly Launch[] {
  const list = [...launches];
  for (let i = 0; i < list.length; i++) {
    const one = list[i]!;
    if (!(sumsBuffer(one) || sumsColumn(one)) || !resultOf(one)) continue;
    const j = list.findIndex((two, at) => at > i && together(one, two));
    if (j < 0) continue;
    const [out, x] = one.views.map(({ buffer }) => buffer) as [Buffer, Buffer];
    const between = list.slice(i + 1, j);
    const touched = between.some(({ views, writes }) =>
      views.some(({ buffer }, v) => buffer === out || (v < writes && buffer === x)),
    );
    if (touched) continue;
    const { launch, moved } = joined(one, list[j]!);
    list[j] = launch;
    list.splice(i, 1);
    i--;
    for (const [at, other] of list.entries())
      if (other.views.some(({ buffer }) => moved.has(buffer)))
        list[at] = {
          ...other,
          views: other.views.map((view) => {
            const to = moved.get(view.buffer);
            return to ? { ...view, buffer: to.buffer, offset: view.offset + to.offset } : view;
          }),
        };
  }
  return list;
}
