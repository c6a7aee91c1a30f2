/**
 * Tests the contents of checkpoint files: rings that wrapped, lanes of unequal length, cleared
 * buffers, and saves that write only new rows.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Checkpoint, prioritized, ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import {
  change,
  changed,
  closeAll,
  contents,
  filesIn,
  inFolder,
  namedIn,
  prioritiesOf,
  restored,
} from './rig.ts';

const PRINTER = fileURLToPath(new URL('./printer.js', import.meta.url));
const LAST = setting({ short: 6, all: 10, long: 14 });
const SAVES = setting({ short: 3, all: 150, long: 300 });

/** Returns the names of a folder's segments and their total size in bytes. */
function segmentsIn(folder: string): { names: string[]; bytes: number } {
  const names = Object.keys(filesIn(folder)).filter((name) => name.startsWith('segment-'));
  return { names, bytes: names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) };
}

describe('Checkpoint: saved contents', function () {
  this.timeout(setting({ short: 120_000, all: 120_000 }));
  afterEach(closeAll);

  it('a save holds learner arrays and priorities of one moment while both change', () =>
    inFolder(async (folder) => {
      const data = new Float32Array(1 << 20);
      const learner = {
        state: () => ({ data: { dtype: 'float32', shape: [data.length], data } }) as const,
        loadState() {},
      };
      const opened = () => {
        const fields = { obs: { shape: [1], observation: true } } as const;
        const buffer = TrajectoryBuffer.create({ capacity: 1 << 16, lanes: 1 << 10, fields });
        const sampler = prioritized({ alpha: 1, epsilon: 0 });
        const view = buffer.transitions();
        const ids = () => buffer.drawableIds(view);
        const draw = () => buffer.sample({ view, sampler, seed: 0, count: 1 });
        return { buffer, sampler, ids, draw };
      };
      const { buffer, ids, draw } = opened();
      const lanes = 1 << 10;
      const none = new Uint8Array(lanes);
      const obs = new Float32Array(lanes);
      const writer = buffer.writer();
      for (let i = 0; i < 60; i++)
        writer.add({ obs, rewards: obs, terminated: none, truncated: none });
      draw();
      const all = ids();
      const checkpoint = await Checkpoint.open(folder, { buffer, learner });
      let [saved, value] = [false, 1];
      const saving = checkpoint.save().finally(() => {
        saved = true;
      });
      for (; !saved; value++, await new Promise(setImmediate)) {
        data.fill(value);
        buffer.updatePriorities(all, new Float32Array(all.length).fill(value));
      }
      await saving;
      await checkpoint.close();
      const again = opened();
      expect(() => again.draw()).to.throw('no step is drawable');
      const found = new Set<number>();
      const loadState = ({ data: loaded }: Record<string, { data: ArrayLike<unknown> }>) => {
        for (const each of loaded!.data as Float32Array) found.add(each);
      };
      await Checkpoint.restore(folder, {
        buffer: again.buffer,
        learner: { ...learner, loadState },
      });
      expect(found.size, 'distinct values in the arrays').to.equal(1);
      const leaves = again.sampler.inspect().leaves.filter((leaf) => leaf > 0);
      expect(leaves).to.have.length(all.length);
      expect(new Set(leaves).size, 'priorities of one moment').to.equal(1);
    }));

  itAll('rings that wrapped many times restore exactly, also in another process', () =>
    inFolder(async (folder) => {
      for (const kind of ['rows', 'steps'] as const) {
        const at = join(folder, kind);
        const run = await changed(kind, 1);
        const checkpoint = await Checkpoint.open(at, run.parts);
        for (let n = 2; n < LAST; n++) {
          await change(run, n);
          run.add(n % 4 === 0 ? 45 : 0);
          await checkpoint.save();
          if (n % 3 === 2)
            expect((await restoredBeside(at, kind)).print).to.equal(await run.print());
        }
        await checkpoint.close();
        const { status, stdout, stderr } = spawnSync(process.execPath, [PRINTER, kind, at], {
          encoding: 'utf8',
        });
        expect(status, stderr).to.equal(0);
        expect(stdout.trim()).to.equal(await run.print());
        // The restored run and the original must stay equal after a further change.
        const { run: again } = await restored(kind, at);
        for (const each of [run, again]) await change(each, LAST);
        expect(await again.print()).to.equal(await run.print());
      }

      /** Restores a copy of the folder, because the folder itself is open for saves. */
      async function restoredBeside(at: string, kind: 'rows' | 'steps') {
        const copy = `${at}-copy`;
        cpSync(at, copy, { recursive: true });
        try {
          const found = await restored(kind, copy);
          await found.run.close();
          return found;
        } finally {
          rmSync(copy, { recursive: true });
        }
      }
    }),
  );

  itLonger(
    'lanes of unequal length restore exactly, also if empty, cleared or in mid-episode',
    () =>
      inFolder(async (folder) => {
        const fields = {
          obs: { shape: [], observation: true },
          number: { shape: [], dtype: 'int32' },
        } as const;
        const made = () => {
          const buffer = TrajectoryBuffer.create({ capacity: 80, lanes: 4, fields });
          return {
            buffer,
            view: buffer.transitions({ nStep: 2, gamma: 0.5 }),
            sampler: prioritized({ alpha: 0.6 }),
          };
        };
        type Made = ReturnType<typeof made>;
        /** Lane 3 never has a step, and lane 0 has the most steps. */
        const steps = (writer: ReturnType<Made['buffer']['writer']>, from: number, to: number) => {
          for (let t = from; t < to; t++) {
            const each = (of: (lane: number) => number) =>
              Float32Array.from({ length: 4 }, (_, lane) => of(lane));
            const obs = each((lane) => t * 4 + lane);
            const flags = (of: (lane: number) => boolean) =>
              Uint8Array.from({ length: 4 }, (_, lane) => Number(of(lane)));
            writer.add({
              obs,
              finalObs: each((lane) => -t - lane),
              number: Int32Array.from(obs),
              rewards: each((lane) => t % (3 + lane)),
              terminated: flags((lane) => t % (7 + lane) === 6),
              truncated: flags((lane) => t % (11 + lane) === 10),
              skip: flags((lane) => lane === 3 || (lane > 0 && t % (lane + 2) !== 0)),
            });
          }
        };
        const print = ({ buffer, view, sampler }: Made, seed: number) => {
          const { ids, weights } = buffer.sample({ view, seed, count: 20, sampler });
          const drawn = buffer.sample({
            view: buffer.transitions({ nStep: 4, gamma: 0.5 }),
            seed,
            count: 20,
          });
          buffer.updatePriorities(
            ids,
            Float64Array.from(ids, (id) => 1 + (id % 9)),
          );
          return [
            contents(buffer),
            [...ids],
            [...(weights as Float64Array)],
            [...drawn.ids],
            prioritiesOf(sampler),
          ];
        };
        let now = made();
        let writer = now.buffer.writer();
        steps(writer, 0, 5);
        print(now, 1);
        let checkpoint = await Checkpoint.open(folder, { buffer: now.buffer });
        await checkpoint.save();
        const spans = [
          [5, 90],
          [90, 92, 'forget'],
          [92, 97],
          [97, 97, 'forget'],
          [97, 300],
          [300, 303],
        ] as const;
        for (const [from, to, forget] of spans) {
          steps(writer, from, to);
          if (forget) now.buffer.clear();
          await checkpoint.save();
          await checkpoint.close();
          const again = made();
          // Binds the sampler to its buffer. A sampler belongs to a buffer from its first use on,
          // also if there is nothing to sample.
          const empty = refusal(() =>
            again.buffer.sample({ view: again.view, seed: 0, count: 1, sampler: again.sampler }),
          );
          expect(empty).to.include({ code: 'ERR_HOTSLOT_STATE_EMPTY' });
          expect(await Checkpoint.restore(folder, { buffer: again.buffer })).to.include({
            tick: -1,
          });
          const goesOn = again.buffer.writer({ resume: true });
          expect(contents(again.buffer), `up to ${to}`).to.deep.equal(contents(now.buffer));
          expect(prioritiesOf(again.sampler)).to.deep.equal(prioritiesOf(now.sampler));
          // The restored buffer and the original continue with the same steps.
          steps(writer, to, to + 9);
          steps(goesOn, to, to + 9);
          expect(print(again, to), `on from ${to}`).to.deep.equal(print(now, to));
          writer.close();
          goesOn.close();
          const back = made();
          refusal(() =>
            back.buffer.sample({ view: back.view, seed: 0, count: 1, sampler: back.sampler }),
          );
          await Checkpoint.restore(folder, { buffer: back.buffer });
          now = back;
          writer = now.buffer.writer({ resume: true });
          checkpoint = await Checkpoint.open(folder, { buffer: now.buffer });
        }
        await checkpoint.close();
        writer.close();
      }),
  );

  itLonger('a save writes only new rows, merges small segments and removes unneeded segments', () =>
    inFolder(async (folder) => {
      const buffer = ReplayBuffer.create({ capacity: 50_000, fields: { value: { shape: [8] } } });
      const add = (count: number) => {
        const value = Float32Array.from({ length: count * 8 }, (_, i) => buffer.ptr + i);
        for (let at = 0; at < count; at += 5000)
          buffer.add({ value: value.subarray(at * 8, (at + 5000) * 8) });
      };
      const row = 32;
      add(40_000);
      const checkpoint = await Checkpoint.open(folder, { buffer });
      const first = await checkpoint.save();
      expect(first.bytes).to.be.within(40_000 * row, 40_000 * row + 4000);
      const whole = segmentsIn(folder);
      expect((await checkpoint.save()).bytes).to.be.below(4000);
      expect(segmentsIn(folder)).to.deep.equal(whole);
      add(100);
      expect((await checkpoint.save()).bytes).to.be.within(100 * row, 100 * row + 4000);
      expect(segmentsIn(folder).bytes - whole.bytes).to.equal(100 * row + 16);
      let most = 0;
      for (let i = 0; i < SAVES; i++) {
        add(3);
        await checkpoint.save();
        most = Math.max(most, segmentsIn(folder).names.length);
      }
      expect(most).to.be.within(setting({ short: 5, all: 60 }), 70);
      expect(Object.keys(filesIn(folder))).to.deep.equal(await namedIn(folder));
      // All rows of the ring are new, so no earlier segment is needed.
      add(50_000);
      await checkpoint.save();
      const { names, bytes } = segmentsIn(folder);
      expect([names.length, bytes]).to.deep.equal([1, 50_000 * row + 16]);
      await checkpoint.close();
      const back = ReplayBuffer.create({ capacity: 50_000, fields: { value: { shape: [8] } } });
      await Checkpoint.restore(folder, { buffer: back });
      expect(contents(back)).to.deep.equal(contents(buffer));
    }),
  );

  it('save() calls during a save share one next save', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      let looking = 0;
      const extra = async () => {
        expect(++looking, 'concurrent calls of extra()').to.equal(1);
        await new Promise(setImmediate);
        looking--;
      };
      const checkpoint = await Checkpoint.open(folder, { ...run.parts, extra });
      const [first, second] = [checkpoint.save(), checkpoint.save()];
      const later = [checkpoint.save()];
      for (let i = 0; i < 3; i++) {
        await null;
        later.push(checkpoint.save());
      }
      await new Promise(setImmediate);
      later.push(checkpoint.save());
      const saves = (await Promise.all([first, second, ...later])).map(({ save }) => save);
      expect(saves).to.deep.equal([1, ...Array(saves.length - 1).fill(2)]);
      const last = checkpoint.save();
      await checkpoint.close();
      expect((await last).save).to.equal(3);
      expect((await Checkpoint.inspect(folder))?.save).to.equal(3);
    }));
});
