/**
 * Tests a learner that is saved while hosts send, and is resumed elsewhere. No row may arrive
 * twice, and lost rows must be counted.
 */
import { expect } from 'chai';
import { Checkpoint, type ReplayBuffer, type TrajectoryBuffer } from '../../src/index.ts';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import { withFastFolder } from '../rig/fast-folder.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, setting } from '../rig/setting.ts';
import {
  bufferOf,
  host,
  learn,
  leash,
  newRun,
  numbersIn,
  sharedServer,
  untilAsked,
} from './runs.ts';

describe('remote collectors with checkpoints', () => {
  const shared = sharedServer();

  /** Creates a buffer that can be saved, with room for all rows. */
  const fresh = (kind: 'rows' | 'steps') => bufferOf(kind, 2) as ReplayBuffer;

  for (const kind of ['rows', 'steps'] as const)
    itAll(
      `the next learner stores no ${kind} twice after a checkpoint, and counts the lost rows`,
      () =>
        withFastFolder(async (folder) => {
          const run = newRun();
          const before = fresh(kind);
          const first = await learn({ url: shared.url, run, buffer: before });
          const { entry, to } = leash();
          const MORE = setting({ short: 3000, all: 3000, long: 6000 });
          const machines = await Promise.all(
            ['ann', 'bob'].map((name) =>
              host({ url: shared.url, run, entry, name, flushBytes: 1024, outboxBytes: 2 ** 16 }),
            ),
          );
          const told = () => machines.map((machine) => machine.statistics());
          const reached = (rows: number) =>
            untilAsked('rows come', () => told().every(({ acknowledged }) => acknowledged >= rows));
          const all = () =>
            untilAsked('all is there', () =>
              told().every(
                ({ sent, waiting, acknowledged }) => waiting === 0 && sent === acknowledged,
              ),
            );

          to(MORE);
          await reached(100);
          const checkpoint = await Checkpoint.open(folder, { buffer: before, collectors: first });
          const SAVES = setting({ short: 3, all: 8, long: 20 });
          for (let save = 1; save <= SAVES; save++) {
            to(MORE * (save + 1));
            await checkpoint.save();
          }
          await checkpoint.close();
          // Rows after the last save.
          to(MORE * (SAVES + 2));
          await untilAsked('all is collected', () =>
            told().every(({ steps }) => steps === MORE * (SAVES + 2)),
          );
          await all();
          await first.close();

          const buffer = fresh(kind);
          const restored = await Checkpoint.restore(folder, { buffer });
          const had = new Map(
            [...numbersIn(buffer)].map(([who, numbers]) => [who, numbers.length]),
          );
          to(MORE * (SAVES + 3));
          const second = await learn({
            url: shared.url,
            run,
            buffer,
            resume: restored?.collectors,
          });
          await untilAsked('all is collected', () =>
            told().every(({ steps }) => steps === MORE * (SAVES + 3)),
          );
          await all();

          // The rows of each host must be those that were saved, then those from the first
          // unacknowledged row on.
          const sent = told().reduce((sum, each) => sum + each.sent, 0);
          let rows = 0;
          const found = numbersIn(buffer);
          expect(found.size).to.equal(2);
          for (const [who, numbers] of found) {
            const kept = had.get(who)!;
            const base = numbers[kept]!;
            const expected = Array.from({ length: MORE * (SAVES + 3) - base }, (_, i) => base + i);
            expect(numbers, who).to.deep.equal([
              ...Array.from({ length: kept }, (_, i) => i),
              ...expected,
            ]);
            expect(base, `rows of ${who} that are lost`).to.be.at.least(kept);
            expect(base).to.equal(MORE * (SAVES + 2));
            rows += numbers.length;
          }
          const lost = 2 * MORE * (SAVES + 3) - rows;
          expect(lost).to.be.above(0);
          await untilAsked(
            'it is told',
            () => second.statistics().lost > 0 && second.statistics().hosts === 2,
          );
          const counted = second.statistics();
          if (kind === 'rows') expect(counted.lost).to.equal(lost);
          else expect(counted.lost).to.be.within(lost, lost + lost / 5 + 10);
          expect(counted).to.include({ refused: 0, stale: 0 });
          expect(sent).to.be.at.least(rows + lost);
        }),
    );

  itAll('two concurrent saves resolve, and the next learner continues from the checkpoint', () =>
    withFastFolder(async (folder) => {
      const run = newRun();
      const buffer = fresh('rows');
      const remote = await learn({ url: shared.url, run, buffer });
      const { entry, to } = leash();
      to(500);
      const machine = await host({ url: shared.url, run, entry });
      await untilAsked('rows come', () => machine.statistics().acknowledged === 500);
      const checkpoint = await Checkpoint.open(folder, { buffer, collectors: remote });
      const [one, other] = await Promise.all([checkpoint.save(), checkpoint.save()]);
      expect(one).to.be.an('object').and.to.be.ok;
      expect(other).to.be.an('object').and.to.be.ok;
      to(1500);
      await untilAsked('it goes on', () => machine.statistics().acknowledged === 1500);
      await checkpoint.close();
      const again = fresh('rows');
      const restored = await Checkpoint.restore(folder, { buffer: again });
      expect(again.ptr).to.equal(500);
      await remote.close();
      // The resumed learner must not take rows that are still in the stream.
      const second = await learn({
        url: shared.url,
        run,
        buffer: again,
        resume: restored?.collectors,
      });
      to(1600);
      await untilAsked('it goes on', () => machine.statistics().acknowledged === 1600);
      await untilAsked('it is told', () => second.statistics().lost === 1000);
      expect([...numbersIn(again).values()]).to.deep.equal([
        [
          ...Array.from({ length: 500 }, (_, i) => i),
          ...Array.from({ length: 100 }, (_, i) => 1500 + i),
        ],
      ]);
    }),
  );

  itAll(
    'save() resolves when the thread of the learner ends during the save, and no row is lost',
    () =>
      withFastFolder(async (folder) => {
        const run = newRun();
        const buffer = fresh('rows');
        const remote = await learn({ url: shared.url, run, buffer });
        const { entry, to } = leash();
        to(20_000);
        const machine = await host({
          url: shared.url,
          run,
          entry,
          flushBytes: 1024,
          outboxBytes: 2 ** 16,
        });
        const checkpoint = await Checkpoint.open(folder, { buffer, collectors: remote });
        await untilAsked('rows come', () => machine.statistics().acknowledged > 100);
        const saving = checkpoint.save();
        await remoteThreadsOf(remote)[0]?.terminate();
        await saving;
        await untilAsked('it goes on', () => machine.statistics().acknowledged === 20_000);
        expect([...numbersIn(buffer).values()]).to.deep.equal([
          Array.from({ length: 20_000 }, (_, i) => i),
        ]);
        await checkpoint.close();
      }),
  );

  it('RemoteCollectors.open() rejects an invalid `resume`', async () => {
    const buffer = fresh('steps') as unknown as TrajectoryBuffer;
    for (const resume of [{}, { kind: 'hotslot.RemoteCollectors.state', marks: 5 }, [], 'x'])
      expect(await rejection(learn({ url: shared.url, run: newRun(), buffer, resume }))).to.include(
        {
          code: 'ERR_HOTSLOT_ARGUMENT',
        },
      );
  });
});
