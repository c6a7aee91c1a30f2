/**
 * Formats progress and result as text and as plain objects. The functions have no state and write
 * to no stream.
 */
import { terminalColumns, wrapped } from '../command-line.ts';
import { drawStack, framed } from './picture.ts';
import type { Progress, Result, RunOptions } from './run.ts';

const whole = (value: number) => Math.round(value).toLocaleString('en-US');
const fixed = (value: number, digits: number) =>
  Number.isFinite(value) ? value.toFixed(digits) : '–';
const rounded = (value: number, digits: number) =>
  Number.isFinite(value) ? Number(value.toFixed(digits)) : null;
const mib = (bytes: number) => `${whole(bytes / 2 ** 20)} MiB`;

/** Returns rates per second since `before`, or since the beginning without `before`. */
function ratesOf(now: Progress, before?: Progress): { steps: number; batches: number } {
  const seconds = Math.max(1e-3, now.seconds - (before?.seconds ?? 0));
  const since = (key: 'steps' | 'batches') => (now[key] - (before?.[key] ?? 0)) / seconds;
  return { steps: since('steps'), batches: since('batches') };
}

export function progressLine(now: Progress, before: Progress): string {
  const { steps, batches } = ratesOf(now, before);
  return [
    `${now.seconds.toFixed(1).padStart(5)} s  return ${fixed(now.meanReturn, 2)}`,
    `${whole(steps)} steps/s  ${whole(batches)} batches/s  ${whole(now.steps)} steps`,
    `loss ${fixed(now.loss, 4)}  waits for ${now.waitingFor}`,
  ].join('  ');
}

export function progressObject(now: Progress, before: Progress): object {
  const { steps, batches } = ratesOf(now, before);
  return {
    event: 'progress',
    seconds: rounded(now.seconds, 3),
    steps: now.steps,
    batches: now.batches,
    stepsPerSecond: rounded(steps, 0),
    batchesPerSecond: rounded(batches, 1),
    meanReturn: rounded(now.meanReturn, 3),
    loss: rounded(now.loss, 6),
    waitingFor: now.waitingFor,
  };
}

export function summaryObject(
  result: Result,
  { seed, settings }: RunOptions,
  interrupted: boolean,
): object {
  const { steps, batches } = ratesOf(result);
  const { device, bufferBytes, stackedBytes, batchBytes, stages } = result;
  return {
    ...progressObject(result, { ...result, seconds: 0, steps: 0, batches: 0 }),
    event: 'summary',
    device,
    seed,
    stepsPerSecond: rounded(steps, 0),
    batchesPerSecond: rounded(batches, 1),
    rows: settings.rows,
    megabytesPerSecond: rounded((batches * batchBytes) / 1e6, 1),
    batchBytes,
    bufferBytes,
    stackedBytes,
    interrupted,
    stages,
  };
}

export function summaryText(result: Result, { settings }: RunOptions): string {
  const { seconds, device, batchBytes, bufferBytes, stackedBytes, stages, meanReturn, frames } =
    result;
  const { steps, batches } = ratesOf(result);
  const { rows, stack, nStep, capacity, samplesPerInsert } = settings;
  const ms = (us: number) => (us / 1000).toFixed(2);
  const pace = samplesPerInsert === 0 ? '' : `, ${samplesPerInsert} drawn per step written`;
  const text = `\
a stack of ${stack} frames as it is drawn, older ones in lighter shades

${seconds.toFixed(1)} s on ${device}: ${whole(result.steps)} steps written, ${whole(steps)} a second${pace}
${whole(result.batches)} batches of ${rows} transitions of ${nStep} steps, ${fixed(batches, 1)} a second, \
${whole((batches * batchBytes) / 1e6)} MB/s to the device
a batch: drawn and stacked in ${ms(stages.pack.p50)} ms, copied in ${ms(stages.submit.p50 + stages.copy.p50)} ms, \
made floats and learned from in ${ms(stages.launch.p50 + stages.learn.p50)} ms (medians)
memory: ${mib(bufferBytes)} for ${whole(capacity)} places with one frame each; with two stacks each it were \
${mib(stackedBytes)}, ${(stackedBytes / bufferBytes).toFixed(1)} times as much
mean return of the last games ${fixed(meanReturn, 2)} (−1 a game: every first ball missed; 8: all caught)`;
  return `${framed(drawStack(frames))}\n${wrapped(text, terminalColumns())}`;
}
