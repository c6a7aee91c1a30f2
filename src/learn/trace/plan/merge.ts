/** Finds the ops that a plan needs, and merges equal ones. */
import { type Node, Tape } from '../tape.ts';

/** The ops of a plan in program order, and the op that computes the value of each. */
export interface Merged {
  readonly nodes: readonly Node[];
  /** number of ops that were equal to an earlier one */
  readonly merged: number;
  /** Returns the op that computes the value of this op. */
  of(node: Node): Node;
}

/**
 * Returns the ops that `outputs` need. Two ops are equal if they have the same attributes and
 * inputs. Draws are never merged, left out or reordered, because each of them advances the
 * generator.
 */
export function merge(outputs: readonly Node[]): Merged {
  const tape = outputs[0]?.tape ?? new Tape();
  const needed = new Set<Node>();
  const open = [...outputs, ...tape.nodes.filter(({ op }) => op === 'draw')];
  for (let node = open.pop(); node; node = open.pop()) {
    if (needed.has(node)) continue;
    needed.add(node);
    // A custom gradient changes no value, so only the value is needed.
    open.push(...(node.op === 'custom' ? node.inputs.slice(0, 1) : node.inputs));
  }
  const first = new Map<string, Node>();
  const same = new Map<Node, Node>();
  const kept: Node[] = [];
  let merged = 0;
  for (const node of tape.nodes) {
    if (!needed.has(node)) continue;
    if (node.op === 'detach' || node.op === 'custom') {
      same.set(node, same.get(node.inputs[0]!)!);
      continue;
    }
    const key = node.op === 'draw' ? '' : keyOf(node, same);
    const equal = first.get(key);
    if (equal && key !== '') merged++;
    else {
      first.set(key, node);
      kept.push(node);
    }
    same.set(node, equal && key !== '' ? equal : node);
  }
  return { nodes: kept, merged, of: (node) => same.get(node) as Node };
}

/** Largest number of floats that are compared. Longer constants are never equal. */
const MAX_COMPARED = 256;

/** Returns the bits of floats, in which −0 differs from 0. */
const bitsOf = ({ buffer, byteOffset, length }: Float32Array, id: number): string =>
  length > MAX_COMPARED ? `op ${id}` : String(new Uint32Array(buffer, byteOffset, length));

function keyOf(node: Node, same: ReadonlyMap<Node, Node>): string {
  const inputs = node.inputs.map((input) => same.get(input)!.id);
  // JSON has no Infinity and NaN, and no −0.
  const attributes = Object.entries(node.attributes).map(([name, value]) =>
    typeof value === 'number'
      ? `${name} ${Object.is(value, -0) ? '-0' : value}`
      : `${name} ${value instanceof Float32Array ? bitsOf(value, node.id) : JSON.stringify(value)}`,
  );
  return [node.op, node.shape, inputs, attributes].join(' ');
}
