/** Ops with kernels of their own, which compute several results at once. */
import type { Expression } from './expression.ts';
import type { Gradients } from './rules.ts';
import type { Shape } from './shapes.ts';
import type { Node } from './tape.ts';

type Options = Readonly<Record<string, number>>;

/** A fused op: its gradient and its values. */
export interface FusedOp {
  /** gradients of the inputs from those of the results. A result without a gradient has none */
  rule(
    dy: readonly (Expression | null | undefined)[],
    node: Node,
    inputs: readonly Expression[],
  ): Gradients;
  /** the results in float64, in row-major order */
  evaluate(
    inputs: readonly Float64Array[],
    shapes: readonly Shape[],
    options: Options,
  ): Float64Array[];
}

export const fusedOps: Readonly<Record<string, FusedOp>> = {};
