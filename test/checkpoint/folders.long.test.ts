/**
 * Tests which files a checkpoint may replace, which folders are flushed, and which processes may
 * use a folder at once.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { tensorBoard } from '../../src/entries/monitor.ts';
import { Checkpoint } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import {
  change,
  changed,
  closeAll,
  contents,
  filesIn,
  inFolder,
  make,
  namedIn,
  type Run,
  restored,
} from './rig.ts';

const HOLDER = fileURLToPath(new URL('./holder.js', import.meta.url));

async function saved(folder: string, { parts }: Run): Promise<void> {
  const checkpoint = await Checkpoint.open(folder, parts);
  await checkpoint.save();
  await checkpoint.close();
}

/**
 * Returns the operations of `act` on the disk in order: 'open PATH', 'mkdir PATH', 'flush PATH'.
 * `fail` may throw to make one of them fail.
 */
async function told(act: () => Promise<unknown>, fail = (_: string) => {}): Promise<string[]> {
  const all: string[] = [];
  const tell = (what: string) => {
    fail(what);
    all.push(what);
  };
  const { open, mkdir } = fs;
  Object.assign(fs, {
    mkdir: async (path: string) => {
      await mkdir(path);
      tell(`mkdir ${path}`);
    },
    open: async (path: string, flags?: string) => {
      const file = await open(path, flags);
      tell(`open ${path}`);
      const sync = file.sync.bind(file);
      return Object.assign(file, {
        sync: async () => {
          tell(`flush ${path}`);
          await sync();
        },
      });
    },
  });
  syncBuiltinESMExports();
  try {
    await act();
    return all;
  } finally {
    Object.assign(fs, { open, mkdir });
    syncBuiltinESMExports();
  }
}

