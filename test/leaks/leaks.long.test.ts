/**
 * Tests that repeated operations leave nothing behind, neither in the C library's memory nor in the
 * heap.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { buildLibrary } from '../drivers/build.ts';
import { needServer } from '../remote/server.ts';
import { residentEnvironment, residentFlags } from '../rig/resident.ts';
import { describeAll, itLonger, setting } from '../rig/setting.ts';
import type { Held } from './child.ts';
import { operations } from './operations.ts';

const CHILD = fileURLToPath(new URL('./child.js', import.meta.url));
/** Bytes per repetition that are no leak: compiled code and its feedback, which stop growing. */
const LIGHT = 300;
/**
 * The same for operations that open everything they need. Node keeps about 170 bytes of each thread
 * that has ended, and loads modules in each.
 */
const HEAVY = 4096;
/** Bytes by which one measurement may differ from the next. */
const NOISE = 64 * 1024;
/**
 * Most bytes of garbage, for operations whose objects stay open. Memory that the garbage collector
 * does not know about could be gigabytes.
 */
const GARBAGE = 64 * 2 ** 20;
/**
 * Most bytes of growth of all memory over all repetitions, also of other threads' heaps: compiled
 * code, and pages that are partly used.
 */
const RESIDENT = 8 * 2 ** 20;

const every = Object.keys(operations);
const names = setting({
  short: [],
  all: every.filter((name) => !operations[name]!.long),
  long: every,
});
const TIMES = setting({ short: 0, all: 150, long: 20_000 });
/**
 * Number of repetitions. An operation that keeps memory on purpose must be found, and noise hides
 * more of it with fewer repetitions.
 */
const timesOf = (name: string): number => (operations[name]!.keeps ? Math.max(TIMES, 400) : TIMES);
/**
 * Factors of the repetitions of successive measurements. The next one runs only if the one before
 * grew. A leak grows in all of them. Compiled code stops growing, but later if a busy machine
 * compiles late.
 */
const REPEATS = setting({ short: [1, 4, 16], all: [1, 4, 16], long: [1, 4] });
/**
 * Each measurement collects garbage, and V8 then drops compiled code and compiles it again. A
 * concurrent compiler thread holds up to 2 MB, which could hide a leak. The flags therefore keep
 * the code and compile in the calling thread.
 */
const COMPILED = ['--no-flush-bytecode', '--no-concurrent-recompilation'];

/**
 * Number of operations per process in `all`, because starting a process takes as long as one of
 * them. Operations that open everything have their own process.
 */
const TOGETHER = setting({ short: 1, all: 5, long: 1 });
const shares = names.filter((name) => !operations[name]!.opens && !operations[name]!.keeps);
const groups: string[][] = names.filter((name) => !shares.includes(name)).map((name) => [name]);
for (let at = 0; at < shares.length; at += TOGETHER) groups.push(shares.slice(at, at + TOGETHER));

/**
 * Returns the growth that every part has. A leak has the same in all parts, while compiled code
 * grows less from part to part.
 */
const least = (values: number[]) => Math.min(...values);
/** Returns what is wrong in words, or null. */
function wrongWith(held: Held): string | null {
  const { operation, native, heap, count, garbage, resident } = held;
  const { opens } = operations[operation]!;
  const most = (opens ? HEAVY : LIGHT) + NOISE / count;
  if (!opens && garbage > GARBAGE) return `${operation}: ${garbage} bytes of garbage lay about`;
  if (!opens && resident > RESIDENT)
    return `${operation}: ${resident} bytes more are resident than before`;
  if (least(native) > most)
    return `${operation}: ${native.join(', ')} bytes of native memory are held by each time`;
  if (least(heap) > most)
    return `${operation}: ${heap.join(', ')} bytes of the heap are held by each time`;
  return null;
}

describeAll('memory of repeated operations', function () {
  const MS = setting({ short: 600_000, all: 600_000, long: 7_200_000 });
  this.timeout(MS);
  const measured = (some: readonly string[], times: number): Held[] => {
    const library = buildLibrary(
      'libin_use.so',
      [{ source: 'test/leaks/in_use.cpp', defines: [] }],
      '',
    );
    const args = [
      ...residentFlags,
      ...COMPILED,
      '--no-warnings',
      CHILD,
      library,
      String(times),
      ...some,
    ];
    const { stdout, stderr, status } = spawnSync(process.execPath, args, {
      env: residentEnvironment(),
      encoding: 'utf8',
      timeout: MS / 2.5,
      killSignal: 'SIGKILL',
    });
    const held = stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Held);
    expect(status, `${some[held.length]}, which may have hung: ${stderr}`).to.equal(0);
    return held;
  };
  const first = new Map<string, Held>();
  /** Returns the first measurement. Some operations share a process for that. */
  const firstOf = (operation: string): Held => {
    if (!first.has(operation))
      for (const held of measured(
        groups.find((group) => group.includes(operation))!,
        timesOf(operation),
      ))
        first.set(held.operation, held);
    return first.get(operation)!;
  };
  before(function () {
    const { glibcVersionRuntime } = (
      process.report.getReport() as { header: { glibcVersionRuntime?: string } }
    ).header;
    // The bytes in use come from glibc.
    if (!glibcVersionRuntime) this.skip();
  });

  for (const operation of names) {
    const { weight, keeps, server } = operations[operation]!;
    itLonger(
      `${operation}, ${timesOf(operation) / weight} times or more: ${keeps ? 'is found' : 'holds no more than before'}`,
      function () {
        if (server) needServer(this);
        const growth: string[] = [];
        for (const repeat of REPEATS) {
          const held =
            repeat === 1
              ? firstOf(operation)
              : measured([operation], repeat * timesOf(operation))[0]!;
          const wrong = wrongWith(held);
          // In the longest setting the kept memory is large enough to be resident, which is checked
          // first.
          if (keeps)
            return void expect(wrong).to.match(new RegExp(`bytes of ${keeps} are held|resident`));
          if (wrong === null) return;
          growth.push(wrong);
        }
        expect.fail(`it grew in every measurement:\n${growth.join('\n')}`);
      },
    );
  }
});
