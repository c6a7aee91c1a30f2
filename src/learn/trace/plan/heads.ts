/**
 * Joins the targets of losses with what reads them: a TD target with its loss, and a softmax and an
 * entropy term with the projection of a distribution. The joined launches have the bits of single ones.
 */
import { binaries } from '../../ops/elementwise.ts';
import type { Buffer, Launch, View, Whole } from './launches.ts';
import type { Lowering } from './lowering.ts';

/** Largest number of atoms of `categorical_target`, as GK_ATOMS of native/kernels/categorical.gk. */
const MAX_ATOMS = 1024;

/** Returns whole number `at` of a launch, whose stride belongs to operand `of` of another one. */
function wholeOf({ wholes }: Launch, at: number, of: number): Whole {
  const given = wholes[at] as Whole;
  return typeof given === 'number' ? given : { ...given, of };
}

/** The launches of a plan, of which some are joined. */
class Joined {
  readonly list: Launch[];
  readonly #users = new Map<Buffer, Set<Launch>>();

  constructor(launches: readonly Launch[]) {
    this.list = [...launches];
    for (const launch of launches) this.#enter(launch);
  }
  #enter(launch: Launch): void {
    for (const { buffer } of launch.views)
      this.#users.set(buffer, (this.#users.get(buffer) ?? new Set()).add(launch));
  }

  /**
   * Returns the launch that fills operand `v` of a reader, if it is `kernel`, and if nothing else uses
   * this value. The launch must be possible at the place of the reader: neither the reader nor a launch
   * between them writes what it reads, and they are in one section.
   */
  source(reader: Launch, v: number, kernel: string): Launch | null {
    const { buffer, offset } = reader.views[v] as View;
    if (buffer.kind !== 'arena' || buffer.output || buffer.tensor || offset !== 0) return null;
    const users = [...this.#users.get(buffer)!];
    const [from] = users;
    if (users.length !== 2 || from === reader || users[1] !== reader) return null;
    if (reader.views.filter((view) => view.buffer === buffer).length !== 1) return null;
    if (from?.kernel !== kernel || from.section !== reader.section) return null;
    if (from.writes !== 1 || from.views[0]!.offset !== 0) return null;
    const read = new Set(from.views.slice(1).map((view) => view.buffer));
    if (read.has(buffer)) return null;
    const later = this.list.slice(this.list.indexOf(from) + 1, this.list.indexOf(reader) + 1);
    const touched = later.some(({ views, writes }) =>
      views.slice(0, writes).some((view) => read.has(view.buffer)),
    );
    return touched ? null : from;
  }

  /** Replaces a launch, and removes those that the new one computes too. */
  replace(old: Launch, by: Launch, sources: readonly Launch[]): void {
    for (const gone of [old, ...sources])
      for (const { buffer } of gone.views) this.#users.get(buffer)!.delete(gone);
    this.#enter(by);
    this.list[this.list.indexOf(old)] = by;
    for (const gone of sources) this.list.splice(this.list.indexOf(gone), 1);
  }
}

const nodesOf = (...launches: readonly Launch[]) =>
  launches.flatMap(({ node, chain = [node] }) => chain);

/** Returns a loss and its target as one launch, or null if they do not fit. */
function targetLoss(loss: Launch, target: Launch): Launch | null {
  const [rows, actions, slopeStride, priorityStride] = loss.wholes as [
    number,
    number,
    Whole,
    Whole,
  ];
  const [targetRows, choices] = target.wholes as [number, number];
  const dense = slopeStride === actions && priorityStride === 1;
  if (!dense || choices !== actions || targetRows !== loss.wholes[7]) return null;
  const [slopes, terms, priorities, q, , action, weights] = loss.views as View[];
  const [, value, choice, rewards, discounts] = target.views as View[];
  return {
    ...loss,
    kernel: 'td_loss_target',
    views: [
      slopes,
      terms,
      priorities,
      q,
      value,
      choice,
      rewards,
      discounts,
      action,
      weights,
    ] as View[],
    wholes: [
      rows,
      actions,
      wholeOf(loss, 4, 3),
      ...[4, 5, 6, 7].map((of) => wholeOf(target, of - 2, of)),
      ...[wholeOf(loss, 5, 8), wholeOf(loss, 6, 9)],
      ...[targetRows, loss.wholes[8]!, loss.wholes[9]!],
    ],
    chain: nodesOf(target, loss),
  };
}

