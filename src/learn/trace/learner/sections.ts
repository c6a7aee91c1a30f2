/**
 * The sections of an update. Its phases become sections of a plan, with the gradients of their losses, and
 * each op belongs to the first section that needs it.
 */
import { createHash } from 'node:crypto';
import type { Tensor } from '../../../device/device.ts';
import { type Expression, expressionOf, nodeOf, reshaped } from '../expression.ts';
import { gradientsOf } from '../gradient.ts';
import { neededBy } from '../plan/merge.ts';
import type { Output, Section } from '../plan/plan.ts';
import { shown, sizeOf } from '../shapes.ts';
import {
  memoryOf,
  type Node,
  recording,
  refuseRange,
  refuseType,
  type Tape,
  userLine,
} from '../tape.ts';
import type { Holder } from './holders.ts';
import type { CheckedPhase, Event, PlannedPhase, Stepper, UpdateTrace } from './phases.ts';

type Floats = Tensor<'float32'>;

/** Derives the gradients, and orders all results in sections. */
const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

/** Returns how many minibatches apart each op runs that the phases need. */
function periodsOf(
  main: readonly (readonly Output[])[],
  checked: readonly CheckedPhase[],
  order: ReadonlyMap<Node, number>,
): ReadonlyMap<Node, number> {
  // An op that phases of several periods need runs as often as each of them.
  const periods = new Map<Node, number>();
  for (const [p, outputs] of main.entries())
    for (const node of neededBy(
      outputs.map((each) => each.node),
      new Map(),
    ))
      periods.set(node, gcd(periods.get(node) ?? 0, checked[p]!.every));
  // Records may read each loss alone, and a caller the priorities. An op that only one of them needs
  // belongs to its section.
  const read = new Map<Node, number[]>();
  for (const { losses, priorities, every } of checked)
    for (const roots of [losses.map((each) => each.node), priorities ? [priorities] : []])
      for (const node of neededBy(roots, new Map()))
        read.set(node, [...(read.get(node) ?? []), every]);
  for (const [node, all] of read)
    if (all.length > 1 || periods.has(node))
      periods.set(node, all.reduce(gcd, periods.get(node) ?? 0));
  // Each update draws the numbers that only a record or the priorities need, so that these do not
  // change later numbers.
  for (const [node, p] of order)
    if (node.op === 'draw' && !periods.has(node)) periods.set(node, checked[p]!.every);
  return periods;
}

/** Derives the gradients of the phases, and orders all results in sections. */
export function sectionsOf(
  { scalars, numbers }: { readonly scalars: readonly string[]; readonly numbers: Floats },
  traced: UpdateTrace,
  checked: readonly CheckedPhase[],
  event: (optimizer: string, times: number) => string = (name, times) =>
    times === 0 ? name : `${name}.${times}`,
) {
  const { tape, memories, kept } = traced;
  const order = new Map<Node, number>();
  const enter = (nodes: readonly Node[], phase: number) => {
    for (const node of neededBy(nodes, order)) order.set(node, phase);
  };
  const changes = checked.map(
    (phase) =>
      new Set([
        ...phase.losses.flatMap(({ stepper }) =>
          stepper.holders.map((each) => memories.get(each)!),
        ),
        ...phase.scalars.flatMap(([scalar]) => kept.get(scalar) ?? []),
      ]),
  );
  const main = checked.map((phase, p) => {
    const values = phase.scalars.map(([, node]) => node);
    const roots = [...phase.losses.map(({ node }) => node), ...values];
    enter(phase.priorities ? [...roots, phase.priorities] : roots, p);
    const outputs: Output[] = phase.losses.flatMap(({ stepper, node }) =>
      gradientsFor(stepper, node, memories, { order, changes, phase: p }),
    );
    for (const { stepper } of phase.losses) {
      const { schedule } = stepper.description;
      if (schedule) outputs.push(rateOf(tape, stepper));
    }
    for (const [name, node] of phase.scalars) {
      const offset = scalars.indexOf(name);
      const into = numbers.view({ shape: [1], offset });
      // A scalar that the trace reads has its value when the next launch reads it.
      outputs.push({ node, into, reported: !kept.has(name) });
    }
    enter(
      outputs.map(({ node }) => node),
      p,
    );
    return outputs;
  });
  const periods = periodsOf(main, checked, order);
  const sections: Section[] = [];
  let [outputsBefore, priorities] = [0, -1];
  const seen = new Map<string, number>();
  const ownOf: Node[][] = main.map(() => []);
  for (const [node, phase] of order) ownOf[phase]!.push(node);
  const phases = main.map((outputs, p): PlannedPhase => {
    const { every, losses } = checked[p] as CheckedPhase;
    const own = ownOf[p]!;
    const shorter = [...new Set(own.map((node) => periods.get(node) ?? every))]
      .filter((period) => period !== every)
      .sort((a, b) => a - b);
    const parts = shorter.map((period) => {
      const nodes = own.filter((node) => periods.get(node) === period);
      sections.push({ outputs: [], computes: nodes, every: period });
      return { section: sections.length - 1, every: period };
    });
    // Later phases may need an op that this phase computes.
    const needed = own.filter((node) => periods.get(node) === every);
    sections.push({ outputs, computes: needed, every });
    const last = { section: sections.length - 1, every };
    outputsBefore += outputs.length;
    const prioritized = checked[p]!.priorities;
    if (prioritized) {
      sections.push({ outputs: [{ node: prioritized }], every, optional: true });
      priorities = outputsBefore++;
    }
    const prioritySection = prioritized ? sections.length - 1 : -1;
    const events = losses.map(({ stepper }, i): Event => {
      const times = seen.get(stepper.name) ?? 0;
      seen.set(stepper.name, times + 1);
      return { name: event(stepper.name, times), stepper, loss: outputsBefore + i };
    });
    const results = losses.map(({ node }) => ({ node }));
    sections.push({
      ...{ outputs: results, changes: changes[p]!, every },
      ...{ optional: true, records: true },
    });
    outputsBefore += losses.length;
    return {
      every,
      sections: [...parts, last],
      events,
      losses: sections.length - 1,
      priorities: prioritySection,
    };
  });
  return { phases, sections, priorities, order };
}

