/**
 * Tests tensorBoard(): the contents of event files, when a new file begins, and what remains after
 * failed writes and killed processes.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { tensorBoard } from '../../src/entries/monitor.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { curve, eventFiles, readFile, readFolder, shownBy } from './event-reader.ts';
import { place, removeAll, warningsOf } from './folder.ts';

const child = fileURLToPath(new URL('./writing-process.js', import.meta.url));

describe('tensorBoard()', () => {
  afterEach(removeAll);

  it('writes scalars as TensorBoard reads them', async () => {
    const folder = place();
    const before = Math.floor(Date.now() / 1000);
    await using board = tensorBoard(folder);
    board.scalar('train/loss', 0.5, 0, 1_700_000_000.25);
    board.scalar('größe/лосс', -3e-8, 2 ** 53 - 1, 0);
    board.scalar('train/loss', 1e39, 300);
    for (const [i, odd] of [Number.NaN, Infinity, -Infinity, -0].entries())
      board.scalar('odd', odd, i);
    await board.flush();
    const [name = '', ...more] = eventFiles(folder);
    expect(more).to.deep.equal([]);
    const [, seconds, host, pid] =
      /^events\.out\.tfevents\.(\d{10})\.(.+)\.(\d+)\.\d+$/.exec(name) ?? [];
    expect(Number(seconds)).to.be.within(before, Date.now() / 1000);
    expect([host, pid]).to.deep.equal([hostname().replaceAll(/[^\w.-]/g, '_'), `${process.pid}`]);
    const scalars = readFolder(folder);
    expect(scalars.slice(0, 2)).to.deep.equal([
      { tag: 'train/loss', value: 0.5, step: 0, wallTime: 1_700_000_000.25 },
      { tag: 'größe/лосс', value: Math.fround(-3e-8), step: 2 ** 53 - 1, wallTime: 0 },
    ]);
    expect([scalars[2]?.value, scalars[2]?.step]).to.deep.equal([Infinity, 300]);
    expect(scalars[2]?.wallTime).to.be.within(before, Date.now() / 1000);
    expect(curve(scalars, 'odd')).to.deep.equal([
      [0, Number.NaN],
      [1, Infinity],
      [2, -Infinity],
      [3, -0],
    ]);
  });

  it('appends to one file in order, and close() writes the remaining scalars', async () => {
    const folder = place();
    const board = tensorBoard(folder);
    const want: [number, number][] = [];
    for (let step = 0; step < 3000; step++) {
      board.scalar('count', step / 2, step);
      want.push([step, step / 2]);
      if (step % 1000 === 10) void board.flush();
    }
    await board.close();
    await board.close();
    expect(eventFiles(folder)).to.have.length(1);
    expect(curve(readFolder(folder), 'count')).to.deep.equal(want);
  });

  it('creates no folder before the first scalar', async () => {
    const folder = place();
    const board = tensorBoard(folder);
    await board.flush();
    await board.close();
    expect(existsSync(folder)).to.equal(false);
  });

  it('writes after flushMs, and earlier when many scalars are pending', async () => {
    const soon = place();
    await using often = tensorBoard(soon, { flushMs: 1 });
    often.scalar('a', 1, 0);
    await until(
      'the file is there',
      () => existsSync(soon) && curve(readAll(soon), 'a').length === 1,
    );
    const full = place();
    const seldom = tensorBoard(full, { flushMs: 2 ** 31 - 1 });
    for (let step = 0; step < 2 ** 14; step++) seldom.scalar('a', 1, step);
    const size = () =>
      eventFiles(full).reduce((sum, name) => sum + statSync(join(full, name)).size, 0);
    await until('most of it is there', () => existsSync(full) && size() > 2 ** 18);
    await seldom.close();
    expect(curve(readFolder(full), 'a')).to.have.length(2 ** 14);
  });

  it('starts another file when one would exceed maxBytes, and readers read the files in order', async () => {
    const folder = place();
    const board = tensorBoard(folder, { maxBytes: 4096 });
    for (let step = 0; step < 2000; step++) {
      board.scalar('count', step, step);
      if (step % 70 === 0) await board.flush();
    }
    await board.close();
    const files = eventFiles(folder).map((name) => statSync(join(folder, name)).size);
    expect(files.length).to.be.above(20);
    expect(Math.max(...files)).to.be.at.most(4096);
    expect(Math.min(...files.slice(0, -1)), 'all files but the last are full').to.be.above(4000);
    expect(curve(readFolder(folder), 'count')).to.deep.equal(
      Array.from({ length: 2000 }, (_, i) => [i, i]),
    );
  });

  it('creates missing parent folders, and accepts an existing folder', async () => {
    const folder = join(place(), 'of', 'today');
    for (const value of [1, 2]) {
      await using board = tensorBoard(folder);
      board.scalar('a', value, 0);
    }
    expect(curve(readFolder(folder), 'a')).to.deep.equal([
      [0, 1],
      [0, 2],
    ]);
  });

  describe('in a resumed run', () => {
    /**
     * Writes scalars of each tick. A tick has 100 environment steps, and the values are the number
     * of the run.
     */
    const write = (
      board: ReturnType<typeof tensorBoard>,
      run: number,
      ticks: readonly number[],
    ) => {
      for (const tick of ticks) {
        board.scalar('train/loss', run, tick);
        board.scalar('train/meanQ', run, tick);
        board.scalar('episodes/return', run, tick * 100);
      }
    };
    const expected = (scale: number) => [
      ...[0, 1, 2].map((tick) => [tick * scale, 1]),
      ...[3, 4].map((tick) => [tick * scale, 2]),
    ];
    const check = (folder: string) => {
      for (const loader of ['fast', 'python'] as const) {
        const scalars = shownBy(loader, folder);
        const curves = ['train/loss', 'train/meanQ', 'episodes/return'].map((tag) =>
          curve(scalars, tag),
        );
        expect(curves, loader).to.deep.equal([expected(1), expected(1), expected(100)]);
      }
    };

    it('drops later points of the previous run in each curve when another writer resumes', async () => {
      const folder = place();
      const [first, second] = [tensorBoard(folder), tensorBoard(folder)];
      write(first, 1, [0, 1, 2, 3, 4, 5, 6]);
      await first.close();
      write(second, 2, [3, 4]);
      await second.close();
      check(folder);
    });

    it('drops points written before the restore when the same writer resumes', async () => {
      const folder = place();
      const board = tensorBoard(folder);
      write(board, 1, [0, 1, 2, 3, 4, 5, 6]);
      write(board, 2, [3, 4]);
      await board.close();
      check(folder);
    });

    it('drops the points of two previous runs across several files', async () => {
      const folder = place();
      const ticks = (from: number, to: number) =>
        Array.from({ length: to - from }, (_, i) => from + i);
      for (const [run, from, to] of [
        [1, 0, 200],
        [2, 150, 180],
        [3, 120, 300],
      ] as const) {
        await using board = tensorBoard(folder, { maxBytes: 4096 });
        write(board, run, ticks(from, to));
      }
      const want = [
        ...ticks(0, 120).map((tick) => [tick, 1]),
        ...ticks(120, 300).map((tick) => [tick, 3]),
      ];
      for (const loader of ['fast', 'python'] as const)
        for (const tag of ['train/loss', 'train/meanQ'])
          expect(curve(shownBy(loader, folder), tag)).to.deep.equal(want);
    });
  });

  it('two writers never share a file', async () => {
    const folder = place();
    await Promise.all(
      [1, 2, 3].map(async (value) => {
        await using board = tensorBoard(folder);
        board.scalar('a', value, 0);
      }),
    );
    expect(eventFiles(folder)).to.have.length(3);
    expect(
      readFolder(folder)
        .map(({ value }) => value)
        .sort(),
    ).to.deep.equal([1, 2, 3]);
  });

  it('never writes to an existing file of another machine', async () => {
    const folder = place();
    const write = async () => {
      await using board = tensorBoard(folder);
      board.scalar('a', 1, 0);
    };
    await write();
    const [, second = '', host = '', number = ''] =
      /(\d{10})(\..*\.)(\d+)$/.exec(eventFiles(folder)[0] ?? '') ?? [];
    // Files of another machine that shares the folder and has the same host name and process id.
    const theirs = Array.from(
      { length: 60 },
      (_, i) => `events.out.tfevents.${Number(second) + i}${host}${Number(number) + 1}`,
    );
    for (const name of theirs) writeFileSync(join(folder, name), '');
    await write();
    // TensorBoard reads files in the order of their names, so the new file's name must be the last.
    const mine = eventFiles(folder).at(-1) as string;
    expect(theirs).to.not.include(mine);
    expect(curve(readFile(join(folder, mine)).scalars, 'a')).to.deep.equal([[0, 1]]);
    expect(theirs.map((name) => statSync(join(folder, name)).size)).to.deep.equal(
      theirs.map(() => 0),
    );
  });

  describe('in a process that ends', () => {
    itAll(
      'leaves all scalars up to the last flush, and at most one torn record, when it is killed',
      async () => {
        const folder = place();
        const running = spawn(process.execPath, [child, folder], {
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        let flushed = 0;
        for await (const line of createInterface(running.stdout)) {
          flushed = Number(line);
          // The process continues to write, so the kill interrupts a write.
          if (flushed >= 5000) break;
        }
        const ended = once(running, 'exit');
        running.kill('SIGKILL');
        expect(await ended).to.deep.equal([null, 'SIGKILL']);
        const steps = eventFiles(folder).flatMap((name) =>
          curve(readFile(join(folder, name)).scalars, 'count'),
        );
        expect(steps.length).to.be.at.least(flushed);
        expect(steps).to.deep.equal(Array.from({ length: steps.length }, (_, i) => [i, i]));
      },
    );

    it('leaves readable scalars wherever the last record is torn', async () => {
      const folder = place();
      const board = tensorBoard(folder);
      for (const step of [0, 1, 2]) board.scalar('count', step, step);
      await board.close();
      const path = join(folder, eventFiles(folder)[0] as string);
      const whole = readFileSync(path);
      for (let length = whole.length - 1; readFile(path).scalars.length > 1; length--) {
        truncateSync(path, length);
        const { scalars, torn } = readFile(path);
        expect(torn > 0 || scalars.length === 2, `${length} bytes of ${whole.length}`).to.equal(
          true,
        );
        expect(curve(scalars, 'count')).to.deep.equal(
          [
            [0, 0],
            [1, 1],
          ].slice(0, scalars.length),
        );
      }
    });

    itAll(
      'writes pending scalars before the process exits when nothing closes the writer',
      async () => {
        const folder = place();
        const running = spawn(process.execPath, [child, folder, 'once'], { stdio: 'inherit' });
        expect(await once(running, 'exit')).to.deep.equal([0, null]);
        expect(curve(readFolder(folder), 'count')).to.deep.equal([[0, 7]]);
      },
    );
  });

  describe('on a disk that rejects writes', () => {
    const file = () => {
      const path = place();
      writeFileSync(path, 'a file');
      return path;
    };
    for (const [what, folder, text] of [
      ['the folder is a file', file, 'it is a file: name another folder'],
      [
        'a folder above is a file',
        () => join(file(), 'below'),
        'part of the path is a file: name another folder',
      ],
      [
        'the folder is not writable',
        () => '/proc/hotslot/curves',
        'No more events are written there (E',
      ],
    ] as const)
      it(`emits one warning, rejects in flush() and close(), and never throws in scalar(): ${what}`, async () => {
        const path = folder();
        const warnings = await warningsOf(async () => {
          const board = tensorBoard(path);
          for (let round = 0; round < 3; round++) {
            for (let step = 0; step < 100; step++) board.scalar('a', 1, step);
            const error = await rejection(board.flush());
            expect(error.code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
            expect(error.message)
              .to.match(/^tensorBoard cannot write to '/)
              .and.include(text)
              .and.include(`'${path}'`);
            expect((error.cause as NodeJS.ErrnoException).code).to.match(/^E/);
          }
          expect((await rejection(board.close())).message).to.include(text);
        });
        expect(warnings).to.have.length(1);
        expect(warnings[0]).to.include(text);
      });

    it('keeps written scalars readable and the process running when a file cannot grow', async () => {
      const folder = place();
      mkdirSync(folder);
      // A limit on file sizes stands in for a full disk. One write is cut short, and the next is
      // rejected.
      const line = 'ulimit -f 8 && exec "$0" "$@"';
      const running = spawn('bash', ['-c', line, process.execPath, child, folder, 'refused'], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const said = { stdout: '', stderr: '' };
      for (const of of ['stdout', 'stderr'] as const)
        running[of].setEncoding('utf8').on('data', (text: string) => {
          said[of] += text;
        });
      expect(await once(running, 'close')).to.deep.equal([0, null]);
      const [flushed = '', told = '', closed = '', end = ''] = said.stdout.split('\n');
      expect(told).to.match(
        /^ERR_HOTSLOT_UNAVAILABLE .*the file may not grow further: give a smaller maxBytes/,
      );
      expect([closed, end]).to.deep.equal([told, 'the training is over']);
      expect(said.stderr.match(/MonitorWarning/g)).to.have.length(1);
      const { scalars } = readFile(join(folder, eventFiles(folder)[0] as string));
      expect(scalars.length).to.be.at.least(Number(flushed));
      expect(curve(scalars, 'count')).to.deep.equal(
        Array.from({ length: scalars.length }, (_, i) => [i, i]),
      );
    });
  });

  describe('rejects', () => {
    const board = tensorBoard('never made');
    after(() => board.close());

    for (const [what, call, text] of [
      [
        'a folder that is a number',
        () => tensorBoard(3 as never),
        "tensorBoard takes a folder's path, got 3",
      ],
      ['an empty folder path', () => tensorBoard(''), "tensorBoard needs a folder's path, got ''"],
      [
        'an unknown option',
        () => tensorBoard('x', { flush: 1 } as never),
        "tensorBoard: unknown option 'flush'; it takes flushMs, maxBytes",
      ],
      [
        'a negative flushMs',
        () => tensorBoard('x', { flushMs: -1 }),
        'flushMs must be a whole number of at least 0',
      ],
      [
        'maxBytes below 4096',
        () => tensorBoard('x', { maxBytes: 100 }),
        'maxBytes must be a whole number of at least 4096',
      ],
      ['an empty tag', () => board.scalar('', 1, 1), "tag must name a curve, such as 'train/loss'"],
      [
        'a tag that is a number',
        () => board.scalar(1 as never, 1, 1),
        'tag must be a string, got 1',
      ],
      [
        'a value that is a string',
        () => board.scalar('a', '1' as never, 1),
        "value must be a number, got '1'",
      ],
      [
        'a fractional step',
        () => board.scalar('a', 1, 1.5),
        'scalar: step must be a whole number of at least 0, got 1.5',
      ],
      [
        'a wallTime of NaN',
        () => board.scalar('a', 1, 1, Number.NaN),
        'wallTime must be seconds since 1970, got NaN',
      ],
      [
        'listen() without a pipeline or collectors',
        () => board.listen({}),
        'listen takes { pipeline, collectors }, at least one of them',
      ],
      [
        'listen() with a number as pipeline',
        () => board.listen({ pipeline: 3 as never }),
        'pipeline must be a ReplayPipeline, got 3',
      ],
      [
        'listen() with an object as collectors',
        () => board.listen({ collectors: {} as never }),
        'collectors must be a CollectorPool or RemoteCollectors, got an object',
      ],
      [
        'listen() with a pool as pipeline',
        () => board.listen({ pipeline: { episodes() {} } as never }),
        'pipeline must be a ReplayPipeline, got an object',
      ],
      [
        'listen() with an unknown option',
        () => board.listen({ pool: 1 } as never),
        "listen: unknown option 'pool'",
      ],
    ] as const)
      it(what, () => {
        const error = refusal(call);
        expect(error.code).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE)$/);
        expect(error.message).to.include(text);
      });

    it('every call after close()', async () => {
      const closed = tensorBoard(place());
      await closed.close();
      for (const call of [
        () => closed.scalar('a', 1, 1),
        () => closed.flush(),
        () => closed.listen({ pipeline: {} as never }),
      ])
        expect((await rejection(async () => call())).code).to.match(
          /^ERR_HOTSLOT_(STATE_CLOSED|ARGUMENT)$/,
        );
      expect(refusal(() => closed.scalar('a', 1, 1)).message).to.equal(
        'this TensorBoard writer is closed; make another with tensorBoard()',
      );
    });
  });
});

/** Reads all files while they are written. The last record may be incomplete. */
const readAll = (folder: string) =>
  eventFiles(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).size === 0 ? [] : readFile(path).scalars;
  });
