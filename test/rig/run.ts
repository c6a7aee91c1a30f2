/**
 * `npm test`, `npm run test:all` and `npm run test:long`: runs the test files of a setting on all
 * cores. Arguments after the setting go to mocha. If there are test files among them, only these
 * files run.
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
// Imported only when the setting is known, because the setting chooses the compilers' flags. With
// other flags the tests would build everything again.
const { buildForTests } = await import('./prepare.ts');

function testFiles(): string[] {
  // Lists the sources, because dist still has compiled files whose source was deleted.
  const all = readdirSync(`${root}test`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => `${root}dist/test/${name.slice(0, -3)}.js`);
  // `npm test` has already run the other files in the same form.
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
// Many tests wait for a server, a process or a clock. So one more file than there are cores runs at
// once.
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
// Printed at the end, where a log shows it. Thousands of lines may come between a failure and the
// end.
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
