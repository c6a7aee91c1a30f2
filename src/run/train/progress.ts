/**
 * What train() reports while it goes on and at its end, and how that looks on a terminal and in a
 * file.
 */

import type { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import type { CollectorPool } from '../collectors/collector-pool.ts';
import type { TrainedPolicy } from './algorithms.ts';

/** A look at the newest weights. */
export interface CurvePoint {
  /** environment steps of all collectors so far, and gradient steps of the learner */
  readonly steps: number;
  readonly updates: number;
  readonly seconds: number;
  /** of so many greedy episodes: mean and standard deviation of their returns */
  readonly episodes: number;
  readonly meanReturn: number;
  readonly deviation: number;
}

/** How a training stands. */
export interface TrainProgress {
  readonly steps: number;
  readonly updates: number;
  readonly seconds: number;
  readonly episodes: number;
  /** of the last episodes of each collector, which explore; NaN before the first */
  readonly meanReturn: number;
  /** the learner's, smoothed over some fifty ticks */
  readonly scalars: Readonly<Record<string, number>>;
  /** the last look */
  readonly point: CurvePoint | null;
  readonly waitingFor: string;
}

/** What a training is made of, for who wants to watch it; it is closed with the training. */
export interface TrainParts {
  readonly pipeline: ReplayPipeline;
  readonly collectors: CollectorPool;
  /** where `checkpoint` asks for one */
  readonly checkpoint?: Checkpoint;
}

export interface TrainResult {
  /** the goal was reached, and confirmed by other episodes */
  readonly solved: boolean;
  /**
   * of the last evaluation that came to its end: `evaluation.confirm` greedy episodes,
   * `evaluation.episodes` when the signal or `seconds` ended the last one; null without any
   */
  readonly meanReturn: number | null;
  readonly steps: number;
  readonly updates: number;
  /** of all runs that resume each other, as the option counts them */
  readonly seconds: number;
  /** ended by the caller's signal */
  readonly interrupted: boolean;
  /** by steps: a later look at as many steps replaces the one before */
  readonly curve: readonly CurvePoint[];
  /** the learner's published vector that was looked at last */
  readonly weights: Float32Array;
  /** acts greedily by it; encodeOnnx() takes it */
  readonly policy: TrainedPolicy;
}

/** What a progress is held against. */
interface Aims {
  readonly algorithm: string;
  readonly steps: number;
  readonly goal: number;
}

const whole = (value: number): string => Math.round(value).toLocaleString('en-US');
/** Three digits that count. */
const short = (value: number): string =>
  Math.abs(value) >= 100 || value === 0 ? value.toFixed(1) : String(Number(value.toPrecision(3)));

const BAR = 24;

function greedy({ point }: TrainProgress, { goal }: Aims): string {
  const wanted = Number.isFinite(goal) ? `, wanted ${short(goal)}` : '';
  if (point === null) return `no look at the weights yet${wanted}`;
  return `${short(point.meanReturn)} ± ${short(point.deviation)} greedy at ${whole(point.steps)} steps${wanted}`;
}

const exploring = ({ meanReturn }: TrainProgress): string =>
  Number.isNaN(meanReturn) ? 'no episode is over yet' : `return ${short(meanReturn)} exploring`;

export function liveLines(progress: TrainProgress, aims: Aims): string[] {
  const { steps, updates, seconds, episodes, scalars, waitingFor } = progress;
  const done = Math.min(1, steps / aims.steps);
  const bar = '━'.repeat(Math.round(done * BAR)).padEnd(BAR, '·');
  const rate = (count: number) => `${whole(count / Math.max(seconds, 1e-3))}/s`;
  const numbers = Object.entries(scalars).map(([name, value]) => `${name} ${short(value)}`);
  return [
    `${aims.algorithm}  ${bar}  ${whole(steps)} of ${whole(aims.steps)} steps (${rate(steps)})  ${seconds.toFixed(1)} s`,
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
