/**
 * Tests saves that are interrupted at every call that changes a file. Either the process dies and
 * loses what it has not flushed, or the call fails. Afterwards the folder must hold the whole
 * previous or the whole new checkpoint.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Checkpoint } from '../../src/index.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import type { Failed } from './fault-child.ts';
import {
  change,
  changed,
  closeAll,
  filesIn,
  inFolder,
  type Kind,
  make,
  namedIn,
  restored,
} from './rig.ts';
import { buildFaultShim } from './shim.ts';

const CHILD = fileURLToPath(new URL('./fault-child.js', import.meta.url));
const KINDS = setting<Kind[]>({ short: ['steps'], all: ['rows', 'steps'] });
/** Every STRIDEth call of a save that can fail is made to fail, beginning with call FIRST. */
const STRIDE = setting({ short: 29, all: 10, long: 1 });
const FIRST = setting({ short: '6', all: '0' });
type Deaths = [mode: string, at: number | null][];
const everywhere = (...modes: string[]): Deaths => modes.map((mode) => [mode, null]);
const everyDeath = everywhere('kill-bytes', 'kill-half', 'kill-names', 'kill-others');
/**
 * How a process dies, and at which call. null: at each call in turn. The setting `all` tests each
 * kind of death with one kind of run.
 */
const DEATHS = setting<Partial<Record<Kind, Deaths>>>({
  short: {
    steps: [['kill-half', 2]],
  },
  all: {
    rows: everywhere('kill-bytes', 'kill-half'),
    steps: everywhere('kill-names', 'kill-others'),
  },
  long: { rows: everyDeath, steps: everyDeath },
});
/** Distance between the calls at which processes die. */
const DEATH_STRIDE = setting({ short: 1, all: 5, long: 1 });

/**
 * Kinds of death in the first save of a folder, and the distance between the calls at which
 * processes die.
 */
const FIRST_DEATHS = setting({
  short: ['kill-others'],
  all: ['kill-others'],
  long: ['kill-bytes', 'kill-half', 'kill-names', 'kill-others'],
});
const FIRST_STRIDE = setting({ short: 22, all: 22, long: 1 });

interface Ended {
  signal: string | null;
  code: number | null;
  output: string;
  errors: string;
}

