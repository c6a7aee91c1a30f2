/**
 * Tests that checkpoint calls reject damaged or foreign folders and invalid options. Each error is
 * one sentence, and no file or part is changed.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { Checkpoint, type CheckpointOptions } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import {
  change,
  changed,
  closeAll,
  filesIn,
  inFolder,
  make,
  namedIn,
  type Run,
  restored,
  signed,
} from './rig.ts';

const HOLDER = fileURLToPath(new URL('./holder.js', import.meta.url));

async function saved(folder: string, run: Run): Promise<void> {
  const checkpoint = await Checkpoint.open(folder, run.parts);
  await checkpoint.save();
  await checkpoint.close();
}

describe('Checkpoint: rejected folders and options', () => {
  let first: string;
  before(async () => {
    first = await (await changed('steps', 1)).print();
    await closeAll();
  });
  afterEach(closeAll);

  /** Calls `use` with a folder that holds a checkpoint of a run after one change. */
  const inSaved = <T>(use: (folder: string) => Promise<T>): Promise<T> =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      await saved(folder, run);
      await run.close();
      return use(folder);
    });

  /**
   * Checks that restore() rejects and leaves the folder's files as they are. After `mend` the same
   * parts must be restorable. Without `mend` they must still be usable.
   */
  async function refuses(folder: string, why: RegExp, mend: (() => void) | null): Promise<void> {
    const files = filesIn(folder);
    const run = await make('steps');
    const error = await rejection(Checkpoint.restore(folder, run.parts));
    expect(error.message).to.match(why).and.to.not.include('\n');
    expect(['ERR_HOTSLOT_RANGE', 'ERR_HOTSLOT_UNAVAILABLE'], error.stack).to.include(error.code);
    expect(filesIn(folder), 'files of the folder').to.deep.equal(files);
    if (mend) {
      mend();
      await Checkpoint.restore(folder, run.parts);
    } else await change(run, 1);
    expect(await run.print(), 'state of the parts').to.equal(first);
    await run.close();
  }

  for (const kind of ['segment', 'learner', 'run', 'priorities', 'plain', 'checkpoint']) {
    itLonger(`restore() rejects a ${kind} file that is damaged, truncated, empty or missing`, () =>
      inSaved(async (folder) => {
        const name = readdirSync(folder).find((each) => each.startsWith(kind)) as string;
        const path = join(folder, name);
        const whole = readFileSync(path);
        const flip = (at: number, bit: number) => () => {
          const bytes = Buffer.from(whole);
          bytes[at]! ^= 1 << bit;
          writeFileSync(path, bytes);
        };
        const middle = kind === 'checkpoint' ? whole.indexOf('"bytes": ') + 9 : whole.length >> 1;
        const harms = [
          flip(middle, 0),
          () => truncateSync(path, whole.length - 3),
          () => truncateSync(path, 0),
        ];
        if (setting({ short: false, all: true }))
          harms.push(flip(kind === 'checkpoint' ? 1 : 0, 7), flip(middle, 5));
        for (const [i, harm] of harms.entries()) {
          harm();
          // The first harm is mended, and the same parts are restored. After each other harm they
          // are used without a restore.
          await refuses(
            folder,
            new RegExp(`${name}' is damaged`),
            i === 0 ? () => writeFileSync(path, whole) : null,
          );
        }
        rmSync(path);
        if (kind === 'checkpoint')
          await refuses(folder, /and no checkpoint\.json/, () => writeFileSync(path, whole));
        else
          await refuses(folder, new RegExp(`${name}.*: ENOENT`), () => writeFileSync(path, whole));
      }),
    );
  }

  itAll('inspect() rejects a manifest with a flipped bit, or returns the same contents', () =>
    inSaved(async (folder) => {
      const path = join(folder, 'checkpoint.json');
      const whole = readFileSync(path);
      let refused = 0;
      const said = JSON.stringify(await Checkpoint.inspect(folder));
      for (let at = 0; at < whole.length; at++) {
        for (const bit of [0, 5]) {
          const bytes = Buffer.from(whole);
          bytes[at]! ^= 1 << bit;
          writeFileSync(path, bytes);
          const contents = await Checkpoint.inspect(folder).catch((error: Error) => error);
          if (contents instanceof RangeError) refused++;
          else expect(JSON.stringify(contents), `bit ${bit} of byte ${at}`).to.equal(said);
        }
      }
      expect(refused).to.be.greaterThan(whole.length);
    }),
  );

  it('restore() rejects other formats, unknown parts and entries, and other JSON files', () =>
    inSaved(async (folder) => {
      const path = join(folder, 'checkpoint.json');
      const text = readFileSync(path, 'utf8');
      const mend = () => writeFileSync(path, text);
      const says = (
        edit: (whole: { version: number; format: string; body: { parts: object } }) => void,
      ) => {
        const whole = JSON.parse(text);
        edit(whole);
        writeFileSync(path, signed(whole));
      };
      says((whole) => (whole.version = 2));
      await refuses(
        folder,
        /was written by a newer Hotslot, in format 2: this one reads up to 1; update Hotslot$/,
        mend,
      );
      const parts = (await make('steps')).parts;
      says((whole) => (whole.version = 2));
      expect((await rejection(Checkpoint.open(folder, parts))).message).to.match(/newer Hotslot/);
      expect((await rejection(Checkpoint.inspect(folder))).message).to.match(/newer Hotslot/);
      says((whole) => (whole.version = 0));
      await refuses(folder, /is damaged/, mend);
      says((whole) => Object.assign(whole.body.parts, { ranks: { is: {} }, halo: { is: {} } }));
      await refuses(
        folder,
        /has parts that this Hotslot does not know: ranks, halo; update Hotslot$/,
        mend,
      );
      // Parts that a later release could add: the rank of a learner, and the progress of each
      // host's rows.
      says((whole) => Object.assign(whole.body.parts, { rank: { is: {} }, marks: { is: {} } }));
      await refuses(
        folder,
        /has parts that this Hotslot does not know: rank, marks; update Hotslot$/,
        mend,
      );
      says(({ body }) => {
        Object.assign(body, { rank: 2 });
        const { buffer, learner } = body.parts as Record<string, object>;
        Object.assign(buffer!, { marks: [1] });
        Object.assign(learner!, { ranks: 2 });
      });
      const entries =
        /has entries that this Hotslot does not know: rank, buffer\.marks, learner\.ranks; update Hotslot$/;
      await refuses(folder, entries, mend);
      says((whole) => (whole.format = 'a shopping list'));
      await refuses(folder, /is not the manifest of a checkpoint$/, null);
      for (const other of ['null', '7', '[]', '"text"', '{}']) {
        writeFileSync(path, other);
        await refuses(folder, /is not the manifest of a checkpoint$/, null);
      }
    }));

  it('calls reject other folders and files, and restore() returns null for a missing folder', () =>
    inFolder(async (folder) => {
      const { parts } = await make('steps');
      const all = (place: string) => [
        () => Checkpoint.open(place, parts),
        () => Checkpoint.restore(place, parts),
        () => Checkpoint.inspect(place),
      ];
      const other = join(folder, 'other');
      mkdirSync(other);
      writeFileSync(join(other, 'thesis.txt'), 'all of it');
      for (const call of all(other)) {
        const error = await rejection(call);
        expect(error.message).to.equal(
          `'${other}' is not a checkpoint: it holds 'thesis.txt'; name an empty folder, or a new one`,
        );
        expect(error).to.include({ code: 'ERR_HOTSLOT_RANGE' });
      }
      expect(readdirSync(other)).to.deep.equal(['thesis.txt']);
      const file = join(other, 'thesis.txt');
      for (const call of all(file)) {
        const error = await rejection(call);
        expect(error.message).to.match(/thesis\.txt' cannot be read as a folder: ENOTDIR/);
        expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
      }
      expect(readFileSync(file, 'utf8')).to.equal('all of it');
      const nowhere = join(folder, 'deep', 'nowhere');
      expect(await Checkpoint.restore(nowhere, parts)).to.equal(null);
      expect(await Checkpoint.inspect(nowhere)).to.equal(null);
      expect(existsSync(join(folder, 'deep'))).to.equal(false);
      const below = join(file, 'below');
      expect(await rejection(Checkpoint.open(below, parts))).to.include({
        code: 'ERR_HOTSLOT_UNAVAILABLE',
      });
      for (const [path, why] of [
        ['', /takes a path/],
        [7, /Checkpoint.open takes a folder's path/],
        [new URL('http://example.org/'), /file: URL/],
      ] as [string, RegExp][])
        expect((await rejection(Checkpoint.open(path, parts))).message).to.match(why);
      // Checkpoint.open() creates the folder. Without a save it holds no checkpoint.
      const checkpoint = await Checkpoint.open(nowhere, parts);
      await checkpoint.close();
      expect(await Checkpoint.restore(nowhere, parts)).to.equal(null);
    }));

  itAll(
    'open() and restore() reject a folder that is open in this process or another process',
    () =>
      inSaved(async (folder) => {
        const { run } = await restored('steps', folder);
        const checkpoint = await Checkpoint.open(folder, run.parts);
        const other = await make('steps');
        for (const call of [
          () => Checkpoint.open(folder, run.parts),
          () => Checkpoint.open(folder, other.parts),
          () => Checkpoint.restore(folder, other.parts),
        ]) {
          const error = await rejection(call);
          expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
          expect(error.message).to.match(
            /is in use: another checkpoint is open there(, or is read)?, in this process or another$/,
          );
        }
        await change(run, 2);
        await checkpoint.save();
        await checkpoint.close();
        const child = fork(HOLDER, [folder]);
        await once(child, 'message');
        const files = filesIn(folder);
        expect(await rejection(Checkpoint.open(folder, run.parts))).to.include({
          code: 'ERR_HOTSLOT_STATE_BUSY',
        });
        expect(await rejection(Checkpoint.restore(folder, other.parts))).to.include({
          code: 'ERR_HOTSLOT_STATE_BUSY',
        });
        expect(filesIn(folder)).to.deep.equal(files);
        child.kill('SIGKILL');
        await once(child, 'exit');
        // The lock ends with the process that held it.
        await Checkpoint.restore(folder, other.parts);
        expect(await other.print()).to.equal(await run.print());
      }),
  );

  it("open() rejects a folder with another run's checkpoint or with a newer save of the run", () =>
    inSaved(async (folder) => {
      const files = filesIn(folder);
      const other = await changed('steps', 1);
      const error = await rejection(Checkpoint.open(folder, other.parts));
      expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
      expect(error.message).to.match(
        /holds the checkpoint of another run, at tick 3: Checkpoint\.restore\(\) it into/,
      );
      const [{ run }, { run: second }] = [
        await restored('steps', folder),
        await restored('steps', folder),
      ];
      expect(filesIn(folder)).to.deep.equal(files);
      await change(run, 2);
      await saved(folder, run);
      // The second run was restored from a save that no longer exists.
      expect(await rejection(Checkpoint.open(folder, second.parts))).to.include({
        code: 'ERR_HOTSLOT_STATE_BUSY',
      });
      expect(Object.keys(filesIn(folder))).to.deep.equal(await namedIn(folder));
      // The first run can still save into another folder and into this one.
      const elsewhere = join(folder, '..', `${folder}-elsewhere`);
      try {
        await saved(elsewhere, run);
        expect((await restored('steps', elsewhere)).print).to.equal(await run.print());
      } finally {
        rmSync(elsewhere, { recursive: true });
      }
    }));

  it('open() and restore() reject invalid parts, and open() rejects an invalid `every`', () =>
    inFolder(async (folder) => {
      const run = await make('steps');
      const { parts, limiter, mailbox } = run;
      const { buffer: _, ...bare } = parts;
      const wrong: [object, RegExp][] = [
        [{}, /give at least one part to save: buffer, learner,/],
        [{ buffer: {} }, /buffer must be a ReplayBuffer or a TrajectoryBuffer/],
        [
          { learner: { weights: 1 } },
          /learner must be a learner, or an object with state\(\) and loadState\(\)/,
        ],
        [{ learner: { state: () => ({}) } }, /learner must be a learner/],
        [{ pipeline: mailbox }, /pipeline must be a ReplayPipeline/],
        [{ mailbox: limiter }, /mailbox must be a WeightMailbox/],
        [{ limiter: {} }, /limiter must be a RateLimiter/],
        [
          { collectors: {} },
          /collectors must be a CollectorPool, RemoteCollectors, or an object with/,
        ],
        [{ ...bare, ranks: 2 }, /unknown option 'ranks'/],
        [
          { buffer: parts.buffer, limiter: (await make('rows')).limiter },
          /the limiter is not the buffer's/,
        ],
      ];
      for (const [given, why] of wrong)
        for (const call of [Checkpoint.open, Checkpoint.restore] as ((
          folder: string,
          parts: CheckpointOptions,
        ) => Promise<unknown>)[]) {
          const error = await rejection(() => call(folder, given as CheckpointOptions));
          expect(error.message).to.match(why);
          expect(error.code).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE)$/);
        }
      for (const every of [5, '5', 'soon', '1 ms', '-5 s', '40000 h', '60 seconds', ''])
        for (const call of [Checkpoint.open, Checkpoint.restore])
          expect(
            (await rejection(call.bind(Checkpoint)(folder, { ...parts, every } as never))).message,
          ).to.match(/^every must/);
      expect(readdirSync(folder)).to.deep.equal([]);
      const checkpoint = await Checkpoint.open(folder, parts);
      await Promise.all([checkpoint.close(), checkpoint.close()]);
      expect(await rejection(checkpoint.save())).to.include({ code: 'ERR_HOTSLOT_STATE_CLOSED' });
      expect(() => Reflect.construct(Checkpoint, [])).to.throw(TypeError, /Checkpoint\.open\(\)/);
    }));
});
