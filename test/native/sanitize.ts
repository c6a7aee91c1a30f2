/**
 * `npm run test:sanitize`: the tests that lean on native code, over addons built with the address and undefined-behaviour
 * sanitizers. Arguments are folders under test/ or compiled test files.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { missing } from './harnesses.ts';
import { buildSanitizedAddons } from './sanitized.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const specs = process.argv.slice(2);
/** Within `test:all`: a bridge to Python takes longest, and has least that is native. */
const brief = process.env.HOTSLOT_TEST_SETTING === 'all';
const chosen =
  specs.length > 0
    ? specs
    : [
        ...['device', 'transfer', 'buffer', 'trajectories', 'wait', 'pipeline', 'halo'].map((name) => `test/${name}`),
        ...['door/forged', 'fuzz/fuzz', ...(brief ? [] : ['collect/gymnasium'])].map(
          (name) => `dist/test/${name}.test.js`,
        ),
      ];

const why = missing('address,undefined');
if (why) {
  console.error(`hotslot: ${why}`);
  process.exit(1);
}
console.error('hotslot: building the addons with sanitizers …');
// What is longer in `test:all` finds what is rare; a sanitizer finds what is there each time.
const level = process.env.HOTSLOT_TEST_SETTING === 'long' ? 'all' : 'short';
const env = { ...process.env, HOTSLOT_TEST_SETTING: level, ...buildSanitizedAddons() };
const mocha = createRequire(import.meta.url).resolve('mocha/bin/mocha.js');
const files = chosen.flatMap((path) => ['--spec', path.endsWith('.js') ? path : `dist/${path}/**/*.test.js`]);
const parallel = ['--parallel', '--jobs', String(Math.min(availableParallelism() + 1, 8))];
const reporter = ['--reporter', 'dist/test/rig/slowest.js'];
const { status, signal } = spawnSync(
  process.execPath,
  ['--enable-source-maps', mocha, '--no-config', '--timeout', '120000', ...reporter, ...parallel, ...files],
  { cwd: root, stdio: 'inherit', env },
);
if (signal) console.error(`hotslot: the tests ended with ${signal}`);
process.exitCode = status ?? 1;