/** Returns the gradient of a loss with respect to the parameters of an optimizer. */
function gradientsFor(
  stepper: Stepper,
  loss: Node,
  memories: ReadonlyMap<Holder, Node>,
  at: { order: ReadonlyMap<Node, number>; changes: readonly ReadonlySet<Node>[]; phase: number },
): Output[] {
  const wrt = stepper.holders.map((holder) => memories.get(holder)!);
  refuseStale(loss, wrt, at);
  const found = gradientsOf(loss, wrt, (i) => {
    const { name } = stepper.holders[i] as Holder;
    return `learner: the loss of '${stepper.name}', made at ${userLine(loss.made)}, does not depend on '${name}', or only through detach(), comparisons or indices, which have no gradient`;
  });
  let offset = 0;
  return found.map((node, i) => {
    const { size } = stepper.holders[i] as Holder;
    const into = stepper.gradient.view({ shape: [size], offset });
    offset += size;
    return { node, into };
  });
}

/** Computes a learning rate from the number of steps before this one. */
function rateOf(tape: Tape, { name, description, optimizer }: Stepper): Output {
  const { steps, learningRate } = optimizer;
  // Each step of an optimizer reads the count anew, so the ops of two steps must not be merged.
  const called = `steps of ${name} for op ${tape.nodes.length}`;
  const count = tape.add('memory', { tensor: steps, name: called }, [], [1]);
  const step = reshaped(expressionOf(count as Node), []) as Expression<readonly []>;
  const rate = recording(tape, () => description.schedule!(step));
  const node = nodeOf(`optimizers.${name}: the result of the schedule`, rate);
  if (sizeOf(node.shape) !== 1 || node.shape.length > 1 || node.tape !== tape)
    refuseRange(
      `optimizers.${name}: a schedule returns an expression of shape [], got ${shown(node.shape)}`,
    );
  return { node, into: learningRate };
}

/**
 * Refuses a gradient through an op that an earlier phase computed, if parameters that the op reads
 * were stepped since: the gradient would use other parameters than the value.
 */
function refuseStale(
  loss: Node,
  wrt: readonly Node[],
  at: { order: ReadonlyMap<Node, number>; changes: readonly ReadonlySet<Node>[]; phase: number },
): void {
  const { order, changes, phase } = at;
  const above = neededBy([loss], new Map());
  const reached = new Set<Node>(wrt);
  for (const node of [...above].sort((a, b) => a.id - b.id)) {
    if (node.op === 'detach' || !node.inputs.some((input) => reached.has(input))) continue;
    reached.add(node);
    const computed = order.get(node) ?? phase;
    if (computed === phase || memoryOf(node)) continue;
    for (const input of node.inputs) {
      const memory = memoryOf(input);
      if (memory?.op !== 'memory') continue;
      if (changes.slice(computed, phase).some((each) => each.has(memory)))
        refuseType(
          `learner: phase ${phase} differentiates through '${memory.attributes.name}' at ${userLine(node.made)}, which phase ${computed} computed before it stepped '${memory.attributes.name}'; compute it again, as in ${memory.attributes.name}(x), for the later loss`,
        );
    }
  }
}

/** Names the draws in program order, and returns them in the order in which an update makes them. */
export function drawsOf(tape: Tape, order: ReadonlyMap<Node, number>, names?: readonly string[]) {
  const counts = { normal: 0, uniform: 0 };
  let at = 0;
  const all = tape.nodes.flatMap((node) => {
    if (node.op !== 'draw') return [];
    const { kind } = node.attributes;
    return [{ name: names?.[at++] ?? `${kind}.${counts[kind]++}`, node: node as Node }];
  });
  if (names && names.length !== all.length)
    throw new Error(`${names.length} names of draws are given, and update makes ${all.length}`);
  return all.sort((a, b) => (order.get(a.node) ?? 0) - (order.get(b.node) ?? 0));
}

/** Returns a hash of the ops that the sections need. */
export function hashOf(tape: Tape, sections: readonly Section[]): string {
  const hash = createHash('sha256');
  const needed = neededBy(
    sections.flatMap(({ outputs }) => outputs.map(({ node }) => node)),
    new Map(),
  );
  const names = new Map<Node, number>();
  for (const node of tape.nodes) {
    if (!needed.has(node)) continue;
    names.set(node, names.size);
    const attributes = Object.entries(node.attributes).map(([key, value]) =>
      value instanceof Float32Array
        ? `${key} ${new Uint32Array(value.buffer, value.byteOffset, value.length)}`
        : typeof value === 'number' || typeof value === 'string' || Array.isArray(value)
          ? `${key} ${value}`
          : typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
            ? `${key} ${Object.entries(value as object)}`
            : key,
    );
    const inputs = node.inputs.map((input) => names.get(input));
    hash.update([node.op, node.shape, inputs, attributes].join(' '));
  }
  return hash.digest('hex').slice(0, 16);
}
