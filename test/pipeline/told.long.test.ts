/**
 * Tests what a pipeline emits by itself: finished ticks, warnings of non-finite values, and
 * warnings of long waits.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { expect } from 'chai';
import { feed } from '../../src/engine/trace/feeders.ts';
import { ops } from '../../src/entries/learner.ts';
import {
  openDevice,
  type PipelineOptions,
  ReplayBuffer,
  type ReplayPipeline,
  type Stream,
  type Tensor,
  type Tick,
  WeightMailbox,
} from '../../src/index.ts';
import { ClockAhead } from '../rig/clock-ahead.ts';
import { itAlone } from '../rig/error-scope.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll, itLonger } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { closeAll, counter, pipeline, SPREAD } from './fixture.ts';
import { workersOf } from './inside.ts';
import { upToAuto } from './placements.ts';

describe('ReplayPipeline ticks, channels and warnings', () => {
  afterEach(closeAll);

  describe('ticks()', () => {
    itLonger('yields every tick of a run in order, and ends when the pipeline closes', async () => {
      const made = await pipeline();
      const update = counter(made);
      const seen: Tick[] = [];
      const reading = (async () => {
        for await (const tick of made.ticks()) seen.push(tick);
      })();
      await made.run({ ticks: 300 });
      await made.close();
      await reading;
      expect(seen.map(({ tickId }) => tickId)).to.deep.equal(
        Array.from({ length: 300 }, (_, i) => i),
      );
      expect(seen.map(({ scalars }) => scalars.count)).to.deep.equal(
        Array.from({ length: 300 }, (_, i) => i + 1),
      );
      update.close();
    });

    itLonger('removes its listeners after a break, and after an abort of `signal`', async () => {
      const made = await pipeline();
      const update = counter(made);
      const controller = new AbortController();
      const [left, ended] = [made.ticks(), made.ticks({ signal: controller.signal })];
      const running = made.run({ ticks: 50 });
      for await (const { tickId } of left) if (tickId >= 3) break;
      const aborted = rejection(async () => {
        for await (const { tickId } of ended)
          if (tickId >= 10) controller.abort(new Error('enough'));
      });
      expect((await aborted).message).to.equal('enough');
      await running;
      expect(
        ['tick', 'error', 'close'].map((event) => made.listenerCount(event as 'tick')),
      ).to.deep.equal([0, 0, 0]);
      expect((await rejection(() => made.ticks({ sgnal: 1 } as never).next())).message).to.include(
        "unknown option 'sgnal'",
      );
      await made.close();
      expect((await rejection(() => made.ticks().next())).code).to.equal(
        'ERR_HOTSLOT_STATE_CLOSED',
      );
      update.close();
    });

    itLonger(
      'keeps up to `journal` ticks for a slow reader, and `missed` reports the lost ticks',
      async () => {
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
      },
    );

    itAlone(TESTED, 'rejects when the pipeline fails', async () => {
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

  it('diagnostics channels publish ticks, captures and restarts', async () => {
    const heard: Record<string, unknown[]> = {
      'hotslot.tick': [],
      'hotslot.capture': [],
      'hotslot.restart': [],
    };
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
    expect(heard['hotslot.capture']).to.deep.equal([
      { pipeline: made, graphs: 4, scalars: ['count'] },
    ]);
    const ticks = heard['hotslot.tick'] as { pipeline: ReplayPipeline; tick: Tick }[];
    expect(ticks.map(({ tick }) => tick.tickId)).to.deep.equal(
      Array.from({ length: 20 }, (_, i) => i),
    );
    expect(ticks.every((each) => each.pipeline === made)).to.equal(true);
    const [restart] = heard['hotslot.restart'] as [{ roles: string[]; reason: Error }];
    expect([restart.roles, restart.reason instanceof Error]).to.deep.equal([['pack'], true]);
    await made.close();
    update.close();
  });

  describe('scalars of capture()', () => {
    const captured = async (
      update: (stream: Stream, out: Tensor<'float32'>) => void,
      ...scalars: string[]
    ): Promise<string[]> => {
      const made = await pipeline();
      const warnings: string[] = [];
      made.on('warning', (text) => warnings.push(text));
      made.capture((_batch, { stream, out }) => update(stream, out), { scalars });
      await made.run({ ticks: 5 });
      return warnings;
    };
    const at = (out: Tensor<'float32'>, offset: number, n = 1) => out.view({ shape: [n], offset });

    it('cause one `warning` with the names of scalars that the update does not write', async () => {
      const update = (stream: Stream, out: Tensor<'float32'>) => stream.fill(at(out, 1), 3);
      const [warning, ...more] = await captured(update, 'loss', 'three', 'q');
      expect(warning).to.include(
        "capture: the update does not write 'loss', 'q': these scalars will read 0",
      );
      expect(more).to.deep.equal([]);
    });

    it('cause no warning if a launch, copy, fill, op or joined stream writes every scalar', async () => {
      const device = openDevice(TESTED);
      const side = device.createStream();
      const [forked, joined] = [device.createEvent(), device.createEvent()];
      const two = device.allocate({ shape: [2] });
      const updates: ((stream: Stream, out: Tensor<'float32'>) => void)[] = [
        (stream, out) =>
          stream.launch('axpby', { tensors: [at(out, 0, 2), two], wholes: [2], reals: [1, 0] }),
        (stream, out) => stream.copy(at(out, 0, 2), two),
        (stream, out) => stream.fill(at(out, 0, 2), 1),
        (stream, out) => ops.sum(stream, at(out, 0, 2), two.view({ shape: [2, 1] })),
        (_stream, out) =>
          ops.sum(out.device.currentStream, at(out, 0, 2), two.view({ shape: [2, 1] })),
        (stream, out) => {
          stream.record(forked);
          side.wait(forked);
          side.fill(at(out, 0, 2), 7);
          side.record(joined);
          stream.wait(joined);
        },
      ];
      for (const update of updates) expect(await captured(update, 'one', 'two')).to.deep.equal([]);
      for (const each of [two, forked, joined, side, device]) each.close();
    });
  });

  describe('non-finite scalars', () => {
    /**
     * Captures an update that adds 1 to `total` and reports it. After the test writes NaN into
     * `total`, the reports are NaN.
     */
    async function summing(): Promise<{
      made: ReplayPipeline;
      total: Tensor;
      warnings: string[];
      close(): void;
    }> {
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
          stream.fill(out.view({ shape: [1] }), 0);
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
      it(`cause one warning with tick and name for ${name}`, async () => {
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

    it('cause a PipelineWarning of the process if the pipeline has no `warning` listener', async () => {
      const { made, total, close } = await summing();
      made.removeAllListeners('warning');
      total.write(new Float32Array([Number.NaN]));
      await total.device.currentStream.synchronize();
      const warned = once(process, 'warning') as Promise<[Error]>;
      await made.run({ ticks: 3 });
      const [warning] = await warned;
      expect([warning.name, warning.message.includes("'total'")]).to.deep.equal([
        'PipelineWarning',
        true,
      ]);
      await made.close();
      close();
    });
  });

  describe('non-finite weights', () => {
    /**
     * Captures an update that doubles the weights, which begin at 1. After tick 127 they are 2¹²⁸,
     * which overflows float32.
     */
    async function doubling(options: Pick<PipelineOptions, 'placement' | 'depth'> = {}) {
      const mailbox = WeightMailbox.create({ length: 3000 });
      const made = await pipeline({ mailbox, ...options });
      const device = openDevice(TESTED);
      const weights = device.allocate({ shape: [3000] });
      const nothing = device.allocate({ shape: [3000] });
      const warnings: string[] = [];
      made.on('warning', (text) => warnings.push(text));
      const begin = async (how: { publishNonFinite?: boolean } = {}) => {
        weights.write(new Float32Array(3000).fill(1));
        await device.currentStream.synchronize();
        made.capture(
          (_batch, { stream }) =>
            stream.launch('axpby', { tensors: [weights, nothing], wholes: [3000], reals: [1, 2] }),
          { weights, ...how },
        );
      };
      const newest = () => {
        const into = new Float32Array(3000);
        return [mailbox.read(into), Math.min(...into), Math.max(...into)];
      };
      const close = async () => {
        await made.close();
        for (const each of [weights, nothing, device]) each.close();
      };
      return { made, mailbox, weights, warnings, begin, newest, close };
    }

    for (const placement of ['inline', 'auto', SPREAD] as const)
      upToAuto(placement)(
        `cause one warning and are not published, and publishing resumes after capture(): ${placement}`,
        async () => {
          const { made, warnings, begin, newest, close } = await doubling({ placement, depth: 6 });
          const versions: number[] = [];
          made.on('tick', ({ version }) => versions.push(version));
          await begin();
          // The last tick of a run waits for a free version of the mailbox. None becomes free here,
          // so the wait must end by itself.
          await made.run({ ticks: 140, publishEvery: 1 });
          // While two versions are being written, later publishes wait, and several of them may
          // become one.
          const [last = 0, least = 0, most = 0] = newest();
          expect([least, Math.log2(most) % 1]).to.deep.equal([most, 0]);
          expect(most).to.be.within(2, 2 ** 127);
          await made.run({ ticks: 20, publishEvery: 1 });
          expect(newest()).to.deep.equal([last, least, most]);
          expect(versions.filter((version) => version > 0)).to.deep.equal(
            Array.from({ length: last }, (_, i) => i + 1),
          );
          expect(warnings).to.have.length(1);
          const [, tick] =
            /^tick (\d+): weight 0 is NaN or infinite; they are not published, nor /.exec(
              warnings[0] ?? '',
            ) ?? [];
          expect(Number(tick)).to.be.within(127, 139);
          // Rejected versions leave no gap: their numbers are used again.
          await begin();
          await made.run({ ticks: 10, publishEvery: 1 });
          expect(newest().slice(1)).to.deep.equal([2 ** 10, 2 ** 10]);
          expect(versions.filter((version) => version > last)[0]).to.equal(last + 1);
          expect(warnings).to.have.length(1);
          await close();
        },
      );

    it('are published with a `warning` if publishNonFinite is true', async () => {
      const { made, warnings, begin, newest, close } = await doubling();
      await begin({ publishNonFinite: true });
      await made.run({ ticks: 130, publishEvery: 1 });
      expect(newest().slice(1)).to.deep.equal([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
      expect(warnings).to.have.length(1);
      expect(warnings[0]).to.match(
        /^tick 1[23]\d: weight 0 is NaN or infinite; they were published, as publishNonFinite requests$/,
      );
      const without = () => made.capture(() => {}, { publishNonFinite: true });
      expect(refusal(without).message).to.include('publishNonFinite needs the option weights');
      await close();
    });

    it('are detected at any index before the first version is published', async () => {
      for (const place of [0, 1023, 1024, 2999]) {
        const { made, mailbox, weights, warnings, begin, close } = await doubling();
        await begin();
        const values = new Float32Array(3000).fill(1);
        values[place] = Number.NaN;
        weights.write(values);
        await weights.device.currentStream.synchronize();
        await made.run({ ticks: 3, publishEvery: 3 });
        expect([mailbox.published, warnings.length]).to.deep.equal([0, 1]);
        expect(warnings[0]).to.include(`tick 2: weight ${place} is NaN`);
        await close();
      }
    });

    it('leave their version numbers to the next publish or write()', async () => {
      const { made, mailbox, begin, newest, close } = await doubling({ depth: 6 });
      await begin();
      await made.run({ ticks: 140, publishEvery: 1 });
      const [last = 0] = newest();
      expect(mailbox.begun).to.be.above(last);
      await begin();
      await made.run({ ticks: 10 });
      expect(mailbox.published, 'published versions without publishEvery').to.equal(last);
      await made.run({ ticks: 10, publishEvery: 10 });
      expect(newest()).to.deep.equal([last + 1, 2 ** 20, 2 ** 20]);
      await begin();
      await made.run({ ticks: 140, publishEvery: 1 });
      const [again = 0] = newest();
      await close();
      // After the pipeline has closed, write() continues the version numbers without a gap.
      for (let i = 1; i <= 4; i++) {
        expect(mailbox.write(new Float32Array(3000).fill(i))).to.equal(again + i);
        expect(newest()).to.deep.equal([again + i, i, i]);
      }
    });

    it('make run() reject if a `warning` listener throws, and the next run completes', async () => {
      const { made, begin, close } = await doubling();
      await begin();
      made.on('warning', () => {
        throw new Error('mine');
      });
      expect((await rejection(() => made.run({ ticks: 5000, publishEvery: 5 }))).message).to.equal(
        'mine',
      );
      expect((await made.run({ ticks: 5 })).ticks).to.equal(5);
      await close();
    });

    it('make WeightMailbox.write() throw unless `nonFinite` is true', () => {
      const mailbox = WeightMailbox.create({ length: 3 });
      const weights = Float32Array.of(1, Number.NEGATIVE_INFINITY, Number.NaN);
      const error = refusal(() => mailbox.write(weights));
      expect([error.code, error.message.slice(0, 23)]).to.deep.equal([
        'ERR_HOTSLOT_RANGE',
        'weights[1] is -Infinity',
      ]);
      expect([mailbox.begun, mailbox.write(weights, { nonFinite: true })]).to.deep.equal([0, 1]);
      expect(refusal(() => mailbox.write(weights, { nonFinit: true } as never)).message).to.include(
        "'nonFinit'",
      );
    });
  });

  itAll(
    'run() emits one `warning` with the text of waitingFor() after a wait of 10 seconds',
    async () => {
      const buffer = ReplayBuffer.create({ capacity: 8, fields: { x: { shape: [1] } } });
      const made = await pipeline({ buffer });
      made.capture(() => {});
      using clock = new ClockAhead();
      // A change of only the seconds in this text is not progress.
      const leave = feed(buffer.share().memory, {
        waitingFor: () => `rows: 1 host, 1 silent for ${clock.ahead / 1000} s`,
        spans: [],
      });
      const warnings: string[] = [];
      made.on('warning', (text) => warnings.push(text));
      const controller = new AbortController();
      const running = made.run({ signal: controller.signal });
      await clock.read(3);
      clock.ahead = 5000;
      await clock.read(3);
      expect(warnings).to.deep.equal([]);
      clock.ahead = 10_000;
      await once(made as never, 'warning');
      expect(warnings).to.deep.equal([`run() has waited 10 s for ${made.waitingFor()}`]);
      expect(warnings[0]).to.match(/rows: 0 were added so far; rows: 1 host, 1 silent for \d+ s$/);
      // The same text is not emitted a second time, also not when the run ends.
      clock.ahead += 20_000;
      controller.abort();
      expect(await running).to.include({ aborted: true, ticks: 0 });
      expect(warnings).to.have.length(1);
      leave();
      await made.close();
    },
  );
});
