/**
 * Joins elementwise launches of a plan into launches of the kernel `chain`, which runs a program of
 * up to 16 steps on each element. Results that only the chain reads need no memory. A sum of all elements
 * and the ops on it become a launch of the kernel `sum_chain`.
 */
import type { Node } from '../tape.ts';
import { type Sum, sumOf } from './late-sums.ts';
import type { Buffer, Launch, View, Whole } from './launches.ts';
import { type Lowering, whole } from './lowering.ts';
import { layOut } from './memory.ts';

/** Limits and numbers of native/kernels/chain.gk. */
const MAX_STEPS = 16;
const OUTPUTS = 4;
const INPUTS = 6;
const MAX_CONSTANTS = 16;
const FIRST_INPUT = 16;
const FIRST_CONSTANT = 32;
const COPY = 99;

/** Input of a program of native/kernels/sum_chain.gk that is its sum, after its other inputs. */
const SUM_INPUT = 5;

/** Most items of a plan that an op moves ahead of to join a chain. */
const MAX_MOVED = 16;

/** Largest memory of a plan with chains, as a multiple of its memory without them. */
const MORE_MEMORY = 1.2;

/** Returns the number of a launch's op in a program, or −1 if a chain does not compute it. */
function opOf({ kernel, wholes }: Launch): number {
  const op = wholes.at(-1) as number;
  switch (kernel) {
    case 'unary':
      return op;
    case 'unary_backward':
      return 32 + op;
    case 'binary':
      return 64 + op;
    case 'binary_backward':
      return 80 + op;
    case 'where':
      return 96;
    case 'clip':
      return 97;
    case 'clip_backward':
      return 98;
    case 'copy2d':
      return COPY;
    default:
      return -1;
  }
}

/** Elements of an operand over rows and columns. Steps of 0 repeat elements. */
interface Operand {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly row: number;
  readonly column: 0 | 1;
}

/** An elementwise launch over rows and columns, or a sum, which only begins a chain. */
interface Step {
  readonly launch: Launch;
  readonly sum: Sum | null;
  readonly op: number;
  readonly rows: number;
  readonly columns: number;
  readonly output: Operand;
  readonly operands: readonly Operand[];
}

/** Launches that may become one chain. They are in order, and nothing is between them. */
interface Group {
  readonly steps: Step[];
  readonly rows: number;
  readonly columns: number;
}
type Item = { readonly group: Group } | { readonly launch: Launch };

const launchesIn = (item: Item): readonly Launch[] =>
  'launch' in item ? [item.launch] : item.group.steps.map(({ launch }) => launch);

function stepOf(launch: Launch): Step | null {
  const sum = sumOf(launch);
  const op = sum ? COPY : opOf(launch);
  if (op < 0) return null;
  const [rows, columns] = sum ? [1, 1] : (launch.wholes as [number, number]);
  const operands = launch.views.map(({ buffer, offset, shape, strides }): Operand => {
    const row = rows > 1 && shape[0] === 1 ? 0 : strides[0]!;
    const repeated = shape[1] === 1 && (columns > 1 || (rows > 1 && row === 0));
    return { buffer, offset, row, column: repeated ? 0 : 1 };
  });
  const [output, ...rest] = operands as [Operand, ...Operand[]];
  return settled({ launch, sum, op, rows, columns, output, operands: rest });
}

/** Returns whether an operand is one run of elements, or one element. */
const isRun = ({ row, column }: Operand, { rows, columns }: Step): boolean =>
  rows === 1 || (column === 1 ? row === columns : row === 0);

/** Returns a step as one row, if each of its operands is one run or one element. */
function settled(step: Step): Step {
  return [step.output, ...step.operands].every((operand) => isRun(operand, step))
    ? shaped(step, 1, step.rows * step.columns)
    : step;
}

/** Returns a step whose operands are runs, over other rows and columns. */
function shaped(step: Step, rows: number, columns: number): Step {
  const shape = (operand: Operand): Operand => ({
    ...operand,
    row: operand.column === 0 ? 0 : columns,
  });
  return {
    ...step,
    rows,
    columns,
    output: shape(step.output),
    operands: step.operands.map(shape),
  };
}

