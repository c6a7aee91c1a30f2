/**
 * Losses of critics as expressions: targets, losses and values from the outputs of critics of equal
 * shape. For each row an output is one number or a distribution over atoms.
 */
import { checkWithin } from '../checks.ts';
import { checkKind } from '../distribution.ts';
import { type Expression, where } from '../trace/expression.ts';
import { bootstrap, constant } from '../trace/functions.ts';
import {
  categoricalLoss,
  categoricalMean,
  categoricalProject,
  tdLoss,
} from '../trace/fused-functions.ts';

/**
 * Value that an actor maximizes: that of the first critic, or the minimum or mean over all critics.
 */
export type ActorValue = 'first' | 'min' | 'mean';

/** A critic's output for each row: one number, or a distribution over atoms. */
export type CriticKind =
  | { kind: 'scalar' }
  | {
      kind: 'categorical';
      /** number of values of a distribution, evenly spaced from `min` to `max`, default 101 */
      atoms?: number;
      /** smallest value of a distribution */
      min: number;
      /** largest value of a distribution */
      max: number;
      /**
       * lower limit of the log-probabilities in the loss. Default: −30 for SAC, no limit for TD3
       */
      logFloor?: number;
    };

/** Terms of a target, each [rows]. The target is reward + discount · (next value − cost). */
export interface Bootstrap {
  readonly rewards: Expression;
  readonly discounts: Expression;
  readonly cost: Expression | undefined;
}

/** Losses of `n` critics, from their outputs [n, rows, width]. */
export interface CriticLosses {
  /** number of outputs of a critic for each row */
  readonly width: number;
  /** returns the targets of all critics, or one target of each row that all critics share */
  targets(next: Expression, bootstrap: Bootstrap): Expression;
  /**
   * returns the weighted losses, the values and the errors [n · rows]. An error is an absolute TD
   * error or a cross-entropy
   */
  losses(
    outputs: Expression,
    targets: Expression,
    weights: Expression,
  ): { loss: Expression; value: Expression; error: Expression };
  /** returns the values [n, rows] */
  values(outputs: Expression): Expression;
}

/** Returns the losses of `n` critics. */
export function criticLosses(
  kind: CriticKind,
  how: { n: number; rows: number; clipped: boolean; logFloor: number },
): CriticLosses {
  const atoms = checkKind('critic', kind, 101, ['logFloor']);
  if (atoms === null) return scalarLosses(how);
  const { logFloor = how.logFloor } = kind as CriticKind & { kind: 'categorical' };
  checkWithin('critic.logFloor', logFloor, Number.NEGATIVE_INFINITY, 0);
  return categoricalLosses({ ...how, ...atoms, logFloor: Math.max(logFloor, -1e30) });
}

function scalarLosses(how: { n: number; rows: number; clipped: boolean }): CriticLosses {
  const { n, rows, clipped } = how;
  const values = (outputs: Expression): Expression => outputs.reshape([n, rows]);
  return {
    width: 1,
    targets(next, { rewards, discounts, cost }) {
      const all = values(next);
      const least: Expression = clipped ? all.min({ axis: 0 }) : all;
      const value: Expression = cost ? least.sub(cost) : least;
      return bootstrap(rewards, discounts, value).detach().reshape([-1]);
    },
    losses(outputs, targets, weights) {
      // A critic is a Q network with one action, whose index is 0 in every row.
      const actions = constant([0]) as Expression;
      const q = outputs.reshape([n * rows, 1]) as Expression;
      return tdLoss(q, actions, targets, { delta: 0, weights });
    },
    values,
  };
}

function categoricalLosses(how: {
  n: number;
  rows: number;
  clipped: boolean;
  atoms: number;
  min: number;
  max: number;
  logFloor: number;
}): CriticLosses {
  const { n, rows, clipped, atoms, min, max, logFloor } = how;
  const logits = (outputs: Expression): Expression => outputs.reshape([n * rows, atoms]);
  return {
    width: atoms,
    targets(next, { rewards, discounts, cost }) {
      const { projected, mean } = categoricalProject(logits(next).softmax(), rewards, discounts, {
        min,
        max,
        ...(cost && { cost }),
      });
      if (!clipped) return projected;
      const of = (x: Expression, j: number): Expression => x.slice(0, j * rows, (j + 1) * rows);
      let [target, value] = [of(projected, 0), of(mean, 0)];
      for (let j = 1; j < n; j++) {
        const less: Expression = of(mean, j).lt(value);
        target = where(less.reshape([rows, 1]), of(projected, j), target) as Expression;
        if (j < n - 1) value = where(less, of(mean, j), value) as Expression;
      }
      return target;
    },
    losses: (outputs, targets, weights) =>
      categoricalLoss(logits(outputs), targets, { min, max, logFloor, weights }),
    values: (outputs) =>
      categoricalMean(logits(outputs), { min, max }).reshape([n, rows]) as Expression,
  };
}
