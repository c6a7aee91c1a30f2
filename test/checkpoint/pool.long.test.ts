/**
 * Tests checkpoints of collector pools. No row of a collector may be lost or repeated. Collectors
 * without state(), with a failing state() or with a stuck collect() are tested too.
 */
import { expect } from 'chai';
import {
  Checkpoint,
  type CheckpointOptions,
  CollectorPool,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
} from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import type numbers from './numbers-collector.ts';
import type { NumbersOptions } from './numbers-collector.ts';
import { filesIn, inFolder } from './rig.ts';

const entry = new URL('./numbers-collector.js', import.meta.url);
const WORKERS = 2;
const fields = { value: { shape: [2] } } as const;

const open: { close(): unknown }[] = [];
const keep = <T extends { close(): unknown }>(made: T): T => {
  open.push(made);
  return made;
};

/**
 * Creates a buffer with a limiter. If adds are gated, at most 30 rows can be added before rows are
 * sampled.
 */
function made(gateAdd = true) {
  const limiter = RateLimiter.create({
    samplesPerInsert: 1,
    minSize: 10,
    errorBuffer: 20,
    gateAdd,
  });
  return { limiter, buffer: ReplayBuffer.create({ capacity: 200_000, fields, limiter }) };
}
async function pooled(
  buffer: ReplayBuffer<{ value: 'float32' }, { value: Float32Array }>,
  states: NumbersOptions['states'],
  resume?: unknown,
) {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const options = { states, words };
  const pool = await CollectorPool.open<typeof numbers>({
    entry,
    buffer,
    workers: WORKERS,
    options,
    resume,
  });
  return { words, pool: keep(pool) };
}
/**
 * Returns the number of rows of each worker. Checks that the numbers of each worker count up from
 * 0.
 */
function counted(buffer: ReplayBuffer<{ value: 'float32' }, { value: Float32Array }>): number[] {
  const { size } = buffer;
  const values = buffer.gather(
    Uint32Array.from({ length: size }, (_, i) => i),
    new Float32Array(2 * size),
  );
  const next = Array<number>(WORKERS).fill(0);
  for (let i = 0; i < size; i++) {
    const worker = values[2 * i]!;
    expect(values[2 * i + 1], `row ${i}, of worker ${worker}`).to.equal(next[worker]);
    next[worker]!++;
  }
  return next;
}
async function saved(
  folder: string,
  parts: CheckpointOptions,
  warnings: string[] = [],
): Promise<void> {
  const checkpoint = await Checkpoint.open(folder, parts);
  checkpoint.on('warning', (text) => void warnings.push(text));
  try {
    await checkpoint.save();
  } finally {
    await checkpoint.close();
  }
}