const sameOperand = (a: Operand, b: Operand, rows: number): boolean =>
  a.buffer === b.buffer &&
  a.offset === b.offset &&
  a.column === b.column &&
  (rows === 1 || a.row === b.row);

/** Returns the value of an operand that is one number, or undefined. */
function numberOf(
  { buffer, offset, row, column }: Operand,
  { rows, columns }: Group,
  lowering: Lowering,
): number | undefined {
  const one = (column === 0 || columns === 1) && (row === 0 || rows === 1);
  return one && buffer.kind === 'constants' ? lowering.constants[offset] : undefined;
}

/** Returns whether two buffers share memory: they are one, or views of memory outside of the plan. */
function meets(a: Buffer, b: Buffer): boolean {
  if (a === b) return true;
  const [one, two] = [a.tensor, b.tensor];
  if (!one || !two || one.handle !== two.handle) return false;
  const apart = one.byteOffset - two.byteOffset;
  return apart < 4 * two.size && -apart < 4 * one.size;
}

/** Returns whether a launch must stay after an item, because one writes memory that the other uses. */
function follows(launch: Launch, item: Item): boolean {
  const writes = ({ views, writes: count }: Launch) => views.slice(0, count);
  const meet = (a: readonly View[], b: readonly View[]) =>
    a.some(({ buffer }) => b.some((other) => meets(other.buffer, buffer)));
  return launchesIn(item).some(
    (other) => meet(writes(other), launch.views) || meet(writes(launch), other.views),
  );
}

/** A chain that can be launched: its tensors and the words of its program. */
interface Program {
  readonly outputs: readonly Step[];
  readonly inputs: readonly Operand[];
  readonly words: Float32Array;
}

/** Makes the programs of groups. */
class Programs {
  readonly #lowering: Lowering;
  /** launches that use a buffer */
  readonly #users = new Map<Buffer, Set<Launch>>();
  constructor(lowering: Lowering, launches: readonly Launch[]) {
    this.#lowering = lowering;
    for (const launch of launches)
      for (const { buffer } of launch.views)
        this.#users.set(buffer, (this.#users.get(buffer) ?? new Set()).add(launch));
  }

  /** Returns whether something besides these steps uses the buffer. */
  #leaves(buffer: Buffer, among: ReadonlySet<Launch>): boolean {
    return buffer.output || [...this.#users.get(buffer)!].some((launch) => !among.has(launch));
  }

