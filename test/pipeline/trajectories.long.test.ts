/**
 * Tests pipelines over trajectories: the bits of batches, priorities at a fixed lag, waits for
 * steps, ticks, and invalid options.
 */
import { expect } from 'chai';
import {
  prioritized,
  ReplayPipeline,
  type Tensor,
  type Tick,
  TrajectoryBuffer,
  type TrajectoryPipelineOptions,
  type TransitionSample,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { SPREAD } from './fixture.ts';
import { onlyOn, upToAuto } from './placements.ts';
import { addSteps, replica, stepsBuffer, VIEW } from './steps.ts';

const ROWS = 16;
const DEPTH = 3;
const open: ReplayPipeline[] = [];

async function opened(options: Partial<TrajectoryPipelineOptions>): Promise<ReplayPipeline> {
  const made = await ReplayPipeline.open({
    device: TESTED,
    sampleCount: ROWS,
    depth: DEPTH,
    baseSeed: 5,
    ...options,
  } as TrajectoryPipelineOptions);
  open.push(made);
  return made;
}

describe('ReplayPipeline over trajectories', () => {
  afterEach(async () => {
    await Promise.all(open.splice(0).map((made) => made.close()));
  });

  for (const placement of ['inline', 'auto', SPREAD] as const) {
    onlyOn('inline', placement)(
      `delivers every column of a view bit for bit, placement ${String(placement)}`,
      async () => {
        const { buffer } = stepsBuffer();
        const views = [
          buffer.transitions(VIEW),
          buffer.transitions({ nStep: 3, gamma: 0.9, stack: { obs: 2 }, pad: 'zero' }),
          buffer.windows({ length: 4, burnIn: 2, edges: 'anchor' }),
        ];
        for (const view of views) {
          const made = await opened({ buffer, view, placement });
          for (let tick = 0; tick < 5; tick++) {
            const want = buffer.sample({ view, seed: 5 + tick, count: ROWS });
            const batch = await made.sampleLargeBatch(tick, ROWS);
            expect(Object.keys(batch)).to.deep.equal(Object.keys(want));
            for (const [key, values] of Object.entries(want))
              expect(
                await (batch[key] as Tensor).toArray(),
                `${key} of tick ${tick}`,
              ).to.deep.equal(values);
            made.afterTick();
          }
          await made.close();
        }
      },
    );

    upToAuto(placement)(
      `applies priorities at a fixed lag, in manual ticks and in runs, placement ${String(placement)}`,
      async () => {
        const ticks = 12;
        const want = replica({ ticks, depth: DEPTH, rows: ROWS, seed: 5 });
        const manual = prioritized();
        const { buffer } = stepsBuffer();
        const first = await opened({
          buffer,
          view: buffer.transitions(VIEW),
          sampler: manual,
          placement,
        });
        const told: Tick[] = [];
        first.on('tick', (tick) => told.push(tick));
        for (let tick = 0; tick < ticks; tick++) {
          const batch = await first.sampleLargeBatch(tick, ROWS);
          const draw = want.draws[tick] as TransitionSample;
          expect(await (batch.ids as Tensor).toArray(), `ids of tick ${tick}`).to.deep.equal(
            draw.ids,
          );
          const weights = Float32Array.from(draw.weights as Float64Array);
          expect(await (batch.weights as Tensor).toArray()).to.deep.equal(weights);
          const priorities = batch.priorities as Tensor;
          const bits = new Uint32Array(((await priorities.toArray()) as Float32Array).buffer);
          expect([...new Set(bits)], 'bits of unwritten priorities').to.deep.equal([0xffff_ffff]);
          priorities.device.currentStream.copy(priorities, batch.rewards as Tensor);
          first.afterTick();
        }
        await first.close();
        expect(manual.inspect()).to.deep.equal(want.leaves);
        // The pipeline may close before poll has seen the last ticks.
        expect(told.length).to.be.at.least(ticks - DEPTH);
        expect(new Set(told.map(({ sampler }) => sampler))).to.deep.equal(new Set(['prioritized']));
        expect(told.at(-1)?.maxPriority).to.equal(want.leaves.maxPriority);
        expect(new Set(told.map(({ drawnAgain, stale }) => drawnAgain + stale))).to.deep.equal(
          new Set([0]),
        );

        const running = prioritized();
        const again = stepsBuffer().buffer;
        const second = await opened({
          buffer: again,
          view: again.transitions(VIEW),
          sampler: running,
          placement,
        });
        second.capture((batch, { stream, priorities }) =>
          stream.copy(priorities as Tensor, batch.rewards as Tensor),
        );
        await second.run({ ticks: 7 });
        // The next run uses the priorities of the run before, at the same lag.
        await second.run({ ticks: ticks - 7 });
        await second.close();
        expect(running.inspect()).to.deep.equal(want.leaves);
      },
    );
  }

  it('keeps unwritten priorities, and replaces invalid priorities with the largest', async () => {
    const { buffer } = stepsBuffer();
    const sampler = prioritized();
    const made = await opened({ buffer, view: buffer.transitions(), sampler, placement: 'inline' });
    const batch = await made.sampleLargeBatch(0, ROWS);
    const before = sampler.inspect();
    const some = (batch.priorities as Tensor).view({ shape: [4] });
    some.write(Float32Array.of(3, Number.NaN, -1, Number.POSITIVE_INFINITY));
    made.afterTick();
    const ids = (await (batch.ids as Tensor).toArray()) as Float64Array;
    await made.close();
    const { leaves, maxPriority, nonFinite } = sampler.inspect();
    expect([maxPriority, nonFinite]).to.deep.equal([3, 3]);
    const leafOf = (id: number) => (id % 4) * 100 + (Math.floor(id / 4) % 100);
    const largest = (3 + 1e-6) ** 0.6;
    const written = new Set([...ids.subarray(0, 4)].map(leafOf));
    for (const leaf of written) expect(leaves[leaf]).to.be.closeTo(largest, 1e-12);
    for (let leaf = 0; leaf < leaves.length; leaf++)
      if (!written.has(leaf)) expect(leaves[leaf], `leaf ${leaf}`).to.equal(before.leaves[leaf]);
  });

  it('reserves the sampler while open, and applies setBeta() from the next request on', async () => {
    const { buffer } = stepsBuffer();
    const view = buffer.transitions();
    const sampler = prioritized();
    const made = await opened({ buffer, view, sampler, beta: 0, placement: 'inline' });
    const running = { code: 'ERR_HOTSLOT_STATE_RUNNING' };
    expect(refusal(() => buffer.updatePriorities([0], [1]))).to.include(running);
    expect(refusal(() => buffer.sample({ view, seed: 0, count: 1, sampler }))).to.include(running);
    const second = await opened({ buffer, view, sampler }).catch((error: unknown) => error);
    expect(second).to.include(running);
    const weights = async (tick: number) => {
      const batch = await made.sampleLargeBatch(tick, ROWS);
      const found = [...((await (batch.weights as Tensor).toArray()) as Float32Array)];
      (batch.priorities as Tensor).write(Float32Array.from({ length: ROWS }, (_, i) => 1 + i));
      made.afterTick();
      return found;
    };
    for (let tick = 0; tick < 5; tick++)
      expect(await weights(tick)).to.deep.equal(Array(ROWS).fill(1));
    made.setBeta(1);
    expect(new Set(await weights(5)).size).to.be.greaterThan(2);
    for (const wrong of [-0.1, 1.1, Number.NaN, '1'])
      expect(refusal(() => made.setBeta(wrong as number)).message).to.match(/beta must be/);
    await made.close();
    buffer.updatePriorities([0], [1]);
  });

  it('waits for steps, reports the wait in waitingFor(), and ends the wait on abort and close', async () => {
    const buffer = TrajectoryBuffer.create({
      capacity: 400,
      lanes: 4,
      fields: {
        obs: { shape: [3], observation: true },
        pixels: { shape: [2, 5], dtype: 'uint8', observation: true },
        action: { shape: [], dtype: 'int32' },
      },
    });
    const made = await opened({ buffer, view: buffer.transitions(VIEW) });
    made.capture((batch, { stream, out }) =>
      stream.copy(out.view({ shape: [ROWS] }), batch.rewards as Tensor),
    );
    expect(refusal(() => made.startPrepare(0, ROWS))).to.include({
      code: 'ERR_HOTSLOT_STATE_EMPTY',
    });
    const run = async (until: () => boolean) => {
      const abort = new AbortController();
      const running = made.run({ signal: abort.signal });
      while (!until()) await new Promise(setImmediate);
      abort.abort();
      return running;
    };
    const waits = () =>
      /^steps: 0 of \d+ in 4 lanes are drawable by the view/.test(made.waitingFor());
    expect((await run(waits)).ticks).to.equal(0);
    using writer = buffer.writer();
    addSteps(writer, 20);
    let cleared = false;
    const { ticks } = await run(() => {
      if (!cleared && made.inspect().finished > 10) {
        buffer.clear();
        cleared = true;
      }
      return cleared && waits();
    });
    expect(ticks).to.be.greaterThan(10);
    addSteps(writer, 20, 20);
    const first = made.inspect().finished;
    expect((await made.run({ ticks: 3 })).ticks).to.equal(3);
    expect(made.inspect().finished).to.equal(first + 3);
    buffer.clear();
    // A manual tick also waits, and close() rejects its wait.
    made.startPrepare(10_000, ROWS);
    const waiting = made.waitUntilReady(10_000, ROWS).catch((error: unknown) => error);
    await made.close();
    expect(await waiting).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
  });

  it('rejects options that do not match, and leaves the sampler unbound', async () => {
    const { buffer } = stepsBuffer();
    const other = stepsBuffer(20, 80).buffer;
    const view = buffer.transitions();
    const sampler = prioritized();
    const taken = prioritized();
    other.sample({ view: other.transitions(), seed: 0, count: 1, sampler: taken });
    const wrong: [object, RegExp][] = [
      [{ buffer }, /a TrajectoryBuffer needs a view/],
      [{ buffer, view: {} }, /view must be a result of transitions\(\) or windows\(\)/],
      [{ buffer, view: other.transitions() }, /this view is of other fields or lanes/],
      [{ buffer, view, sampler: {} }, /sampler must be a result of prioritized\(\)/],
      [{ buffer, view, sampler: taken }, /this sampler is bound to another buffer/],
      [{ buffer, view, sampler, beta: 2 }, /beta must be from 0 to 1, got 2/],
      [{ buffer, view, sampler, depth: 1 }, /depth/],
      [{ buffer: {}, view }, /buffer must be a ReplayBuffer or a TrajectoryBuffer/],
    ];
    for (const [options, why] of wrong) {
      const error = await opened(options).catch((refused: unknown) => refused);
      expect(String(error)).to.match(why);
    }
    expect(refusal(() => sampler.inspect())).to.include({ code: 'ERR_HOTSLOT_STATE_EMPTY' });
    const made = await opened({ buffer, view });
    expect(refusal(() => made.setBeta(0.5)).message).to.match(
      /open the pipeline with a prioritized sampler/,
    );
  });
});
