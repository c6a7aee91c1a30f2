/**
 * Finds and loads the native binaries: a local build wins over a shipped prebuild. Everyone may load an addon here;
 * `device` holds the one native core, and every other addon is linked to it when it loads.
 */

import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type DeviceErrorDetail, type ErrorCode, nativeError, unavailableError } from './errors.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const require = createRequire(import.meta.url);
const loaded = new Map<string, unknown>();

/** Thrown where a native call did not answer: the thread is being ended, and nothing it does now may count. */
export class ThreadEnding extends Error {
  constructor() {
    super('this thread is being ended');
    this.name = 'ThreadEnding';
  }
}

/**
 * The answer of a native call, or ThreadEnding. While a worker is being terminated there is a moment in which its native
 * calls do nothing and return undefined, and its JavaScript still runs: a hand-over behind such a call would publish work
 * that was never done. Every native function whose work is handed on therefore answers, and its answer is looked at.
 */
export function answered<T>(answer: T | undefined): T {
  if (answer === undefined) throw new ThreadEnding();
  return answer;
}

interface Linkable {
  /** Lends the addon a maker of errors and the core's table of functions. */
  link?(makeError: (code: ErrorCode, text: string, detail: DeviceErrorDetail) => Error, table?: unknown): void;
}

/** Why no addon of Hotslot's can be loaded on this machine, whatever is built; null where one can. */
export function cannotRunHere(): string | null {
  const { platform, arch } = process;
  const supported = 'Hotslot runs on Linux with glibc 2.28 or newer, on x64 and arm64';
  if (platform !== 'linux' || (arch !== 'x64' && arch !== 'arm64')) return `${supported}; this is ${platform}-${arch}`;
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  if (header && header.glibcVersionRuntime === undefined)
    return `${supported}; this is ${platform}-${arch} without glibc, such as Alpine: use an image with it, such as node:22-slim`;
  return null;
}

/** Where an addon of this name may lie, first choice first. HOTSLOT_ADDONS names a folder to use instead. */
function places(name: string): string[] {
  const own = process.env.HOTSLOT_ADDONS;
  if (own) return [`${own}/${name}.node`];
  return [`${root}build/Release/${name}.node`, `${root}prebuilds/${process.platform}-${process.arch}/${name}.node`];
}

/** Whether this process has the binary, for another thread or for this one. */
function isMapped(path: string): boolean {
  try {
    return readFileSync('/proc/self/maps', 'utf8').includes(`${realpathSync(path)}\n`);
  } catch {
    return false;
  }
}

/**
 * Loads `<name>.node` once per thread. Throws an Error that lists every place that was tried, or names the one core that the process
 * has and this thread could not begin with: no other takes its place, for a second one would know none of the first one's handles.
 */
export function loadAddon<T>(name: string): T {
  const known = loaded.get(name);
  if (known !== undefined) return known as T;
  // What it throws says all: of the core, and not of who is linked to it.
  const core = name === 'device' || name === 'rows' ? null : loadAddon<{ table: unknown }>('device');
  const tried: string[] = [];
  for (const path of places(name)) {
    if (!existsSync(path)) {
      tried.push(`${path}: not there`);
      continue;
    }
    try {
      const addon = require(path) as T & Linkable;
      if (core === null) addon.link?.(nativeError);
      else addon.link?.(nativeError, core.table);
      loaded.set(name, addon);
      return addon;
    } catch (error) {
      const { message } = error as Error;
      if (name === 'device' && isMapped(path)) {
        const text = `Hotslot's native addon '${name}', which this process has from ${path}, could not begin in this thread: ${message}`;
        throw unavailableError(text, 'ERR_HOTSLOT_ADDON', error);
      }
      tried.push(`${path}: ${message}`);
    }
  }
  throw unavailableError(
    `Hotslot's native addon '${name}' could not be loaded on ${process.platform}-${process.arch}:\n  ${tried.join('\n  ')}\n` +
      (cannotRunHere() ?? 'Build it with: npx hotslot build (needs a C++17 compiler, python3 and make)'),
    'ERR_HOTSLOT_ADDON',
  );
}