/** An entropy term: numbers of rows, with their distance, times one number. */
interface Cost {
  readonly of: Launch;
  readonly numbers: View;
  readonly distance: Whole;
  readonly factor: View;
}

/** Returns the product of rows and one number that a projection reads as its cost, or null. */
function costOf(joined: Joined, project: Launch): Cost | null {
  const of = joined.source(project, 5, 'binary');
  if (!of || of.wholes.at(-1) !== binaries.mul) return null;
  const [rows, columns] = of.wholes as [number, number];
  const ownRows = project.wholes[7] as number;
  if (rows * columns !== ownRows || project.wholes[4] !== 1 || ownRows < 2) return null;
  /** Returns whether an operand is one number for all rows and columns. */
  const single = (v: number): boolean =>
    (rows === 1 || of.wholes[2 * v + 1] === 0) && (columns === 1 || of.wholes[2 * v + 2] === 0);
  /** Returns the distance from a number to the next of an operand that is one column. */
  const distance = (v: number): Whole | null => {
    const [row, column] = [of.wholes[2 * v + 1] as Whole, of.wholes[2 * v + 2] as Whole];
    const step =
      rows === 1 ? column : columns === 1 ? row : column === 1 && row === columns ? 1 : 0;
    if (typeof step !== 'number') return { ...step, of: 5 };
    return step > 0 ? step : null;
  };
  for (const [numbers, factor] of [
    [1, 2],
    [2, 1],
  ] as const) {
    const apart = distance(numbers);
    if (apart === null || !single(factor)) continue;
    const [from, one] = [of.views[numbers], of.views[factor]] as [View, View];
    return {
      of,
      numbers: {
        ...from,
        shape: [ownRows, 1],
        strides: [typeof apart === 'number' ? apart : from.strides[0]!, 1],
      },
      distance: apart,
      factor: { ...one, shape: [1], strides: [1] },
    };
  }
  return null;
}

/** Returns a projection with the softmax of its probabilities, and its entropy term if there is one. */
function target(lowering: Lowering, project: Launch, softmax: Launch, cost: Cost | null): Launch {
  const [rows, atoms] = project.wholes as [number, number];
  const [projected, mean, , rewards, discounts, given] = project.views as View[];
  const { buffer, offset } = lowering.cell(1, [1]);
  const one: View = { buffer, offset, shape: [1], strides: [1] };
  const views = [projected, mean, softmax.views[1], rewards, discounts, cost?.numbers ?? given];
  return {
    ...project,
    kernel: 'categorical_target',
    views: [...views, cost?.factor ?? one] as View[],
    wholes: [
      ...[rows, atoms, wholeOf(softmax, 3, 2)],
      ...[2, 3].map((at) => wholeOf(project, at, at + 1)),
      cost?.distance ?? wholeOf(project, 4, 5),
      ...project.wholes.slice(5),
    ],
    chain: nodesOf(...(cost ? [softmax, cost.of] : [softmax]), project),
  };
}

/**
 * Returns the launches of a plan whose targets are joined with what reads them.
 *
 * @param launches in the order of their sections, without chains
 */
export function withHeads(lowering: Lowering, launches: readonly Launch[]): readonly Launch[] {
  const joined = new Joined(launches);
  for (const launch of launches) {
    if (launch.kernel === 'td_loss_weighted') {
      const from = joined.source(launch, 4, 'td_target_discounts');
      const one = from && targetLoss(launch, from);
      if (one) joined.replace(launch, one, [from]);
    }
    if (launch.kernel === 'categorical_project') {
      const [rows, atoms] = launch.wholes as [number, number];
      const softmax = joined.source(launch, 2, 'softmax_rows');
      const whole = softmax?.wholes[0] === rows && softmax.wholes[2] === atoms;
      if (!softmax || !whole || softmax.wholes.at(-1) !== 0 || atoms > MAX_ATOMS) continue;
      const cost = costOf(joined, launch);
      const one = target(lowering, launch, softmax, cost);
      joined.replace(launch, one, cost ? [softmax, cost.of] : [softmax]);
    }
  }
  return joined.list;
}
