/** Concatenations that no launch computes, because their readers read both parts where they are. */
import { linearOf } from '../../network/kinds.ts';
import { stagesOf } from '../../network/network.ts';
import { memoryOf, type Node } from '../tape.ts';
import type { Lowering } from './lowering.ts';

/**
 * Returns the two parts of an op that only networks read, if the launches of their first layers can
 * read an input from two places. Returns null for any other op.
 */
export function inputPlaces(lowering: Lowering, node: Node): readonly [Node, Node] | null {
  if (node.op !== 'concat' || !lowering.rules.twoPlaces) return null;
  const { of } = lowering.merged;
  const parts = node.inputs.map(of);
  const fits = node.attributes.axis === 1 && node.shape.length === 2 && parts.length === 2;
  if (!fits || parts.some((part) => memoryOf(part))) return null;
  const readers = lowering.readersOf(node);
  const all = readers?.every((reader) => {
    const inputs = reader.inputs.map(of);
    const at = reader.op === 'network' ? 0 : reader.op === 'networkSlope' ? 2 : -1;
    if (at < 0 || inputs.some((input, i) => (input === node) !== (i === at))) return false;
    const { network, members } = reader.attributes as { network: never; members: number };
    const [{ layer, inputs: k, outputs: n }] = stagesOf(network) as [
      ReturnType<typeof stagesOf>[number],
    ];
    if (linearOf(layer)?.epsilon !== null) return false;
    const [rows] = node.shape as [number, number];
    const { rules } = lowering;
    return (
      rules.apart({ batch: members, m: rows, n, k }) === null &&
      rules.apart({ batch: members, m: n, n: k, k: rows }) === null
    );
  });
  return all ? (parts as [Node, Node]) : null;
}
