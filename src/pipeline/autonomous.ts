/** An autonomous run: the requester makes the ticks, replay spends them, the opener only waits and reads the journal. */
import { checkCount, checkKeys } from '../checks.ts';
import { nowMs } from '../clock.ts';
import { failed } from '../device/stream.ts';
import { stateError } from '../errors.ts';
import { checkSignal } from '../wait/wait.ts';
import type { PipelineParts } from './parts.ts';
import type { Hold } from './standstill.ts';
import type { Statistics, Summary } from './summary.ts';

export interface RunOptions {
  /** ticks to run; until the signal when left out */
  ticks?: number;
  /** ends the run after the ticks under way; the summary says so */
  signal?: AbortSignal;
  /** publish the weights behind every n-th tick; 0, the default, publishes none */
  publishEvery?: number;
}

export function checkRun(options: RunOptions): void {
  checkKeys('run', options, ['ticks', 'signal', 'publishEvery']);
  const { ticks = Number.POSITIVE_INFINITY, signal, publishEvery = 0 } = options;
  checkSignal(signal);
  if (ticks !== Number.POSITIVE_INFINITY) checkCount('ticks', ticks, 1);
  checkCount('publishEvery', publishEvery, 0);
}

export function checkCaptured({ publishEvery = 0 }: RunOptions, graphs: number, hasWeights: boolean): void {
  if (graphs === 0) throw stateError('CAPTURE', 'capture() the learner before run()');
  if (publishEvery > 0 && !hasWeights)
    throw stateError('CAPTURE', 'publishEvery needs weights: open with a mailbox and give capture() the weights');
}

/** Reads the journal into statistics and to listeners; null, or what a listener threw. */
type Tell = (statistics: Statistics | null) => { error: unknown } | null;

interface RunPlan extends RunOptions {
  firstTick: number;
  rows: number;
  /** begun anew */
  statistics: Statistics;
  /** what the next batch waits for, in words */
  waitingFor: () => string;
  /** the same, in words that change only when something moves */
  standsFor: () => string;
  /** somebody may want the run to stand still between two ticks */
  hold: Hold;
  warn: (text: string) => void;
}

/** A run that waits so long for the same thing says so, once. */
const PATIENCE_MS = 10_000;

/** Tells what a run waits for when that has not changed, and no tick has ended, for a while. */
function patience({ waitingFor, standsFor, warn }: RunPlan, finished: () => number): () => void {
  let since = nowMs();
  let seen = '';
  let told = false;
  return () => {
    const now = `${finished()} ${standsFor()}`;
    if (now !== seen) {
      seen = now;
      since = nowMs();
      told = false;
    } else if (!told && nowMs() - since >= PATIENCE_MS) {
      told = true;
      const thing = waitingFor();
      warn(`run() has waited ${PATIENCE_MS / 1000} s for ${thing === 'nothing' ? 'a batch that is under way' : thing}`);
    }
  };
}

/** Resolves once every tick of the run is over and both roles that start work have paused. Throws what a listener threw. */
export async function runTicks(parts: PipelineParts, plan: RunPlan, tell: Tell): Promise<Summary> {
  const { signal } = plan;
  // The signal ends the run and rejects no wait of it.
  const wake = () => parts.ring.bells.client.ring();
  signal?.addEventListener('abort', wake);
  try {
    return await toTheEnd(parts, plan, tell);
  } finally {
    signal?.removeEventListener('abort', wake);
  }
}

/** What the thread's current stream was given so far comes before the run's updates: weights that were just written, say. */
function followCurrent({ compute, device, last }: PipelineParts['slots']): void {
  const { currentStream } = device;
  if (currentStream.capturing || failed(currentStream) || failed(compute)) return;
  currentStream.record(last);
  compute.wait(last, { orderOnly: true });
}

async function toTheEnd(parts: PipelineParts, plan: RunPlan, tell: Tell): Promise<Summary> {
  const { ring } = parts;
  const { ticks = Number.POSITIVE_INFINITY, signal, publishEvery = 0, rows } = plan;
  const first = ring.next;
  // At once: after the first await another stream may be the current one.
  followCurrent(parts.slots);
  await tailOver(parts, first, signal);
  // What is told so far belongs to manual ticks.
  let thrown = tell(null);
  const { statistics } = plan;
  const impatient = patience(plan, () => ring.finished);
  const look = () => {
    thrown ??= tell(statistics);
    try {
      impatient();
    } catch (error) {
      thrown ??= { error };
    }
  };
  const begin = nowMs();
  const firstSequence = first;
  ring.startRun({ firstSequence, firstTick: plan.firstTick, ticks: signal?.aborted ? 0 : ticks, rows, publishEvery });
  let aborted = false;
  let pausing = false;
  /** requests are paused because somebody wants it to stand still */
  let standing = false;
  const { hold } = plan;
  const stand = () => {
    standing = true;
    ring.header.pause();
    parts.step();
  };
  const goOn = () => {
    standing = false;
    ring.resume(first + ticks);
  };
  // Ends in three steps: the ticks are through (or the signal or a listener ends it), requester and replay have paused,
  // every slot is Free.
  const over = () => {
    aborted ||= signal?.aborted ?? false;
    if (hold.held) return false;
    if (standing && !hold.wanted) goOn();
    if (!pausing && !standing && (aborted || thrown !== null || ring.finished - first >= ticks)) {
      pausing = true;
      ring.header.pause();
      parts.step();
    }
    if (!pausing && !standing && hold.wanted) stand();
    if (!pausing && !standing) return false;
    // Poll rings when the last of what was requested is over.
    if (standing) ring.header.setGoal(ring.next);
    // The answers first: a request handed over before the requester's answer shows as a slot that is not Free.
    const answered = ring.header.paused;
    if (!ring.idle) return false;
    // And once more behind: replay takes an early answer back before it takes up graphs for a slot that is over by now.
    const still = answered && ring.header.paused;
    // Replay answers once nothing is under way; only the client reads the answer.
    if (!still) ring.bells.of('replay').ring();
    if (!still || pausing) return still;
    hold.tell(true);
    return false;
  };
  try {
    await parts.until(over, { look });
  } finally {
    ring.endRun();
  }
  const seconds = (nowMs() - begin) / 1000;
  look();
  if (thrown !== null) throw (thrown as { error: unknown }).error;
  const done = ring.finished - first;
  return {
    ticks: done,
    seconds,
    ticksPerSecond: done / seconds,
    rows: done * rows,
    aborted,
    sampled: statistics.sampled,
    stages: statistics.stages(),
    scalars: statistics.scalars(),
  };
}

/** The tail of manual ticks, whose work may still be under way. */
async function tailOver(parts: PipelineParts, sequence: number, signal: AbortSignal | undefined): Promise<void> {
  const { ring } = parts;
  ring.header.setGoal(sequence);
  await parts.until(() => ring.finished >= sequence || signal?.aborted === true);
}
