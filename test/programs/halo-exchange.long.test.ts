/**
 * Tests the example of halo exchange: advection in parts must equal the undivided run bit for bit.
 * A part that fails must end the example with an error.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32, inflateSync } from 'node:zlib';
import { expect } from 'chai';
import { shareHaloExchange } from '../../src/entries/halo.ts';
import { Random } from '../../src/index.ts';
import { run, runEach } from '../cli/run-command.ts';
import { describeAll, itAll } from '../rig/setting.ts';
import { flux } from './halo-exchange/advection.ts';
import { domainOf, modes } from './halo-exchange/domain.ts';
import { layouts } from './halo-exchange/layout.ts';
import { frame, planOf } from './halo-exchange/plan.ts';
import type { Summary } from './halo-exchange/report.ts';
import { compare, startParts, startUndivided } from './halo-exchange/run.ts';
import { faces, pointAt } from './halo-exchange/sphere.ts';
import { drawText } from './halo-exchange/text-picture.ts';

const main = 'test/programs/halo-exchange/main.js';

/** Returns the chunks of a PNG file by kind, and checks the checksum of each. */
function chunksOf(png: Buffer): Map<string, Buffer> {
  expect(png.subarray(0, 8).toString('latin1')).to.equal('\x89PNG\r\n\x1a\n');
  const chunks = new Map<string, Buffer>();
  let at = 8;
  while (at < png.length) {
    const end = at + 8 + png.readUInt32BE(at);
    const body = png.subarray(at + 4, end);
    expect(png.readUInt32BE(end)).to.equal(crc32(body));
    chunks.set(body.toString('latin1', 0, 4), body.subarray(4));
    at = end + 4;
  }
  expect([...chunks.keys()]).to.deep.equal(['IHDR', 'IDAT', 'IEND']);
  return chunks;
}

