/** Tests manual ticks: preparing, waiting, sampling, and calls that are rejected. */
import { expect } from 'chai';
import { type ReplayPipeline, uniformIndices } from '../../src/index.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { closeAll, filled, pipeline, rows, SAMPLE } from './fixture.ts';
import { placements, upToAuto } from './placements.ts';

for (const [name, placement] of Object.entries(placements)) {
  describe(`ReplayPipeline with manual ticks, ${name}`, () => {
    const rest = upToAuto(placement);
    afterEach(closeAll);

    it('samples the rows that uniformIndices() draws for the seed baseSeed + tick', async () => {
      const made = await pipeline({ placement, baseSeed: 41 });
      const batch = await made.sampleLargeBatch(7, SAMPLE);
      const expected = [...uniformIndices({ seed: 48, size: 100, count: SAMPLE })].map(Number);
      expect([...((await batch.rewards?.toArray()) ?? [])]).to.deep.equal(expected);
      expect([...((await batch.obs?.toArray()) ?? [])]).to.deep.equal(
        expected.flatMap((row) => [row, row, row, row]),
      );
      expect(Object.keys(batch)).to.deep.equal([
        'obs',
        'nextObs',
        'actions',
        'rewards',
        'dones',
        'truncated',
      ]);
      expect(batch.obs?.shape).to.deep.equal([SAMPLE, 4]);
    });

    it('prepares tick t + 1 while tick t is in use, and keeps the batch of tick t unchanged', async () => {
      const made = await pipeline({ placement, depth: 2 });
      for (let tick = 0; tick < 40; tick++) {
        const batch = await made.sampleLargeBatch(tick, SAMPLE);
        expect(made.startPrepare(tick + 1, SAMPLE)).to.equal(true);
        expect(await made.waitUntilReady(tick + 1, SAMPLE)).to.equal(true);
        expect(await made.sampleLargeBatch(tick, SAMPLE)).to.equal(batch);
        const expected = [...uniformIndices({ seed: tick, size: 100, count: SAMPLE })].map(Number);
        expect([...((await batch.rewards?.toArray()) ?? [])]).to.deep.equal(expected);
        made.afterTick();
      }
    });

    rest('returns a ready batch without a turn of the event loop', async () => {
      const made = await pipeline({ placement });
      await made.waitUntilReady(3, SAMPLE);
      const seen: string[] = [];
      const waited = made.waitUntilReady(3, SAMPLE).then(() => seen.push('waited'));
      const sampled = made.sampleLargeBatch(3, SAMPLE).then(() => seen.push('sampled'));
      await null;
      expect(seen).to.deep.equal(['waited', 'sampled']);
      await Promise.all([waited, sampled]);
    });

    rest('batchReady() returns false for other ticks without starting a request', async () => {
      const made = await pipeline({ placement });
      expect(made.batchReady(3, SAMPLE)).to.equal(false);
      expect(await made.waitUntilReady(3, SAMPLE)).to.equal(true);
      expect([made.batchReady(3, SAMPLE), made.batchReady(4, SAMPLE)]).to.deep.equal([true, false]);
      expect(made.startPrepare(3, SAMPLE)).to.equal(false);
    });

    rest('throws or rejects with both tick numbers for calls out of order', async () => {
      const made = await pipeline({ placement });
      made.startPrepare(5, SAMPLE);
      expect(refusal(() => made.startPrepare(6, SAMPLE))).to.include({
        code: 'ERR_HOTSLOT_STATE_TICK',
      });
      expect(refusal(() => made.startPrepare(6, SAMPLE)).message).to.match(/tick 6 .* tick 5/);
      expect((await rejection(() => made.sampleLargeBatch(6, SAMPLE))).message).to.match(
        /tick 6 .* tick 5/,
      );
      await made.sampleLargeBatch(5, SAMPLE);
      expect(refusal(() => made.startPrepare(5, SAMPLE)).message).to.match(/tick 5 is ready/);
      expect((await rejection(() => made.sampleLargeBatch(6, SAMPLE))).message).to.match(
        /tick 6 .* tick 5 is on the device/,
      );
      made.afterTick();
      made.afterTick();
      expect(refusal(() => made.startPrepare(5, SAMPLE)).message).to.match(/tick 5 is over/);
      expect(refusal(() => made.startPrepare(4, SAMPLE)).message).to.match(/tick 4 is over/);
      expect(await made.waitUntilReady(6, SAMPLE)).to.equal(true);
    });

    rest('checks the sample count before the tick number', async () => {
      const made = await pipeline({ placement });
      const calls = [
        (n: number) => made.startPrepare(-1, n),
        (n: number) => made.batchReady(-1, n),
        (n: number) => made.waitUntilReady(-1, n),
        (n: number) => made.sampleLargeBatch(-1, n),
      ];
      for (const call of calls) {
        expect((await rejection(() => call(SAMPLE + 1))).message).to.match(
          /17 differs from the pipeline's 16/,
        );
        for (const bad of [0, -1, Number.NaN, 1.5, Number.POSITIVE_INFINITY]) {
          expect(await rejection(() => call(bad))).to.be.instanceOf(RangeError);
        }
        expect((await rejection(() => call(SAMPLE))).message).to.match(/tickId/);
      }
    });

    rest(
      'waits for the requested rows, reports the wait in waitingFor(), and wakes after add()',
      async () => {
        const buffer = filled(0);
        const made = await pipeline({ placement, buffer });
        expect(refusal(() => made.startPrepare(0, SAMPLE))).to.include({
          code: 'ERR_HOTSLOT_STATE_EMPTY',
        });
        made.startPrepare(0, SAMPLE, 20);
        expect(await made.waitUntilReady(0, SAMPLE, { timeoutMs: 20 })).to.equal(false);
        buffer.add(rows(10));
        expect(await made.waitUntilReady(0, SAMPLE, { timeoutMs: 20 })).to.equal(false);
        // Pack's thread may not have had CPU time yet.
        await until('it says what it waits for', () => /rows: 10/.test(made.waitingFor()));
        buffer.add(rows(10, 10));
        const batch = await made.sampleLargeBatch(0, SAMPLE);
        const drawn = [...uniformIndices({ seed: 0, size: 20, count: SAMPLE })].map(Number);
        expect([...((await batch.rewards?.toArray()) ?? [])]).to.deep.equal(drawn);
      },
    );

    rest('samples more rows than are stored, with replacement', async () => {
      const made = await pipeline({ placement, buffer: filled(3) });
      const batch = await made.sampleLargeBatch(0, SAMPLE);
      expect(Math.max(...((await batch.rewards?.toArray()) as Float32Array))).to.be.lessThan(3);
    });

    rest(
      'rejects waiting calls when `signal` is aborted and when the pipeline closes',
      async () => {
        const made = await pipeline({ placement, buffer: filled(0) });
        made.startPrepare(0, SAMPLE, 50);
        const abort = new AbortController();
        const waiting = rejection(() => made.waitUntilReady(0, SAMPLE, { signal: abort.signal }));
        abort.abort();
        expect((await waiting).name).to.equal('AbortError');
        for (const timeoutMs of [Number.NaN, -1]) {
          expect(
            await rejection(() => made.waitUntilReady(0, SAMPLE, { timeoutMs })),
          ).to.be.instanceOf(RangeError);
        }
        const held = rejection(() => made.sampleLargeBatch(0, SAMPLE));
        await made.close();
        expect(await held).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
        for (const call of [
          () => made.startPrepare(1, SAMPLE),
          () => made.afterTick(),
          () => made.run(),
          () => made.step(),
        ]) {
          expect(await rejection(call)).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
        }
        await made.close();
      },
    );

    upToAuto(placement, itLonger)('closes at any stage of a tick', async () => {
      const stages: ((made: ReplayPipeline) => unknown)[] = [
        () => {},
        (made) => made.startPrepare(0, SAMPLE),
        (made) => made.startPrepare(0, SAMPLE, 10_000),
        (made) => made.waitUntilReady(0, SAMPLE),
        (made) => made.sampleLargeBatch(0, SAMPLE),
        async (made) => {
          await made.sampleLargeBatch(0, SAMPLE);
          made.afterTick();
          made.startPrepare(1, SAMPLE);
        },
      ];
      for (const stage of setting({ short: stages.slice(2, 4), all: stages })) {
        const made = await pipeline({ placement });
        await stage(made);
        await made.close();
      }
    });
  });
}

