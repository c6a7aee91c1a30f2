/**
 * Tests autonomous runs, in which the actors request batches and launch a captured update for each
 * tick.
 */
import { expect } from 'chai';
import { getSharedCaptureStream, getSharedGraphPool } from '../../src/entries/graph.ts';
import { openDevice, type PipelineError, type Tick, WeightMailbox } from '../../src/index.ts';
import { itAlone } from '../rig/error-scope.ts';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itLonger } from '../rig/setting.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { closeAll, counter, failingActors, filled, pipeline, rows, SAMPLE } from './fixture.ts';
import { onlyOn, placements, upToAuto } from './placements.ts';

for (const [name, placement] of Object.entries(placements)) {
  describe(`ReplayPipeline.run(), ${name}`, () => {
    const rest = upToAuto(placement);
    afterEach(closeAll);

    it('applies every update once and in order, and emits one `tick` for each update', async () => {
      const made = await pipeline({ placement });
      const update = counter(made);
      const ticks: Tick[] = [];
      made.on('tick', (tick) => ticks.push(tick));
      const summary = await made.run({ ticks: 500 });
      expect(summary).to.include({ ticks: 500, aborted: false, sampled: 500, rows: 500 * SAMPLE });
      expect(ticks.map((tick) => tick.tickId)).to.deep.equal(
        Array.from({ length: 500 }, (_, i) => i),
      );
      expect(ticks.map((tick) => tick.scalars.count)).to.deep.equal(
        Array.from({ length: 500 }, (_, i) => i + 1),
      );
      expect(await update.count.toArray()).to.deep.equal(Float32Array.of(500));
      expect(summary.stages.total.p50).to.be.greaterThan(0);
      await made.close();
      update.close();
    });

    it('continues after the last tick, across runs and manual ticks', async () => {
      const made = await pipeline({ placement, depth: 3 });
      const update = counter(made);
      const seen: number[] = [];
      made.on('tick', (tick) => seen.push(tick.tickId));
      await made.run({ ticks: 10 });
      for (const tick of [10, 11, 12, 13]) {
        await made.sampleLargeBatch(tick, SAMPLE);
        made.afterTick();
      }
      await made.run({ ticks: 7 });
      expect(seen).to.deep.equal(Array.from({ length: 21 }, (_, i) => i));
      expect(refusal(() => made.startPrepare(20, SAMPLE)).message).to.match(/tick 20 is over/);
      expect(await update.count.toArray()).to.deep.equal(Float32Array.of(17));
      await made.close();
      update.close();
    });

    rest('begins after the work that is queued on the current stream', async () => {
      using device = openDevice(TESTED);
      using weight = device.allocate({ shape: [1] });
      using latch = new Latch(device);
      using stream = device.createStream();
      const made = await pipeline({ placement });
      const captured = made.capture(
        (_, { stream, out }) => stream.copy(out.view({ shape: [1] }), weight),
        {
          scalars: ['weight'],
        },
      );
      latch.hold(stream);
      stream.fill(weight, 3);
      const running = device.withStream(stream, () => captured.run({ ticks: 3 }));
      const early = new Promise((resolve) => setTimeout(resolve, 50, 'not yet'));
      expect(await Promise.race([running, early])).to.equal('not yet');
      latch.open();
      expect((await running).scalars.weight).to.equal(3);
      await made.close();
    });

    onlyOn('inline', placement)(
      'keeps results apart when two pipelines share a capture stream and a graph pool',
      async () => {
        const device = openDevice(TESTED);
        const shared = [getSharedCaptureStream(device).handle, getSharedGraphPool(device).handle];
        const both = await Promise.all(
          [1, 10].map(async (value) => ({ value, made: await pipeline({ placement }) })),
        );
        const sums = both.map(({ value, made }) => {
          const sum = device.allocate({ shape: [64] });
          made.capture((_, { stream, pool }) => {
            expect([stream.handle, pool.handle]).to.deep.equal(shared);
            // Every graph of both pipelines uses the same temporary memory.
            const temporary = pool.allocate({ shape: [64] });
            stream.fill(temporary, value);
            stream.launch('axpby', { tensors: [sum, temporary], wholes: [64], reals: [1, 1] });
          });
          return sum;
        });
        await Promise.all(both.map(({ made }) => made.run({ ticks: 200 })));
        const values = await Promise.all(
          sums.map(async (sum) => [...new Set(await sum.toArray())]),
        );
        expect(values).to.deep.equal([[200], [2000]]);
        for (const { made } of both) await made.close();
        for (const sum of sums) sum.close();
        device.close();
      },
    );

    rest(
      'resolves with aborted: true after the ticks under way when `signal` is aborted',
      async () => {
        const made = await pipeline({ placement });
        const update = counter(made);
        const abort = new AbortController();
        made.on('tick', (tick) => tick.tickId >= 20 && abort.abort());
        const summary = await made.run({ signal: abort.signal });
        expect(summary.aborted).to.equal(true);
        expect(await update.count.toArray()).to.deep.equal(Float32Array.of(summary.ticks));
        expect(await made.run({ ticks: 3 })).to.include({ ticks: 3 });
        await made.close();
        update.close();
      },
    );

    rest('publishes weights after every n-th tick with publishEvery n', async () => {
      const mailbox = WeightMailbox.create({ length: 1 });
      const made = await pipeline({ placement, mailbox });
      const device = openDevice(TESTED);
      const [weights, one] = [device.allocate({ shape: [1] }), device.allocate({ shape: [1] })];
      one.write(Float32Array.of(1));
      made.capture(
        (_, { stream }) =>
          stream.launch('axpby', { tensors: [weights, one], wholes: [1], reals: [1, 1] }),
        {
          weights,
        },
      );
      const versions: number[] = [];
      made.on('tick', ({ version }) => version > 0 && versions.push(version));
      await made.run({ ticks: 40, publishEvery: 4 });
      expect(versions).to.deep.equal([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
      const into = new Float32Array(1);
      expect(mailbox.read(into)).to.equal(10);
      expect(into[0]).to.equal(40);
      await made.close();
    });

    rest('waits while the buffer is empty, and wakes after add()', async () => {
      const buffer = filled(0);
      const made = await pipeline({ placement, buffer });
      const update = counter(made);
      const running = made.run({ ticks: 5 });
      await made.emit('tick', {} as Tick);
      expect(made.inspect().finished).to.equal(0);
      buffer.add(rows(5));
      expect(await running).to.include({ ticks: 5 });
      await made.close();
      update.close();
    });

    rest('resolves with aborted: true when `signal` is aborted before the first rows', async () => {
      const made = await pipeline({ placement, buffer: filled(0) });
      const update = counter(made);
      const running = made.run({ signal: AbortSignal.timeout(1) });
      expect(await running).to.include({ ticks: 0, aborted: true });
      await made.close();
      update.close();
    });

    rest(
      'works after capture() has thrown for updates that throw, wait, allocate or are async',
      async () => {
        const made = await pipeline({ placement });
        const device = openDevice(TESTED);
        const target = device.allocate({ shape: [SAMPLE] });
        const wrong: [RegExp, Parameters<typeof made.capture>[0]][] = [
          [
            /no such learner/,
            () => {
              throw new Error('no such learner');
            },
          ],
          [/900|STREAM_CAPTURE/, () => device.allocate({ shape: [4] })],
          [/900|STREAM_CAPTURE/, (_, { stream }) => stream.query()],
          [/900|STREAM_CAPTURE/, (_, { out }) => out.write(new Float32Array(out.size))],
          [/belongs to the pipeline/, (_, { stream }) => stream.close()],
          [/promise/, async () => {}],
          [
            /STREAM_CAPTURE_INVALIDATED/,
            (_, { stream }) => {
              try {
                stream.query();
              } catch {}
            },
          ],
          [
            /same for every slot/,
            (_, { stream, slot }) => {
              if (slot === 1) stream.fill(target, 1);
            },
          ],
        ];
        for (const [reason, fn] of wrong) {
          const error = refusal(() => made.capture(fn));
          expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_CAPTURE' });
          expect(error.message).to.match(reason);
        }
        expect(await rejection(() => made.run({ ticks: 1 }))).to.include({
          code: 'ERR_HOTSLOT_STATE_CAPTURE',
        });
        const update = counter(made);
        expect(await made.run({ ticks: 3 })).to.include({ ticks: 3 });
        await made.close();
        update.close();
        target.close();
      },
    );

    itAlone(
      TESTED,
      'rejects with the actor when an update fails, and close() resolves afterwards',
      async () => {
        const made = await pipeline({ placement });
        made.capture((_, { stream }) => stream.launch('fail', {}));
        const error = (await rejection(() => made.run({ ticks: 10 }))) as PipelineError;
        expect(error).to.include({ name: 'PipelineError', code: 'ERR_HOTSLOT_PIPELINE' });
        expect(error.message).to.match(
          ON_HOST ? /'fail' failed as it was asked/ : /failed with [A-Z_]+/,
        );
        expect(error.actor).to.be.oneOf(failingActors);
        expect(await rejection(() => made.run({ ticks: 1 }))).to.include({
          code: 'ERR_HOTSLOT_PIPELINE',
        });
        expect(refusal(() => made.startPrepare(99, SAMPLE))).to.include({
          code: 'ERR_HOTSLOT_PIPELINE',
        });
        await made.close();
      },
    );

    rest('leaves no handle open after close()', async () => {
      const count = () => [openHandles(), pinnedHandles()];
      openDevice(TESTED);
      const before = count();
      const made = await pipeline({ placement });
      const update = counter(made);
      await made.run({ ticks: 20 });
      await made.close();
      update.close();
      expect(count()).to.deep.equal(before);
    });
  });
}

describe('ReplayPipeline.run()', () => {
  afterEach(closeAll);

  it('rejects invalid `ticks`, a run after startPrepare() and calls during a run', async () => {
    const made = await pipeline({ placement: 'auto' });
    const update = counter(made);
    for (const ticks of [0, -1, 1.5, Number.NaN])
      expect(await rejection(() => made.run({ ticks }))).to.be.instanceOf(RangeError);
    expect(refusal(() => made.step()).message).to.match(/placement 'inline'/);
    made.startPrepare(0, SAMPLE);
    expect(await rejection(() => made.run({ ticks: 1 }))).to.include({
      code: 'ERR_HOTSLOT_STATE_RUNNING',
    });
    expect(refusal(() => made.capture(() => {}))).to.include({ code: 'ERR_HOTSLOT_STATE_RUNNING' });
    await made.sampleLargeBatch(0, SAMPLE);
    made.afterTick();
    const running = made.run({ ticks: 1000 });
    for (const call of [
      () => made.startPrepare(5, SAMPLE),
      () => made.run({ ticks: 1 }),
      () => made.capture(() => {}),
    ]) {
      expect(await rejection(call)).to.include({ code: 'ERR_HOTSLOT_STATE_RUNNING' });
    }
    await running;
    await made.close();
    update.close();
  });

  itLonger('rejects when the pipeline is closed during the run', async () => {
    const made = await pipeline();
    const update = counter(made);
    const running = rejection(() => made.run());
    await made.close();
    expect(await running).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
    update.close();
  });
});
