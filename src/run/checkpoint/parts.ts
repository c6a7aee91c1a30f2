/** The parts that a caller gives to a checkpoint, and their checks. */

import type { NamedTensors } from '../../base/arrays/tensors.ts';
import { checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { internalsOf, ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import { internalsOfTrajectories, TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfSampler, type PrioritizedSampler } from '../../store/prioritized.ts';
import { RateLimiter } from '../../store/rate-limiter.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { SnapshotIO } from '../../store/rows/snapshot-io.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import { pausables, type RunningCollectors } from '../collectors/pool-pause.ts';

/**
 * A learner of hotslot/learner, or one of your own. state() returns everything that later updates
 * depend on, and loadState() restores it.
 */
export interface CheckpointLearner {
  /**
   * name of the algorithm, which must be equal at a restore. Default: the name of the learner's
   * class, which bundlers change
   */
  readonly kind?: string;
  /**
   * settings that must be equal at a restore, such as the discount. Any value that JSON can
   * represent. Default: none
   */
  readonly settings?: object;
  /** Returns everything that later updates depend on. */
  state(): Promise<NamedTensors> | NamedTensors;
  /** Restores the result of state(). */
  loadState(state: NamedTensors): void | Promise<void>;
}

/**
 * Your own collectors, which step environments in your thread. Their state can be any value that
 * structured cloning supports.
 */
export interface CheckpointCollectors {
  /** Returns everything that the collectors need to resume. */
  state(): unknown;
  /** Restores the result of state(). */
  loadState(state: unknown): void | Promise<void>;
}

/** Parts that a checkpoint saves and restores. Each part is optional. */
export interface CheckpointParts {
  /** rows or trajectories, with their priorities */
  buffer?: ReplayBuffer | TrajectoryBuffer;
  /** weights, moments of the optimizer, generators and counts */
  learner?: CheckpointLearner;
  /**
   * tick numbers, priorities that are not in the tree yet, and a batch that its caller has not
   * sampled yet
   */
  pipeline?: ReplayPipeline;
  /** counts of a rate limiter, default: of the buffer's limiter */
  limiter?: RateLimiter;
  /** newest version of the mailbox's weights */
  mailbox?: WeightMailbox;
  /**
   * collectors with their states. A pool or remote collectors are only saved. To resume them, open
   * new ones with the option `resume: restored.collectors`
   */
  collectors?: RunningCollectors | CheckpointCollectors;
  /**
   * any other state of the run that structured cloning supports. If it is a function, a save calls
   * it between two ticks and stores its result
   */
  extra?: unknown;
}

/** Checked parts, and access to the buffer's places (`ledger`). */
export interface KnownParts {
  readonly buffer: CheckpointParts['buffer'] | undefined;
  readonly learner: CheckpointLearner | undefined;
  readonly pipeline: ReplayPipeline | undefined;
  readonly limiter: RateLimiter | undefined;
  readonly mailbox: WeightMailbox | undefined;
  readonly collectors: CheckpointParts['collectors'] | undefined;
  readonly extra: unknown;
  readonly ledger: SnapshotIO | null;
}

/** Returns the prioritized sampler of the buffer, or null if the buffer has none. */
export function samplerOf(
  buffer: CheckpointParts['buffer'] | undefined,
): PrioritizedSampler | null {
  if (buffer === undefined || buffer instanceof ReplayBuffer) return null;
  return internalsOfTrajectories(buffer as TrajectoryBuffer).reader.sampler;
}

export function checkParts(what: string, given: object): KnownParts {
  const { every: _, ...rest } = given as CheckpointParts & { every?: unknown };
  checkKeys(what, rest, [
    'buffer',
    'learner',
    'pipeline',
    'limiter',
    'mailbox',
    'collectors',
    'extra',
  ]);
  const { buffer, learner, pipeline, mailbox, collectors } = rest;
  const must = (name: string, value: unknown, is: boolean, kind: string) => {
    if (value !== undefined && !is)
      throw typeError(`${what}: ${name} must be ${kind}, got ${describeValue(value)}`);
  };
  const ofRows = buffer instanceof ReplayBuffer;
  must(
    'buffer',
    buffer,
    ofRows || buffer instanceof TrajectoryBuffer,
    'a ReplayBuffer or a TrajectoryBuffer',
  );
  must('pipeline', pipeline, pipeline instanceof ReplayPipeline, 'a ReplayPipeline');
  must('mailbox', mailbox, mailbox instanceof WeightMailbox, 'a WeightMailbox');
  must('limiter', rest.limiter, rest.limiter instanceof RateLimiter, 'a RateLimiter');
  const states = (part: CheckpointLearner | CheckpointCollectors | undefined) =>
    typeof part?.state === 'function' && typeof part.loadState === 'function';
  must('learner', learner, states(learner), 'a learner, or an object with state() and loadState()');
  const pool = collectors !== undefined && collectors !== null && pausables.has(collectors);
  must(
    'collectors',
    collectors,
    pool || states(collectors as CheckpointCollectors),
    'a CollectorPool, RemoteCollectors, or an object with state() and loadState()',
  );
  if (Object.values(rest).every((part) => part === undefined))
    throw typeError(
      `${what}: give at least one part to save: buffer, learner, pipeline, limiter, mailbox, collectors, extra`,
    );
  const limiter = rest.limiter ?? buffer?.limiter ?? undefined;
  if (
    rest.limiter &&
    buffer?.limiter &&
    rest.limiter.share().memory !== buffer.limiter.share().memory
  )
    throw rangeError(`${what}: the limiter is not the buffer's`);
  if (buffer && pipeline && internalsOf(pipeline).buffer.share().memory !== buffer.share().memory)
    throw rangeError(`${what}: the pipeline draws from another buffer`);
  const sampler = samplerOf(buffer);
  if (sampler && !pipeline && internalsOfSampler(sampler).running)
    throw stateError(
      'RUNNING',
      `${what}: a pipeline samples by this buffer's priorities; give pipeline too, so that it is paused`,
    );
  const ledger =
    buffer === undefined
      ? null
      : ofRows
        ? internalsOfBuffer(buffer as ReplayBuffer).ledger
        : internalsOfTrajectories(buffer as TrajectoryBuffer).ledger;
  return { buffer, learner, pipeline, limiter, mailbox, collectors, extra: rest.extra, ledger };
}
