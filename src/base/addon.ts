/**
 * Finds and loads the native binaries: a local build wins over a shipped prebuild. Any module may
 * load an addon here. `system` holds the process's one pool of threads for large jobs, to which
 * every other addon is linked when it loads. `device` holds the one native core, to which the
 * actors' addons and `ranks` are linked as well.
 */

import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { nativeError, rangeError, unavailableError } from './errors.ts';
import { packageRoot } from './package-root.ts';

const root = packageRoot(import.meta.url);
const require = createRequire(import.meta.url);
const loaded = new Map<string, unknown>();
/** Addons of which a process has one file. */
const lenders: ReadonlySet<string> = new Set(['system', 'device']);

/**
 * Thrown if a native call did not answer: the thread is being ended, and its work must not count
 * any more.
 */
export class ThreadEnding extends Error {
  constructor() {
    super('this thread is being ended');
    this.name = 'ThreadEnding';
  }
}

/**
 * Returns the answer of a native call, or throws ThreadEnding. While a worker is being terminated,
 * there is a moment in which its native calls do nothing and return undefined, and its JavaScript
 * still runs. A hand-over after such a call would publish work that was never done. So every native
 * function whose work is handed on returns an answer, and the answer is checked.
 */
export function answered<T>(answer: T | undefined): T {
  if (answer === undefined) throw new ThreadEnding();
  return answer;
}

/**
 * Returns a function that returns an addon's exports, or its exports of one subject. The first call
 * loads the addon.
 */
export function addonOf<T>(name: string, subject?: string): () => T {
  let found: T | undefined;
  return () => {
    found ??=
      subject === undefined ? loadAddon<T>(name) : loadAddon<Record<string, T>>(name)[subject];
    return found as T;
  };
}

/**
 * Throws unless an addon was compiled with the same numbers as TypeScript has: both of them read
 * and write these words.
 */
export function checkLayout(
  addon: string,
  what: string,
  ours: Readonly<Record<string, number>>,
  theirs: Readonly<Record<string, number>>,
): void {
  const wrong = Object.keys(ours).find((name) => theirs[name] !== ours[name]);
  if (wrong === undefined) return;
  const text = `Hotslot's native addon '${addon}' is from another build: ${wrong} of ${what} is ${theirs[wrong]} in the addon and ${ours[wrong]} in TypeScript`;
  throw unavailableError(`${text}. Build it again: npx hotslot build`, 'ERR_HOTSLOT_ADDON');
}

interface Linkable {
  /** Lends the addon a maker of errors, the pool's table of functions, and the core's. */
  link?(makeError: typeof nativeError, cores?: unknown, core?: unknown): void;
  /**
   * In `system`: the pool, as it is lent, and a bound on the cores that it uses. The least of
   * several threads' bounds counts.
   */
  cores?: { readonly table: unknown; boundCores(most: number): void };
}

/**
 * Returns how many cores Hotslot may use: HOTSLOT_CORES, or all. A larger number than there are
 * cores means all. Throws a RangeError if the variable is not a whole number from 1 on, in digits.
 */
function allowedCores(): number {
  const given = process.env.HOTSLOT_CORES ?? '';
  if (given !== '' && !/^0*[1-9]\d*$/.test(given))
    throw rangeError(
      `HOTSLOT_CORES is the number of cores that Hotslot may use: it must be a whole number of at least 1, got '${given}'`,
    );
  return given === '' ? Infinity : Number(given);
}
// Throws for a wrong setting when the library is loaded, before it runs with another number of
// threads.
allowedCores();

/**
 * Returns why this machine can load no addon of Hotslot's, whatever is built, or null if it can.
 */
export function cannotRunHere(): string | null {
  const { platform, arch } = process;
  const supported = 'Hotslot runs on Linux with glibc 2.28 or newer, on x64 and arm64';
  if (platform !== 'linux' || (arch !== 'x64' && arch !== 'arm64'))
    return `${supported}; this is ${platform}-${arch}`;
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  if (header && header.glibcVersionRuntime === undefined)
    return `${supported}; this is ${platform}-${arch} without glibc, such as Alpine: use an image with it, such as node:22-slim`;
  return null;
}

/**
 * Returns where an addon of this name may lie, first choice first. HOTSLOT_ADDONS names a folder to
 * use instead.
 */
function places(name: string): string[] {
  const own = process.env.HOTSLOT_ADDONS;
  if (own) return [`${own}/${name}.node`];
  return [
    `${root}build/Release/${name}.node`,
    `${root}prebuilds/${process.platform}-${process.arch}/${name}.node`,
  ];
}

/** Returns whether this process has the binary, for another thread or for this one. */
function isMapped(path: string): boolean {
  try {
    return readFileSync('/proc/self/maps', 'utf8').includes(`${realpathSync(path)}\n`);
  } catch {
    return false;
  }
}

/**
 * Returns what is lent to an addon when it is linked. An error that a lender throws is about the
 * lender, and not about the addon that is linked to it.
 */
function lentTo(name: string): unknown[] {
  if (name === 'system') return [];
  const cores = loadAddon<Linkable>('system').cores?.table;
  return name === 'device' || name === 'rows'
    ? [cores]
    : [cores, loadAddon<{ table: unknown }>('device').table];
}

/**
 * Loads `<name>.node` once per thread. Throws an Error that lists every place that was tried, or
 * that names the addon that the process has and this thread could not begin with. No other file
 * takes that addon's place: a second core would know none of the first one's handles, and a second
 * pool would have threads of its own.
 */
export function loadAddon<T>(name: string): T {
  const known = loaded.get(name);
  if (known !== undefined) return known as T;
  const cores = allowedCores();
  const lent = lentTo(name);
  const tried: string[] = [];
  for (const path of places(name)) {
    if (!existsSync(path)) {
      tried.push(`${path}: not there`);
      continue;
    }
    try {
      const addon = require(path) as T & Linkable;
      addon.link?.(nativeError, ...lent);
      addon.cores?.boundCores(Math.min(cores, 2 ** 31 - 1));
      loaded.set(name, addon);
      return addon;
    } catch (error) {
      const { message } = error as Error;
      if (lenders.has(name) && isMapped(path)) {
        const text = `Hotslot's native addon '${name}', which this process loaded from ${path}, could not start in this thread: ${message}`;
        throw unavailableError(text, 'ERR_HOTSLOT_ADDON', error);
      }
      tried.push(`${path}: ${message}`);
    }
  }
  throw unavailableError(
    `Hotslot's native addon '${name}' could not be loaded on ${process.platform}-${process.arch}:\n  ${tried.join('\n  ')}\n` +
      (cannotRunHere() ??
        'Build it with: npx hotslot build (needs a C++17 compiler, python3 and make)'),
    'ERR_HOTSLOT_ADDON',
  );
}
