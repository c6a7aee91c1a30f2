/**
 * Defines and runs the units of `npm run test:gpu`. Each unit is its own mocha process, so that a
 * lost device does not affect the next unit. A failed test runs again alone, which separates causes
 * from their consequences.
 */
import { spawn, spawnSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sections } from '../device/contract.ts';
import { ALONE } from '../rig/error-scope.ts';
import { setting } from '../rig/setting.ts';
import type { Told } from './reporter.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

export interface Unit {
  part: string;
  name: string;
  files: readonly string[];
  /** part of the tests' full titles, or none for all tests of the files */
  title?: string;
  env?: Readonly<Record<string, string>>;
}

export interface Failure {
  title: string;
  error: string;
  /** result of the test in a process without the tests before it */
  alone?: 'passes' | 'fails';
}

export interface Result {
  part: string;
  unit: string;
  passes: number;
  /** skipped tests (their titles or files give the reason) */
  pending: number;
  failures: Failure[];
  seconds: number;
}

const contract = 'dist/test/device/contract.test.js';
/** Folders with tests of modules that use devices. */
const above = [
  'actors',
  'pipeline',
  'learner',
  'trace',
  'transfer',
  'memory',
  'graph',
  'linop',
  'halo',
];

const tests = (folder: string) =>
  readdirSync(join(root, 'dist/test', folder))
    .filter((file) => file.endsWith('.test.js'))
    .sort()
    .map((file) => `dist/test/${folder}/${file}`);

/** The parts in the order in which they run. Those that make the device unusable come last. */
export const parts: Readonly<Record<string, (device: string) => Unit[] | Promise<Unit[]>>> = {
  contract: (device) =>
    Object.keys(sections).map((section) => ({
      part: 'contract',
      name: section,
      files: [contract],
      title: `device contract on ${device} ${section}`,
    })),
  pinned: () => [
    { part: 'pinned', name: 'pinned memory', files: ['dist/test/gpu/pinned.test.js'] },
  ],
  same: (device) => {
    const unit = {
      part: 'same',
      name: 'same as the host',
      files: ['dist/test/gpu/same-as-host.test.js'],
      // cuBLAS computes products of all sizes, so that they are compared too.
      env: { HOTSLOT_OWN_PRODUCTS: 'none' },
    };
    const own = { ...unit, name: `${unit.name}, own products`, env: { HOTSLOT_CUBLAS: 'none' } };
    return device.startsWith('cuda') ? [unit, own] : [unit];
  },
  // A process needs more than a second to create a GPU's context, so there is one process for each
  // folder.
  above: () => above.map((folder) => ({ part: 'above', name: folder, files: tests(folder) })),
  lost: async (device) => {
    const files = [contract, ...above.flatMap(tests)];
    const { told } = await runMocha(device, { part: 'lost', name: 'all', files }, 60_000, [
      '--dry-run',
    ]);
    return (
      told
        .filter(({ kind, title }) => kind === 'pending' && title.endsWith(ALONE))
        // Over a software driver, `test:all` runs only some of them.
        .filter((_, i) => i % setting({ short: 1, all: 3, long: 1 }) === 0)
        .map(({ title, file }) => ({
          part: 'lost',
          name: title.slice(0, -ALONE.length - 1),
          files: [file],
          title,
          env: { HOTSLOT_TEST_ALONE: '1' },
        }))
    );
  },
};

/**
 * HOTSLOT_TEST_STACKS names a file for the stacks of hanging processes. Only a few are written,
 * because each takes seconds.
 */
let noted = 0;
function noteStacks(unit: string, pid: number | undefined): void {
  const file = process.env.HOTSLOT_TEST_STACKS;
  if (!file || pid === undefined || ++noted > 4) return;
  const script = join(root, 'bench/gpu/stacks.sh');
  const { stdout } = spawnSync('bash', [script, String(pid)], {
    encoding: 'utf8',
    timeout: 15_000,
  });
  appendFileSync(file, `== ${unit}, over its limit\n${stdout}`);
}

