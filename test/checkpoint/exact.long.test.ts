/**
 * Tests that saves do not change a run, and that a run restored from any of its saves ends in the
 * same state. Ticks, draws and priorities are compared bit for bit.
 */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { Checkpoint, type SavedCheckpoint, type Tensor, type Tick } from '../../src/index.ts';
import { SPREAD } from '../pipeline/fixture.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itLonger, SETTING, setting } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import {
  change,
  changed,
  closeAll,
  inFolder,
  type Kind,
  make,
  manualTick,
  type Options,
  ROWS,
  type Run,
} from './rig.ts';

/** Number of runs, and of ticks in each. */
const PIECES = setting({ short: 1, all: 2, long: 30 });
const TICKS = setting({ short: 60, all: 100, long: 400 });
const ADDED = 60;

interface Told {
  tick: number;
  seen: number;
}
const listen = ({ pipeline }: Run): Told[] => {
  const told: Told[] = [];
  pipeline.on(
    'tick',
    ({ tickId: tick, scalars }: Tick) => void told.push({ tick, seen: scalars.seen as number }),
  );
  return told;
};

/**
 * Returns the final state as text. Closes the pipeline first, because the actor threads of another
 * pipeline end only then, and all priorities are applied by then.
 */
async function ended(run: Run): Promise<string> {
  const device = await run.learner.state();
  await run.pipeline.close();
  return JSON.stringify([JSON.parse(await run.print()), [...device.seen.data]]);
}

const SHORT = 'trajectories, by priorities';
const placements: Record<string, Options['pipeline']> = setting({
  short: { inline: {} },
  all: { inline: {}, threads: { placement: 'auto' }, spread: { placement: SPREAD } },
  long: {
    inline: {},
    threads: { placement: 'auto' },
    spread: { placement: SPREAD },
    deep: { depth: 7 },
  },
});
const kinds: [name: string, kind: Kind, options?: Options][] = [
  ['rows', 'rows'],
  ['trajectories, uniform', 'uniform'],
  [SHORT, 'steps', { sampling: { alpha: 0.6 }, view: { nStep: 3, gamma: 0.9 } }],
  ['trajectories, by priorities of a batch', 'steps', { sampling: { normalize: 'batch' } }],
];

