/**
 * Tests pipelines whose rows are stored on the device: which rows they draw, next to writers at
 * full speed, and when actors are terminated.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { DqnLearner } from '../../src/entries/learner.ts';
import {
  Checkpoint,
  openDevice,
  philoxIndices,
  ReplayBuffer,
  ReplayPipeline,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { workersOf } from '../pipeline/inside.ts';
import { Latch } from '../rig/latch.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';
import { FIELDS, numbered } from './numbered.ts';
import type { Writing } from './writer.ts';

const SAMPLE = 48;
const placements = ['inline', 'auto', [['pack'], ['submit'], ['poll'], ['replay']]] as const;
type NumberedBuffer = ReturnType<typeof bufferOf>;

function bufferOf(capacity: number, rows = 0) {
  const buffer = ReplayBuffer.create({ capacity, fields: FIELDS });
  for (let from = 0; from < rows; from += 16) buffer.add(numbered(from, Math.min(16, rows - from)));
  return buffer;
}
const open = (buffer: NumberedBuffer, options: object = {}) =>
  ReplayPipeline.open({
    buffer,
    device: TESTED,
    sampleCount: SAMPLE,
    rows: 'device',
    baseSeed: 9,
    ...options,
  });

/** Runs `act` while a thread adds rows. Returns how many rows there are at the end. */
async function beside(
  buffer: NumberedBuffer,
  rowsPerAdd: number,
  act: () => Promise<void>,
): Promise<number> {
  const control = new SharedArrayBuffer(4);
  const work: Writing = {
    shared: buffer.share() as Writing['shared'],
    control,
    from: buffer.ptr,
    rowsPerAdd,
  };
  const writer = new TestThread<Writing>(new URL('./writer.js', import.meta.url), work);
  try {
    // Waits until the thread has begun.
    while (buffer.ptr === work.from) await new Promise((resolve) => setImmediate(resolve));
    await act();
  } finally {
    Atomics.store(new Int32Array(control), 0, 1);
  }
  return writer.result<number>();
}

/**
 * Captures an update that adds x + y of every drawn row to a sum and counts the ticks. The sum
 * stays 0 unless a row is torn.
 */
function sums(made: Awaited<ReturnType<typeof open>>) {
  const device = openDevice(TESTED);
  const [total, one] = [
    device.allocate({ shape: [1] }),
    device.allocate({ shape: [1] }).write(Float32Array.of(1)),
  ];
  const parts = device.allocate({ shape: [SAMPLE, 2] });
  const captured = made.capture(
    ({ x, y }, { stream, out }) => {
      const both = [
        parts.view({ shape: [SAMPLE, 1], strides: [2, 1] }),
        parts.view({ shape: [SAMPLE, 1], offset: 1, strides: [2, 1] }),
      ];
      for (const [i, column] of [x, y].entries()) {
        const step = column.strides[0] as number;
        stream.launch('copy2d', { tensors: [both[i]!, column], wholes: [SAMPLE, 1, 2, step] });
      }
      stream.launch('reduce_rows', {
        tensors: [out.view({ shape: [1] }), parts],
        wholes: [1, 2 * SAMPLE, 1, 2 * SAMPLE, 0],
        reals: [1],
      });
      stream.launch('axpby', { tensors: [total, one], wholes: [1], reals: [1, 1] });
      stream.copy(out.view({ shape: [1], offset: 1 }), total);
    },
    { scalars: ['sum', 'ticks'] },
  );
  return { captured, close: () => device.close() };
}

