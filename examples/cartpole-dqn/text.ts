/**
 * Formats progress and outcome as text and as plain objects. The functions have no state and write
 * to no stream.
 */
import { createHash } from 'node:crypto';
import { SOLVED } from './evaluate.ts';
import { needsOrder } from './settings.ts';
import type { Outcome, Progress, Training } from './training.ts';

export interface Rates {
  /** environment steps per second. `ticks` is pipeline ticks per second */
  steps: number;
  ticks: number;
}

const BAR = 16;
const whole = (value: number) => Math.round(value).toLocaleString('en-US');
const fixed = (value: number, digits: number) =>
  Number.isFinite(value) ? value.toFixed(digits) : '–';

export const startObject = ({
  options: { seed, settings },
  manifest: { device, placement },
  firstTick,
}: Training) => ({
  event: 'start',
  seed,
  device,
  placement,
  replay: settings.replay,
  nStep: settings.nStep,
  firstTick,
});

export function startText(training: Training): string {
  const { seed, device, placement, replay, nStep } = startObject(training);
  const drawn = needsOrder(training.options.settings)
    ? `, ${replay} replay of ${nStep}-step rows`
    : '';
  const { resume, checkpoint } = training.options;
  const kept = checkpoint
    ? `\nsaved in ${checkpoint.folder} every ${checkpoint.every} and at the end`
    : '';
  const begins = `DQN on CartPole-v1: seed ${seed}, ${device}, actors ${placement}${drawn}${kept}`;
  if (resume === undefined) return begins;
  const { restored, firstTick } = training;
  const from = restored
    ? `resumes after tick ${firstTick - 1}, saved ${restored.time}`
    : 'does not contain a checkpoint yet';
  return `${begins}\n${resume} ${from}: begins at tick ${firstTick}`;
}

/** Returns two lines. The first shows the return and speeds, and the second the details. */
export function liveLines(progress: Progress, rates: Rates): [string, string] {
  const { meanReturn, seconds } = progress;
  const reached = Math.min(1, (Number.isFinite(meanReturn) ? meanReturn : 0) / SOLVED);
  const full = Math.round(reached * BAR);
  const bar = `[${'█'.repeat(full)}${'·'.repeat(BAR - full)}]`;
  const [first, ...rest] = describe(progress, rates);
  const head = `${seconds.toFixed(1).padStart(5)} s ${bar} return ${fixed(meanReturn, 0).padStart(3)} of ${SOLVED}`;
  return [[head, ...(first as string[])].join('  '), `        ${rest.flat().join('  ')}`];
}

export function plainLine(progress: Progress, rates: Rates): string {
  const { seconds, meanReturn } = progress;
  const head = `${seconds.toFixed(1).padStart(5)} s  return ${fixed(meanReturn, 1)} of ${SOLVED}`;
  return [head, ...describe(progress, rates).flat()].join('  ');
}

/** Returns groups of texts: the rates first, then other values, the most important first. */
function describe(progress: Progress, rates: Rates): string[][] {
  const { loss, bufferFill, waitingFor, greedyReturn, steps } = progress;
  return [
    [`${whole(rates.steps)} steps/s`, `${whole(rates.ticks)} ticks/s`],
    [
      `loss ${fixed(loss, 4)}`,
      `buffer ${Math.round(bufferFill * 100)}%`,
      `waits for ${waitingFor}`,
    ],
    [
      `${whole(steps)} steps`,
      ...(greedyReturn === null ? [] : [`greedy at most ${greedyReturn.toFixed(0)}`]),
    ],
  ];
}

const rounded = (value: number, digits: number) =>
  Number.isFinite(value) ? Number(value.toFixed(digits)) : null;

export function progressObject(progress: Progress, rates: Rates): object {
  const {
    seconds,
    steps,
    episodes,
    ticks,
    meanReturn,
    loss,
    meanQ,
    bufferFill,
    waitingFor,
    greedyReturn,
  } = progress;
  return {
    event: 'progress',
    seconds: rounded(seconds, 3),
    steps,
    stepsPerSecond: rounded(rates.steps, 0),
    ticks,
    ticksPerSecond: rounded(rates.ticks, 0),
    episodes,
    recentReturn: rounded(meanReturn, 2),
    greedyReturn: greedyReturn === null ? null : rounded(greedyReturn, 2),
    loss: rounded(loss, 6),
    meanQ: rounded(meanQ, 3),
    bufferFill: rounded(bufferFill, 3),
    waitingFor,
  };
}

export function summaryObject(
  outcome: Outcome,
  { manifest, options, firstTick }: Training,
): object {
  const {
    solved,
    finalReturn,
    seconds,
    ticks,
    steps,
    episodes,
    evaluations,
    interrupted,
    stages,
    weights,
  } = outcome;
  return {
    solved,
    meanReturn: finalReturn === null ? null : rounded(finalReturn, 2),
    seconds: rounded(seconds, 3),
    ticks,
    firstTick,
    device: manifest.device,
    seed: options.seed,
    steps,
    episodes,
    updates: ticks * options.settings.minibatches,
    evaluations,
    recentReturn: rounded(outcome.meanReturn, 2),
    loss: rounded(outcome.loss, 6),
    interrupted,
    replay: options.settings.replay,
    nStep: options.settings.nStep,
    placement: manifest.placement,
    // hash of the weights, by which runs can be compared
    weights: createHash('sha256').update(weights).digest('hex').slice(0, 16),
    stages,
  };
}

/** Returns the outcome as text, followed by the table of stage times unless `brief` is true. */
export function finalText(
  outcome: Outcome,
  { manifest, options }: Training,
  brief: boolean,
): string {
  const { solved, finalReturn, seconds, ticks, steps, stages, interrupted } = outcome;
  const result =
    finalReturn === null
      ? 'no weights were published yet'
      : `mean return ${finalReturn.toFixed(1)} over 100 greedy episodes`;
  const { checkpoint } = options;
  const how = solved ? 'solved in' : interrupted ? 'interrupted after' : 'not solved in';
  const updates = whole(ticks * options.settings.minibatches);
  const sentence =
    `${how} ${seconds.toFixed(1)} s on ${manifest.device}: ${result}\n` +
    `${whole(steps)} environment steps, ${whole(ticks)} ticks, ${updates} updates` +
    (checkpoint ? `\nsaved: --resume ${checkpoint.folder} resumes from here` : '');
  if (brief || stages === null) return sentence;
  const cell = (us: number) =>
    (us >= 1000 ? `${(us / 1000).toFixed(2)} ms` : `${us.toFixed(1)} µs`).padStart(11);
  const rows = Object.entries(stages).map(
    ([name, { p50, p90, p99 }]) => `  ${name.padEnd(8)}${cell(p50)}${cell(p90)}${cell(p99)}`,
  );
  const head = `  ${'stage'.padEnd(8)}${['p50', 'p90', 'p99'].map((name) => name.padStart(11)).join('')}`;
  return [sentence, '', head, ...rows].join('\n');
}
