/**
 * The process that the shim is in. Arguments: 'record' and parts, whose sites it prints; 'try' with
 * pairs 'part:site' on stdin, each of which fails once in a run of its part; 'first' and one such
 * pair, which fails in the first run of the process; 'force' and 'KIND=parts' for each kind of
 * which every call fails. No part named: all. One JSON line each on stdout, and '> part:site' ahead
 * of what is tried.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openFiles } from '../rig/open-files.ts';
import type { Part } from './pipelines.ts';
import { Shim, type Site } from './shim.ts';

/**
 * The sites of a part: those that its first run made calls from, and those that any later run does.
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
  /** what was thrown; null where the run went well */
  error: { code: string; message: string } | null;
  /** of a run that went well, or of the next one: equal to the unfailed run's */
  same: boolean;
  /** the next run threw this */
  later: string | null;
  closing: string[];
  /** kinds of handles, descriptors, threads, and sites, of which there is more than before */
  left: Record<string, number>;
  ms: number;
}

/** A part of which every call of a kind failed. */
export interface Forced {
  kind: string;
  part: string;
  same: boolean;
  error: string | null;
}

const [mode = 'record', argument = ''] = process.argv.slice(2);
/** Those of a list, or all. */
const named = (list: string) => (list === '' ? Object.keys(parts) : list.split(','));
const shim = new Shim();
if (mode === 'first') shim.arm(argument.split(':')[1]!);
shim.record();

const folder = join(process.env.FAULT_FOLDER!, String(process.pid));
const say = (what: unknown) =>
  process.stdout.write(`${typeof what === 'string' ? what : JSON.stringify(what)}\n`);
const codeOf = (error: unknown) => String((error as { code?: unknown }).code);
/** With what lies behind it. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return (
    error.message +
    (error.cause === undefined ? '' : ` <- ${codeOf(error.cause)}: ${wordsOf(error.cause)}`)
  );
}

/** Gives back what devices keep. */
let trim = (): void => {};
/** Streams that outlive a run and have not done all that it gave them. */
let busy = (): number => 0;
/** What a driver in software has given out. */
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
 * What belongs to a device stays, and its pool has all threads that it will have, when things are
 * counted.
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
        // Four times the memory that there is: what was kept for the next allocation has gone.
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

/** What there is now. Sites count what they gave and was not given back. */
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
 * What there is more of than before, once all that comes later has come: on a busy machine threads
 * let go late.
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

/** Until what comes late has come: nothing has changed for a while. */
async function rest(): Promise<void> {
  for (let i = 0, since = 0, seen = ''; i < 100 && i - since < 20; i++) {
    (globalThis as unknown as { gc(): void }).gc();
    await new Promise(setImmediate);
    const now = JSON.stringify(living());
    if (now !== seen) since = i;
    seen = now;
  }
}

/** Says where a run hangs, and ends the process. */
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
    // Afterwards all is as before.
    return { ran, struck, next: ran.error ? await run(part) : ran };
  };
  const { ran, struck, next } = await fail();
  // Most places have a pool or a table grow once: what is left is waited for at length when it is
  // so again.
  let more = await left(before, 30);
  for (let i = 0; i < 2 && Object.keys(more).length > 0; i++) {
    // What is kept for the next time may grow once; what is lost is lost again.
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
