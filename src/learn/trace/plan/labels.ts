/** Names of launches for people, and the ops whose values a watch checks. */
import { isView, type Node, userLine } from '../tape.ts';
import type { Launch } from './launches.ts';

/** Returns the ops of gradients, and the ops whose values gradients read. */
export function differentiatedOf(
  nodes: readonly Node[],
  of: (node: Node) => Node,
): ReadonlySet<Node> {
  const found = new Set<Node>();
  const enter = (given: Node): void => {
    const node = of(given);
    if (found.has(node)) return;
    found.add(node);
    if (node.op === 'part' || isView(node)) enter(node.inputs[0]!);
  };
  for (const node of nodes)
    if (node.derived) {
      found.add(node);
      for (const input of node.inputs) enter(input);
    }
  return found;
}

/** Returns the ops that read an infinite constant, directly or through other ops. */
export function readersOfInfinity(nodes: readonly Node[]): ReadonlySet<Node> {
  const readers = new Set<Node>();
  for (const node of nodes) {
    const { op, attributes } = node;
    const own = op === 'full' && Math.abs(attributes.value) === Number.POSITIVE_INFINITY;
    if (own || node.inputs.some((input) => readers.has(input))) readers.add(node);
  }
  return readers;
}

const describeOp = (node: Node): string => {
  const { attributes, op } = node;
  const name = 'f' in attributes ? attributes.f : op === 'fused' ? attributes.name : op;
  return `${node.derived ? 'd ' : ''}${name}`;
};

/** Returns the ops that a launch computes, of which a chain has several. */
export const nodesOf = ({ node, chain }: Launch): readonly Node[] => chain ?? [node];
export const describeOps = (launch: Launch): string => nodesOf(launch).map(describeOp).join('+');
/** Names the ops of a launch for the table, with the layer that it computes. */
export function describeLaunch(launch: Launch): string {
  const { attributes } = launch.node;
  if (!launch.layer || !('network' in attributes)) return describeOps(launch);
  return `${describeOps(launch)} ${attributes.name} ${launch.layer}`;
}
export const linesOf = (launch: Launch): string =>
  [...new Set(nodesOf(launch).map(({ made }) => userLine(made)))].join(', ');
