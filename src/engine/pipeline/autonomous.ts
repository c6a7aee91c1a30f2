/**
 * Implements an autonomous run. The requester requests the ticks and replay launches their updates.
 * The opener only waits and reads the journal.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import { nowMs } from '../../base/clock.ts';
import { stateError } from '../../base/errors.ts';
import { failed } from '../../device/stream.ts';
import { Ending, endingName } from '../../shm/ending.ts';
import { checkSignal } from '../../shm/wait.ts';
import type { Ended } from '../group/verdict.ts';
import { Pause } from '../ring/header.ts';
import type { Averaging } from './averaging.ts';
import { giveBack } from './give-back.ts';
import { endWithOthers } from './group-end.ts';
import type { RunControl } from './run-control.ts';
import type { PipelineRuntime } from './runtime.ts';
import type { Statistics, Summary } from './summary.ts';

export interface RunOptions {
  /** number of ticks (default: until the signal aborts) */
  ticks?: number;
  /** ends the run after the ticks that are under way, and sets `aborted` in the summary */
  signal?: AbortSignal;
  /** ticks from one publication of the weights to the next (default 0: never) */
  publishEvery?: number;
}

export function checkRun(options: RunOptions): void {
  checkKeys('run', options, ['ticks', 'signal', 'publishEvery']);
  const { ticks = Number.POSITIVE_INFINITY, signal, publishEvery = 0 } = options;
  checkSignal(signal);
  if (ticks !== Number.POSITIVE_INFINITY) checkCount('ticks', ticks, 1);
  checkCount('publishEvery', publishEvery, 0);
}

export function checkCaptured(
  { publishEvery = 0 }: RunOptions,
  graphs: number,
  hasWeights: boolean,
): void {
  if (graphs === 0) throw stateError('CAPTURE', 'capture() the learner before run()');
  if (publishEvery > 0 && !hasWeights)
    throw stateError(
      'CAPTURE',
      'publishEvery needs weights: open with a mailbox and give capture() the weights',
    );
}

/**
 * Adds the journal's new entries to the statistics and emits their ticks. Returns the error that a
 * listener threw, or null.
 */
type EmitTicks = (statistics: Statistics | null) => { error: unknown } | null;

interface RunPlan extends RunOptions {
  firstTick: number;
  rows: number;
  /** statistics of this run, already reset */
  statistics: Statistics;
  /** returns as text what the next batch waits for */
  waitingFor: () => string;
  /**
   * returns the same without the state of other machines. So the text changes only if the pipeline
   * itself waits for something else
   */
  standsFor: () => string;
  /** determines when the run is over */
  control: RunControl;
  warn: (text: string) => void;
}

/** Milliseconds without progress after which a run warns once. */
const PATIENCE_MS = 10_000;

/**
 * Returns a function that warns about what the run waits for. The function warns if the run has
 * waited for the same thing for PATIENCE_MS, and no tick has finished in that time.
 */
function patience({ waitingFor, standsFor, warn }: RunPlan, finished: () => number): () => void {
  let since = nowMs();
  let last = '';
  let warned = false;
  return () => {
    const now = `${finished()} ${standsFor()}`;
    if (now !== last) {
      last = now;
      since = nowMs();
      warned = false;
    } else if (!warned && nowMs() - since >= PATIENCE_MS) {
      warned = true;
      const thing = waitingFor();
      warn(
        `run() has waited ${PATIENCE_MS / 1000} s for ${thing === 'nothing' ? 'a batch that is under way' : thing}`,
      );
    }
  };
}

/**
 * Milliseconds that an aborted run waits in an exchange if all missing learners of the group are in
 * their runs. After this time the run ends the exchange without them. A run also counts as aborted
 * if a listener threw.
 */
const COMING_MS = 10_000;
/** The same time if a missing learner is not in its run or is in another process. */
const GRACE_MS = 1000;

/** Limits the time for which a run that ends waits for other learners in each exchange. */
class Grace {
  readonly #none: boolean;
  #exchange = -1;
  #since = 0;

  /**
   * `none` is true if the run was aborted before it began. In that case the run waits for no other
   * learner.
   */
  constructor(none: boolean) {
    this.#none = none;
  }

