/** Finds the ops that a plan needs, puts them into its sections, and merges equal ones. */
import { memoryOf, type Node, Tape } from '../tape.ts';

/** Results of a section of a plan. The sections run in order, and each may be skipped. */
export interface Demand {
  readonly outputs: readonly Node[];
  /** ops that the section computes for later sections */
  readonly computes?: readonly Node[];
  /** memory that changes after the section, such as the parameters that an optimizer steps */
  readonly changes?: ReadonlySet<Node>;
  /** number of runs of the plan from one run of the section to the next, default 1 */
  readonly every?: number;
  /** whether nothing but the section's own outputs may rely on it */
  readonly optional?: boolean;
}

/** The ops of a plan in order, and the op that computes the value of each. */
export interface Merged {
  readonly nodes: readonly Node[];
  /** Returns the section that computes an op: the first one that needs it. */
  sectionOf(node: Node): number;
  /** Returns whether a value of section `from` is there whenever section `to` runs. */
  serves(from: number, to: number): boolean;
  /** number of ops that were equal to an earlier one */
  readonly merged: number;
  /** Returns the op that computes the value of this op. */
  of(node: Node): Node;
}

/** Returns the ops that a section needs and that no earlier section computes. */
export function neededBy(
  outputs: readonly Node[],
  earlier: { has(node: Node): boolean },
): ReadonlySet<Node> {
  const needed = new Set<Node>();
  const open = [...outputs];
  for (let node = open.pop(); node; node = open.pop()) {
    if (needed.has(node) || earlier.has(node)) continue;
    needed.add(node);
    // A custom gradient changes no value, so only the value is needed.
    open.push(...(node.op === 'custom' ? node.inputs.slice(0, 1) : node.inputs));
  }
  return needed;
}

/**
 * Returns the ops that the sections need. Two ops are equal if they have the same attributes and
 * inputs, and if their memory did not change between them. An op takes the value of an earlier section
 * only if that section runs whenever its own does. Draws are never merged or left out,
 * because each of them advances the generator. A draw that nothing needs belongs to the first
 * section.
 */
export function merge(sections: readonly Demand[]): Merged {
  const tape = sections.flatMap(({ outputs }) => outputs)[0]?.tape ?? new Tape();
  const sectionOf = new Map<Node, number>();
  const enter = (outputs: readonly Node[], section: number) => {
    for (const node of neededBy(outputs, sectionOf)) sectionOf.set(node, section);
  };
  for (const [section, { outputs, computes = [] }] of sections.entries())
    enter([...computes, ...outputs], section);
  enter(
    tape.nodes.filter(({ op }) => op === 'draw'),
    0,
  );
  /** Returns how often memory has changed before a section. */
  const version = (memory: Node, section: number): number =>
    sections.slice(0, section).filter(({ changes }) => changes?.has(memory)).length;
  const serves = (from: number, to: number): boolean => {
    const [{ every: earlier = 1, optional }, { every: later = 1 }] = [
      sections[from]!,
      sections[to]!,
    ];
    return from === to || (!optional && later % earlier === 0);
  };
  const first = new Map<string, Node[]>();
  const same = new Map<Node, Node>();
  const kept: Node[] = [];
  let merged = 0;
  // Inputs of an op come before it in the trace, and never belong to a later section.
  const ordered = [...sectionOf.keys()].sort(
    (a, b) => sectionOf.get(a)! - sectionOf.get(b)! || a.id - b.id,
  );
  for (const node of ordered) {
    if (node.op === 'detach' || node.op === 'custom') {
      same.set(node, same.get(node.inputs[0]!)!);
      continue;
    }
    const section = sectionOf.get(node)!;
    const key = node.op === 'draw' ? '' : keyOf(node, same, (of) => version(of, section));
    const known = first.get(key) ?? [];
    const equal = known.find((each) => key !== '' && serves(sectionOf.get(each)!, section));
    if (equal) merged++;
    else {
      first.set(key, [...known, node]);
      kept.push(node);
    }
    same.set(node, equal ?? node);
  }
  return {
    nodes: kept,
    merged,
    serves,
    of: (node) => same.get(node) as Node,
    sectionOf: (node) => sectionOf.get(node) as number,
  };
}

/** Largest number of floats that are compared. Longer constants are never equal. */
const MAX_COMPARED = 256;

/** Returns the bits of floats, in which −0 differs from 0. */
const bitsOf = ({ buffer, byteOffset, length }: Float32Array, id: number): string =>
  length > MAX_COMPARED ? `op ${id}` : String(new Uint32Array(buffer, byteOffset, length));

const identities = new WeakMap<object, number>();
let identified = 0;
/** Returns a number for an object that is compared by identity, such as a network or a tensor. */
function identityOf(object: object): number {
  const known = identities.get(object) ?? ++identified;
  identities.set(object, known);
  return known;
}

const isPlain = (value: object): boolean =>
  Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;

/** Returns a text that is the same for equal attributes. */
function textOf(value: unknown, id: number): string {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  if (value instanceof Float32Array) return bitsOf(value, id);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (!isPlain(value)) return `object ${identityOf(value)}`;
  return `{${Object.entries(value).map(([key, each]) => `${key}: ${textOf(each, id)}`)}}`;
}

function keyOf(
  node: Node,
  same: ReadonlyMap<Node, Node>,
  version: (memory: Node) => number,
): string {
  const inputs = node.inputs.map((input) => {
    const memory = memoryOf(input);
    return `${same.get(input)!.id}${memory ? `@${version(memory)}` : ''}`;
  });
  const attributes = Object.entries(node.attributes).map(
    ([name, value]) => `${name} ${textOf(value, node.id)}`,
  );
  return [node.op, node.shape, inputs, attributes].join(' ');
}
