/** Tests exchanges that are disturbed between two lines of a rank's code. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ThreadEnding } from '../../src/base/addon.ts';
import { nativeHalos } from '../../src/device/native.ts';
import { wordsOf } from '../../src/extras/halo/shared-exchange.ts';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { RankState } from '../../src/shm/exchange-control.ts';
import { oddErrors } from '../rig/odd-errors.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { TestThread } from '../rig/test-thread.ts';
import { Part, type Plane, plane } from './plane.ts';
import type { StepTask } from './step-worker.ts';
import { behind, parksBehind, type Step } from './steps.ts';
import { rankThread } from './updater-rig.ts';

describe('halo/updater: one step at a time', () => {
  const inThread = (step: Step, plane?: Plane): Promise<unknown> =>
    new TestThread<StepTask>(new URL('./step-worker.js', import.meta.url), {
      step,
      plane,
    }).result();

  it('Exchange-4: a change after a reading of the state has rung the bell before the park', async () => {
    for (const what of ['holds', 'failed'] as const)
      expect(await parksBehind(what, 'parkAsync'), what).to.deep.equal([true]);
    for (const step of ['rungHolds', 'rungFailed'] as const)
      expect(await inThread(step), step).to.deep.equal([true]);
  });

  for (const [what, leaves] of [
    ['closes', (first: HaloUpdater) => first.close()],
    ['fails', (first: HaloUpdater) => first.fail(new Error('no'))],
  ] as const) {
    it(`Exchange-5: a wait receives the part of a rank that sends and ${what} between two readings`, async () => {
      for (const sync of [false, true])
        await behind(
          'holds',
          ({ first, parts }) => {
            first.start(parts[0].quantities);
            leaves(first);
          },
          async ({ second, parts }) => {
            // waitSync() throws because the main thread may not block. It does not throw the
            // failure, which happened only after it had read the state.
            if (sync)
              expect(refusal(() => second.waitSync()).code).to.equal(
                'ERR_HOTSLOT_STATE_MAIN_THREAD',
              );
            expect(sync ? second.waitSync() : await second.wait()).to.equal(true);
            expect(parts[1].wrongHere(1)).to.equal(null);
          },
        );
    });
  }

  it('Exchange-6: a wait for a failed rank rejects with the written reason, or later without one', async () => {
    for (const explained of [true, false]) {
      const all = plane(2, 1);
      using rank = new HaloUpdater(all.shared, 0);
      rank.start(new Part(all, 0).fill(1).quantities);
      const words = wordsOf(all.shared);
      const note = new Int32Array(all.shared.words.memory, all.shared.words.offset, 1);
      words.claim(1);
      Atomics.store(note, 0, 1);
      words.leave(1, RankState.failed);
      // This reads the state once. From its first reading on, a rank waits 100 ms for the reason,
      // and on a busy machine this time could be over at a second reading.
      expect(await rank.wait({ timeoutMs: 0 }), 'the reason is still being written').to.equal(
        false,
      );
      if (explained) {
        Atomics.store(note, 0, 0);
        words.fail({ rank: 1, exchange: 0, error: new Error('the reason') });
        words.ringAll();
      }
      const { message } = await rejection(rank.wait());
      if (explained)
        expect(message).to.equal('rank 1 failed before its first exchange: the reason');
      else
        expect(message).to.match(
          /^rank 1 failed before it sent what exchange 1 of rank 0 waits for/,
        );
    }
  });

  it('Exchange-6: every call of a failed rank throws or rejects, even if its reason is lost', async () => {
    const all = plane(2, 1);
    using rank = new HaloUpdater(all.shared, 0);
    const { quantities } = new Part(all, 0).fill(1);
    rank.start(quantities);
    const timeoutMs = 60_000;
    const waiting = rejection(rank.wait({ timeoutMs }));
    Atomics.store(new Int32Array(all.shared.words.memory, all.shared.words.offset, 1), 0, 1);
    rank.fail(new Error('lost'));
    const errors = [await waiting, await rejection(rank.wait({ timeoutMs }))];
    for (const call of [() => rank.start(quantities), () => rank.waitSync(), () => rank.progress()])
      errors.push(refusal(call));
    for (const { code, message } of errors)
      expect([code, message]).to.deep.equal([
        'ERR_HOTSLOT_STATE_CLOSED',
        'rank 0 has failed; close it',
      ]);
  });

  it('fail() with an unusual value rejects the waits of neighbors, with an Error as cause', async () => {
    for (const [what, thrown] of Object.entries(oddErrors)) {
      const all = plane(2, 1);
      using a = new HaloUpdater(all.shared, 0);
      using b = new HaloUpdater(all.shared, 1);
      a.start(new Part(all, 0).fill(1).quantities);
      const waiting = rejection(a.wait());
      b.fail(thrown);
      expect((await waiting).message, what).to.match(/^rank 1 failed before its first exchange: /);
      expect((await waiting).cause, what).to.be.instanceOf(Error);
    }
  });

  it('a call that throws ThreadEnding does not fail the exchange', async () => {
    const all = plane(2, 1);
    const parts = [0, 1].map((rank) => new Part(all, rank).fill(1));
    using a = new HaloUpdater(all.shared, 0);
    using b = new HaloUpdater(all.shared, 1);
    const addon = nativeHalos();
    const { moveHalo } = addon;
    const unanswered = () => {
      addon.moveHalo = moveHalo;
      return undefined as unknown as boolean;
    };
    addon.moveHalo = unanswered;
    expect(refusal(() => a.start(parts[0]!.quantities))).to.be.instanceOf(ThreadEnding);
    for (const [rank, each] of [a, b].entries()) each.start(parts[rank]!.quantities);
    addon.moveHalo = unanswered;
    expect(await rejection(a.wait())).to.be.instanceOf(ThreadEnding);
    expect([wordsOf(all.shared).failed, await a.wait(), await b.wait()]).to.deep.equal([
      false,
      true,
      true,
    ]);
    expect(parts[0]!.wrongHere(1)).to.equal(null);
  });

  it('a second claim of a rank fails, and a claimed rank is lost when its thread ends', async () => {
    const all = plane(2, 1);
    const words = wordsOf(all.shared);
    using rank = new HaloUpdater(all.shared, 0);
    expect((await rejection(rankThread(all, 0).result())).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    // A claim also fails if the check before it passed, and a thread that is being terminated
    // claims no rank.
    const { absent, open, lost } = RankState;
    expect(await inThread('claims', all)).to.deep.equal([open, 'ThreadEnding', absent, open]);
    expect([words.state(0), words.state(1)]).to.deep.equal([open, lost]);
    expect(rank.exchange).to.equal(0);
  });

  it('waitSync() throws without a time-out if a rank of the same thread has not started', async () => {
    expect(await inThread('notStarted')).to.deep.equal([
      false,
      'ERR_HOTSLOT_STATE_EMPTY',
      'exchange 1 of rank 1 waits for rank 0 of the same thread, which has not started it: start() every rank of a thread ' +
        'before waitSync()',
      true,
      true,
      null,
    ]);
  });

  it('a process stays alive while a wait is pending, and exits afterwards', () => {
    const script = fileURLToPath(new URL('./updater-process.js', import.meta.url));
    const said = execFileSync(process.execPath, [script], { encoding: 'utf8', timeout: 60_000 });
    expect(said).to.equal('false\ntrue true\n');
  });
});
