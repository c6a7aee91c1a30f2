/** An evaluation that the caller of train() wrote: its arguments, and the check of its result. */
import { describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import { orAborted } from '../../shm/wait.ts';
import type { Policy } from '../environments/explore.ts';
import type { TrainedPolicy } from './algorithms.ts';
import type { Evaluation } from './evaluate.ts';

/** The arguments of a function that evaluates weights for train(). */
export interface EvaluateContext<P extends Policy = TrainedPolicy> {
  /** policy that acts greedily by `weights`, valid until the function's promise resolves */
  readonly policy: P;
  /** copy of the published weights */
  readonly weights: Float32Array;
  /** `evaluation.episodes`, or `evaluation.confirm` */
  readonly episodes: number;
  /** seed of this evaluation, another one for each call */
  readonly seed: number;
  /** signal that aborts when train() does not wait for the result any more */
  readonly signal: AbortSignal;
  /** environment steps of the training so far */
  readonly steps: number;
}

/**
 * Evaluates weights for train(). Returns the mean return, which train() compares with `goal`, and
 * the standard deviation of the returns, if it has one.
 */
export type EvaluateFunction<P extends Policy = TrainedPolicy> = (
  context: EvaluateContext<P>,
) => Evaluated | Promise<Evaluated>;

type Evaluated = number | { readonly meanReturn: number; readonly deviation?: number };

/**
 * Calls the function, and rejects with the signal's reason if the signal aborts first. Throws if the
 * result is invalid. Without a deviation, the result has NaN.
 */
export async function evaluateBy<P extends Policy>(
  evaluate: EvaluateFunction<P>,
  context: EvaluateContext<P>,
): Promise<Pick<Evaluation, 'meanReturn' | 'deviation'>> {
  context.signal.throwIfAborted();
  const given: unknown = await orAborted(Promise.resolve(evaluate({ ...context })), context.signal);
  const { meanReturn, deviation = Number.NaN } = (
    typeof given === 'object' && given !== null ? given : { meanReturn: given }
  ) as { meanReturn?: unknown; deviation?: unknown };
  if (!Number.isFinite(meanReturn))
    throw typeError(
      `evaluation.evaluate must return the mean return, a finite number, or { meanReturn, deviation? }; got ${shown(given, 'meanReturn', meanReturn)}`,
    );
  if (typeof deviation !== 'number' || deviation < 0)
    throw typeError(
      `evaluation.evaluate must return a deviation of at least 0, or none; got ${shown(given, 'deviation', deviation)}`,
    );
  return { meanReturn: meanReturn as number, deviation };
}

const shown = (given: unknown, name: string, value: unknown): string =>
  typeof given === 'object' && given !== null
    ? `${describeValue(given)} with ${name} ${describeValue(value)}`
    : describeValue(given);
