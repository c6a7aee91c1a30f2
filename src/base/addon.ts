/**
 * Finds and loads the native addons, for any module. A local build is preferred to a shipped
 * prebuild. The addon `system` has the process's one thread pool for large jobs, and every other
 * addon is linked to that pool when it is loaded. The addon `device` has the process's one native
 * core, and the actors' addons and `ranks` are also linked to that core.
 */

import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { nativeError, rangeError, unavailableError } from './errors.ts';
import { packageRoot } from './package-root.ts';

const root = packageRoot(import.meta.url);
const require = createRequire(import.meta.url);
const loaded = new Map<string, unknown>();
/**
 * Addons that others are linked to. All threads of a process must load such an addon from the same
 * file. A second file would have a second core or pool.
 */
const lenders: ReadonlySet<string> = new Set(['system', 'device']);

/**
 * Thrown if a native call returns undefined, because this thread is being terminated. The thread
 * must not publish any further work.
 */
export class ThreadEnding extends Error {
  constructor() {
    super('this thread is being ended');
    this.name = 'ThreadEnding';
  }
}

/**
 * Returns the result of a native call, or throws ThreadEnding if the result is undefined. While a
 * worker is being terminated, its JavaScript can still run for a moment. Its native calls then do
 * nothing and return undefined. If the JavaScript continued, it would publish work that was never
 * done. Therefore every native function whose work another thread uses returns a result, and its
 * caller checks the result here.
 */
export function answered<T>(answer: T | undefined): T {
  if (answer === undefined) throw new ThreadEnding();
  return answer;
}

/**
 * Returns a function that returns an addon's exports, or with `subject`, the part of the exports
 * with that name. The first call of the function loads the addon.
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
 * Throws ERR_HOTSLOT_ADDON if an addon was compiled with a memory layout other than TypeScript's.
 * Native code and TypeScript read and write the same words, so they must agree on their positions.
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
  /** Links the addon. It gets a constructor of errors and the function tables of pool and core. */
  link?(makeError: typeof nativeError, cores?: unknown, core?: unknown): void;
  /**
   * Only in `system`: the pool's function table, and boundCores(), which limits the cores that the
   * pool uses. The smallest limit of all threads counts.
   */
  cores?: { readonly table: unknown; boundCores(most: number): void };
}

/**
 * Returns how many cores Hotslot may use: the value of HOTSLOT_CORES, or Infinity if it is not set.
 * The value may exceed the machine's number of cores. Throws RangeError if the value is not a whole
 * number of at least 1 in decimal digits.
 */
function allowedCores(): number {
  const given = process.env.HOTSLOT_CORES ?? '';
  if (given !== '' && !/^0*[1-9]\d*$/.test(given))
    throw rangeError(
      `HOTSLOT_CORES is the number of cores that Hotslot may use: it must be a whole number of at least 1, got '${given}'`,
    );
  return given === '' ? Infinity : Number(given);
}
// Checks the setting when the library is loaded, so that a wrong value throws before any work runs.
allowedCores();

/**
 * Returns why this machine cannot load Hotslot's addons, even after a build. Returns null if it
 * can.
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
 * Returns the paths at which loadAddon() looks for an addon, in the order in which it tries them.
 * If HOTSLOT_ADDONS is set, that folder replaces all others.
 */
function places(name: string): string[] {
  const own = process.env.HOTSLOT_ADDONS;
  if (own) return [`${own}/${name}.node`];
  return [
    `${root}build/Release/${name}.node`,
    `${root}prebuilds/${process.platform}-${process.arch}/${name}.node`,
  ];
}

/** Returns whether any thread of this process has loaded the binary. */
function isMapped(path: string): boolean {
  try {
    return readFileSync('/proc/self/maps', 'utf8').includes(`${realpathSync(path)}\n`);
  } catch {
    return false;
  }
}

/**
 * Returns the function tables that an addon's link() gets. Loads `system` and `device` for them. If
 * one of these cannot be loaded, the error names it, and not the addon that is linked.
 */
function lentTo(name: string): unknown[] {
  if (name === 'system') return [];
  const cores = loadAddon<Linkable>('system').cores?.table;
  return name === 'device' || name === 'rows'
    ? [cores]
    : [cores, loadAddon<{ table: unknown }>('device').table];
}

/**
 * Loads `<name>.node` once per thread, and returns its exports. If no file can be loaded, throws an
 * Error that lists every path that was tried. If `system` or `device` is already loaded in this
 * process but fails to start in this thread, throws without trying another file. A second core
 * would not know the handles of the first one, and a second pool would have its own threads.
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
