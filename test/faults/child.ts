/**
 * The process that has the shim. Without named parts it takes all parts. It prints one JSON line
 * for each result, and '> part:site' before each try. Arguments:
 * - 'record' and parts: prints the sites of these parts.
 * - 'try', with pairs 'part:site' on stdin: each site fails once, in a run of its part.
 * - 'first' and one such pair: the site fails in the first run of the process.
 * - 'force' and 'KIND=parts': in runs of these parts every call of the kind fails.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openFiles } from '../rig/open-files.ts';
import type { Part } from './pipelines.ts';
import { Shim, type Site } from './shim.ts';

/**
 * The sites of a part: those that its first run made calls from, and the ids of those that any
 * later run does.
 */
export interface Recorded {
  part: string;
  first: Site[];
  again: string[];
}

export interface Tried {
  part: string;
  site: string;
  struck: boolean;
  /** what was thrown, or null if the run went well */
  error: { code: string; message: string } | null;
  /**
   * whether a run without a failure has the same result as this run, or, after an error, as the
   * next run. For 'first': whether two later runs have the same result.
   */
  same: boolean;
  /** what the next run threw, or null */
  later: string | null;
  closing: string[];
  /**
   * kinds of handles, descriptors, threads and sites of which there are more than before, and how
   * many more
   */
  left: Record<string, number>;
  ms: number;
}

/** The result of a part in which every call of a kind failed. */
export interface Forced {
  kind: string;
  part: string;
  same: boolean;
  error: string | null;
}

const [mode = 'record', argument = ''] = process.argv.slice(2);
/** Returns the parts of a list, or all parts if the list is empty. */
const named = (list: string) => (list === '' ? Object.keys(parts) : list.split(','));
const shim = new Shim();
if (mode === 'first') shim.arm(argument.split(':')[1]!);
shim.record();

const folder = join(process.env.FAULT_FOLDER!, String(process.pid));
const say = (what: unknown) =>
  process.stdout.write(`${typeof what === 'string' ? what : JSON.stringify(what)}\n`);
const codeOf = (error: unknown) => String((error as { code?: unknown }).code);
/** Returns the error's message and those of its causes. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return (
    error.message +
    (error.cause === undefined ? '' : ` <- ${codeOf(error.cause)}: ${wordsOf(error.cause)}`)
  );
}

/** Makes devices release the memory that they keep for later allocations. */
let trim = (): void => {};
/** Returns the number of streams that outlive a run and still have work of it. */
let busy = (): number => 0;
/** Returns the numbers of objects that a software driver has created and not released. */
let driver = (): Record<string, number> => ({});
let parts: Readonly<Record<string, Part>> = {};
let handles: () => Record<string, number>;
let Closing: typeof import('./closing.ts').Closing;
async function load(): Promise<void> {
  ({ parts } = await import('./parts.ts'));
  ({ Closing } = await import('./closing.ts'));
  const rig = await import('../rig/handles.ts');
  handles = () => ({ ...rig.openHandles(), pins: rig.pinnedHandles() });
}

/**
 * Keeps the devices open, so that what belongs to a device stays. Also starts all threads of the
 * pool before anything is counted.
 */
async function settle(): Promise<void> {
  const { openDevice } = await import('../../src/index.ts');
  const { TESTED } = await import('../rig/tested-device.ts');
  const devices = [...new Set(['host:0', 'host:1', TESTED])].map((name) => openDevice(name));
  trim = () => {
    for (const device of devices)
      try {
        device.allocate({ shape: [device.memoryInfo().total] }).close();
      } catch {
        // The allocation is larger than the free memory, so it fails. Before that the device
        // releases the memory that it keeps for later.
      }
  };
  if (TESTED !== 'host:0') {
    const talk = await import('../drivers/talk.ts');
    const library = await talk.software();
    driver = () => {
      talk.settle();
      return talk.counts(library.live());
    };
  }
  busy = () => devices.filter((device) => !device.currentStream.query()).length;
  for (const device of devices) {
    await Promise.all(Array.from({ length: 8 }, () => device.currentStream.synchronize()));
  }
}

interface Ran {
  bits: string | null;
  error: unknown;
  closing: unknown[];
}
async function run(part: string): Promise<Ran> {
  const closing = new Closing();
  const mine = join(folder, part);
  mkdirSync(mine, { recursive: true });
  let ran: Omit<Ran, 'closing'>;
  try {
    ran = { bits: await parts[part]!(closing, mine), error: null };
  } catch (error) {
    ran = { bits: null, error };
  }
  const thrown = await closing.all();
  rmSync(mine, { recursive: true, force: true });
  return { ...ran, closing: thrown };
}

/** Counts what exists now. Each site counts what its calls returned and nobody released. */
function living(): Record<string, number> {
  trim();
  const all: Record<string, number> = { ...handles() };
  for (const { id, live, kind } of shim.sites()) if (live > 0) all[`${kind}:${id}`] = live;
  all.descriptors = openFiles().length;
  all.busyStreams = busy();
  for (const [kind, count] of Object.entries(driver())) all[`the driver's ${kind}`] = count;
  all.threads = readdirSync('/proc/self/task').length;
  return all;
}
/**
 * Returns the kinds of which there are more than before. It waits for late releases, because
 * threads of a busy machine release late.
 */
async function left(before: Record<string, number>, most = 100): Promise<Record<string, number>> {
  for (let i = 0; ; i++) {
    (globalThis as unknown as { gc(): void }).gc();
    await new Promise(setImmediate);
    const more = Object.entries(living()).map(
      ([kind, count]) => [kind, count - (before[kind] ?? 0)] as const,
    );
    const found = Object.fromEntries(more.filter(([, count]) => count > 0));
    if (Object.keys(found).length === 0 || i >= most) return found;
  }
}

