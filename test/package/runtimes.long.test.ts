/**
 * Runs the tests that use threads on other runtimes, which have their own workers, Atomics and
 * typed arrays.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { describeAll, setting } from '../rig/setting.ts';
import { leaveUnlessHad, run } from './tools.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

const some = ['wait', 'ring', 'transfer'];
const most = [
  ...some,
  'actors',
  'pipeline',
  'buffer',
  'trajectories',
  'device',
  'collectors',
  'halo',
  'device-rows',
  'checkpoint',
  'door',
];
/**
 * Titles of tests that Bun cannot pass. It has no context with `gc`, and another text for values
 * that cannot be cloned.
 */
const notOfBun =
  'the heap grows by less than 20 bytes for each promise|options that cannot be cloned';

interface Runtime {
  readonly title: string;
  readonly tool: string;
  readonly command: string;
  readonly rooms: readonly string[];
  readonly mocha: readonly string[];
}
const node = (version: number, rooms: readonly string[]): Runtime => ({
  title: `Node ${version}`,
  tool: `node@${version}`,
  command: 'node',
  rooms,
  mocha: ['--parallel', '--jobs', '2'],
});
const bun = { title: 'Bun', tool: 'bun', command: 'bun', mocha: ['--grep', notOfBun, '--invert'] };
const runtimes = setting<readonly Runtime[]>({
  short: [],
  all: [node(24, some)],
  long: [
    ...[20, 22, 24, 26].map((version) => node(version, most)),
    { ...bun, rooms: most.slice(0, -2) },
  ],
});

describeAll('other runtimes', function () {
  this.timeout(900_000);
  const place = mkdtempSync(join(tmpdir(), 'hotslot-runtimes-'));
  after(() => rmSync(place, { recursive: true, force: true }));

  for (const { title, tool, command, rooms, mocha } of runtimes)
    it(`${title} passes the tests of ${rooms.join(' ')}`, async function () {
      const folder = join(place, title);
      mkdirSync(folder);
      writeFileSync(join(folder, 'package.json'), '{"private":true}');
      // The package downloads its binary in an install script.
      const { code, text } = await run(folder, 'npm', ['install', '--foreground-scripts', tool]);
      leaveUnlessHad(this, [tool], code, text);
      const files = rooms.flatMap((room) =>
        readdirSync(join(root, 'test', room))
          .filter((name) => name.endsWith('.test.ts'))
          .map((name) => join(root, 'dist/test', room, name.replace(/ts$/, 'js'))),
      );
      const runner = join(root, 'node_modules/mocha/bin/mocha.js');
      const given = [
        runner,
        '--no-config',
        '--timeout',
        '60000',
        '--reporter',
        'dot',
        ...mocha,
        ...files,
      ];
      const ran = await run(root, join(folder, 'node_modules/.bin', command), given);
      expect(ran.code, ran.text.slice(-6000)).to.equal(0);
      const passed = Number(/(\d+) passing/.exec(ran.text)?.[1]);
      expect(passed).to.be.above(25 * rooms.length);
      this.test!.title += `: ${passed} pass`;
    });
});
