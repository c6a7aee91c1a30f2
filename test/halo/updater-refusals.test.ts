/** Tests ranks that fail or close, and what a HaloUpdater rejects. */
import { expect } from 'chai';
import { failHaloExchange, wordsOf } from '../../src/extras/halo/shared-exchange.ts';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { until } from '../rig/until.ts';
import { plane } from './plane.ts';
import { exchange, onBoth } from './updater-rig.ts';

onBoth((rig) => {
  describe('failing', () => {
    it('close() and fail() ring the bells of all ranks, and an abort rings only its own bell', async () => {
      const { parts, updaters, plane: all } = rig.together(4, 1);
      const counts = () => updaters.map((_, rank) => wordsOf(all.shared).bell(rank).read());
      const rungBy = (call: () => void) => {
        const before = counts();
        call();
        return counts().map((count, rank) => count - before[rank]!);
      };
      updaters[1]!.start(parts[1]!.fill(1).quantities);
      const control = new AbortController();
      const waiting = rejection(updaters[1]!.wait({ signal: control.signal }));
      expect(rungBy(() => control.abort(new Error('enough')))).to.deep.equal([0, 1, 0, 0]);
      await waiting;
      expect(rungBy(() => updaters[0]!.close())).to.deep.equal([1, 1, 1, 1]);
      expect(rungBy(() => updaters[2]!.fail(new Error('no')))).to.deep.equal([1, 1, 1, 1]);
      expect(rungBy(() => updaters[2]!.close())).to.deep.equal([0, 0, 0, 0]);
      expect(rungBy(() => failHaloExchange(all.shared, new Error('no')))).to.deep.equal([
        1, 1, 1, 1,
      ]);
    });

    it('wait() receives parts sent before a failure, and later calls throw the failure', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
      await until('both have sent', () => a.progress() && b.progress());
      a.fail(new Error('no'));
      expect(await b.wait()).to.equal(true);
      expect(await parts[1]!.wrong(1)).to.equal(null);
      expect((await rejection(b.wait())).message).to.equal('rank 0 failed in exchange 1: no');
      expect(refusal(() => b.start(parts[1]!.quantities)).message).to.equal(
        'rank 0 failed in exchange 1: no',
      );
    });

    it('every rank throws the first of two failures, and close() is idempotent afterwards', async () => {
      const { parts, updaters } = rig.together(3, 1);
      const [a, b, c] = updaters as [HaloUpdater, HaloUpdater, HaloUpdater];
      a.start(parts[0]!.fill(1).quantities);
      const waiting = rejection(a.wait());
      b.fail(new Error('first'));
      c.fail(new Error('second'));
      const error = await waiting;
      expect([error.code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_STATE_CLOSED',
        'rank 1 failed before its first exchange: first',
      ]);
      expect((error.cause as Error).message).to.equal('first');
      for (const each of updaters) {
        for (const call of [() => each.start(parts[0]!.quantities), () => each.waitSync()])
          expect(refusal(call).message).to.equal(error.message);
        each.close();
        each.close();
      }
    });

    it('failHaloExchange() rejects the wait for a rank that never started', async () => {
      const all = plane(2, 1);
      const [mine, here] = [rig.part(all, 0), rig.updater(all, 0)];
      here.start(mine.fill(1).quantities);
      const waiting = rejection(here.wait());
      failHaloExchange(structuredClone(all.shared), new TypeError('its module does not load'));
      expect((await waiting).message).to.equal(
        'the halo exchange was ended by another thread: its module does not load',
      );
    });

    it('a failure that is too long and not serializable still reaches other ranks', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const error: Error & { self?: unknown } = new Error('x'.repeat(10_000), {
        cause: { big: 1n },
      });
      updaters[1]!.fail(error);
      expect(refusal(() => updaters[0]!.start(parts[0]!.quantities)).message).to.match(
        /^rank 1 failed.*: x{100}/,
      );
    });

    it('close() rejects a pending wait of the same rank', async () => {
      const { parts, updaters } = rig.together(2, 1);
      updaters[0]!.start(parts[0]!.fill(1).quantities);
      const waiting = rejection(updaters[0]!.wait());
      updaters[0]!.close();
      expect([(await waiting).code, (await waiting).message]).to.deep.equal([
        'ERR_HOTSLOT_STATE_CLOSED',
        'this HaloUpdater of rank 0 is closed',
      ]);
    });
  });

  describe('refusals', () => {
    it('start(), wait() and the constructor throw or reject when called at the wrong time', async () => {
      const { parts, updaters, plane: all } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      const code = (call: () => unknown) => refusal(call).code;
      expect(code(() => a.waitSync())).to.equal('ERR_HOTSLOT_STATE_EMPTY');
      expect((await rejection(a.wait())).message).to.equal(
        'rank 0 has no exchange under way; start() one before wait()',
      );
      expect(a.progress(), 'nothing to send').to.equal(true);
      a.start(parts[0]!.fill(1).quantities);
      expect(refusal(() => a.start(parts[0]!.quantities)).message).to.equal(
        'exchange 1 of rank 0 is under way; wait() for it before the next start()',
      );
      const waiting = a.wait();
      expect((await rejection(a.wait())).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
      b.start(parts[1]!.fill(1).quantities);
      expect([await waiting, await b.wait()]).to.deep.equal([true, true]);
      expect(refusal(() => rig.updater(all, 1)).message).to.match(
        /rank 1 is in use by another HaloUpdater/,
      );
      b.close();
      expect(refusal(() => rig.updater(all, 1)).message).to.match(
        /rank 1 was used by another HaloUpdater/,
      );
      expect(code(() => b.start(parts[1]!.quantities))).to.equal('ERR_HOTSLOT_STATE_CLOSED');
      expect((await rejection(b.wait())).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
      b.fail(new Error('too late'));
      b[Symbol.dispose]();
    });

    it('start() throws for mismatched quantities, and the exchange is unchanged', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const good = parts[0]!.fill(1).quantities;
      for (const bad of [
        [good[0]!],
        [good[0]!, { data: new Float32Array(1000) }],
        [good[0]!, { ...good[1]!, shape: [1] }],
      ])
        expect(refusal(() => updaters[0]!.start(bad)).code).to.match(
          /ERR_HOTSLOT_(ARGUMENT|RANGE)/,
        );
      expect(refusal(() => updaters[0]!.start(good, good)).message).to.include('takes no y');
      expect(updaters[0]!.exchange).to.equal(0);
      await exchange(parts, updaters, 1);
      expect(refusal(() => updaters[1]!.start([])).code).to.equal('ERR_HOTSLOT_RANGE');
      await exchange(parts, updaters, 2);
    });

    it('the waits and the constructor throw or reject for invalid options', async () => {
      const all = plane(1, 1);
      const one = rig.updater(all, 0);
      one.start(rig.part(all, 0).fill(1).quantities);
      for (const timeoutMs of [-1, Number.NaN, '1' as unknown as number])
        expect(refusal(() => one.waitSync({ timeoutMs })).message).to.include(
          'timeoutMs must be a number of milli',
        );
      expect((await rejection(one.wait({ signal: 1 as unknown as AbortSignal }))).code).to.equal(
        'ERR_HOTSLOT_ARGUMENT',
      );
      expect(refusal(() => one.waitSync({ timeout: 1 } as object)).message).to.include(
        "unknown option 'timeout'",
      );
      expect(refusal(() => new HaloUpdater(all.shared, 1)).message).to.include(
        'rank must be a whole number',
      );
      expect(refusal(() => new HaloUpdater({} as never, 0)).message).to.include(
        'the result of shareHaloExchange()',
      );
      expect(
        refusal(() => new HaloUpdater(plane(1, 1).shared, 0, { device: 'host:0' as never })).code,
      ).to.equal('ERR_HOTSLOT_ARGUMENT');
    });
  });
});
