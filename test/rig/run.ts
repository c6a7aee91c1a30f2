/**
 * `npm test`, `npm run test:all` and `npm run test:long`: the test files of a setting, on every
 * core. Arguments after the setting go to mocha; test files among them are run in place of all.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { makeOneFiles } from './one-file.ts';
import { inOrder } from './times.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const [setting = 'short', ...args] = process.argv.slice(2);
process.env.HOTSLOT_TEST_SETTING = setting;
// Imported after the setting is known: it chooses the compilers' flags, and tests would build
// everything again with others.
const { buildForTests } = await import('./prepare.ts');

function testFiles(): string[] {
  // By their sources: dist keeps what was compiled from a file that is gone.
  const all = readdirSync(`${root}test`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => `${root}dist/test/${name.slice(0, -3)}.js`);
  // `npm test` has run the others as they are.
  return inOrder(
    setting,
    setting === 'all' ? all.filter((file) => file.endsWith('.long.test.js')) : all,
  );
}

function run(command: string[]): boolean {
  const { status, signal } = spawnSync(process.execPath, command, { cwd: root, stdio: 'inherit' });
  if (signal) console.error(`hotslot: ${command[0]} ended with ${signal}`);
  return status === 0;
}

const begin = performance.now();
const chosen = args.some((arg) => arg.endsWith('.test.js'));
await makeOneFiles();
if (!chosen) buildForTests(setting);
// Many tests wait for a server, a process or a clock: one file more than there are cores keeps
// these busy.
const parallel = ['--parallel', '--jobs', String(Math.min(availableParallelism() + 1, 8))];
const thinned = setting === 'all' && !chosen ? ['--require', 'dist/test/rig/only-longer.js'] : [];
const required = [
  '--require',
  'dist/test/rig/told-whole.js',
  '--reporter',
  'dist/test/rig/slowest.js',
];
const mocha = ['node_modules/mocha/bin/mocha.js', ...parallel, ...thinned, ...required];
const failures = `${root}build/failures-${process.pid}.txt`;
process.env.HOTSLOT_TEST_FAILURES = failures;
mkdirSync(`${root}build`, { recursive: true });
const clean = chosen || setting === 'short' || run(['dist/test/native/sanitize.js']);
const passed = run([...mocha, ...args, ...(chosen ? [] : testFiles())]) && clean;
// Where a log's end shows it: thousands of lines may lie between.
if (existsSync(failures)) {
  if (!clean) console.log(`what failed, also under sanitizers:\n${readFileSync(failures, 'utf8')}`);
  rmSync(failures);
} else if (!clean) console.log('the tests under sanitizers ended without a word of which failed');
const seconds = ((performance.now() - begin) / 1000).toFixed(0);
if (setting === 'long') {
  const { stdout } = spawnSync('git', ['describe', '--always', '--dirty'], {
    cwd: root,
    encoding: 'utf8',
  });
  const machine = `${cpus().length} × ${cpus()[0]?.model}, Node ${process.versions.node}`;
  console.log(
    `record: ${stdout.trim()}, ${passed ? 'passed' : 'failed'} with the longest settings, ${machine}`,
  );
}
console.log(
  `${setting} tests, what they build included: ${passed ? 'passed' : 'failed'} in ${seconds} s`,
);
process.exitCode = passed ? 0 : 1;
