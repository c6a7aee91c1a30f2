/** What a pipeline says by itself: ticks as they end, numbers that are none, and what a run waits for too long. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { expect } from 'chai';
import { openDevice, ReplayBuffer, type ReplayPipeline, type Tensor, type Tick } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { closeAll, counter, pipeline, SPREAD } from './fixture.ts';
import { workersOf } from './inside.ts';

describe('what a pipeline tells', () => {
  afterEach(closeAll);

  describe('ticks()', () => {
    it('gives every tick of a run in order, and ends when the pipeline closes', async () => {
      const made = await pipeline();
      const update = counter(made);
      const seen: Tick[] = [];
      const reading = (async () => {
        for await (const tick of made.ticks()) seen.push(tick);
      })();
      await made.run({ ticks: 300 });
      await made.close();
      await reading;
      expect(seen.map(({ tickId }) => tickId)).to.deep.equal(Array.from({ length: 300 }, (_, i) => i));
      expect(seen.map(({ scalars }) => scalars.count)).to.deep.equal(Array.from({ length: 300 }, (_, i) => i + 1));
      update.close();
    });

    it('stops listening when its loop is left, and when the signal says so', async () => {
      const made = await pipeline();
      const update = counter(made);
      const controller = new AbortController();
      const [left, ended] = [made.ticks(), made.ticks({ signal: controller.signal })];
      const running = made.run({ ticks: 50 });
      for await (const { tickId } of left) if (tickId >= 3) break;
      const aborted = rejection(async () => {
        for await (const { tickId } of ended) if (tickId >= 10) controller.abort(new Error('enough'));
      });
      expect((await aborted).message).to.equal('enough');
      await running;
      expect(['tick', 'error', 'close'].map((event) => made.listenerCount(event as 'tick'))).to.deep.equal([0, 0, 0]);
      expect((await rejection(() => made.ticks({ sgnal: 1 } as never).next())).message).to.include(
        "unknown option 'sgnal'",
      );
      await made.close();
      expect((await rejection(() => made.ticks().next())).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
      update.close();
    });

    it('keeps as many as the journal for a reader that is slower, and says how many were lost', async () => {
      const made = await pipeline({ journal: 64 });
      const update = counter(made);
      let missed = 0;
      made.on('missed', (count) => {
        missed += count;
      });
      const ticks = made.ticks();
      await made.run({ ticks: 500 });
      await ticks.return?.();
      const again = made.ticks();
      await made.run({ ticks: 10 });
      const kept: number[] = [];
      for (let i = 0; i < 10; i++) kept.push(((await again.next()).value as Tick).tickId);
      expect(kept).to.deep.equal(Array.from({ length: 10 }, (_, i) => 500 + i));
      expect(missed).to.be.at.least(500 - 64);
      await made.close();
      expect(await again.next()).to.deep.equal({ done: true, value: undefined });
      update.close();
    });

    it('ends with the failure of the pipeline', async () => {
      const made = await pipeline();
      const device = openDevice(TESTED);
      made.capture((_batch, { stream }) => stream.launch('fail'));
      const reading = rejection(async () => {
        for await (const _ of made.ticks()) {
        }
      });
      expect((await rejection(made.run({ ticks: 5 }))).code).to.equal('ERR_HOTSLOT_PIPELINE');
      expect((await reading).code).to.equal('ERR_HOTSLOT_PIPELINE');
      await made.close();
      device.close();
    });
  });

  it('tells tools of ticks, captures and restarts, through channels of the process', async () => {
    const heard: Record<string, unknown[]> = { 'hotslot.tick': [], 'hotslot.capture': [], 'hotslot.restart': [] };
    const listeners = Object.entries(heard).map(([name, messages]) => {
      const listener = (message: unknown) => void messages.push(message);
      subscribe(name, listener);
      return () => unsubscribe(name, listener);
    });
    const made = await pipeline({ placement: SPREAD, restart: 1 });
    const update = counter(made);
    await made.run({ ticks: 20 });
    const restarted = once(made as never, 'restart');
    await workersOf(made)[0]?.terminate();
    await restarted;
    for (const stop of listeners) stop();
    await made.run({ ticks: 5 });
    expect(heard['hotslot.capture']).to.deep.equal([{ pipeline: made, graphs: 4, scalars: ['count'] }]);
    const ticks = heard['hotslot.tick'] as { pipeline: ReplayPipeline; tick: Tick }[];
    expect(ticks.map(({ tick }) => tick.tickId)).to.deep.equal(Array.from({ length: 20 }, (_, i) => i));
    expect(ticks.every((each) => each.pipeline === made)).to.equal(true);
    const [restart] = heard['hotslot.restart'] as [{ roles: string[]; reason: Error }];
    expect([restart.roles, restart.reason instanceof Error]).to.deep.equal([['pack'], true]);
    await made.close();
    update.close();
  });

  describe('numbers that are none', () => {
    /** total += 1 at every tick, and reported: NaN from the moment the test writes that. */
    async function summing(): Promise<{ made: ReplayPipeline; total: Tensor; warnings: string[]; close(): void }> {
      const made = await pipeline();
      const device = openDevice(TESTED);
      const [total, one] = [device.allocate({ shape: [1] }), device.allocate({ shape: [1] })];
      one.write(new Float32Array([1]));
      await device.currentStream.synchronize();
      const warnings: string[] = [];
      made.on('warning', (text) => warnings.push(text));
      made.capture(
        (_batch, { stream, out }) => {
          stream.launch('axpby', { tensors: [total, one], wholes: [1], reals: [1, 1] });
          stream.copy(out.view({ shape: [1], offset: 1 }), total);
        },
        { scalars: ['nothing', 'total'] },
      );
      const close = () => {
        for (const each of [total, one, device]) each.close();
      };
      return { made, total, warnings, close };
    }

    for (const [name, bad] of [
      ['NaN', Number.NaN],
      ['infinity', Number.NEGATIVE_INFINITY],
    ] as const)
      it(`${name} among the named scalars is told once, with tick and name`, async () => {
        const { made, total, warnings, close } = await summing();
        await made.run({ ticks: 7 });
        expect(warnings).to.deep.equal([]);
        total.write(new Float32Array([bad]));
        await total.device.currentStream.synchronize();
        await made.run({ ticks: 600 });
        await made.run({ ticks: 5 });
        expect(warnings).to.have.length(1);
        expect(warnings[0]).to.include("tick 7: the learner's 'total' is NaN or infinite");
        await made.close();
        close();
      });

    it('is a warning of the process where nobody listens', async () => {
      const { made, total, close } = await summing();
      made.removeAllListeners('warning');
      total.write(new Float32Array([Number.NaN]));
      await total.device.currentStream.synchronize();
      const warned = once(process, 'warning') as Promise<[Error]>;
      await made.run({ ticks: 3 });
      const [warning] = await warned;
      expect([warning.name, warning.message.includes("'total'")]).to.deep.equal(['PipelineWarning', true]);
      await made.close();
      close();
    });
  });

  itAll(
    'a run that waits ten seconds for the same thing says so once, in the words of waitingFor()',
    async function () {
      this.timeout(60_000);
      const buffer = ReplayBuffer.create({ capacity: 8, fields: { x: { shape: [1] } } });
      const made = await pipeline({ buffer });
      made.capture(() => {});
      const warnings: string[] = [];
      made.on('warning', (text) => warnings.push(text));
      const controller = new AbortController();
      const running = made.run({ signal: controller.signal });
      await once(made as never, 'warning');
      expect(warnings).to.deep.equal([`run() has waited 10 s for ${made.waitingFor()}`]);
      expect(warnings[0]).to.include('rows: 0 were ever added');
      // The same again is not told again.
      await new Promise((resolve) => setTimeout(resolve, 10_500));
      expect(warnings).to.have.length(1);
      controller.abort();
      expect(await running).to.include({ aborted: true, ticks: 0 });
      await made.close();
    },
  );
});
