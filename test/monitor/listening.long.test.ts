/**
 * Tests tensorBoard().listen() on running pipelines and collector pools: which ticks, episodes and
 * rates it writes as curves.
 */
import { expect } from 'chai';
import { tensorBoard } from '../../src/entries/monitor.ts';
import { CollectorPool, ReplayBuffer, ReplayPipeline, type Tick } from '../../src/index.ts';
import { filled, SAMPLE } from '../pipeline/fixture.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { curve, readFolder } from './event-reader.ts';
import { place, removeAll, warningsOf } from './folder.ts';

/** Opens a pipeline whose ticks report the scalars 7 and NaN. */
async function told() {
  const made = await ReplayPipeline.open({ buffer: filled(), device: TESTED, sampleCount: SAMPLE });
  return made.capture(
    (_, { stream, out }) => {
      stream.fill(out.view({ shape: [1] }), 7);
      stream.fill(out.view({ shape: [1], offset: 1 }), Number.NaN);
    },
    { scalars: ['seven', 'odd'] },
  );
}

const entry = new URL('../collectors/plain-collector.js', import.meta.url);
const pool = (options: object = { calm: true }) =>
  CollectorPool.open({
    entry,
    options,
    workers: 2,
    buffer: ReplayBuffer.create({ capacity: 4096, fields: { value: { shape: [2] } } }),
  });

describe('TensorBoard writer: listen()', () => {
  afterEach(removeAll);

  it('writes the scalars of every tick and the updates per second when every is 0', async () => {
    const folder = place();
    await using board = tensorBoard(folder);
    const pipeline = await told();
    pipeline.on('warning', () => {});
    board.listen({ pipeline, every: 0 });
    await pipeline.run({ ticks: 300 });
    await pipeline.close();
    // The writer removes its listeners after the pipeline has emitted `close`.
    await new Promise(setImmediate);
    expect([pipeline.listenerCount('tick'), pipeline.listenerCount('close')]).to.deep.equal([0, 0]);
    await board.close();
    const scalars = readFolder(folder);
    const steps = Array.from({ length: 300 }, (_, i) => i);
    expect(curve(scalars, 'train/seven')).to.deep.equal(steps.map((step) => [step, 7]));
    expect(curve(scalars, 'train/odd')).to.deep.equal(steps.map((step) => [step, Number.NaN]));
    const speeds = curve(scalars, 'speed/updates_per_second');
    expect(speeds.length).to.be.at.least(1);
    expect(speeds.at(-1)?.[0]).to.be.at.most(299);
    for (const [, speed] of speeds) expect(speed).to.be.above(0);
    expect(new Set(scalars.map(({ tag }) => tag))).to.have.property('size', 3);
  });

  it('writes only the first and the last tick when every is longer than the run', async () => {
    const folder = place();
    const board = tensorBoard(folder);
    const pipeline = await told();
    pipeline.on('warning', () => {});
    board.listen({ pipeline, every: 1e6 });
    await pipeline.run({ ticks: 200 });
    await board.close();
    expect(curve(readFolder(folder), 'train/seven')).to.deep.equal([
      [0, 7],
      [199, 7],
    ]);
    expect(pipeline.listenerCount('tick')).to.equal(0);
    await pipeline.close();
  });

  itAll('writes at most ten ticks a second by default', async () => {
    const folder = place();
    await using board = tensorBoard(folder);
    const pipeline = await told();
    pipeline.on('warning', () => {});
    const begin = performance.now();
    const stop = board.listen({ pipeline });
    await pipeline.run({ ticks: 2000 });
    const seconds = (performance.now() - begin) / 1000;
    stop();
    stop();
    await pipeline.run({ ticks: 10 });
    await board.flush();
    const written = curve(readFolder(folder), 'train/seven');
    // The first tick, at most one for each tenth of a second, and the last tick.
    expect(written.length).to.be.within(2, 2 + 10 * seconds);
    expect(written.at(-1)).to.deep.equal([1999, 7]);
    await pipeline.close();
  });

  it("writes each episode's return and length, and environment steps a second", async () => {
    const folder = place();
    const board = tensorBoard(folder);
    const collectors = await pool();
    const before = collectors.statistics().episodes;
    board.listen({ collectors });
    const first = collectors.statistics().episodes;
    const workers = new Set<number>();
    let heard = 0;
    for await (const { worker } of collectors.episodes())
      if (workers.add(worker).size === 2 && ++heard > 40) break;
    await collectors.close();
    await board.close();
    const scalars = readFolder(folder);
    const { steps, episodes } = collectors.statistics();
    const returns = curve(scalars, 'episodes/return');
    const lengths = curve(scalars, 'episodes/length');
    // The writer skips episodes from before listen(). If a worker finishes more than 255 episodes
    // at once, it writes only the last 255.
    expect(returns.length).to.be.within(Math.min(episodes - first, 255), episodes - before);
    // An episode has 10 steps. Worker 0 reports a return of 10, worker 1 of 20.
    expect(new Set(returns.map(([, value]) => value))).to.deep.equal(new Set([10, 20]));
    expect(lengths).to.deep.equal(returns.map(([step]) => [step, 10]));
    const at = returns.map(([step]) => step);
    expect(at).to.deep.equal([...at].sort((a, b) => a - b));
    expect([at.at(-1)! <= steps, at[0]! > 0]).to.deep.equal([true, true]);
    const speeds = curve(scalars, 'speed/steps_per_second');
    expect(speeds.length).to.be.at.least(1);
    for (const [step, speed] of speeds)
      expect([step <= steps, speed > 0]).to.deep.equal([true, true]);
  });

  it('keeps the writer usable after a collector fails', async () => {
    const folder = place();
    const board = tensorBoard(folder);
    const words = new Int32Array(new SharedArrayBuffer(12));
    const collectors = await pool({ fault: 'collect', words, calm: true });
    board.listen({ collectors });
    await until('an episode is over', () => collectors.statistics().episodes > 0);
    Atomics.store(words, 2, 1);
    expect((await rejection(collectors.done)).message).to.include('the environment broke');
    board.scalar('after', 1, 1);
    await board.close();
    await collectors.close();
    expect(curve(readFolder(folder), 'after')).to.deep.equal([[1, 1]]);
  });

  it('lets the run continue when the folder cannot be written', async () => {
    const warnings = await warningsOf(async () => {
      const board = tensorBoard('/proc/hotslot/curves', { flushMs: 0 });
      const pipeline = await told();
      pipeline.on('warning', () => {});
      board.listen({ pipeline, every: 0 });
      const seen: Tick[] = [];
      pipeline.on('tick', (tick) => seen.push(tick));
      expect((await pipeline.run({ ticks: 500 })).ticks).to.equal(500);
      expect(seen).to.have.length(500);
      await pipeline.close();
      expect((await rejection(board.close())).code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
    });
    expect(warnings).to.have.length(1);
  });
});
