/**
 * What is done again and again: no time of it leaves anything behind, in the C library's memory or
 * in the heap.
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
/** Bytes per time that are no leak: compiled code and its feedback, which come to an end. */
const LIGHT = 300;
/**
 * Of what opens all that it needs: Node keeps some 170 of each thread that has ended, and loads
 * modules in it.
 */
const HEAVY = 4096;
/** Bytes by which one look may differ from the next. */
const NOISE = 64 * 1024;
/**
 * Bytes that lie about until they are collected, of what keeps all open: what the collector of
 * garbage does not know of can be gigabytes.
 */
const GARBAGE = 64 * 2 ** 20;
/**
 * Bytes of all memory, also of the heaps of other threads, that all times together may add:
 * compiled code, pages that are not full.
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
 * What keeps memory on purpose must be found: noise hides more of it the fewer times it is done.
 */
const timesOf = (name: string): number => (operations[name]!.keeps ? Math.max(TIMES, 400) : TIMES);
/**
 * How many times TIMES each measurement makes; the next one follows only if there was growth. A
 * leak grows by every time in all of them. Compiled code stops growing, later where a busy machine
 * compiles late.
 */
const REPEATS = setting({ short: [1, 4, 16], all: [1, 4, 16], long: [1, 4] });
/**
 * Each look collects garbage, and V8 drops compiled code then, which it compiles again. A thread
 * that compiles beside the test holds up to 2 MB until it is done: a look in that time hides as
 * much of a leak, so that code is compiled where it is called.
 */
const COMPILED = ['--no-flush-bytecode', '--no-concurrent-recompilation'];

/**
 * As many operations as one process does in `all`: to start it takes as long as one of them. What
 * opens all anew has its own.
 */
const TOGETHER = setting({ short: 1, all: 5, long: 1 });
const shares = names.filter((name) => !operations[name]!.opens && !operations[name]!.keeps);
const groups: string[][] = names.filter((name) => !shares.includes(name)).map((name) => [name]);
for (let at = 0; at < shares.length; at += TOGETHER) groups.push(shares.slice(at, at + TOGETHER));

/**
 * What each time holds in every part. A leak does; compiled code and its feedback grow less from
 * part to part.
 */
const least = (values: number[]) => Math.min(...values);
/** In words; null where nothing is. */
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
  /** Some share the process of their first measurement. */
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
    // What is in use is asked of glibc.
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
          // In the longest setting it is so much that it is resident, which is looked at first.
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
