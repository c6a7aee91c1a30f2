/** An autonomous run: the requester makes the ticks, replay spends them, the opener only waits and reads the journal. */
import { native } from '../device/native.ts';
import { Mode, Run } from '../ring/ring.ts';
import { Statistics, type Summary } from './summary.ts';
import type { Works } from './works.ts';

export interface RunOptions {
  /** ticks to run; until the signal when left out */
  ticks?: number;
  /** ends the run after the ticks under way; the summary says so */
  signal?: AbortSignal;
  /** publish the weights behind every n-th tick; 0, the default, publishes none */
  publishEvery?: number;
}

/** Reads the journal into statistics and to listeners; null, or what a listener threw. */
export type Tell = (statistics: Statistics | null) => { error: unknown } | null;

export interface RunPlan extends RunOptions {
  firstTick: number;
  rows: number;
  scalarNames: readonly string[];
}

/** Resolves once every tick of the run is over and both roles that start work have paused. Throws what a listener threw. */
export async function runTicks(works: Works, plan: RunPlan, tell: Tell): Promise<Summary> {
  const { ring } = works;
  const { ticks = Number.POSITIVE_INFINITY, signal, publishEvery = 0, rows } = plan;
  const first = ring.next;
  await tailOver(works, first, signal);
  // What is told so far belongs to manual ticks.
  let thrown = tell(null);
  const statistics = new Statistics(plan.scalarNames);
  const look = () => {
    thrown ??= tell(statistics);
  };
  const { run } = ring;
  run[Run.firstSequence] = first;
  run[Run.firstTick] = plan.firstTick;
  run[Run.ticks] = signal?.aborted ? 0 : ticks;
  run[Run.runRows] = rows;
  run[Run.publishEvery] = publishEvery;
  const begin = native().nowMs();
  ring.setGoal(ticks < 2 ** 28 ? first + ticks : null);
  ring.setMode(Mode.autonomous);
  ring.ringAll();
  let aborted = false;
  let pausing = false;
  // Ends in three steps: the ticks are through (or the signal or a listener ends it), requester and replay have paused,
  // every slot is Free.
  const over = () => {
    aborted ||= signal?.aborted ?? false;
    if (!pausing && (aborted || thrown !== null || ring.finished - first >= ticks)) {
      pausing = true;
      ring.pause();
      works.step();
    }
    if (!pausing) return false;
    // The answers first: a request handed over before the requester's answer shows as a slot that is not Free.
    const answered = ring.paused;
    if (!ring.idle) return false;
    // Replay answers once nothing is under way, which nobody but the client looks at.
    if (!answered) ring.bellOf('replay').ring();
    return answered;
  };
  try {
    await works.until(over, { look, wakeOn: signal });
  } finally {
    ring.setGoal(null);
    ring.ask(ring.next);
    ring.setMode(Mode.manual);
    ring.ringAll();
  }
  const seconds = (native().nowMs() - begin) / 1000;
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
async function tailOver(works: Works, sequence: number, signal: AbortSignal | undefined): Promise<void> {
  const { ring } = works;
  ring.setGoal(sequence);
  await works.until(() => ring.finished >= sequence || signal?.aborted === true, { wakeOn: signal });
}