describe('transferManifest', () => {
  afterEach(closeAll);

  it('describes the transfer and the placement, and is frozen', async () => {
    const made = await pipeline({
      device: 'cpu',
      placement: [
        ['pack', 'submit'],
        ['poll', 'replay'],
      ],
    });
    expect(made.transferManifest).to.deep.equal({
      backend: 'HostCopyReplayTransferBackend',
      device: 'host:0',
      deviceFamily: 'host',
      hostMemoryKind: 'pageable_shared',
      hostPinned: false,
      directPinnedShared: false,
      supportsAsyncSubmit: true,
      supportsTimingEvents: true,
      h2dSubmitter: 'host_stream',
      rowsKept: 'host',
      rowsReason: 'as asked',
      ringDepth: 4,
      placement: '[pack submit] [poll replay]',
      placementReason: 'as asked',
      deviceReason: "'cpu' means host:0 here",
    });
    expect(Object.isFrozen(made.transferManifest)).to.equal(true);
  });

  for (const [transfer, rows, submitter] of [
    ['deferred', 'host', 'host_deferred'],
    ['direct', 'host', 'host_direct'],
    ['auto', 'host', 'host_direct'],
    ['auto', 'auto', 'host_direct'],
    ['auto', 'device', 'host_stream'],
  ] as const) {
    it(`names the submitter of transfer '${transfer}' with rows '${rows}'`, async function () {
      if (!ON_HOST) this.skip();
      const made = await pipeline({ transfer, rows, placement: 'inline' });
      expect(made.transferManifest.h2dSubmitter).to.equal(submitter);
      if (rows === 'device') return;
      for (let tick = 0; tick < 20; tick++) {
        const batch = await made.sampleLargeBatch(tick, SAMPLE);
        const expected = [...uniformIndices({ seed: tick, size: 100, count: SAMPLE })].map(Number);
        expect([...((await batch.rewards?.toArray()) ?? [])]).to.deep.equal(expected);
        made.afterTick();
      }
    });
  }
});