describe('Checkpoint: folders', () => {
  afterEach(closeAll);

  it('calls reject a folder of checkpoint files without a manifest, and keep the files', () =>
    inFolder(async (folder) => {
      const { parts } = await make('rows');
      for (const name of ['learner-1.safetensors', 'segment-3.0.rows', 'plain-7.v8']) {
        const place = join(folder, name);
        mkdirSync(place);
        writeFileSync(join(place, name), 'mine');
        const { open, restore, inspect } = Checkpoint;
        for (const call of [open, restore, inspect] as ((
          place: string,
          parts: object,
        ) => Promise<unknown>)[]) {
          const error = await rejection(call(place, parts));
          expect(error).to.include({ code: 'ERR_HOTSLOT_RANGE' });
          expect(error.message).to.equal(
            `'${place}' is not a checkpoint: it holds '${name}' and no checkpoint.json; put that back, or name an empty folder, or a new one`,
          );
        }
        expect(readFileSync(join(place, name), 'utf8')).to.equal('mine');
      }
      // A temporary file of an interrupted write belongs to no checkpoint.
      const cut = join(folder, 'cut');
      mkdirSync(cut);
      writeFileSync(join(cut, 'learner-1.safetensors.0123456789ab.tmp'), 'half');
      await saved(cut, await changed('rows', 1));
      expect(Object.keys(filesIn(cut))).to.deep.equal(await namedIn(cut));
    }));

  it('open() keeps a checkpoint without its manifest, and restore() works with the manifest back', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      await saved(folder, run);
      const path = join(folder, 'checkpoint.json');
      const manifest = readFileSync(path);
      rmSync(path);
      const files = filesIn(folder);
      expect((await rejection(Checkpoint.open(folder, run.parts))).message).to.match(
        /and no checkpoint\.json; put that/,
      );
      expect(filesIn(folder)).to.deep.equal(files);
      writeFileSync(path, manifest);
      expect((await restored('steps', folder)).print).to.equal(await run.print());
    }));

  it('open() flushes the parent of each new folder, and tensorBoard() the folder of its file', () =>
    inFolder(async (folder) => {
      const { parts } = await make('rows');
      const [runs, first] = [join(folder, 'runs'), join(folder, 'runs', 'first')];
      const open = async () => (await Checkpoint.open(first, parts)).close();
      const did = await told(open);
      const made = did.filter((each) => each.startsWith('mkdir')).length;
      expect(made).to.equal(2);
      for (const [path, above] of [
        [runs, folder],
        [first, runs],
      ] as const) {
        const at = did.indexOf(`mkdir ${path}`);
        expect(at, `${did}`).to.be.at.least(0);
        expect(did.indexOf(`flush ${above}`, at), `${did}`).to.be.above(at);
      }
      const curves = join(folder, 'curves');
      const board = tensorBoard(curves);
      board.scalar('a', 1, 0);
      const wrote = await told(() => board.close());
      const file = wrote.findIndex((each) => each.startsWith(`open ${curves}/events`));
      expect(wrote.indexOf(`flush ${folder}`), `${wrote}`).to.be.within(0, file - 1);
      expect(wrote.indexOf(`flush ${curves}`, file), `${wrote}`).to.be.above(file);
    }));

  it('save() writes priorities while the pipeline is paused, and flushes the file afterwards', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const standing: Record<string, boolean> = {};
      await told(
        () => saved(folder, run),
        (what) => {
          const [, act = ''] = /^(open|flush) .*priorities-1\.safetensors\..*tmp$/.exec(what) ?? [];
          standing[act] = internalsOf(run.pipeline).control.standing;
        },
      );
      expect(standing).to.include({ open: true, flush: false });
    }));

  it('open() rejects with its own message if a new folder is created but cannot be flushed', () =>
    inFolder(async (folder) => {
      const { parts } = await make('rows');
      const place = join(folder, 'new');
      const error = await new Promise<Error>((resolve) => {
        const broken = (what: string) => {
          if (what === `flush ${folder}`)
            throw Object.assign(new Error('EIO: i/o error'), { syscall: 'fsync' });
        };
        void told(async () => resolve(await rejection(Checkpoint.open(place, parts))), broken);
      });
      expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
      expect(error.message).to.equal(
        `'${place}' was created, but its name could not be flushed: EIO: i/o error`,
      );
    }));

  itAll('restore() calls share a folder, and open() rejects a folder that is being restored', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      await saved(folder, run);
      const readers = await Promise.all([make('steps'), make('steps')]);
      // The loadState() of these learners waits, so that both restores run at once.
      let [within, most] = [0, 0];
      let [come, goOn] = [() => {}, () => {}];
      const both = new Promise<void>((resolve) => (come = resolve));
      const refused = new Promise<void>((resolve) => (goOn = resolve));
      const restoring = readers.map(({ parts, learner }) => {
        const loadState = async (state: object) => {
          most = Math.max(most, ++within);
          if (within === 2) come();
          await refused;
          learner.loadState(state);
        };
        const slow = Object.assign(Object.create(learner), { loadState });
        return Checkpoint.restore(folder, { ...parts, learner: slow });
      });
      await both;
      const error = await rejection(Checkpoint.open(folder, run.parts));
      expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
      expect(error.message).to.equal(
        `'${folder}' is in use: another checkpoint is open there, or is read, in this process or another`,
      );
      goOn();
      await Promise.all(restoring);
      expect(most).to.equal(2);
      for (const reader of readers) expect(await reader.print()).to.equal(await run.print());
      // While another process has the folder open for saves, restore() rejects.
      const child: ChildProcess = fork(HOLDER, [folder]);
      await once(child, 'message');
      const busy = await rejection(Checkpoint.restore(folder, (await make('steps')).parts));
      expect(busy.message).to.equal(
        `'${folder}' is in use: another checkpoint is open there, in this process or another`,
      );
      child.kill('SIGKILL');
      await once(child, 'exit');
    }),
  );

  it('one run saves into two folders in turn, and each folder restores its state', () =>
    inFolder(async (folder) => {
      const [one, other] = [join(folder, 'one'), join(folder, 'other')];
      const run = await changed('steps', 1);
      for (const [n, place] of [one, other, one, other].entries()) {
        await saved(place, run);
        const found = await restored('steps', place);
        expect(found.print).to.equal(await run.print());
        expect(contents(found.run.parts.buffer!)).to.deep.equal(contents(run.parts.buffer!));
        await change(run, n + 2);
      }
      expect((await Checkpoint.inspect(one))?.save).to.equal(2);
    }));

  it("open() rejects another run's copy of the checkpoint, even with the same save count", () =>
    inFolder(async (folder) => {
      const [one, copy] = [join(folder, 'one'), join(folder, 'copy')];
      await saved(one, await changed('rows', 1));
      cpSync(one, copy, { recursive: true });
      const [{ run }, { run: fork }] = [await restored('rows', one), await restored('rows', copy)];
      fork.add(1);
      for (const [at, each] of [
        [one, run],
        [copy, fork],
      ] as const) {
        await change(each, 2);
        await saved(at, each);
      }
      const counts = await Promise.all(
        [one, copy].map(async (at) => (await Checkpoint.inspect(at))?.save),
      );
      expect(counts).to.deep.equal([2, 2]);
      const files = filesIn(copy);
      expect((await rejection(Checkpoint.open(copy, run.parts))).message).to.match(
        /the checkpoint of another run/,
      );
      expect(filesIn(copy)).to.deep.equal(files);
      // A copy of the run's own checkpoint is accepted.
      rmSync(copy, { recursive: true });
      cpSync(one, copy, { recursive: true });
      await saved(copy, run);
      expect([
        existsSync(join(copy, 'checkpoint.json')),
        readdirSync(copy).includes('begun'),
      ]).to.deep.equal([true, false]);
    }));
});