describe('Checkpoint: collector pools', () => {
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });

  for (const gates of setting({ short: [true], all: [true, false] }))
    itLonger(
      `a save and a restore lose and repeat no row, ${gates ? 'with rows that wait for a limiter' : 'at full speed'}`,
      () =>
        inFolder(async (folder) => {
          const { limiter, buffer } = made(gates);
          const { pool } = await pooled(buffer, 'number');
          await until('both have rows', () => buffer.ptr >= 30);
          if (gates) await until('both wait', () => pool.statistics().waits >= WORKERS);
          await saved(folder, { buffer, collectors: pool });
          const at = gates ? buffer.ptr : 0;
          // The saved pool continues.
          limiter.countSamples(gates ? 40 : 1);
          await until('it goes on', () => buffer.ptr > at + 30);
          await pool.close();
          counted(buffer);

          const again = made(gates);
          const back = await Checkpoint.restore(folder, { buffer: again.buffer });
          const { ptr } = again.buffer;
          if (gates) expect([ptr, again.limiter.inserts]).to.deep.equal([30, 30]);
          const { pool: second } = await pooled(again.buffer, 'number', back?.collectors);
          // Steps are counted when they are collected. One row of each worker may still wait to be
          // added.
          expect(second.statistics().steps).to.be.at.least(ptr);
          again.limiter.countSamples(gates ? 70 : 1);
          await until('the restored one goes on', () => again.buffer.ptr >= ptr + 70);
          await second.close();
          const counts = counted(again.buffer);
          expect(counts[0]! + counts[1]!).to.equal(again.buffer.ptr);
          const { steps } = second.statistics();
          expect(steps - (counts[0]! + counts[1]!)).to.be.within(0, WORKERS);
        }),
    );

  itAll('save() resolves while a prepared tick waits for rows', () =>
    inFolder(async (folder) => {
      const { limiter, buffer } = made();
      const { pool } = await pooled(buffer, 'number');
      const pipeline = keep(
        await ReplayPipeline.open({ buffer, device: TESTED, sampleCount: 8, placement: 'inline' }),
      );
      await until('both wait', () => buffer.ptr === 30 && pool.statistics().waits >= WORKERS);
      const checkpoint = await Checkpoint.open(folder, { buffer, collectors: pool, pipeline });
      for (let tick = 0; tick < 6; tick++) {
        // Only this tick makes room for the rows that it waits for.
        pipeline.startPrepare(tick, 8, buffer.ptr + 3);
        const { tick: at } = await checkpoint.save();
        expect(at).to.equal(tick - 1);
        await pipeline.sampleLargeBatch(tick, 8);
        pipeline.afterTick();
        await until('both wait again', () => buffer.ptr === 30 + 8 * (tick + 1));
      }
      await checkpoint.close();
      await pool.close();
      counted(buffer);
      expect(limiter.samples).to.equal(48);
    }),
  );

  itAll('collectors without state() restore their statistics and add rows again', () =>
    inFolder(async (folder) => {
      const { buffer } = made();
      const { pool } = await pooled(buffer, 'none');
      await until('both wait', () => pool.statistics().waits >= WORKERS);
      const before = pool.statistics();
      await saved(folder, { buffer, collectors: pool });
      await pool.close();
      const again = made();
      const back = await Checkpoint.restore(folder, { buffer: again.buffer });
      const { pool: second } = await pooled(again.buffer, 'none', back?.collectors);
      expect(second.statistics().steps).to.be.at.least(before.steps);
      again.limiter.countSamples(50);
      await until('it goes on', () => again.buffer.ptr >= 60);
    }),
  );

  itAll('save() rejects when state() of a collector throws, and the pool continues', () =>
    inFolder(async (folder) => {
      const { buffer, limiter } = made();
      await saved(folder, { buffer });
      const files = filesIn(folder);
      const { pool } = await pooled(buffer, 'throws');
      await until('rows', () => buffer.ptr >= 30);
      for (let i = 0; i < 2; i++) {
        const error = await rejection(saved(folder, { buffer, collectors: pool }));
        expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
        expect(error.message).to.match(
          /collector [01] cannot return its state: no environment can be kept; the checkpoint of/,
        );
        expect(filesIn(folder)).to.deep.equal(files);
        const { ptr } = buffer;
        limiter.countSamples(10);
        await until('it goes on', () => buffer.ptr > ptr);
      }
    }),
  );

  itAll('save() emits one `warning` that names a collector whose collect() does not return', () =>
    inFolder(async (folder) => {
      const { buffer } = made();
      const { pool, words } = await pooled(buffer, 'stuck');
      await until('it is stuck', () => Atomics.load(words, 0) === 1 && buffer.ptr >= 25);
      const warnings: string[] = [];
      await saved(folder, { buffer, collectors: pool }, warnings);
      expect(warnings).to.have.length(1);
      expect(warnings[0]).to.match(/^collectors 0 did not return from collect\(\) in time/);
      Atomics.store(words, 1, 1);
      Atomics.notify(words, 1);
      await until('it is back', () => pool.statistics().steps > 25 && buffer.ptr >= 30);
      await saved(folder, { buffer, collectors: pool }, warnings);
      expect(warnings).to.have.length(1);
    }),
  );
});