  /** Returns the program of some steps with at most `results`, or null if they exceed a limit. */
  of(steps: readonly Step[], group: Group, results: number): Program | null {
    const { rows } = group;
    if (steps.length > MAX_STEPS) return null;
    const among = new Set(steps.map(({ launch }) => launch));
    const outputs = steps.filter(({ output }) => this.#leaves(output.buffer, among));
    const inputLimit = steps[0]!.sum ? SUM_INPUT : INPUTS;
    const inputs: Operand[] = [];
    const constants: number[] = [];
    const words = new Float32Array(3 * MAX_STEPS + MAX_CONSTANTS + 1);
    const constant = (value: number): number => {
      const known = constants.findIndex((other) => Object.is(other, value));
      return FIRST_CONSTANT + (known < 0 ? constants.push(value) - 1 : known);
    };
    for (const [s, step] of steps.entries()) {
      const numbers = step.sum
        ? [FIRST_INPUT + SUM_INPUT]
        : step.operands.map((operand): number => {
            const made = steps.findIndex(
              ({ output }, i) => i < s && sameOperand(output, operand, rows),
            );
            if (made >= 0) return made;
            const value = numberOf(operand, group, this.#lowering);
            if (value !== undefined) return constant(value);
            const known = inputs.findIndex((other) => sameOperand(other, operand, rows));
            return FIRST_INPUT + (known < 0 ? inputs.push(operand) - 1 : known);
          });
      if (!step.sum) for (const real of step.launch.reals) numbers.push(constant(real));
      const [a, b = FIRST_CONSTANT, c = FIRST_CONSTANT, d = FIRST_CONSTANT] = numbers as [number];
      words.set([step.op, a + 64 * b + 4096 * c, outputs.indexOf(step) + 1 + 8 * d], 3 * s);
    }
    // A chain is in place only for its first output.
    const later = outputs.slice(1).map(({ output }) => output.buffer);
    if (inputs.some(({ buffer }) => later.includes(buffer))) return null;
    if (outputs.length > results || inputs.length > inputLimit || constants.length > MAX_CONSTANTS)
      return null;
    words.set(constants, 3 * MAX_STEPS);
    words.set([steps.length], 3 * MAX_STEPS + MAX_CONSTANTS);
    return { outputs, inputs, words };
  }
}

/** Properties of the launches of chains and of sums with chains. */
const commonOf = (steps: readonly Step[]) => ({
  writes: OUTPUTS,
  node: steps.at(-1)!.launch.node,
  section: steps[0]!.launch.section,
  chain: steps.map(({ launch }): Node => launch.node),
});

/** Adds the words of a program to the constants of a plan. */
function programView(lowering: Lowering, words: Float32Array): View {
  const { buffer, offset } = lowering.constant(words, [words.length]);
  return { buffer, offset, shape: [words.length], strides: [1] };
}

/** Returns the launch of a sum and the program that follows it. */
function sumLaunchOf(
  lowering: Lowering,
  steps: readonly Step[],
  { kind, rows, columns, factor }: Sum,
  { outputs, inputs, words }: Program,
): Launch {
  const program = programView(lowering, words);
  const one = { shape: [1], strides: [1] };
  const element = ({ buffer, offset }: Operand): View => ({ buffer, offset, ...one });
  const unused = { ...program, ...one };
  return {
    ...commonOf(steps),
    kernel: 'sum_chain',
    views: [
      ...Array.from({ length: OUTPUTS }, (_, k) => element((outputs[k] ?? outputs[0]!).output)),
      steps[0]!.launch.views[1]!,
      ...Array.from({ length: SUM_INPUT }, (_, k) => (inputs[k] ? element(inputs[k]) : unused)),
      program,
    ],
    inPlace: [],
    wholes: [kind, rows, columns, outputs.length],
    reals: [factor],
  };
}

/** Returns the launch of a program on rows and columns. */
function launchOf(
  lowering: Lowering,
  steps: readonly Step[],
  { rows, columns }: Group,
  { outputs, inputs, words }: Program,
): Launch {
  const program = programView(lowering, words);
  const view = ({ buffer, offset, row, column }: Operand): View => {
    const width = column === 0 ? 1 : columns;
    const shape = [rows > 1 && row === 0 ? 1 : rows, width];
    return { buffer, offset, shape, strides: [row || width, 1] };
  };
  // A stride of −1 − n means that each row has one element, and that the rows are n elements apart.
  const stride = (of: number, { row, column }: Operand): Whole =>
    column === 0 ? whole(of, rows === 1 ? -1 : -1 - row) : rows === 1 ? columns : whole(of, row);
  // An unused output has a stride of 0, and an unused input is one element of the program.
  const written = Array.from({ length: OUTPUTS }, (_, k) => outputs[k] ?? outputs[0]!);
  const unused: View = { ...program, shape: [1, 1], strides: [1, 1] };
  return {
    ...commonOf(steps),
    kernel: 'chain',
    views: [
      ...written.map(({ output }) => view(output)),
      ...Array.from({ length: INPUTS }, (_, k) => (inputs[k] ? view(inputs[k]) : unused)),
      program,
    ],
    inPlace: inputs.map((_, k) => OUTPUTS + k),
    wholes: [
      rows,
      columns,
      ...written.map(({ output }, k) => (k < outputs.length ? stride(k, output) : 0)),
      ...Array.from({ length: INPUTS }, (_, k) =>
        inputs[k] ? stride(OUTPUTS + k, inputs[k]) : -1,
      ),
    ],
    reals: [],
  };
}

/** Returns a step in the group's rows and columns, or null if it has others. */
function fitted(step: Step, { rows, columns }: Pick<Group, 'rows' | 'columns'>): Step | null {
  if (step.rows === rows && step.columns === columns) return step;
  return step.rows === 1 && step.columns === rows * columns ? shaped(step, rows, columns) : null;
}

/** Returns whether two results are runs of memory that do not meet. */
function apart(a: Operand, b: Operand, rows: number, columns: number): boolean {
  const isRun = ({ row, column }: Operand) => column === 1 && (rows === 1 || row === columns);
  return isRun(a) && isRun(b) && Math.abs(a.offset - b.offset) >= rows * columns;
}

/** Returns the group with a step at its end, or null if the step does not fit. */
function joined(group: Group, step: Step): Group | null {
  let { steps } = group;
  let { rows, columns } = group;
  let last = fitted(step, group);
  if (!last) {
    const old = steps.map((each) => fitted(each, step));
    if (old.includes(null)) return null;
    [steps, rows, columns, last] = [old as Step[], step.rows, step.columns, step];
  }
  if (steps.length === MAX_STEPS) return null;
  for (const { output, operands } of steps) {
    // A result is read as it was written, and memory is written once.
    const reads = last.operands.filter(({ buffer }) => buffer === output.buffer);
    if (reads.some((operand) => !sameOperand(output, operand, rows))) return null;
    if (operands.some(({ buffer }) => buffer === last.output.buffer)) return null;
    if (output.buffer === last.output.buffer && !apart(output, last.output, rows, columns))
      return null;
  }
  return { steps: [...steps, last], rows, columns };
}

/** Returns whether a step reads a result of a group. */
const reads = ({ steps }: Group, step: Step): boolean =>
  step.operands.some(({ buffer }) => steps.some(({ output }) => output.buffer === buffer));

/** Returns whether a step reads memory that a group reads or writes. */
const shares = ({ steps }: Group, step: Step): boolean =>
  step.operands.some(({ buffer }) =>
    steps.some(
      ({ output, operands }) =>
        output.buffer === buffer ||
        (buffer.kind !== 'constants' && operands.some((other) => other.buffer === buffer)),
    ),
  );

/**
 * Returns whether a step may join a group. The first op that joins a sum reads it, because a sum that only
 * a report needs takes no launch.
 *
 * @param next whether the group is the last item
 */
function belongs(group: Group, step: Step, next: boolean): boolean {
  if (step.sum) return false;
  const alone = group.steps.length === 1 && group.steps[0]!.sum;
  return alone ? reads(group, step) : next || shares(group, step);
}

/**
 * Returns the launches of a plan with chains. A chain stays within a section of the plan, because each
 * section may be skipped. If the chains need more than 1.2 times the memory, ops do not move. If that
 * does not help, ops move again, but the largest ones form chains with one result. At last they form none.
 *
 * @param launches in the order of their sections
 */
export function chained(lowering: Lowering, launches: readonly Launch[]): readonly Launch[] {
  const { constants } = lowering;
  const most = MORE_MEMORY * layOut(launches).size;
  const all = { moved: MAX_MOVED, large: Number.POSITIVE_INFINITY, outputs: OUTPUTS };
  const elements = launches.flatMap((launch) => elementsOf(launch) ?? []);
  const sizes = [...new Set(elements)].sort((a, b) => b - a);
  const forms: ChainForm[] = [all, { ...all, moved: 0 }];
  for (const outputs of [1, 0]) for (const large of sizes) forms.push({ ...all, large, outputs });
  for (const form of forms) {
    const count = constants.length;
    const chains = withChains(lowering, launches, form);
    if (layOut(chains).size <= most) return chains;
    constants.length = count;
  }
  return launches;
}

/** Returns one group of two, or null if they do not fit. A sum stays the first step. */
function together(first: Group, second: Group): Group | null {
  if (first.steps[0]!.sum) return null;
  const [head, ...rest] = second.steps as [Step, ...Step[]];
  let group: Group | null = head.sum ? { ...second, steps: [head] } : first;
  for (const step of head.sum ? [...first.steps, ...rest] : second.steps)
    group = group && joined(group, step);
  return group;
}

/**
 * Moves groups back to the first item that uses their results, if it is a group and they fit in one chain.
 * The items between them must not write memory that the moved group uses.
 */
function moveBack(items: Item[], fits: (group: Group) => boolean): void {
  for (let i = items.length - 2; i >= 0; i--) {
    const item = items[i]!;
    if ('launch' in item) continue;
    const { steps } = item.group;
    const [{ launch: own }] = steps as [Step];
    const at = items.findIndex(
      (other, j) => j > i && steps.some(({ launch }) => follows(launch, other)),
    );
    const user = items[at];
    if (!user || 'launch' in user || launchesIn(user)[0]!.section !== own.section) continue;
    if (!user.group.steps.some((step) => reads(item.group, step))) continue;
    const group = together(item.group, user.group);
    if (!group || !fits(group)) continue;
    items[at] = { group };
    items.splice(i, 1);
  }
}

/** How chains are made. */
interface ChainForm {
  /** most items of which an op moves ahead */
  readonly moved: number;
  /** number of elements from which on chains have at most `outputs` results. With 0, ops stay apart */
  readonly large: number;
  readonly outputs: number;
}

/** Returns the number of elements that an elementwise launch computes, or null for another launch. */
function elementsOf(launch: Launch): number | null {
  if (opOf(launch) < 0) return null;
  const [rows, columns] = launch.wholes as [number, number];
  return rows * columns;
}

/**
 * Returns the launches with chains. The order of reads and writes of each buffer stays. A chain is
 * at the place of its first launch.
 */
function withChains(
  lowering: Lowering,
  given: readonly Launch[],
  { moved, large, outputs }: ChainForm,
): readonly Launch[] {
  const items: Item[] = [];
  for (const launch of given) {
    const apart = outputs === 0 && (elementsOf(launch) ?? 0) >= large;
    const step = apart ? null : stepOf(launch);
    if (!step) {
      items.push({ launch });
      continue;
    }
    let done = false;
    for (let at = items.length - 1; at >= Math.max(0, items.length - 1 - moved); at--) {
      const item = items[at]!;
      if (launchesIn(item)[0]!.section !== launch.section) break;
      // An op moves ahead of others only if it then reads what its chain has at hand.
      if ('group' in item && belongs(item.group, step, moved > 0 && at === items.length - 1)) {
        const more = joined(item.group, step);
        if (more) {
          items[at] = { group: more };
          done = true;
          break;
        }
      }
      if (follows(launch, item)) break;
    }
    if (!done) items.push({ group: { steps: [step], rows: step.rows, columns: step.columns } });
  }
  const programs = new Programs(lowering, given);
  const limit = ({ rows, columns }: Group): number => (rows * columns < large ? OUTPUTS : outputs);
  if (moved > 0) moveBack(items, (group) => programs.of(group.steps, group, limit(group)) !== null);
  return items.flatMap((item) => ('launch' in item ? [item.launch] : cut(item.group)));

  /** Cuts a group into the longest chains that keep the limits. */
  function cut(group: Group): readonly Launch[] {
    const launches: Launch[] = [];
    for (let from = 0; from < group.steps.length; ) {
      let end = group.steps.length;
      let program = programs.of(group.steps.slice(from, end), group, limit(group));
      while (!program && end > from + 1)
        program = programs.of(group.steps.slice(from, --end), group, limit(group));
      const steps = group.steps.slice(from, end);
      const [{ launch, sum }] = steps as [Step];
      if (steps.length === 1 || !program) launches.push(launch);
      else if (sum) launches.push(sumLaunchOf(lowering, steps, sum, program));
      else launches.push(launchOf(lowering, steps, group, program));
      from = end;
    }
    return launches;
  }
}
