/**
 * Reports where the time of a small tick goes. Each tick's record has the moments when every role
 * began and ended. The time between two moments is a role's work or the way from one role to the
 * next. For comparison, also measures moving the bytes alone.
 */
import { nativeMemory } from '../src/device/native.ts';
import { internalsOf } from '../src/engine/pipeline/replay-pipeline.ts';
import { Field } from '../src/engine/ring/slot.ts';
import { openDevice, type ReplayBuffer, ReplayPipeline, uniformIndices } from '../src/index.ts';
import { middle, type Report } from './harness.ts';
import { idle, manualTicks, type Placed } from './tick-rates.ts';

const {
  requestedAt,
  packBegin,
  packEnd,
  submitBegin,
  submitEnd,
  readyAt,
  replayBegin,
  replayEnd,
  doneAt,
} = Field;
const steps = [
  ['requested until pack begins', requestedAt, packBegin],
  ['pack', packBegin, packEnd],
  ['packed until submit begins', packEnd, submitBegin],
  ['submit', submitBegin, submitEnd],
  ['submitted until seen ready', submitEnd, readyAt],
  ['ready until the learner has it', readyAt, replayBegin],
  ['launch', replayBegin, replayEnd],
  ['launched until seen spent', replayEnd, doneAt],
] as const;

/** Returns the records of the last ticks that the journal still has. */
function records(pipeline: ReplayPipeline): Float64Array[] {
  const { journal } = internalsOf(pipeline).parts.ring;
  const kept: Float64Array[] = [];
  journal.read(Math.max(0, journal.head - journal.capacity + 1), ({ record }) => kept.push(record));
  return kept;
}

function tell(report: Report, way: string, ticks: Float64Array[], perSecond: number): void {
  for (const [name, begin, end] of steps) {
    const us = ticks.map((record) => ((record[end] as number) - (record[begin] as number)) * 1000);
    report({ case: `${way}: ${name}`, metric: 'time in a tick', ...middle(us), unit: 'µs' });
  }
  report({
    case: `${way}: from one tick to the next`,
    metric: 'time in a tick',
    value: 1e6 / perSecond,
    unit: 'µs',
  });
}

/** Measures moving the bytes without a pipeline: gathering the rows, and copying the batch. */
function bytesAlone(report: Report, buffer: ReplayBuffer, rows: number, device: string): void {
  const opened = openDevice(device);
  const out = new Float32Array(rows * 43);
  const indices = uniformIndices({ seed: 1, size: buffer.size, count: rows }) as Uint32Array;
  using target = opened.allocate({ shape: [out.byteLength], dtype: 'uint8' });
  const bytes = new Uint8Array(out.buffer);
  const ways = {
    'the rows gathered': () => buffer.gather(indices, out),
    'the batch copied': () => nativeMemory().copyOut(target.handle, bytes),
  };
  for (const [name, act] of Object.entries(ways)) {
    const us: number[] = [];
    for (let i = 0; i < 2000; i++) {
      const begin = performance.now();
      act();
      us.push((performance.now() - begin) * 1000);
    }
    report({ case: `bytes alone: ${name}`, metric: 'time in a tick', ...middle(us), unit: 'µs' });
  }
}

export async function explain(
  report: Report,
  buffer: ReplayBuffer,
  rows: number,
  ticks: number,
  device: string,
  placements: Readonly<Record<string, Placed>>,
): Promise<void> {
  bytesAlone(report, buffer, rows, device);
  for (const [name, placement] of Object.entries(placements)) {
    await using pipeline = await ReplayPipeline.open({
      buffer,
      device,
      sampleCount: rows,
      placement,
    });
    idle(pipeline);
    await pipeline.run({ ticks: ticks / 10 });
    const { ticksPerSecond } = await pipeline.run({ ticks });
    tell(report, `run(), ${name}`, records(pipeline), ticksPerSecond);
    const manual = await manualTicks(pipeline, rows, 1.1 * ticks, ticks);
    tell(report, `manual, ${name}`, records(pipeline), manual);
  }
}