describe('halo-exchange program', () => {
  itAll('computes both domains in parts as in the undivided run, and keeps the mass', async () => {
    const { code, stderr, lines } = await run(main, ['--size', '10', '--json']);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    expect(lines).to.have.length(1);
    const { runs, ...rest } = JSON.parse(lines[0]!) as { runs: Summary[] };
    expect(rest).to.deep.equal({ size: 10, steps: 120, equal: true });
    expect(runs.map(({ mode, workers, cells }) => [mode, workers, cells])).to.deep.equal([
      ['plane', 4, 400],
      ['sphere', 6, 600],
    ]);
    for (const {
      exchanges,
      equal,
      differentCells,
      massBefore,
      massAfter,
      hidden,
      early,
      waitMicroseconds,
    } of runs) {
      expect([exchanges, equal, differentCells]).to.deep.equal([240, true, 0]);
      expect(massBefore).to.be.within(0.1, 0.3);
      expect(massAfter).to.be.closeTo(massBefore, 1e-13);
      for (const share of [hidden, early]) expect(share).to.be.within(0, 1);
      expect(waitMicroseconds).to.be.above(0);
    }
  });

  itAll('prints the comparison in 80 columns, and draws all fields as PNG', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-halo-exchange-'));
    try {
      const file = join(folder, 'fields.png');
      const { code, stdout, lines } = await run(main, [
        '--size',
        '16',
        '--steps',
        '20',
        '--png',
        file,
      ]);
      expect(code).to.equal(0);
      for (const line of lines) expect(line.length, line).to.be.at.most(80);
      expect(lines[0]).to.equal('plane: 4 workers with 16 × 16 cells each, 20 steps');
      expect(stdout)
        .to.match(/^at first +after 20 steps$/m)
        .and.match(/^[·░▒▓█]{36} {3}[·░▒▓█]{36}$/m)
        .and.match(/^equal to the undivided run: yes \(1024 cells, bit for bit\)$/m)
        .and.match(/^equal to the undivided run: yes \(1536 cells, bit for bit\)$/m)
        .and.match(/mass +0\.\d{12} before, 0\.\d{12} after, (unchanged|differs by \de-\d+)$/m);
      expect(lines.at(-1)).to.equal(`drawn in ${file}`);
      const chunks = chunksOf(readFileSync(file));
      const header = chunks.get('IHDR')!;
      const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
      // Each mode has three panels of 576 pixels. The plane is square, and the net of the sphere is
      // 4 × 3.
      expect([width, height]).to.deep.equal([3 * 576 + 4 * 24, 576 + 432 + 3 * 24]);
      expect([...header.subarray(8)]).to.deep.equal([8, 2, 0, 0, 0]);
      const pixels = inflateSync(chunks.get('IDAT')!);
      expect(pixels).to.have.length(height * (3 * width + 1));
      const pixel = (x: number, y: number) => [
        ...pixels.subarray(y * (3 * width + 1) + 1 + 3 * x).subarray(0, 3),
      ];
      expect(pixel(2, 2)).to.deep.equal([13, 13, 20]);
      expect(pixel(24 + 200, 24 + 288 + 10)).to.deep.equal([253, 244, 196]); // in cylinder
      expect(pixel(24 + 288 + 10, 24 + 288 + 10)).to.deep.equal([32, 28, 60]); // in its slot
      expect(pixel(24 + 288, 24 + 100)).to.deep.equal([112, 108, 140]); // between parts
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  for (const mode of modes) {
    itAll(
      `${mode}: compare() finds and names a cell that differs by one bit, in each kept field`,
      async () => {
        const plan = planOf(mode, 8, 6);
        await startParts(plan).done;
        await startUndivided(plan).done;
        const cells = plan.ranks * 64;
        expect(compare(plan)).to.deep.equal({ cells, different: 0, example: null });
        for (const [index, step] of [0, 2, 6].entries()) {
          const field = frame(plan, plan.parts, index);
          const before = field[64 + 8 + 3]!;
          // Changes the element by one bit, to the next float64.
          new BigInt64Array(field.buffer, field.byteOffset)[64 + 8 + 3]! += 1n;
          const { different, example } = compare(plan);
          expect(different).to.equal(1);
          expect(example).to.match(
            new RegExp(`^cell \\[3, 1\\] of rank 1 is .+ after step ${step}, undivided `),
          );
          field[64 + 8 + 3] = before;
        }
      },
    );

    itAll(
      `${mode}: compare() finds differences when one halo point too few is exchanged`,
      async () => {
        const plan = planOf(mode, 8, 12);
        const { topology } = domainOf(mode, 8);
        const tracer = shareHaloExchange({ topology, x: plan.tracer.x, points: 1 });
        await startParts({ ...plan, tracer }).done;
        await startUndivided(plan).done;
        expect(compare(plan).different).to.be.above(10);
      },
    );

    it(`${mode}: cell areas sum to 1, and the wind crosses less than one cell per step`, () => {
      const domain = domainOf(mode, 12);
      let area = 0;
      for (let rank = 0; rank < domain.topology.ranks; rank++) {
        for (let k = 0; k < 144; k++) {
          const { wind, ...cell } = domain.cell(rank, k % 12, Math.floor(k / 12));
          area += cell.area;
          expect((Math.abs(wind[0]) + Math.abs(wind[1])) / cell.area).to.be.below(0.72);
        }
      }
      expect(area).to.be.closeTo(1, 1e-12);
    });
  }

  it('flux() returns the exact negative when the side is reversed', () => {
    const random = new Random(1);
    for (let k = 0; k < 1000; k++) {
      const wind = random.between(-0.5, 0.5);
      const [a, b, c, d] = Array.from({ length: 4 }, () => random.next()) as [
        number,
        number,
        number,
        number,
      ];
      expect(flux(-wind, d, c, b, a)).to.equal(-flux(wind, a, b, c, d));
    }
  });

  it('adjacent faces of the sphere layout share the points of their edge', () => {
    const { positions } = layouts.sphere;
    for (let face = 0; face < 5; face++) {
      const [[x, y], [toX, toY]] = [positions[face]!, positions[face + 1]!];
      for (const along of [0, 2, 4]) {
        const there = pointAt(
          4,
          face + 1,
          ...((toX > x ? [0, along] : [along, 0]) as [number, number]),
        );
        const here = pointAt(4, face, ...((toX > x ? [4, along] : [along, 4]) as [number, number]));
        expect(toX - x + (toY - y)).to.equal(1);
        for (const d of [0, 1, 2]) expect(here[d]).to.be.closeTo(there[d]!, 1e-12);
      }
    }
    expect(faces).to.have.length(6);
  });

  it('drawText() fits its columns with two panels and with three', () => {
    for (const mode of modes) {
      const { ranks } = domainOf(mode, 8).topology;
      const field = new Float64Array(ranks * 64).fill(0.4);
      for (const [columns, panels] of [
        [60, 2],
        [80, 2],
        [112, 3],
        [300, 3],
      ] as const) {
        const all = Array.from({ length: panels }, (_, k) => ({ title: `after ${k}`, field }));
        const lines = drawText(mode, 8, all, columns).split('\n');
        const longest = Math.max(...lines.map((line) => line.length));
        expect(longest).to.be.within(columns > 112 ? 100 : columns - 18, columns);
        expect(lines[0]).to.match(/^ *after 0 +after 1/);
        expect(lines.slice(1).join('')).to.match(/^[ ▒]+$/);
      }
    }
  });

  describeAll('startParts() with a failed worker', () => {
    const steps = 1_000_000;

    for (const mode of modes)
      it(`${mode}: done rejects with the rank of a terminated thread`, async () => {
        const plan = planOf(mode, 8, steps);
        const { threads, done } = startParts(plan);
        const rejected = expectRejection(done);
        const progress = new Int32Array(plan.progress);
        while (Atomics.load(progress, 1) < 3) await setImmediate();
        await threads[1]!.terminate();
        expect((await rejected).message).to.match(/the thread of rank 1 ended before/);
      });

    it('done rejects when a thread is terminated right after its start', async () => {
      const plan = planOf('plane', 8, steps);
      const { threads, done } = startParts(plan);
      const rejected = expectRejection(done);
      await threads[3]!.terminate();
      expect((await rejected).message).to.match(/the thread of rank 3 ended before/);
    });

    it('done rejects with the error of a thread that throws', async () => {
      // The shared memory is too small for any part, so the first rank to write throws.
      const plan = {
        ...planOf('sphere', 8, steps),
        progress: new SharedArrayBuffer(8),
        parts: new SharedArrayBuffer(8),
      };
      expect((await expectRejection(startParts(plan).done)).message).to.match(
        /Invalid typed array length/,
      );
    });

    it('the program prints one sentence and exits with code 1', async () => {
      const code =
        "import { workerData } from 'node:worker_threads'; if (workerData?.rank === 2) process.exit(3);";
      const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` };
      const ran = await run(main, ['--size', '8', '--mode', 'plane'], { env });
      expect([ran.code, ran.stdout]).to.deep.equal([1, '']);
      expect(ran.stderr).to.equal(
        'halo-exchange: plane: the thread of rank 2 ended before its last step, with exit code 3\n',
      );
    });
  });

  itAll('exits with code 1 and names a cell when a part computes other values', async () => {
    // Rank 3 computes another bell than the undivided run.
    const code =
      "import { workerData } from 'node:worker_threads'; if (workerData?.rank === 3) Math.cos = () => 0.5;";
    const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(code)}` };
    const ran = await run(main, ['--size', '8', '--steps', '3', '--mode', 'plane'], { env });
    expect([ran.code, ran.stderr]).to.deep.equal([1, '']);
    expect(ran.stdout)
      .to.match(/^equal to the undivided run: NO, \d+ of 256 cells differ$/m)
      .and.match(/^cell \[\d, \d\] of rank \d is \S+ after step \d,\sundivided\s\S+$/m);
    for (const line of ran.lines) expect(line.length, line).to.be.at.most(80);
  });

  itAll('rejects a --png path that cannot be written, before the run', async () => {
    const { code, stdout, stderr } = await run(main, [
      '--png',
      '/no/such/folder/x.png',
      '--steps',
      '1000000',
    ]);
    expect([code, stdout]).to.deep.equal([1, '']);
    expect(stderr).to.match(
      /^halo-exchange: --png \/no\/such\/folder\/x\.png cannot be written: ENOENT.*\n$/,
    );
  });

  itAll('rejects invalid options with one sentence and exit code 2', async () => {
    const wrong = [
      [['--mode', 'torus'], "--mode must be plane, sphere or both, got 'torus'"],
      [['--mode'], '--mode needs a value'],
      [['--size', '7'], "--size must be a whole number from 8 to 256, got '7'"],
      [['--size', '1e9'], "--size must be a whole number from 8 to 256, got '1e9'"],
      [['--steps', '-1'], "--steps must be a whole number from 1 to 1000000, got '-1'"],
      [['--png', '--json'], '--png needs a value'],
      [['--png', ''], "--png must name a file, got ''"],
      [['--fast'], "unknown option '--fast'"],
    ] as const;
    const all = await runEach(
      main,
      wrong.map(([args]) => args),
    );
    for (const [i, { code, stdout, stderr }] of all.entries()) {
      expect([code, stdout]).to.deep.equal([2, '']);
      expect(stderr).to.match(/^halo-exchange: .+; see --help\n$/);
      expect(stderr).to.include(wrong[i]![1]);
    }
  });

  itAll('--help prints every option and the exit codes in at most 80 columns', async () => {
    const { code, stdout, lines } = await run(main, ['--help', '--mode', 'none']);
    expect(code).to.equal(0);
    for (const option of ['mode', 'size', 'steps', 'png', 'json', 'help'])
      expect(stdout).to.include(`--${option}`);
    expect(stdout)
      .to.include('usage: node dist/test/programs/halo-exchange/main.js')
      .and.match(/exit code: 0 [\s\S]* 1 [\s\S]* 2 wrong\susage/);
    for (const line of lines) expect(line.length, line).to.be.at.most(80);
  });
});

function expectRejection(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => expect.fail('it went on'),
    (error: Error) => error,
  );
}
