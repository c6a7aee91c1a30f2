/**
 * Losses of Q networks as expressions: targets and losses from a network's output. For each action
 * this output is one number or a distribution over atoms. Masks of legal actions select values and
 * never change them by a sum or a product, so an illegal action may have any value, even NaN.
 */
import { checkKind } from '../distribution.ts';
import { type Expression, where } from '../trace/expression.ts';
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
   * largest value in `choice`, among those that are legal in the next state. `legal` is a mask [rows,
   * actions], or undefined if all actions are legal. Without a legal action it uses action 0
   */
  targets(
    value: Expression,
    choice: Expression,
    rewards: Expression,
    discounts: Expression,
    legal: Expression | undefined,
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

/** Returns values of which those of illegal actions are −∞, or all values without a mask. */
export const among = (legal: Expression | undefined, values: Expression): Expression =>
  legal ? where(legal, values, Number.NEGATIVE_INFINITY) : values;

/**
 * Combines a state's value with the actions' advantages, as the layer dueling(). The mean of the
 * advantages is over legal actions.
 *
 * @param parts [rows, (1 + actions) · atoms], the state's value first
 * @param legal mask [rows, actions]. A row without a legal action has the mean 0
 * @returns [rows, actions · atoms]
 */
export function duelingAmong(parts: Expression, legal: Expression, atoms: number): Expression {
  const [rows, actions] = legal.shape as [number, number];
  const all = parts.reshape([rows, 1 + actions, atoms]) as Expression;
  const [state, advantages] = [all.slice(1, 0, 1), all.slice(1, 1)] as [Expression, Expression];
  const shown = where(legal.reshape([rows, actions, 1]), advantages, 0);
  const count = legal.ne(0).sum({ axis: 1 }).max(1).reshape([rows, 1, 1]) as Expression;
  const mean = shown.sum({ axis: 1, keep: true }).div(count) as Expression;
  return advantages.add(state.sub(mean)).reshape([rows, actions * atoms]) as Expression;
}

/** Returns the losses of a head. `delta` is the Huber threshold of a scalar head. */
export function qLosses(head: QHead, actions: number, delta: number): QLosses {
  const distribution = checkKind('head', head, 51);
  if (distribution === null)
    return {
      targets: (value, choice, rewards, discounts, legal) =>
        tdTarget(value, among(legal, choice), rewards, discounts),
      losses: (q, taken, targets, weights) => tdLoss(q, taken, targets, { delta, weights }),
    };
  const { atoms, min, max } = distribution;
  const logits = (x: Expression) => x.reshape([-1, actions, atoms]) as Expression;
  return {
    targets(value, choice, rewards, discounts, legal) {
      const rows = choice.shape[0] as number;
      const values = categoricalMean(choice.reshape([rows * actions, atoms]), { min, max });
      const best = among(legal, values.reshape([rows, actions]) as Expression).argmax();
      const probs = (logits(value).pick(best) as Expression).softmax();
      return categoricalProject(probs, rewards, discounts, { min, max }).projected;
    },
    losses(output, taken, targets, weights) {
      const picked = logits(output).pick(taken) as Expression;
      return categoricalLoss(picked, targets, { min, max, weights });
    },
  };
}