async function runMocha(
  device: string,
  unit: Unit,
  limitMs: number,
  options: readonly string[] = [],
): Promise<{ told: Told[]; how: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-gpu-'));
  const report = join(folder, 'report');
  const mocha = ['node_modules/mocha/bin/mocha.js', '--no-config', '--timeout', '30000', '--exit'];
  const child = spawn(
    process.execPath,
    [
      '--enable-source-maps',
      ...mocha,
      '--reporter',
      fileURLToPath(new URL('./reporter.js', import.meta.url)),
      ...options,
      ...(unit.title ? ['--fgrep', unit.title] : []),
      ...unit.files,
    ],
    {
      cwd: root,
      env: {
        // Number of hardware queues that streams share, which is eight by default. The contract
        // holds eight streams and needs another one that runs.
        CUDA_DEVICE_MAX_CONNECTIONS: '32',
        GPU_MAX_HW_QUEUES: '32',
        ...process.env,
        HOTSLOT_TEST_DEVICE: device,
        HOTSLOT_TEST_REPORT: report,
        ...unit.env,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-4000);
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    noteStacks(unit.title ?? unit.name, child.pid);
    child.kill('SIGKILL');
  }, limitMs);
  const [status, signal] = await new Promise<[number | null, string | null]>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (...ended) => resolve(ended));
  });
  clearTimeout(timer);
  let told: Told[] = [];
  try {
    const lines = readFileSync(report, 'utf8').trim().split('\n');
    told = lines.map((line) => JSON.parse(line) as Told);
  } catch {
    // The process ended before its first test.
  }
  rmSync(folder, { recursive: true, force: true });
  const why = late
    ? `did not end within ${limitMs / 1000} s`
    : `ended with ${signal ?? `status ${status}`}`;
  return { told, how: `the process ${why}\n${stderr}` };
}

const failuresOf = (told: readonly Told[]): Failure[] =>
  told
    .filter(({ kind }) => kind === 'fail')
    .map(({ title, hook, error = '' }) => ({ title: hook ? `${title}, ${hook}` : title, error }));

/**
 * Runs the tests that did not run because a process hung or a hook failed, each in its own process.
 * Returns their reports.
 */
async function runRest(
  device: string,
  unit: Unit,
  told: readonly Told[],
  limitMs: number,
): Promise<Told[]> {
  const seen = new Set(told.map(({ title }) => title));
  const all = (await runMocha(device, unit, limitMs, ['--dry-run'])).told;
  const rest = all.filter(({ kind, title }) => kind === 'pass' && !seen.has(title));
  const more: Told[] = [];
  for (const { title, file } of rest) {
    const { told: own, how } = await runMocha(device, { ...unit, title, files: [file] }, limitMs);
    more.push(...own.filter(({ kind }) => kind !== 'end'));
    if (!own.some(({ kind }) => kind === 'end'))
      more.push({ kind: 'fail', title, file, error: how });
  }
  return more;
}

/**
 * Runs a unit and returns its result. It does not reject because of a failed test. With `once`, no
 * test runs again alone, and the other tests of a hanging test's file do not run. The files after
 * it run in another process.
 */
export async function runUnit(
  device: string,
  unit: Unit,
  limitMs: number,
  once = false,
): Promise<Result> {
  const again = !once && !unit.env?.HOTSLOT_TEST_ALONE;
  const begin = performance.now();
  const told: Told[] = [];
  let whole = true;
  for (let files = unit.files; files.length > 0; ) {
    const { told: own, how } = await runMocha(device, { ...unit, files }, limitMs);
    told.push(...own);
    if (own.some(({ kind }) => kind === 'end')) break;
    whole = false;
    // The test that began last is the cause.
    const last = own.filter(({ kind }) => kind === 'begin').at(-1);
    const at = files.findIndex((file) => last?.file.endsWith(file));
    told.push({
      kind: 'fail',
      title: last?.title ?? unit.name,
      file: last?.file ?? files[0]!,
      error: how,
    });
    // If no test had begun, another process would fail in the same way.
    files = at < 0 ? [] : files.slice(at + 1);
  }
  if (whole && told.length === 1)
    told.push({
      kind: 'fail',
      title: unit.name,
      file: unit.files[0]!,
      error: 'no test of this name',
    });
  if (again && (!whole || told.some(({ hook }) => hook)))
    told.push(...(await runRest(device, unit, told, limitMs)));
  const failures = failuresOf(told);
  if (again) {
    for (const [i, { title, file }] of told
      .filter(({ kind }) => kind === 'fail')
      .slice(0, 8)
      .entries()) {
      const { told: own } = await runMocha(device, { ...unit, title, files: [file] }, limitMs);
      const passes =
        own.some(({ kind }) => kind === 'pass') && !own.some(({ kind }) => kind === 'fail');
      Object.assign(failures[i]!, { alone: passes ? 'passes' : 'fails' });
    }
  }
  return {
    part: unit.part,
    unit: unit.name,
    passes: told.filter(({ kind }) => kind === 'pass').length,
    // Tests that make the device unusable have their own part.
    pending: told.filter(({ kind, title }) => kind === 'pending' && !title.endsWith(ALONE)).length,
    failures,
    seconds: (performance.now() - begin) / 1000,
  };
}
