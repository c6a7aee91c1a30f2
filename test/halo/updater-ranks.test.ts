/** Tests ranks of one thread: how they send, receive and wait. */
import { getEventListeners } from 'node:events';
import { expect } from 'chai';
import type { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { until } from '../rig/until.ts';
import type { Part } from './plane.ts';
import { exchange, onBoth } from './updater-rig.ts';

onBoth((rig) => {
  describe('ranks of one thread', () => {
    for (const [columns, rows] of [
      [1, 1],
      [1, 2],
      [3, 2],
    ] as const) {
      it(`${columns}×${rows} ranks make ten exchanges, in which a rank can be its own neighbor`, async () => {
        const { parts, updaters } = rig.together(columns, rows);
        for (let n = 1; n <= 10; n++) await exchange(parts, updaters, n);
      });
    }

    it('arrays can be overwritten after start(), and the next exchange overwrites nothing unread', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      a.start(parts[0]!.fill(1).quantities);
      parts[0]!.spoil();
      b.start(parts[1]!.fill(1).quantities);
      parts[1]!.spoil();
      // On a device the first rank sends only when its packing is done, so this waits for it.
      await until('the first one has sent', () => a.progress());
      expect(await b.wait()).to.equal(true);
      expect(await parts[1]!.wrong(1)).to.equal(null);
      b.start(parts[1]!.fill(2).quantities);
      await until('the second one has sent', () => b.progress());
      expect(await a.wait()).to.equal(true);
      expect(await parts[0]!.wrong(1)).to.equal(null);
      a.start(parts[0]!.fill(2).quantities);
      expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
      expect([await parts[0]!.wrong(2), await parts[1]!.wrong(2)]).to.deep.equal([null, null]);
      expect([a.exchange, b.exchange]).to.deep.equal([2, 2]);
    });

    it('update() starts an exchange and waits for it', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const done = updaters.map((each, rank) => each.update(parts[rank]!.fill(1).quantities));
      expect(await Promise.all(done)).to.deep.equal([true, true]);
      expect(await parts[0]!.wrong(1)).to.equal(null);
    });

    it('wait() receives the part that a rank sent before it closed', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(1).quantities);
      await until('both have sent', () => a.progress() && b.progress());
      expect(await a.wait()).to.equal(true);
      a.close();
      expect(await b.wait()).to.equal(true);
      expect(await parts[1]!.wrong(1)).to.equal(null);
      b.start(parts[1]!.fill(2).quantities);
      expect((await rejection(b.wait())).message).to.match(
        /rank 0 closed before it sent what exchange 2 of rank 1/,
      );
    });

    it('wait() returns false at its time-out, and the exchange continues', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      a.start(parts[0]!.fill(1).quantities);
      expect([await a.wait({ timeoutMs: 0 }), await a.wait({ timeoutMs: 5 })]).to.deep.equal([
        false,
        false,
      ]);
      const waiting = a.wait();
      b.start(parts[1]!.fill(1).quantities);
      expect([await b.wait(), await waiting]).to.deep.equal([true, true]);
      expect(await parts[0]!.wrong(1)).to.equal(null);
    });

    it('wait() rejects when its signal is aborted, and the exchange continues', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      a.start(parts[0]!.fill(1).quantities);
      const control = new AbortController();
      const waiting = rejection(a.wait({ signal: control.signal }));
      control.abort(new Error('enough'));
      expect((await waiting).message).to.equal('enough');
      expect(
        (await rejection(a.wait({ signal: AbortSignal.abort(new Error('never')) }))).message,
      ).to.equal('never');
      b.start(parts[1]!.fill(1).quantities);
      expect([await a.wait(), await b.wait()]).to.deep.equal([true, true]);
    });

    it('wait() removes its abort listener, however the wait ends', async () => {
      const ends: Record<
        string,
        (a: HaloUpdater, b: HaloUpdater, of: Part, control: AbortController) => void
      > = {
        arrival: (_a, b, of) => b.start(of.fill(1).quantities),
        abort: (_a, _b, _of, control) => control.abort(),
        failure: (_a, b) => b.fail(new Error('no')),
        closing: (a) => a.close(),
        'time-out': () => {},
      };
      for (const [how, end] of Object.entries(ends)) {
        const { parts, updaters } = rig.together(2, 1);
        const [a, b] = updaters as [HaloUpdater, HaloUpdater];
        const control = new AbortController();
        const listeners = () => getEventListeners(control.signal, 'abort').length;
        a.start(parts[0]!.fill(1).quantities);
        const waiting = a.wait({
          signal: control.signal,
          timeoutMs: how === 'time-out' ? 250 : 60_000,
        });
        const ended = waiting.then(String, () => 'thrown');
        expect(listeners(), how).to.equal(1);
        end(a, b, parts[1]!, control);
        expect(await ended, how).to.equal(
          { arrival: 'true', 'time-out': 'false' }[how] ?? 'thrown',
        );
        expect(listeners(), how).to.equal(0);
      }
    });

    it('waitSync() returns without waiting in the main thread, or throws if it would block', async () => {
      const { parts, updaters } = rig.together(2, 1);
      const [a, b] = updaters as [HaloUpdater, HaloUpdater];
      a.start(parts[0]!.fill(1).quantities);
      expect(a.waitSync({ timeoutMs: 0 })).to.equal(false);
      expect(refusal(() => a.waitSync()).code).to.equal('ERR_HOTSLOT_STATE_MAIN_THREAD');
      b.start(parts[1]!.fill(1).quantities);
      await until('both have sent', () => a.progress() && b.progress());
      expect([a.waitSync(), b.waitSync()]).to.deep.equal([true, true]);
      expect(await parts[0]!.wrong(1)).to.equal(null);
    });
  });
});