describe('Checkpoint: faults during a save', function () {
  this.timeout(setting({ short: 120_000, all: 600_000 }));
  let shim: { path: string; folder: string };
  /** the printed state of a run after 0, 1, 2 and 3 changes */
  const prints: Partial<Record<Kind, string[]>> = {};

  before(async function () {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-shim-'));
    const path = buildFaultShim(folder);
    if (path === null) return this.skip(); // buildFaultShim() printed why
    shim = { path, folder };
    for (const kind of KINDS) {
      prints[kind] = [];
      for (const times of [0, 1, 2, 3])
        prints[kind].push(await (await changed(kind, times)).print());
      expect(new Set(prints[kind]).size, 'different printed states').to.equal(4);
    }
    await closeAll();
  });
  after(() => {
    if (shim) rmSync(shim.folder, { recursive: true, force: true });
  });
  afterEach(closeAll);

  function child(folder: string, ...args: string[]): Promise<Ended> {
    const env = { ...process.env, LD_PRELOAD: shim.path, FAULT_FOLDER: folder };
    return new Promise((resolve) => {
      const made = spawn(process.execPath, [CHILD, folder, ...args], {
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let [output, errors] = ['', ''];
      made.stdout.on('data', (text) => (output += text));
      made.stderr.on('data', (text) => (errors += text));
      made.on('close', (code, signal) => resolve({ signal, code, output, errors }));
    });
  }

  /**
   * Restores the folder, which must hold the state after one or two changes. Then changes and saves
   * the run, and restores it again. Returns the number of changes that were found first.
   */
  async function goesOn(kind: Kind, folder: string, at: string): Promise<number> {
    const { run, print } = await restored(kind, folder);
    const found = prints[kind]!.indexOf(print);
    expect([1, 2], at).to.include(found);
    await change(run, found + 1);
    const checkpoint = await Checkpoint.open(folder, run.parts);
    await checkpoint.save();
    await checkpoint.close();
    expect(Object.keys(filesIn(folder)), at).to.deep.equal(await namedIn(folder));
    const again = await restored(kind, folder);
    expect(prints[kind]!.indexOf(again.print), at).to.equal(found + 1);
    await closeAll();
    return found;
  }

  for (const kind of KINDS) {
    for (const [mode, only] of DEATHS[kind] ?? []) {
      itLonger(
        `${kind}: a process that dies (${mode}) in a save leaves the old or the new checkpoint`,
        async () => {
          const found: number[] = [];
          for (let at = only ?? 0, over = false; !over; at += DEATH_STRIDE) {
            await inFolder(async (folder) => {
              const { signal, code, errors } = await child(folder, kind, `${mode}:${at}`);
              over = signal === null;
              if (over) return expect(code, errors).to.equal(0);
              expect(signal, errors).to.equal('SIGKILL');
              found.push(await goesOn(kind, folder, `${mode} at call ${at}`));
              over = only !== null;
            });
          }
          expect(found.length).to.be.at.least(
            only === null ? (mode === 'kill-half' ? 5 : 20) / DEATH_STRIDE : 1,
          );
          // From some call on, the new checkpoint is found.
          expect(found, mode).to.deep.equal([...found].sort());
          if (only === null && mode !== 'kill-half')
            expect(new Set(found)).to.deep.equal(new Set([1, 2]));
        },
      );
    }

    for (const mode of FIRST_DEATHS)
      itAll(
        `${kind}: a process that dies (${mode}) in a first save leaves no or a whole checkpoint`,
        async () => {
          const found: number[] = [];
          for (let at = 0, over = false; !over; at += FIRST_STRIDE) {
            await inFolder(async (folder) => {
              const { signal, code, errors } = await child(folder, kind, `${mode}:${at}`, 'first');
              over = signal === null;
              if (over) return expect(code, errors).to.equal(0);
              const what = `${mode} at call ${at}`;
              const fresh = await make(kind);
              const back = await Checkpoint.restore(folder, fresh.parts);
              if (back) expect(await fresh.print(), what).to.equal(prints[kind]![1]);
              else await change(fresh, 1);
              found.push(back ? 1 : 0);
              const checkpoint = await Checkpoint.open(folder, fresh.parts);
              await checkpoint.save();
              await checkpoint.close();
              expect(Object.keys(filesIn(folder)), what).to.deep.equal(await namedIn(folder));
              expect((await restored(kind, folder)).print, what).to.equal(prints[kind]![1]);
              await closeAll();
            });
          }
          expect(found.length).to.be.at.least(setting({ short: 1, all: 1, long: 5 }));
          expect(found, mode).to.deep.equal([...found].sort());
          expect(found[0], mode).to.equal(0);
        },
      );

    itAll(
      `${kind}: a failed call in the first save leaves no or a whole checkpoint, and a later save works`,
      async () => {
        const [, first] = prints[kind]!;
        const { code, output, errors } = await inFolder((folder) =>
          child(folder, kind, 'first errors', String(STRIDE), FIRST),
        );
        expect(code, errors).to.equal(0);
        const all = JSON.parse(output) as Failed[];
        expect(all.length).to.be.at.least(setting({ short: 3, all: 5, long: 50 }));
        for (const { mode, at, error, restored: print, later } of all) {
          const what = `${mode} at call ${at}`;
          if (error) {
            expect(error.code, what).to.equal('ERR_HOTSLOT_UNAVAILABLE');
            const there = error.message.includes('it is there, but a loss of power');
            expect(print, what).to.equal(there ? first : '');
            if (!there) expect(error.message, what).to.not.include('is unchanged');
          } else expect(print, what).to.equal(first);
          expect(later, what).to.deep.equal({ left: [], restored: first });
        }
      },
    );

    itAll(`${kind}: open() rejects a read-only folder, and restore() reads the folder`, () =>
      inFolder(async (folder) => {
        const { code, output, errors } = await child(folder, kind, 'read-only');
        expect(code, errors).to.equal(0);
        const message = `'${folder}' cannot be locked for saving: Read-only file system`;
        const error = { code: 'ERR_HOTSLOT_UNAVAILABLE', message };
        expect(JSON.parse(output)).to.deep.equal({ error, restored: prints[kind]![1] });
      }),
    );

    itLonger(
      `${kind}: a failed call in a save leaves the old or the new checkpoint, and a later save works`,
      async () => {
        const [, first, second] = prints[kind]!;
        const { code, output, errors } = await inFolder((folder) =>
          child(folder, kind, 'errors', String(STRIDE), FIRST),
        );
        expect(code, errors).to.equal(0);
        const all = JSON.parse(output) as Failed[];
        expect(new Set(all.map(({ mode }) => mode)).size).to.equal(3);
        expect(all.length).to.be.at.least(setting({ short: 3, all: 5, long: 50 }));
        let doubts = 0;
        const words = { 'fail-io': 'EIO', 'fail-full': 'ENOSPC', 'fail-read-only': 'EROFS' };
        for (const { mode, at, error, untouched, left, restored: print, later } of all) {
          const what = `${mode} at call ${at}`;
          if (error === null) {
            // The save has succeeded. The next save removes files that could not be removed.
            expect(print, what).to.equal(second);
          } else {
            expect(error.code, what).to.equal('ERR_HOTSLOT_UNAVAILABLE');
            expect(error.message, what)
              .to.match(/^saving into '.*' failed: /)
              .and.to.include(words[mode as keyof typeof words]);
            expect(error.message, what).to.not.include('\n');
            if (error.message.includes('a loss of power')) {
              // Either manifest may be found after a loss of power, so the files of both are kept.
              doubts++;
              expect([print, left.length > 0], what).to.deep.equal([second, true]);
            } else {
              expect(error.message, what).to.match(/; the checkpoint of tick 3 is unchanged$/);
              expect([untouched, print], what).to.deep.equal([true, first]);
              // If no file can be removed, the files of this save stay until the next save.
              if (mode !== 'fail-read-only') expect(left, what).to.deep.equal([]);
            }
          }
          expect(later, what).to.deep.equal({ left: [], restored: second });
        }
        if (STRIDE === 1) expect(doubts, 'failed flushes after the manifest').to.equal(2);
      },
    );
  }
});
