/** Derives gradients: a walk over a trace in reverse order that adds ops to the same trace. */

import type { Expression } from './expression.ts';
import { expressionOf, full, make, nodeFrom, nodeOf } from './expression.ts';
import { fusedOps } from './fused.ts';
import { type Gradients, type RuledOp, rules } from './rules.ts';
import { shown, sizeOf } from './shapes.ts';
import { type Node, refuseRange, refuseType, userLine } from './tape.ts';

/** A loss, and its gradient with respect to each expression of a list. */
export interface ValueAndGradients<W extends readonly Expression[] = readonly Expression[]> {
  readonly value: Expression;
  /** in the order of the list, each in the shape of its expression */
  readonly gradients: { readonly [I in keyof W]: W[I] };
}

/** The rule of an op, as gradient() calls it for any op. */
type AnyRule = (dy: Expression, node: Node, inputs: readonly Expression[]) => Gradients;

/**
 * Adds the gradient of `loss` to the trace.
 *
 * A value that several ops use gets the sum of their gradients. The sum begins with the last use.
 * The walk then adds earlier uses in the order in which it reaches them. So a sum needs memory for
 * only one gradient.
 *
 * @param loss an expression of shape [] or [1]
 * @param wrt the expressions with respect to which the gradient is taken
 * @returns the loss, and one gradient for each expression of `wrt`
 * @throws {TypeError} if the loss does not depend on an expression of `wrt`, or depends on another
 *   gradient
 * @throws {RangeError} if the loss has another shape
 * @example
 * trace(device, { x: [128, 4], w: [4] }, ({ x, w }) => {
 *   const { value, gradients } = grad(x.mul(w).sum({ axis: 1 }).square().mean(), [w]);
 *   return { loss: value, dw: gradients[0] };
 * });
 */
export function grad<const W extends readonly Expression[]>(
  loss: Expression,
  wrt: W,
): ValueAndGradients<W> {
  const end = nodeOf('grad: the loss', loss);
  if (!Array.isArray(wrt) || wrt.length === 0)
    refuseType('grad(loss, wrt): wrt is an array of one expression or more');
  const from = Array.from(wrt, (each, i) => nodeOf(`grad: wrt[${i}]`, each));
  if (sizeOf(end.shape) !== 1 || end.shape.length > 1)
    refuseRange(
      `grad: the loss must have shape [] or [1], got ${shown(end.shape)}; take its mean()`,
    );
  for (const [i, node] of from.entries())
    if (node.tape !== end.tape)
      refuseType(`grad: wrt[${i}] is of another trace, made at ${userLine(node.made)}`);
  const found = gradientsOf(
    end,
    from,
    (i) =>
      `grad: the loss does not depend on wrt[${i}], made at ${userLine(from[i]!.made)}, or only through detach(), comparisons or indices, which have no gradient`,
  );
  return {
    value: loss,
    gradients: found.map(expressionOf) as unknown as ValueAndGradients<W>['gradients'],
  };
}

/**
 * Adds the gradients of a loss to its trace. `explain` returns the error for an expression that the
 * loss does not depend on.
 */
export const gradientsOf = (
  loss: Node,
  wrt: readonly Node[],
  explain: (i: number) => string,
): readonly Node[] => loss.tape.derive(() => derive(loss, wrt, explain));

/** Returns the sum of two parts of one gradient. */
function summed(a: Expression, b: Expression): Expression {
  const [first, second] = [nodeFrom(a), nodeFrom(b)];
  if (first.op === 'full' && second.op === 'full')
    return full(first.tape, first.attributes.value + second.attributes.value, a.shape);
  return make('accumulate', {}, [a, b], a.shape);
}

function derive(loss: Node, wrt: readonly Node[], explain: (i: number) => string): readonly Node[] {
  const { tape } = loss;
  const start = Math.min(...wrt.map(({ id }) => id));
  /** ops on a path from an expression of `wrt` */
  const reached = new Set<Node>(wrt);
  for (let id = start; id <= loss.id; id++) {
    const node = tape.nodes[id]!;
    if (node.inputs.some((input) => reached.has(input))) reached.add(node);
  }
  const sums = new Map<Node, Expression>();
  /** gradients of the parts of fused ops */
  const parts = new Map<Node, (Expression | null)[]>();
  const add = (node: Node, d: Expression | null | undefined) => {
    if (!d || !reached.has(node)) return;
    const before = sums.get(node);
    sums.set(node, before ? summed(before, d) : d);
  };
  add(loss, full(tape, 1, loss.shape));
  for (let id = loss.id; id >= start; id--) {
    const node = tape.nodes[id]!;
    const dy = sums.get(node);
    const ofParts = parts.get(node);
    if ((!dy && !ofParts) || !reached.has(node)) continue;
    const deeper = node.inputs.some((input) => reached.has(input));
    if (node.derived && deeper)
      refuseType(
        `grad: the loss depends on a gradient, which grad() derived at ${userLine(node.made)}; second derivatives are not available, so detach() the gradient`,
      );
    const inputs = node.inputs.map(expressionOf);
    if (node.op === 'part') {
      const [fused] = node.inputs as [Node];
      const all = parts.get(fused) ?? [];
      all[node.attributes.index] = dy!;
      parts.set(fused, all);
      continue;
    }
    // An expression of `wrt` may be made of others of `wrt`, so the walk goes on.
    if (!deeper) continue;
    const found =
      node.op === 'fused'
        ? fusedOps[node.attributes.name].rule(ofParts!, node)
        : (rules[node.op as RuledOp] as AnyRule)(dy!, node, inputs);
    for (const [i, input] of node.inputs.entries()) add(input, found[i]);
  }
  return wrt.map((node, i) => {
    const sum = sums.get(node);
    if (sum) return nodeFrom(sum);
    return refuseType(explain(i));
  });
}
