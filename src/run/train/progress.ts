/** The progress and the result of train(), and their form on a terminal and in a file. */

import type { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { RunningCollectors } from '../collectors/pool-pause.ts';
import type { Episode } from '../collectors/statistics.ts';
import type { Policy } from '../environments/explore.ts';
import type { TrainedPolicy } from './algorithms.ts';

/** An evaluation of the newest weights. */
export interface CurvePoint {
  /** environment steps of all collectors so far */
  readonly steps: number;
  /** gradient steps of the learner so far */
  readonly updates: number;
  /** seconds of the training so far */
  readonly seconds: number;
  /** number of greedy episodes */
  readonly episodes: number;
  /** mean return of these episodes, or the result of `evaluation.evaluate` */
  readonly meanReturn: number;
  /** standard deviation of their returns, NaN if `evaluation.evaluate` returned none */
  readonly deviation: number;
}

/** The state of a training. */
export interface TrainProgress {
  readonly steps: number;
  readonly updates: number;
  readonly seconds: number;
  readonly episodes: number;
  /**
   * mean return of the latest episodes of each collector, NaN before the first. Their actions
   * include exploration
   */
  readonly meanReturn: number;
  /** the learner's scalars, smoothed over about fifty ticks */
  readonly scalars: Readonly<Record<string, number>>;
  /** the last evaluation, null before the first */
  readonly point: CurvePoint | null;
  readonly waitingFor: string;
}

/** The collectors of a training: a CollectorPool, or those of a deterministic training. */
export interface TrainCollectors extends RunningCollectors {
  /** number of collector threads, 1 if this thread collects */
  readonly workers: number;
  /** Iterates over the episodes that end, as CollectorPool.episodes() does. */
  episodes(options?: { signal?: AbortSignal }): AsyncGenerator<Episode, void>;
}

/** The parts of a training that `onOpen` receives. They are closed at the end of the training. */
export interface TrainParts {
  readonly pipeline: ReplayPipeline;
  readonly collectors: TrainCollectors;
  /** the checkpoint, if the option `checkpoint` is given */
  readonly checkpoint?: Checkpoint;
}

/** The weights with the greatest mean return of all evaluations. */
export interface BestWeights<P extends Policy = TrainedPolicy> {
  /** evaluation of the weights */
  readonly point: CurvePoint;
  readonly weights: Float32Array;
  /** policy that acts greedily by `weights` */
  readonly policy: P;
}

/** The result of train(). */
export interface TrainResult<P extends Policy = TrainedPolicy> {
  /** whether the goal was reached, and confirmed by other episodes */
  readonly solved: boolean;
  /**
   * mean return of the last evaluation that ended, null if none ended. It is over
   * `evaluation.confirm` greedy episodes, or over `evaluation.episodes` if the signal or `seconds`
   * ended the last evaluation.
   */
  readonly meanReturn: number | null;
  /** environment steps of all runs that resume each other */
  readonly steps: number;
  /** gradient steps of all runs */
  readonly updates: number;
  /** seconds of all runs, as the option `seconds` counts them */
  readonly seconds: number;
  /** whether the caller's signal ended the training */
  readonly interrupted: boolean;
  /**
   * evaluations in the order of their environment steps. A later evaluation at the same number of
   * steps replaces the previous one.
   */
  readonly curve: readonly CurvePoint[];
  /** the published weights of the learner that were last evaluated */
  readonly weights: Float32Array;
  /** policy that acts greedily by `weights` */
  readonly policy: P;
  /**
   * the weights of the evaluation with the greatest mean return, the later of equals. If weights
   * were evaluated again, their last evaluation counts. Null if no evaluation ended
   */
  readonly best: BestWeights<P> | null;
}

/** Targets with which the progress is compared. */
interface Aims {
  readonly name: string;
  readonly steps: number;
  readonly goal: number;
}

const whole = (value: number): string => Math.round(value).toLocaleString('en-US');
/** Formats a number with one decimal from 100 on, and with three significant digits below 100. */
const short = (value: number): string =>
  Math.abs(value) >= 100 || value === 0 ? value.toFixed(1) : String(Number(value.toPrecision(3)));

const BAR = 24;

function greedy({ point }: TrainProgress, { goal }: Aims): string {
  const wanted = Number.isFinite(goal) ? `, wanted ${short(goal)}` : '';
  if (point === null) return `no evaluation yet${wanted}`;
  const spread = Number.isNaN(point.deviation) ? '' : ` ± ${short(point.deviation)}`;
  return `${short(point.meanReturn)}${spread} greedy at ${whole(point.steps)} steps${wanted}`;
}

const exploring = ({ meanReturn }: TrainProgress): string =>
  Number.isNaN(meanReturn) ? 'no episode has ended yet' : `return ${short(meanReturn)} exploring`;

export function liveLines(progress: TrainProgress, aims: Aims): string[] {
  const { steps, updates, seconds, episodes, scalars, waitingFor } = progress;
  const done = Math.min(1, steps / aims.steps);
  const bar = '━'.repeat(Math.round(done * BAR)).padEnd(BAR, '·');
  const rate = (count: number) => `${whole(count / Math.max(seconds, 1e-3))}/s`;
  const numbers = Object.entries(scalars).map(([name, value]) => `${name} ${short(value)}`);
  return [
    `${aims.name}  ${bar}  ${whole(steps)} of ${whole(aims.steps)} steps (${rate(steps)})  ${seconds.toFixed(1)} s`,
    `${exploring(progress)} (${whole(episodes)} episodes)  ${greedy(progress, aims)}`,
    `${whole(updates)} updates (${rate(updates)})  ${numbers.join('  ')}`,
    ...(waitingFor === 'nothing' || waitingFor === '' ? [''] : [`waits for ${waitingFor}`]),
  ];
}

export function plainLine(progress: TrainProgress, aims: Aims): string {
  const { steps, updates, seconds } = progress;
  const parts = [
    `${seconds.toFixed(1).padStart(6)} s`,
    `${whole(steps)} of ${whole(aims.steps)} steps`,
  ];
  return [...parts, `${whole(updates)} updates`, exploring(progress), greedy(progress, aims)].join(
    '  ',
  );
}
