/**
 * Progress of the training for the user: live lines on a terminal, plain lines in a pipe, or JSON
 * lines.
 */
import type { Display } from '../../src/entries/collect.ts';
import { liveLines, plainLine, progressObject, type Rates } from './text.ts';
import type { Progress, Training } from './training.ts';

/** Shortest time over which a rate is averaged. Digits that change faster are unreadable. */
const SECONDS = 0.5;

export function progressOf(training: Training, json: boolean): Display {
  let before = training.progress();
  /** Returns the current progress, and the rates since an earlier moment. */
  const look = (): [Progress, Rates] => {
    const progress = training.progress();
    const seconds = Math.max(1e-3, progress.seconds - before.seconds);
    const rates = {
      steps: (progress.steps - before.steps) / seconds,
      ticks: (progress.ticks - before.ticks) / seconds,
    };
    if (seconds > SECONDS) before = progress;
    return [progress, rates];
  };
  if (json) return { line: () => JSON.stringify(progressObject(...look())) };
  return { live: () => liveLines(...look()), line: () => plainLine(...look()) };
}