/** Waits until no count has changed for a while, so that late releases are over. */
async function rest(): Promise<void> {
  for (let i = 0, since = 0, seen = ''; i < 100 && i - since < 20; i++) {
    (globalThis as unknown as { gc(): void }).gc();
    await new Promise(setImmediate);
    const now = JSON.stringify(living());
    if (now !== seen) since = i;
    seen = now;
  }
}

/** Starts a timer that prints where a hanging run waits, and ends the process. */
function watch(what: string): NodeJS.Timeout {
  const hangs = setTimeout(() => {
    const doing = readdirSync('/proc/self/task').map((thread) =>
      ['comm', 'wchan', 'syscall'].map((each) => {
        try {
          return readFileSync(`/proc/self/task/${thread}/${each}`, 'utf8').trim();
        } catch {
          return '?';
        }
      }),
    );
    process.stderr.write(`${what} hangs\n${doing.map((each) => each.join(' ')).join('\n')}\n`);
    process.exit(3);
  }, 100_000);
  hangs.unref();
  return hangs;
}

const known = new Map<string, { bits: string; before: Record<string, number> }>();
async function baseline(part: string) {
  const found = known.get(part);
  if (found) return found;
  for (let i = 0; i < 2; i++) {
    const { error } = await run(part);
    if (error) throw error;
  }
  const { bits, error } = await run(part);
  if (error) throw error;
  await rest();
  const made = { bits: bits!, before: living() };
  known.set(part, made);
  return made;
}

async function attempt(part: string, site: string): Promise<Tried> {
  say(`> ${part}:${site}`);
  const hangs = watch(`${part}:${site}`);
  const { bits, before } = await baseline(part);
  const begin = performance.now();
  const fail = async () => {
    shim.arm(site);
    const ran = await run(part);
    const struck = shim.struck();
    shim.arm(null);
    // After an error, the next run must give the usual result.
    return { ran, struck, next: ran.error ? await run(part) : ran };
  };
  const { ran, struck, next } = await fail();
  // In most places a pool or a table grows once. So only if something is left again does the
  // process wait for long.
  let more = await left(before, 30);
  for (let i = 0; i < 2 && Object.keys(more).length > 0; i++) {
    // A pool may grow once and keep the memory. A leak grows each time.
    const then = living();
    await fail();
    const again = await left(then);
    more = Object.fromEntries(Object.entries(again).filter(([kind]) => kind in more));
  }
  known.set(part, { bits, before: living() });
  clearTimeout(hangs);
  return {
    part,
    site,
    struck,
    error: ran.error ? { code: codeOf(ran.error), message: wordsOf(ran.error) } : null,
    same: next.bits === bits,
    later: ran.error && next.error ? wordsOf(next.error) : null,
    closing: [...ran.closing, ...(ran.error ? next.closing : [])].map(wordsOf),
    left: more,
    ms: Math.round(performance.now() - begin),
  };
}

mkdirSync(folder, { recursive: true });
if (mode === 'record') {
  await load();
  await settle();
  for (const part of named(argument)) {
    const counts = new Map(shim.sites().map(({ id, calls }) => [id, calls]));
    await run(part);
    const first = shim.sites().filter(({ id, calls }) => calls > (counts.get(id) ?? 0));
    await run(part);
    const between = new Map(shim.sites().map(({ id, calls }) => [id, calls]));
    const { error, closing } = await run(part);
    if (error ?? closing[0]) throw error ?? closing[0];
    const again = shim.sites().filter(({ id, calls }) => calls > (between.get(id) ?? 0));
    say({ part, first, again: again.map(({ id }) => id) } satisfies Recorded);
  }
} else if (mode === 'try') {
  await load();
  await settle();
  for (const pair of readFileSync(0, 'utf8').trim().split('\n'))
    say(await attempt(...(pair.split(':') as [string, string])));
} else if (mode === 'first') {
  const [part, site] = argument.split(':') as [string, string];
  say(`> ${argument}`);
  watch(argument);
  let error: unknown = null;
  let closing: unknown[] = [];
  try {
    await load();
    ({ error, closing } = await run(part));
  } catch (thrown) {
    error = thrown;
  }
  const struck = shim.struck();
  shim.arm(null);
  await load().catch(() => {});
  const next = parts[part] ? await run(part) : { bits: null, error: null, closing: [] };
  const again = parts[part] ? await run(part) : next;
  say({
    part,
    site,
    struck,
    error: error ? { code: codeOf(error), message: wordsOf(error) } : null,
    same: next.bits === again.bits,
    later: next.error ? wordsOf(next.error) : null,
    closing: [...closing, ...next.closing].map(wordsOf),
    left: {},
    ms: 0,
  } satisfies Tried);
} else if (mode === 'force') {
  await load();
  await settle();
  for (const each of process.argv.slice(3)) {
    const [kind, list] = each.split('=') as [string, string];
    for (const part of named(list)) {
      say(`> ${part} without ${kind}`);
      const hangs = watch(part);
      const { bits } = await baseline(part);
      shim.force(kind);
      const { bits: forced, error } = await run(part);
      shim.force(null);
      clearTimeout(hangs);
      say({
        kind,
        part,
        same: forced === bits,
        error: error ? wordsOf(error) : null,
      } satisfies Forced);
    }
  }
}
rmSync(folder, { recursive: true, force: true });
