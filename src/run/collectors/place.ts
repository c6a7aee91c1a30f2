/**
 * Finds the source line at which a collector's error was thrown. It skips the lines of this
 * package, so that the error names a line of the user's code.
 */

import { basename } from 'node:path';
import { packageRoot } from '../../base/package-root.ts';

const root = packageRoot(import.meta.url);
/** This package's folders of compiled files, and of the sources that source maps name. */
const ours = ['dist/src/', 'dist/actors/', 'src/', 'actors/'].map((folder) => root + folder);
/** Parts of the paths that are not the user's: those of this package, of piscina and of Node. */
const foreign = [...ours, '/node_modules/piscina/', 'node:'];

/**
 * Returns ' (file:line:column)' of the error's frame in `module`, or else of the first frame
 * outside this package. If the error has no such frame, returns ' (file)' with the name of
 * `module`. Returns '' if the error has no stack.
 */
export function placeOf(error: unknown, module: URL): string {
  const stack = (error as Error | null)?.stack;
  if (typeof stack !== 'string') return '';
  const frames = stack
    .split('\n')
    .filter((line) => /:\d+:\d+\)?$/.test(line) && !foreign.some((part) => line.includes(part)));
  const frame = frames.find((line) => line.includes(module.pathname)) ?? frames[0];
  const place = frame?.match(/([^/\s(]+:\d+:\d+)\)?$/)?.[1];
  return ` (${place ?? basename(module.pathname)})`;
}

/**
 * Returns the module that errors name. train() has a collector's module of its own, so errors name
 * the environment's module instead.
 */
export function moduleOf(entry: URL, options: unknown): URL {
  const { environment } = (options ?? {}) as { environment?: unknown };
  const own = ours.some((folder) => entry.pathname.startsWith(folder));
  return own && typeof environment === 'string' && URL.canParse(environment)
    ? new URL(environment)
    : entry;
}