describe('Checkpoint: exact resume', function () {
  this.timeout(setting({ short: 120_000, all: 300_000 }));
  afterEach(closeAll);
  /** number of saves that were taken during a run on threads */
  let within = 0;
  // A short run has too few saves to guarantee that one is taken during a run.
  after(() => SETTING === 'short' || expect(within).to.be.greaterThan(0));

  for (const [name, kind, options] of kinds)
    for (const [place, pipeline] of Object.entries(placements)) {
      // Only the longest setting runs every kind with two threads.
      if (place === 'threads' && name !== SHORT && SETTING !== 'long') continue;
      const opened = () => make(kind, { ...options, pipeline });

      itLonger(
        `${name}, ${place}: saves do not change a run, and restored runs end in the same state`,
        () =>
          inFolder(async (folder) => {
            const run = await opened();
            run.add(ADDED);
            const told = listen(run);
            const checkpoint = await Checkpoint.open(join(folder, 'now'), run.parts);
            const saves: SavedCheckpoint[] = [];
            const copies: { at: string; tick: number }[] = [];
            checkpoint.on('saved', (saved) => {
              // Copies the checkpoint as it is after this save.
              const at = join(folder, `copy-${saved.save}`);
              cpSync(join(folder, 'now'), at, { recursive: true });
              saves.push(saved);
              copies.push({ at, tick: saved.tick });
            });
            // Saves before a run, from its first tick, and from a later turn of the event loop.
            for (let piece = 0; piece < PIECES; piece++) {
              const save = () => checkpoint.save();
              const first = new Promise<unknown>((resolve) =>
                run.pipeline.once('tick', () => resolve(save())),
              );
              const asked = [
                first,
                piece % 2 === 0 ? save() : new Promise(setImmediate).then(save),
              ];
              await run.pipeline.run({ ticks: TICKS });
              await Promise.all(asked);
            }
            await checkpoint.save();
            await checkpoint.close();
            const ticks = PIECES * TICKS;
            expect(saves.at(-1)?.tick).to.equal(ticks - 1);
            if (place !== 'inline')
              within += saves.filter(({ tick }) => (tick + 1) % TICKS !== 0).length;

            const plain = await opened();
            plain.add(ADDED);
            const want = listen(plain);
            await plain.pipeline.run({ ticks });
            const wanted = await ended(plain);
            expect(want).to.have.length(ticks);
            expect(told).to.deep.equal(want);
            expect(await ended(run)).to.equal(wanted);

            const [few, each] = [
              setting({ short: 3, all: 5, long: 12 }),
              Math.ceil(copies.length / setting({ short: 3, all: 5, long: 12 })),
            ];
            for (const { at, tick } of copies.filter((_, i) => i % each === 0).slice(0, few)) {
              const again = await opened();
              const found = await Checkpoint.restore(at, again.parts);
              expect(found).to.deep.include({ tick, extra: { updates: 0 } });
              const rest = listen(again);
              if (tick + 1 < ticks) await again.pipeline.run({ ticks: ticks - tick - 1 });
              expect(rest, `from tick ${tick}`).to.deep.equal(want.slice(tick + 1));
              expect(await ended(again), `from tick ${tick}`).to.equal(wanted);
            }
          }),
      );
    }

  for (const [name, kind, options] of kinds.slice(0, 3))
    itLonger(`${name}: manual ticks resume exactly from a checkpoint with a prepared tick`, () =>
      inFolder(async (folder) => {
        const [before, total] = [7, 16];
        const act = async (run: Run, from: number, to: number, saving?: Checkpoint) => {
          for (let tick = from; tick < to; tick++) {
            if (tick % 3 === 0) run.add(2);
            run.pipeline.startPrepare(tick, ROWS);
            if (saving && tick % 2 === 0) await saving.save();
            await manualTick(run, tick);
            if (saving && tick % 3 === 1) await saving.save();
          }
        };
        const plain = await make(kind, options);
        plain.add(40);
        await act(plain, 0, total);
        // A prepared tick keeps its batch, although rows are added after startPrepare().
        const prepared = await make(kind, options);
        prepared.add(40);
        const checkpoint = await Checkpoint.open(folder, prepared.parts);
        await act(prepared, 0, before, checkpoint);
        prepared.add(before % 3 === 0 ? 2 : 0);
        prepared.pipeline.startPrepare(before, ROWS);
        await prepared.pipeline.waitUntilReady(before, ROWS);
        const saved = await checkpoint.save();
        await checkpoint.close();
        expect(saved.tick).to.equal(before - 1);
        // Restores and saves again before anybody samples the prepared tick. The second save must
        // contain the tick.
        const between = await make(kind, options);
        await Checkpoint.restore(folder, between.parts);
        const later = await Checkpoint.open(folder, between.parts);
        expect((await later.save()).tick).to.equal(before - 1);
        await later.close();
        const again = await make(kind, options);
        const back = await Checkpoint.restore(folder, again.parts);
        expect(back?.tick).to.equal(before - 1);
        expect(again.limiter.samples).to.equal(before * ROWS);
        // The batch must not contain rows that are added meanwhile.
        const bytes = async (run: Run) => {
          const batch = (await run.pipeline.sampleLargeBatch(before, ROWS)) as Readonly<
            Record<string, Tensor>
          >;
          const each = Object.entries(batch).filter(([key]) => key !== 'priorities');
          return Promise.all(
            each.map(async ([key, tensor]) => [key, [...(await tensor.toArray())]]),
          );
        };
        const busy = refusal(() => void again.pipeline.startPrepare(before - 1, ROWS));
        expect(busy).to.include({ code: 'ERR_HOTSLOT_STATE_TICK' });
        expect(await rejection(again.pipeline.run({ ticks: 1 }))).to.include({
          code: 'ERR_HOTSLOT_STATE_RUNNING',
        });
        for (const run of [prepared, again]) run.add(3);
        expect(await bytes(again)).to.deep.equal(await bytes(prepared));
        for (const run of [prepared, again]) {
          await manualTick(run, before);
          await act(run, before + 1, total);
        }
        expect(await ended(again)).to.equal(await ended(prepared));
        expect(await ended(plain)).to.be.a('string');
      }),
    );

  it('saves by `every` do not change the result of a manual loop', () =>
    inFolder(async (folder) => {
      const ends: string[] = [];
      for (const every of [undefined, '10 ms']) {
        const run = await make('steps', {});
        run.add(40);
        const checkpoint = await Checkpoint.open(join(folder, String(every)), {
          ...run.parts,
          ...(every ? { every } : {}),
        });
        let saves = 0;
        const errors: Error[] = [];
        checkpoint.on('saved', () => void saves++).on('error', (error) => void errors.push(error));
        let tick = 0;
        for (; tick < 30; tick++) {
          if (tick % 3 === 0) run.add(1);
          await manualTick(run, tick);
        }
        // `every` follows the machine's clock. Saves continue while the event loop turns, and this
        // loop waits for three of them.
        for (; every && saves < 3; await new Promise(setImmediate));
        for (; tick < 40; tick++) await manualTick(run, tick);
        await checkpoint.close();
        expect(errors).to.deep.equal([]);
        ends.push(await ended(run));
      }
      expect(ends[1]).to.equal(ends[0]);
    }));

  it('save() rejects and `every` waits while a tick is on the device', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const checkpoint = await Checkpoint.open(folder, run.parts);
      await run.pipeline.sampleLargeBatch(4, ROWS);
      const error = await rejection(checkpoint.save());
      expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_TICK' });
      expect(error.message).to.equal(
        'tick 4 is on the device; save between afterTick() and the next sample',
      );
      run.pipeline.afterTick();
      expect(await checkpoint.save()).to.include({ tick: 4 });
      await checkpoint.close();
      const patient = await Checkpoint.open(folder, { ...run.parts, every: '10 ms' });
      await run.pipeline.sampleLargeBatch(5, ROWS);
      const first = new Promise<SavedCheckpoint>((resolve) => patient.once('saved', resolve));
      await until('it wants to save', () => internalsOf(run.pipeline).control.standing);
      for (let i = 0; i < 20; i++) await new Promise(setImmediate);
      expect((await Checkpoint.inspect(folder))?.save).to.equal(1);
      run.pipeline.afterTick();
      expect((await first).tick).to.equal(5);
      await patient.close();
    }));

  it('sampleLargeBatch() and run() wait while a save is in progress', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      let look = () => {};
      const parts = {
        ...run.parts,
        extra: () => new Promise<number>((resolve) => (look = () => resolve(1))),
      };
      const checkpoint = await Checkpoint.open(folder, parts);
      for (const begin of [
        () => run.pipeline.sampleLargeBatch(4, ROWS),
        () => run.pipeline.run({ ticks: 2 }),
      ]) {
        look = () => {};
        const idle = look;
        const saving = checkpoint.save();
        while (look === idle) await new Promise(setImmediate);
        let done = false;
        const waiting = begin().finally(() => (done = true));
        for (let i = 0; i < 50; i++) await new Promise(setImmediate);
        expect(done).to.equal(false);
        look();
        await saving;
        await waiting;
        run.pipeline.afterTick();
      }
      await checkpoint.close();
      await change(run, 3);
    }));
});
