/**
 * Tests the example of a pipeline over two devices: the order of copies and computations, and that
 * its drawing shows what was measured.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { run, runEach } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';
import { drawSvg, drawText, type Row } from './to-device/timeline.ts';

const main = 'test/programs/to-device/main.js';

describe('to-device program', () => {
  itAll('copies batches in order, and computes each batch after its copy', async () => {
    const { code, stderr, stdout } = await run(main, ['--json', '--batches', '5']);
    expect(stderr).to.equal('');
    expect(code).to.equal(0);
    const { from, to, rows, copiedMs, hiddenMs } = JSON.parse(stdout) as Record<string, unknown> & {
      rows: Row[];
    };
    expect([from, to]).to.deep.equal(['host:0', 'host:1']);
    const [copies, computed] = rows.map(({ spans }) => spans) as [Row['spans'], Row['spans']];
    expect(copies.map(({ batch }) => batch)).to.deep.equal([0, 1, 2, 3, 4]);
    copies.forEach((copy, i) => {
      const work = computed[i]!;
      expect(work.from).to.be.at.least(copy.to - 1e-6);
      expect(work.to).to.be.above(work.from);
      if (i > 0) expect(copy.from).to.be.at.least(copies[i - 1]!.to);
    });
    expect(hiddenMs)
      .to.be.at.least(0)
      .and.at.most(copiedMs as number);
  });

  itAll('draws the timeline as text and as SVG', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-to-device-'));
    try {
      const file = join(folder, 'timeline.svg');
      const { code, lines } = await run(main, [
        '--devices',
        'host:2,host:3',
        '--batches',
        '3',
        '--svg',
        file,
      ]);
      expect(code).to.equal(0);
      expect(lines[0]).to.match(/^ms +0 /);
      for (const line of lines.slice(0, -1)) expect(line.length, line).to.be.at.most(80);
      expect(lines[1]).to.match(/^copy host:2 → host:3 +[012·]{58}$/);
      expect(lines[2]).to.match(/^compute host:3 +[012·]+$/);
      expect(lines[3]).to.match(
        /^3 batches of 16 MiB: copied in [\d.]+ ms, \d+ % of that while host:3 computed$/,
      );
      const svg = readFileSync(file, 'utf8');
      expect(svg.match(/<title>batch \d: /g)).to.have.length(6);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('drawText() and drawSvg() draw spans to scale', () => {
    const rows = [
      {
        name: 'a',
        spans: [
          { batch: 0, from: 0, to: 2 },
          { batch: 11, from: 2, to: 4 },
        ],
      },
      { name: 'bb', spans: [{ batch: 0, from: 2, to: 8 }] },
    ];
    expect(drawText(rows, 28).split('\n')).to.deep.equal([
      'ms  0     2     4     6',
      'a   000000bbbbbb············',
      'bb  ······000000000000000000',
    ]);
    expect(drawSvg(rows))
      .to.include('<rect x="385.0" y="46" width="194.0" height="40"')
      .and.include('batch 11: 2.00');
  });

  it('drawText() fits its columns, gives each batch a sign, and names the batches left out', () => {
    for (const [columns, batches, first] of [
      [60, 25, 25],
      [60, 40, 25],
      [80, 62, 35],
      [80, 1000, 35],
      [200, 62, 62],
      [240, 63, 62],
    ] as const) {
      const spans = Array.from({ length: batches }, (_, batch) => ({
        batch,
        from: batch * 900,
        to: (batch + 1) * 900,
      }));
      const [scale, row, last] = drawText([{ name: 'compute', spans }], columns).split('\n') as [
        string,
        string,
        string?,
      ];
      expect(scale.length).to.be.at.most(columns);
      expect(row).to.have.length(columns);
      expect(scale).to.match(/^ms +\d+( +\d+)*$/);
      expect(new Set(row.slice(9)).size).to.equal(first);
      expect(last).to.equal(
        first < batches ? `drawn: the first ${first} of ${batches} batches` : undefined,
      );
    }
  });

  itAll('rejects an --svg path that cannot be written, before the run', async () => {
    const { code, stdout, stderr } = await run(main, [
      '--svg',
      '/no/such/folder/x.svg',
      '--batches',
      '1000',
    ]);
    expect([code, stdout]).to.deep.equal([1, '']);
    expect(stderr).to.match(
      /^to-device: --svg \/no\/such\/folder\/x\.svg cannot be written: ENOENT.*\n$/,
    );
  });

  itAll(
    'rejects invalid options with one sentence and exit code 2, and prints --help',
    async () => {
      const wrong = [
        [['--devices', 'host:0'], "--devices takes two names, got 'host:0'"],
        [
          ['--devices', 'host:0,host:0'],
          "two different devices of one family, got 'host:0,host:0'; see --help",
        ],
        [
          ['--devices', 'host:0,cpu'],
          "one family, got 'host:0,cpu' (host:0 and host:0); see --help",
        ],
        [['--devices', 'host:0,nowhere'], "unknown device 'nowhere'"],
        [['--devices', 'cuda:0,cuda:1'], "device 'cuda:0' is not available"],
        [['--batches', '-3'], "--batches must be a whole number from 1 to 1000, got '-3'"],
        [['--batches', '0'], "--batches must be a whole number from 1 to 1000, got '0'"],
        [['--fast'], '--fast'],
      ] as const;
      const all = await runEach(
        main,
        wrong.map(([args]) => args),
        { HOTSLOT_CUDA: 'none' },
      );
      for (const [i, { code, stderr }] of all.entries()) {
        expect(code).to.equal(2);
        expect(stderr)
          .to.include(wrong[i]![1])
          .and.match(/^to-device: .+; see --help\n$/);
      }
      const { code, stdout, lines } = await run(main, ['--help', '--devices', 'none']);
      for (const line of lines) expect(line.length, line).to.be.at.most(80);
      expect(stdout)
        .to.match(/default 8/)
        .and.match(/exit code: 0/);
      expect([
        code,
        stdout.includes('usage: node dist/test/programs/to-device/main.js'),
      ]).to.deep.equal([0, true]);
    },
  );
});
