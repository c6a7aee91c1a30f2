/** What train() tells while it goes on. */

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
   * of the last evaluation that came to its end: `evaluation.confirm` greedy episodes, `evaluation.episodes` when the signal or `seconds`
   * ended the last one; null without any
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
