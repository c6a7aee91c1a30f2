/** Tests ranks in threads: exchanges under load, and every way in which a thread can end. */
import { expect } from 'chai';
import { wordsOf } from '../../src/extras/halo/shared-exchange.ts';
import { Parked } from '../../src/shm/bell.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { describeAll, itAll, itLonger, setting } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { plane } from './plane.ts';
import { onBoth } from './updater-rig.ts';

onBoth((rig) => {
  // Threads end in the same way with arrays on a device, so a short run omits these tests.
  (rig.onDevice ? describeAll : describe)('threads', () => {
    for (const [columns, rows, exchanges, async] of [
      [
        2,
        1,
        setting(
          rig.onDevice
            ? { short: 100, all: 200, long: 300 }
            : { short: 500, all: 8000, long: 20_000 },
        ),
        false,
      ],
      [
        2,
        2,
        setting(
          rig.onDevice ? { short: 30, all: 60, long: 100 } : { short: 100, all: 1500, long: 3000 },
        ),
        false,
      ],
      [
        3,
        1,
        setting(
          rig.onDevice ? { short: 30, all: 60, long: 100 } : { short: 60, all: 600, long: 1000 },
        ),
        true,
      ],
    ] as const) {
      itLonger(
        `${columns}×${rows} ranks make ${exchanges} exchanges, ${async ? 'awaited' : 'blocking'}`,
        async () => {
          const all = plane(columns, rows);
          const threads = all.shared.neighbors.map((_, rank) =>
            rig.thread(all, rank, { exchanges, async }),
          );
          for (const each of threads) expect(await each.result()).to.equal(null);
        },
      );
    }

    itAll('the main thread exchanges as a rank with another thread', async () => {
      const all = plane(2, 1);
      const [mine, here] = [rig.part(all, 0), rig.updater(all, 0)];
      const there = rig.thread(all, 1, { exchanges: 50 });
      for (let n = 1; n <= 50; n++) {
        here.start(mine.fill(n).quantities);
        mine.spoil();
        expect(await here.wait()).to.equal(true);
        expect(await mine.wrong(n)).to.equal(null);
      }
      expect(await there.result()).to.equal(null);
    });

    itAll(
      'a rank receives the part of a neighbor that closes right after its exchange',
      async () => {
        const shortLived = Array.from({ length: rig.onDevice ? 20 : 500 }, () => plane(2, 1));
        const last = plane(2, 1);
        const threads = [0, 1].map((rank) => rig.thread(last, rank, { shortLived, exchanges: 1 }));
        for (const each of threads) expect(await each.result()).to.equal(null);
      },
    );

    it('the failure of one rank is thrown by all ranks, with its code and cause', async () => {
      const all = plane(5, 1);
      const others = [0, 2, 3, 4].map((rank) =>
        rig.thread(all, rank, { exchanges: 3, ending: 'goOn' }),
      );
      const failing = rig.thread(all, 1, { exchanges: 3, ending: 'fail' });
      expect(await failing.result()).to.equal(null);
      for (const each of others) {
        const { code, message, cause } = await rejection(each.result());
        expect([code, message, (cause as Error).message]).to.deep.equal([
          'ERR_HOTSLOT_RANGE',
          'rank 1 failed in exchange 3: the sea is dry',
          'the sea is dry',
        ]);
      }
    });

    itAll(
      'a rank that closes early is named by the first wait for a part that it did not send',
      async () => {
        const all = plane(3, 1);
        const [mine, here] = [rig.part(all, 2), rig.updater(all, 2)];
        const other = rig.thread(all, 0, { exchanges: 2, ending: 'goOn' });
        const closing = rig.thread(all, 1, { exchanges: 2, ending: 'close' });
        for (let n = 1; n <= 2; n++) {
          expect(await here.update(mine.fill(n).quantities)).to.equal(true);
          expect(await mine.wrong(n)).to.equal(null);
        }
        const error = await rejection(here.update(mine.fill(3).quantities));
        for (const { code, message } of [error, await rejection(other.result())]) {
          expect(code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
          expect(message).to.match(
            /rank 1 closed before it sent what exchange 3 of rank [02] waits for over edge [NS]?[EW]: close/,
          );
        }
        expect(await closing.result()).to.equal(null);
        expect(refusal(() => here.start(mine.quantities)).message).to.match(
          /failed in exchange 3: rank 1 closed/,
        );
      },
    );

    for (const ending of ['sleep', 'spin', 'throw'] as const) {
      const doing = {
        sleep: 'is terminated while it sleeps',
        spin: 'is terminated while it computes',
        throw: 'throws and ends',
      }[ending];
      (ending === 'sleep' ? it : itAll)(
        `every rank throws ERR_HOTSLOT_THREAD_LOST when the thread of a rank ${doing}`,
        async () => {
          const all = plane(5, 1);
          const [mine, here] = [rig.part(all, 0), rig.updater(all, 0)];
          const far = [2, 3].map((rank) => rig.thread(all, rank, { exchanges: 1, ending: 'goOn' }));
          const absent = rig.updater(all, 4);
          const its = rig.part(all, 4);
          const lost = rig.thread(all, 1, { exchanges: 1, ending });
          for (const [updater, part] of [
            [here, mine],
            [absent, its],
          ] as const)
            updater.start(part.fill(1).quantities);
          expect([await here.wait(), await absent.wait()]).to.deep.equal([true, true]);
          if (ending !== 'throw') {
            expect(await lost.next()).to.equal('here');
            await lost.terminate();
          }
          const error = await rejection(here.update(mine.fill(2).quantities));
          expect(error.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
          expect(error.message).to.match(
            /the thread of rank 1 ended before it sent what exchange 2 of rank [02] waits for/,
          );
          for (const each of far)
            expect((await rejection(each.result())).code).to.equal('ERR_HOTSLOT_THREAD_LOST');
          expect(refusal(() => absent.start(its.quantities)).code).to.equal(
            'ERR_HOTSLOT_THREAD_LOST',
          );
        },
      );
    }

    it('a wait rejects only for parts that a rank had not sent before it was terminated', async () => {
      const all = plane(2, 1);
      const [mine, here] = [rig.part(all, 0), rig.updater(all, 0)];
      const lost = rig.thread(all, 1, { exchanges: 1, ending: 'wait' });
      expect(await here.update(mine.fill(1).quantities)).to.equal(true);
      expect(await lost.next()).to.equal('here');
      await lost.terminate();
      expect(await here.update(mine.fill(2).quantities)).to.equal(true);
      expect(await mine.wrong(2)).to.equal(null);
      const error = await rejection(here.update(mine.fill(3).quantities));
      expect(error.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
      expect(error.message).to.match(
        /^the thread of rank 1 ended before it sent what exchange 3 of rank 0 waits for/,
      );
    });

    for (const sleeper of ['this thread', 'a thread']) {
      (sleeper === 'this thread' ? it : itAll)(
        `a wait rejects when a rank is lost while ${sleeper} sleeps, although no bell rings`,
        async () => {
          const all = plane(2, 1);
          const lost = rig.thread(all, 1, { exchanges: 1, ending: 'sleep' });
          let error: { code?: unknown } | undefined;
          const asleep = () =>
            until('it sleeps', () => wordsOf(all.shared).bell(0).words[1] === Parked.javascript);
          if (sleeper === 'this thread') {
            const [mine, here] = [rig.part(all, 0), rig.updater(all, 0)];
            expect(await here.update(mine.fill(1).quantities)).to.equal(true);
            const waiting = rejection(here.update(mine.fill(2).quantities));
            expect(await lost.next()).to.equal('here');
            await asleep();
            await lost.terminate();
            error = await waiting;
          } else {
            const other = rig.thread(all, 0, { exchanges: 1, ending: 'goOn' });
            expect(await lost.next()).to.equal('here');
            await asleep();
            await lost.terminate();
            error = await rejection(other.result());
          }
          expect(error!.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
        },
      );
    }
  });
});
