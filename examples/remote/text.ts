/** Formats what the user sees: progress, which side waits for the other, and the result. */
import type { CommandLine } from './options.ts';
import type { Task } from './settings.ts';
import type { Progress } from './training.ts';

/**
 * Shortest time in seconds over which a rate is averaged. Digits that change faster are unreadable.
 */
const SECONDS = 0.5;
const whole = (value: number) => Math.round(value).toLocaleString('en-US');
const percent = (share: number) => `${Math.round(100 * share)} %`;
const ms = (value: number | null) => (value === null ? '–' : `${value.toFixed(0)} ms`);

export interface Look extends Progress {
  readonly rowsPerSecond: number;
  readonly ticksPerSecond: number;
}

/** Returns a function that returns the progress with rates since an earlier moment. */
export function lookerOf(progress: () => Progress): () => Look {
  let before = progress();
  let rates = { rowsPerSecond: 0, ticksPerSecond: 0 };
  return () => {
    const now = progress();
    const seconds = now.seconds - before.seconds;
    if (seconds > SECONDS) {
      rates = {
        rowsPerSecond: (now.steps - before.steps) / seconds,
        ticksPerSecond: (now.ticks - before.ticks) / seconds,
      };
      before = now;
    }
    return { ...now, ...rates };
  };
}

/** Returns a text that says which side waits for the other, the learner or the hosts. */
export function whoWaits({ remote, rowsWait, ticks, learnerWaits }: Look): string {
  if (remote.hosts === 0) return rowsWait ?? 'rows: no collector host has connected yet';
  if (remote.gated > 0.5) return `hosts wait for the learner, ${percent(remote.gated)} of the time`;
  if (ticks === 0) return `no tick yet, it waits for ${learnerWaits}`;
  return `the learner waits for hosts, ${percent(1 - remote.gated)} of the time`;
}

export function liveLines(look: Look, task: Task): [string, string, string] {
  const { seconds, steps, meanReturn, rowsPerSecond, ticksPerSecond, remote } = look;
  const { hosts, silent, lag, versionLag } = remote;
  const worth = meanReturn === null ? '–' : meanReturn.toFixed(0);
  return [
    `${seconds.toFixed(1).padStart(6)} s  return ${worth} of ${task.goal}  ${whole(steps)} rows  ${whole(rowsPerSecond)} rows/s  ${whole(ticksPerSecond)} ticks/s`,
    `          ${hosts} ${hosts === 1 ? 'host' : 'hosts'}${silent > 0 ? `, ${silent} silent` : ''}  rows under way ${ms(lag.p50)}  weights ${versionLag.p50 ?? '–'} versions behind`,
    `          ${whoWaits(look)}`,
  ];
}

export const plainLine = (look: Look, task: Task): string =>
  liveLines(look, task)
    .map((line, at) => (at === 0 ? line : line.trim()))
    .join('  ');

export function progressObject(look: Look): object {
  const { seconds, steps, ticks, rowsPerSecond, ticksPerSecond, meanReturn, remote } = look;
  const { hosts, silent, duplicates, gaps, lag, versionLag, gated } = remote;
  return {
    event: 'progress',
    seconds,
    steps,
    ticks,
    rowsPerSecond,
    ticksPerSecond,
    meanReturn,
    hosts,
    silent,
    duplicates,
    gaps,
    lag,
    versionLag,
    gated,
    waits: whoWaits(look),
  };
}

export interface Outcome {
  readonly solved: boolean;
  readonly interrupted: boolean;
  readonly last: Progress;
}

export function summaryObject(
  { solved, interrupted, last }: Outcome,
  { name, seed, device }: CommandLine,
): object {
  const { meanReturn, steps, ticks, seconds, remote } = last;
  const { hosts, rows, duplicates, gaps, lost, refused, lag, versionLag } = remote;
  return {
    solved,
    meanReturn,
    steps,
    ticks,
    seconds,
    environment: name,
    seed,
    device,
    interrupted,
    hosts,
    rows,
    duplicates,
    gaps,
    lost,
    refused,
    lag,
    versionLag,
  };
}

export function finalText({ solved, interrupted, last }: Outcome, { name }: CommandLine): string {
  const { meanReturn, steps, ticks, seconds, remote } = last;
  const how = solved ? 'solved in' : interrupted ? 'interrupted after' : 'not solved in';
  const worth =
    meanReturn === null ? 'no weights were looked at yet' : `mean return ${meanReturn.toFixed(1)}`;
  const over = solved ? ' over 100 greedy episodes' : '';
  return [
    `${name} ${how} ${seconds.toFixed(1)} s: ${worth}${over}`,
    `${whole(steps)} rows of ${remote.hosts} ${remote.hosts === 1 ? 'host' : 'hosts'}, ${whole(ticks)} ticks; ${whole(remote.duplicates)} duplicate messages, ${whole(remote.gaps)} gaps`,
  ].join('\n');
}
