/**
 * Losses of Q networks as expressions: targets and losses from a network's output. For each action
 * this output is one number or a distribution over atoms.
 */
import { checkKind } from '../distribution.ts';
import type { Expression } from '../trace/expression.ts';
import {
  categoricalLoss,
  categoricalMean,
  categoricalProject,
  tdLoss,
  tdTarget,
} from '../trace/fused-functions.ts';

/** A Q network's output for each action: one number, or a distribution over atoms. */
export type QHead =
  | { kind: 'scalar' }
  | {
      kind: 'categorical';
      /** number of values of a distribution, evenly spaced from `min` to `max`, default 51 */
      atoms?: number;
      /** smallest value of a distribution */
      min: number;
      /** largest value of a distribution */
      max: number;
    };

/** Losses of a Q network, from its output for a minibatch. */
export interface QLosses {
  /**
   * returns each row's target from the target network's output `value`. It uses the action with the
   * largest value in `choice`
   */
  targets(
    value: Expression,
    choice: Expression,
    rewards: Expression,
    discounts: Expression,
  ): Expression;
  /**
   * returns each row's weighted loss, the value of the action taken, and the error: an absolute TD
   * error or a cross-entropy
   */
  losses(
    output: Expression,
    actions: Expression,
    targets: Expression,
    weights: Expression,
  ): { loss: Expression; value: Expression; error: Expression };
}

/** Returns the losses of a head. `delta` is the Huber threshold of a scalar head. */
export function qLosses(head: QHead, actions: number, delta: number): QLosses {
  const distribution = checkKind('head', head, 51);
  if (distribution === null)
    return {
      targets: tdTarget,
      losses: (q, taken, targets, weights) => tdLoss(q, taken, targets, { delta, weights }),
    };
  const { atoms, min, max } = distribution;
  const logits = (x: Expression) => x.reshape([-1, actions, atoms]) as Expression;
  return {
    targets(value, choice, rewards, discounts) {
      const rows = choice.shape[0] as number;
      const values = categoricalMean(choice.reshape([rows * actions, atoms]), { min, max });
      const best = values.reshape([rows, actions]).argmax();
      const probs = (logits(value).pick(best) as Expression).softmax();
      return categoricalProject(probs, rewards, discounts, { min, max }).projected;
    },
    losses(output, taken, targets, weights) {
      const picked = logits(output).pick(taken) as Expression;
      return categoricalLoss(picked, targets, { min, max, weights });
    },
  };
}