  isOver(averaging: Averaging): boolean {
    const { waits } = averaging;
    if (waits === null) return false;
    if (waits.exchange !== this.#exchange) this.#since = nowMs();
    this.#exchange = waits.exchange;
    return this.#none || nowMs() - this.#since >= (waits.allRunning ? COMING_MS : GRACE_MS);
  }
}

/**
 * Runs ticks. Resolves after every tick of the run is over, and requester and replay have paused.
 * Throws the error that a listener threw.
 */
export async function runTicks(
  parts: PipelineRuntime,
  plan: RunPlan,
  emitTicks: EmitTicks,
): Promise<Summary> {
  const { signal } = plan;
  const { ring } = parts;
  // The signal ends the run but does not reject its waits. Slot-9: the end is stored inside
  // abort(), so it is in force when abort() returns.
  const end = () => {
    ring.header.end(Ending.aborted);
    ring.bells.client.ring();
  };
  if (signal?.aborted) end();
  signal?.addEventListener('abort', end);
  try {
    return await toTheEnd(parts, plan, emitTicks);
  } finally {
    signal?.removeEventListener('abort', end);
    ring.endRun();
  }
}

/**
 * Makes the device run the run's updates after the work that is already enqueued on the thread's
 * current stream. Such work may be a write of new weights.
 */
function followCurrent({ compute, device, last }: PipelineRuntime['slots']): void {
  const { currentStream } = device;
  if (currentStream.capturing || failed(currentStream) || failed(compute)) return;
  currentStream.record(last);
  compute.wait(last, { orderOnly: true });
}

async function toTheEnd(
  parts: PipelineRuntime,
  plan: RunPlan,
  emitTicks: EmitTicks,
): Promise<Summary> {
  const { ring, averaging } = parts;
  const { ticks = Number.POSITIVE_INFINITY, signal, publishEvery = 0, rows } = plan;
  const first = ring.next;
  averaging?.begin();
  // Before the first await, because another stream may be current after it.
  followCurrent(parts.slots);
  await tailOver(parts, first, signal);
  // The journal's entries until now belong to manual ticks.
  let thrown = emitTicks(null);
  const { statistics } = plan;
  const impatient = patience(plan, () => ring.finished);
  const check = () => {
    thrown ??= emitTicks(statistics);
    try {
      impatient();
    } catch (error) {
      thrown ??= { error };
    }
  };
  const begin = nowMs();
  const run = { firstSequence: first, firstTick: plan.firstTick, ticks, rows, publishEvery };
  ring.startRun({ ...run, carried: averaging?.carried ?? 0 });
  const grace = new Grace(ring.header.isPaused(Pause.end));
  const leaveLate = () => {
    if (!averaging || !grace.isOver(averaging)) return;
    ring.header.leaveOthers();
    averaging.endWait(ring.header.ending);
  };
  const end = { first, ticks, failed: () => thrown !== null, leaveLate };
  await parts.until(() => plan.control.advance(end), { check });
  await giveBack(parts);
  const done = ring.finished - first;
  // This rank's own reason has priority. If it has none, another rank ended the run.
  const reason = done >= ticks ? Ending.ticks : ring.header.ending;
  let by: Ended = ring.run.endedBy ?? { rank: 0, why: reason };
  if (averaging) {
    averaging.ran(done);
    if (ring.run.endedBy === null)
      by = await endWithOthers(parts, averaging, reason, () => {
        check();
        return (reason === Ending.ticks && signal?.aborted !== true) || !grace.isOver(averaging);
      });
    averaging.over();
  }
  const seconds = (nowMs() - begin) / 1000;
  check();
  if (thrown !== null) throw (thrown as { error: unknown }).error;
  return {
    ticks: done,
    seconds,
    ticksPerSecond: done / seconds,
    rows: done * rows,
    aborted: reason === Ending.aborted,
    ended: reason === Ending.none ? { rank: by.rank, why: endingName(by.why) } : endingName(reason),
    sampled: statistics.sampled,
    stages: statistics.stages(),
    scalars: statistics.scalars(),
  };
}

/**
 * Waits until all manual ticks before `sequence` are over, because their work may still be under
 * way.
 */
async function tailOver(
  parts: PipelineRuntime,
  sequence: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { ring } = parts;
  ring.header.setGoal(sequence);
  await parts.until(() => ring.finished >= sequence || signal?.aborted === true);
}
