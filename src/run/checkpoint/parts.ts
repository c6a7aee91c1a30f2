/** What a checkpoint is made of: the parts that a caller names, and what may be said of each. */

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
 * A learner of hotslot/learner, or one of your own: everything that its later updates depend on,
 * and back.
 */
export interface CheckpointLearner {
  /**
   * the algorithm's name, which must be the same where it is restored; default: its class's, which
   * bundlers change
   */
  readonly kind?: string;
  /** what must be the same too, such as its discount: anything that JSON takes */
  readonly settings?: object;
  state(): Promise<NamedTensors> | NamedTensors;
  loadState(state: NamedTensors): void | Promise<void>;
}

/**
 * What steps environments in your own thread, and says where it is: anything that structured
 * cloning takes.
 */
export interface CheckpointCollectors {
  state(): unknown;
  loadState(state: unknown): void | Promise<void>;
}

export interface CheckpointParts {
  /** its rows or trajectories, and the priorities of those */
  buffer?: ReplayBuffer | TrajectoryBuffer;
  /** weights, moments, generators, counts */
  learner?: CheckpointLearner;
  /**
   * ticks, sequences, priorities that are not in the tree yet, a batch that waits for its caller
   */
  pipeline?: ReplayPipeline;
  /** its counts; the buffer's own, where it has one, need not be named */
  limiter?: RateLimiter;
  /** its newest version */
  mailbox?: WeightMailbox;
  /**
   * what they say of themselves. Of a pool or of remote ones, saved only: open them anew with
   * `resume` from what restore() gives
   */
  collectors?: RunningCollectors | CheckpointCollectors;
  /**
   * whatever else the run needs, or a function that gives it, called between two ticks: anything
   * that structured cloning takes
   */
  extra?: unknown;
}

/** Checked, and with what follows from them. */
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

/** By whose priorities the buffer's steps are drawn; null where by nobody's. */
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
      `${what}: name what is to be kept: buffer, learner, pipeline, limiter, mailbox, collectors, extra`,
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
      `${what}: a pipeline draws by this buffer's priorities: name it too, so that it stands still`,
    );
  const ledger =
    buffer === undefined
      ? null
      : ofRows
        ? internalsOfBuffer(buffer as ReplayBuffer).ledger
        : internalsOfTrajectories(buffer as TrajectoryBuffer).ledger;
  return { buffer, learner, pipeline, limiter, mailbox, collectors, extra: rest.extra, ledger };
}
