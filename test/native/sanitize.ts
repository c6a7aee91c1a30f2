/**
 * Runs `npm run test:sanitize`: the tests that use native code most, with addons built with the
 * address and undefined-behavior sanitizers. The arguments are folders under test/ or compiled test
 * files.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { testFile } from '../rig/test-file.ts';
import { missing } from './harnesses.ts';
import { buildSanitizedAddons } from './sanitized.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const specs = process.argv.slice(2);
/**
 * Within `test:all`, only the tests that use native code most run. Of tests with several
 * placements, only those with a thread for each actor run.
 */
const brief = process.env.HOTSLOT_TEST_SETTING === 'all';
const most: Readonly<Record<string, readonly string[]>> = {
  device: ['contract', 'host', 'peers'],
  transfer: ['attached', 'backends'],
  buffer: [
    'goal-reward',
    'load',
    'not-finite',
    'pack-layout',
    'packed',
    'replay-buffer',
    'replay-buffer-threads',
    'weight-mailbox',
  ],
  trajectories: [
    'load',
    'outgoing',
    'packed',
    'priorities',
    'threads',
    'views',
    'wraps',
    'writers',
  ],
  wait: ['bell', 'seats', 'terminated', 'wait'],
  pipeline: ['autonomous', 'manual', 'trajectories'],
  halo: ['edges', 'overlap', 'transformer', 'updater-device', 'updater-exchange'],
};
const otherPlacements = brief
  ? [
      '--grep',
      '(ReplayPipeline.run..|with manual ticks), (inline|auto) |placement (inline|auto)$',
      '--invert',
    ]
  : [];
const folders = Object.entries(most).flatMap(([folder, names]) =>
  brief ? names.map((name) => testFile(`${folder}/${name}`)) : [`test/${folder}`],
);
const chosen =
  specs.length > 0
    ? specs
    : [
        ...folders,
        // The bridge to Python takes longest and runs little native code.
        ...['door/forged', 'fuzz/fuzz', ...(brief ? [] : ['collect/gymnasium'])].map(testFile),
      ];

const why = missing('address,undefined');
if (why) {
  console.error(`hotslot: ${why}`);
  process.exit(1);
}
console.error('hotslot: building the addons with sanitizers …');
// Longer settings find rare errors. A sanitizer finds errors that happen every time, so `test:all`
// needs only `short`.
const level = process.env.HOTSLOT_TEST_SETTING === 'long' ? 'all' : 'short';
// Sanitizers slow the tests, so their times are not recorded.
const env = {
  ...process.env,
  HOTSLOT_TEST_SETTING: level,
  HOTSLOT_TEST_TIMES: '',
  ...buildSanitizedAddons(),
};
const mocha = createRequire(import.meta.url).resolve('mocha/bin/mocha.js');
const gone = chosen.filter((path) => !existsSync(join(root, path)));
if (gone.length > 0) throw new Error(`no such tests: ${gone.join(', ')}`);
const files = chosen.flatMap((path) => [
  '--spec',
  path.endsWith('.js') ? path : `dist/${path}/**/*.test.js`,
]);
const parallel = ['--parallel', '--jobs', String(Math.min(availableParallelism() + 1, 8))];
const command = ['--enable-source-maps', mocha, '--no-config', '--timeout', '120000'];
const reporter = ['--reporter', 'dist/test/rig/slowest.js'];
const { status, signal } = spawnSync(
  process.execPath,
  [...command, ...reporter, ...parallel, ...otherPlacements, ...files],
  { cwd: root, stdio: 'inherit', env },
);
if (signal) console.error(`hotslot: the tests ended with ${signal}`);
process.exitCode = status ?? 1;