describe('device-rows/pipeline', function () {
  this.timeout(setting({ short: 120_000, all: 300_000, long: 1_200_000 }));

  for (const placement of placements)
    (Array.isArray(placement) ? itAll : it)(
      `samples the rows of philoxIndices() in manual ticks, and whole rows in runs (${JSON.stringify(placement)})`,
      async () => {
        const buffer = bufferOf(100, 60);
        await using made = await open(buffer, { placement });
        for (const tick of [3, 4, 9]) {
          const batch = await made.sampleLargeBatch(tick, SAMPLE);
          const { visible, drawable } = made.ring!.stats();
          const drawn = philoxIndices({
            seed: 9,
            tick,
            low: visible - drawable,
            span: drawable,
            capacity: 100,
            count: SAMPLE,
          });
          const want = buffer.gather(drawn, new Float32Array(16 * SAMPLE));
          expect([...(await batch.x.toArray())]).to.deep.equal(
            Array.from({ length: SAMPLE }, (_, i) => want[16 * i]),
          );
          // A second call for the current tick returns the same batch.
          expect(await made.sampleLargeBatch(tick, SAMPLE)).to.equal(batch);
          made.afterTick();
          buffer.add(numbered(buffer.ptr, 30));
        }
        const { captured, close } = sums(made);
        const { scalars } = await captured.run({ ticks: 50 });
        expect(scalars.sum).to.equal(0);
        // Ticks copy rows span by span. Fifty fast ticks may end before the last span is copied.
        for (let more = 0; more < 100 && made.ring!.stats().ingestedRows < 150; more++)
          await captured.run({ ticks: 5 });
        expect(made.transferManifest).to.include({
          rowsKept: 'device',
          ringRows: 100,
          guardRows: 7,
          drawableRows: 93,
          rowStride: 64,
        });
        expect(made.ring!.stats()).to.include({
          ingestedRows: 150,
          ingestedBytes: 150 * 64,
          droppedRows: 0,
        });
        close();
      },
    );

  it('overwrites no batch that another stream still reads', async () => {
    const buffer = bufferOf(100, 60);
    await using made = await open(buffer);
    using device = openDevice(TESTED);
    using latch = new Latch(device);
    const streams = [device.createStream(), device.createStream()] as const;
    const kept = streams.map(() => device.allocate({ shape: [SAMPLE, 1] }));
    for (const [tick, stream] of streams.entries()) {
      const { x } = await device.withStream(stream, () => made.sampleLargeBatch(tick, SAMPLE));
      if (tick === 0) latch.hold(stream);
      stream.launch('copy2d', {
        tensors: [kept[tick]!, x],
        wholes: [SAMPLE, 1, 1, x.strides[0] as number],
      });
      made.afterTick({ stream });
    }
    // If the draw did not wait for the latch, it would be done by now.
    await new Promise((resolve) => setTimeout(resolve, 20));
    latch.open();
    const { visible, drawable } = made.ring!.stats();
    for (const [tick, stream] of streams.entries()) {
      const range = { low: visible - drawable, span: drawable, capacity: 100 };
      const want = buffer.gather(
        philoxIndices({ seed: 9, tick, ...range, count: SAMPLE }),
        new Float32Array(16 * SAMPLE),
      );
      const got = await kept[tick]!.toArray(stream);
      expect([...got], `tick ${tick}`).to.deep.equal(
        Array.from({ length: SAMPLE }, (_, i) => want[16 * i]),
      );
    }
    for (const part of [...kept, ...streams]) part.close();
  });

  itLonger(
    'trains a DqnLearner to the same bits as a learner that gets the same rows from the host',
    async () => {
      const ticks = setting({ short: 30, all: 1000 });
      const options = {
        obsDim: 3,
        actions: 2,
        hidden: [8],
        batchSize: SAMPLE,
        learningRate: 1e-3,
        seed: 4,
      };
      const buffer = ReplayBuffer.offPolicy({ capacity: 200, obsDim: 3, actionDim: 1 });
      const numbers = new Random(5);
      const field = (width: number, of = () => numbers.between(-1, 1)) =>
        Float32Array.from({ length: 200 * width }, of);
      const flags = field(1, () => numbers.below(2));
      const actions = field(1, () => numbers.below(2));
      buffer.add({
        obs: field(3),
        nextObs: field(3),
        actions,
        rewards: field(1),
        dones: flags,
        truncated: field(1, () => 0),
      });
      using device = openDevice(TESTED);
      const [one, other] = [new DqnLearner(device, options), new DqnLearner(device, options)];
      await Promise.all([one.ready, other.ready]);
      await using made = await ReplayPipeline.open({
        buffer,
        device: TESTED,
        sampleCount: SAMPLE,
        rows: 'device',
        baseSeed: 2,
      });
      made.capture((batch, { stream, out }) => one.update(stream, batch, out));
      await made.run({ ticks });
      const { visible, drawable } = made.ring!.stats();
      const words = buffer.rowBytes / 4;
      using rows = device.allocate({ shape: [SAMPLE, words] });
      const out = device.allocate({ shape: [48] });
      const batch = Object.fromEntries(
        Object.values(buffer.layout.fields).map(({ key, shape, offset }) => [
          key,
          rows.view({
            shape: [SAMPLE, ...shape],
            offset: offset / 4,
            strides: shape.length ? [words, 1] : [words],
          }),
        ]),
      );
      for (let tick = 0; tick < ticks; tick++) {
        const drawn = philoxIndices({
          seed: 2,
          tick,
          low: visible - drawable,
          span: drawable,
          capacity: 200,
          count: SAMPLE,
        });
        rows.write(buffer.gather(drawn, new Float32Array(SAMPLE * words)));
        other.update(device.currentStream, batch as never, out);
      }
      expect(await one.parameters.toArray()).to.deep.equal(await other.parameters.toArray());
      out.close();
      one.close();
      other.close();
    },
  );

  const rings = [
    { capacity: 64, deviceRing: {}, rowsPerAdd: 1 },
    { capacity: 64, deviceRing: { capacity: 40, guard: 3, chunkBytes: 128 }, rowsPerAdd: 5 },
    { capacity: 4096, deviceRing: { chunkBytes: 4096 }, rowsPerAdd: 64 },
  ];
  for (const { capacity, deviceRing, rowsPerAdd } of rings)
    (rowsPerAdd === 1 ? itLonger : itAll)(
      `samples no torn or stale row while a writer adds at full speed: ${capacity} rows, ${JSON.stringify(deviceRing)}`,
      async () => {
        const buffer = bufferOf(capacity, capacity);
        await using made = await open(buffer, { deviceRing });
        const manual = setting({ short: 15, all: 120, long: 20_000 });
        const rows = await beside(buffer, rowsPerAdd, async () => {
          let low = 0;
          for (let tick = 0; tick < manual; tick++) {
            const { x, y, more } = await made
              .sampleLargeBatch(tick, SAMPLE, { timeoutMs: 60_000 })
              .then((batch) => batch!);
            const [ids, minus, words] = await Promise.all([
              x.toArray(),
              y.toArray(),
              more.toArray(),
            ]);
            for (const [i, id] of ids.entries()) {
              expect([minus[i], ...words.subarray(14 * i, 14 * i + 14)]).to.deep.equal([
                -id,
                ...Array(14).fill(id),
              ]);
              expect(id).to.be.at.least(low);
            }
            made.afterTick();
            // Reads `low` after the draw. No later tick draws a row below it.
            low = made.ring!.stats().low;
          }
        });
        const { captured, close } = sums(made);
        await beside(buffer, rowsPerAdd, async () => {
          const { scalars, ticks } = await captured.run({ ticks: 20 * manual });
          expect([scalars.sum, ticks]).to.deep.equal([0, 20 * manual]);
        });
        expect(buffer.ptr).to.be.above(rows);
        close();
      },
    );

  itAll(
    'applies every update once, to whole rows, when actors are terminated at random times',
    async () => {
      const buffer = bufferOf(256, 256);
      await using made = await open(buffer, {
        placement: placements[2],
        restart: 1000,
        deviceRing: { guard: 32, chunkBytes: 512 },
      });
      const { captured, close } = sums(made);
      const seen: number[] = [];
      captured.on('tick', ({ scalars }) => seen.push(scalars.ticks as number));
      const numbers = new Random(3);
      let over = false;
      await beside(buffer, 3, async () => {
        const run = captured
          .run({ ticks: setting({ short: 1000, all: 2000, long: 10_000 }) })
          .finally(() => (over = true));
        for (let death = 0; !over && death < setting({ short: 3, all: 5, long: 40 }); death++) {
          const before = seen.length;
          await workersOf(made)[numbers.below(4)]?.terminate();
          // Waits until the run continues, then terminates the next actor.
          while (!over && seen.length < before + 20)
            await new Promise((resolve) => setImmediate(resolve));
        }
        const { scalars, ticks } = await run;
        expect(scalars.sum).to.equal(0);
        expect(seen).to.deep.equal(Array.from({ length: ticks }, (_, i) => i + 1));
      });
      close();
    },
  );

  it('keeps the rows of the current tick, and prepares the next tick from the rows that fit', async () => {
    const buffer = bufferOf(100, 100);
    await using made = await open(buffer, { deviceRing: { guard: 10 } });
    await made.sampleLargeBatch(0, SAMPLE);
    buffer.add(numbered(100, 50));
    expect(await made.waitUntilReady(1, SAMPLE, { timeoutMs: 60_000 })).to.equal(true);
    expect(made.ring!.stats().visible).to.be.within(100, 110);
    made.afterTick();
    made.startPrepare(1, SAMPLE);
    await made.sampleLargeBatch(1, SAMPLE);
    made.afterTick();
    // No batch is in use, so the pipeline copies all rows.
    await made.sampleLargeBatch(2, SAMPLE);
    expect(made.ring!.stats()).to.include({ visible: 150, droppedRows: 0 });
    made.afterTick();
  });

  it('sampleLargeBatch() of the same tick on another stream waits for the draw', async () => {
    const buffer = bufferOf(100, 100);
    await using made = await open(buffer);
    using device = openDevice(TESTED);
    using first = device.createStream();
    using second = device.createStream();
    // The latch is opened before the pipeline is closed, even if the test fails.
    using latch = new Latch(device).hold(first);
    await device.withStream(first, () => made.sampleLargeBatch(0, SAMPLE));
    const { x } = await device.withStream(second, () => made.sampleLargeBatch(0, SAMPLE));
    const reading = x.toArray(second);
    made.afterTick({ stream: second });
    latch.open();
    const drawn = philoxIndices({
      seed: 9,
      tick: 0,
      low: 7,
      span: 93,
      capacity: 100,
      count: SAMPLE,
    });
    expect([...(await reading)]).to.deep.equal([...drawn]);
    await made.close();
  });

  itAll(
    'Checkpoint.restore() resumes rows on the device, and rejects a pipeline with rows on the host',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'hotslot-rows-'));
      try {
        const buffer = bufferOf(100, 60);
        {
          await using made = await open(buffer);
          made.startPrepare(3, SAMPLE);
          expect(await made.waitUntilReady(3, SAMPLE, { timeoutMs: 60_000 })).to.equal(true);
          await using checkpoint = await Checkpoint.open(folder, { buffer, pipeline: made });
          await checkpoint.save();
        }
        const other = bufferOf(100);
        {
          await using host = await open(other, { rows: 'host' });
          const words = (
            await rejection(() => Checkpoint.restore(folder, { buffer: other, pipeline: host }))
          ).message;
          expect(words).to.match(/rowsOnDevice/);
        }
        const again = bufferOf(100);
        await using made = await open(again);
        await Checkpoint.restore(folder, { buffer: again, pipeline: made });
        const { x } = await made.sampleLargeBatch(3, SAMPLE);
        const drawn = philoxIndices({
          seed: 9,
          tick: 3,
          low: 0,
          span: 60,
          capacity: 100,
          count: SAMPLE,
        });
        expect([...(await x.toArray())]).to.deep.equal([...drawn]);
        made.afterTick();
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  it('ReplayPipeline.open() rejects invalid options, with the allowed values', async () => {
    const buffer = bufferOf(100, 10);
    const words = async (options: object) => (await rejection(() => open(buffer, options))).message;
    expect(await words({ rows: 'gpu' })).to.match(
      /^rows must be one of host, device, auto, got 'gpu'/,
    );
    expect(await words({ rows: 'host', deviceRing: {} })).to.match(
      /^deviceRing needs rows: 'device' or 'auto'/,
    );
    expect(await words({ deviceRing: { capacity: 101 } })).to.match(
      /at most the buffer's 100 rows, got 101/,
    );
    expect(await words({ deviceRing: { guard: 100 } })).to.match(
      /guard must be below the capacity 100, got 100/,
    );
    expect(await words({ deviceRing: { chunkBytes: 8 } })).to.match(
      /chunkBytes must be a whole number of at least 64/,
    );
    expect(await words({ deviceRing: { headroom: 0 } })).to.match(
      /headroom must be above 0 and at most 1, got 0/,
    );
    expect(await words({ deviceRing: { rows: 1 } })).to.match(/rows/);
    const small = await rejection(() => open(buffer, { deviceRing: { headroom: 1e-9 } }));
    expect(small).to.have.property('code', 'ERR_HOTSLOT_MEMORY');
    expect(small.message).to.match(
      /100 rows of 64 bytes take 6400 and a batch \d+; .* has \d+ free, and may give/,
    );
    const steps = TrajectoryBuffer.create({
      capacity: 100,
      lanes: 1,
      fields: { obs: { shape: [1], observation: true } },
    });
    const view = steps.transitions({});
    const of = { buffer: steps, view, device: TESTED, sampleCount: 4, rows: 'device' } as const;
    const told = async (options: object) =>
      (await rejection(() => ReplayPipeline.open({ ...of, ...options } as never))).message;
    expect(await told({ deviceRing: { guard: 3 } })).to.match(
      /^deviceRing\.guard applies to a ReplayBuffer only/,
    );
    expect(await told({ deviceRing: { headroom: 2 } })).to.match(
      /headroom must be above 0 and at most 1, got 2/,
    );
    expect(await told({ deviceRing: { headroom: 1e-9 } })).to.match(
      /100 rows of 16 bytes take 1600 and a batch \d+/,
    );
    if (TESTED.startsWith('host')) {
      expect(await words({ transfer: 'direct' })).to.match(
        /transfer: 'direct' applies to batches that are packed on the host/,
      );
      await using auto = await open(buffer, { rows: 'auto' });
      expect(auto.transferManifest).to.include({
        rowsKept: 'host',
        rowsReason: 'the CPU device reads the rows in place',
      });
      expect(auto.ring).to.equal(null);
    }
    await using made = await open(buffer, {});
    expect(refusal(() => made.startPrepare(0, SAMPLE + 1)).message).to.match(
      /differs from the pipeline's/,
    );
  });
});
