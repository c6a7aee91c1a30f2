/** Where an error of a collector came from: a line of the user's, never one of this package. */

import { basename } from 'node:path';
import { packageRoot } from '../../base/package-root.ts';

const root = packageRoot(import.meta.url);
/** This package's folders, as they are run and as source maps show them. */
const ours = ['dist/src/', 'dist/actors/', 'src/', 'actors/'].map((folder) => root + folder);
/** Nor are those the user's that run a thread. */
const foreign = [...ours, '/node_modules/piscina/', 'node:'];

/**
 * ' (file:line:column)' of the frame in `module`, or else of the first that is not of this package.
 * A rejected value of an environment has no such frame: then ' (file)', the module that gave it.
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
 * The module that users know of: train()'s collectors are this package's, and their environments
 * are not.
 */
export function moduleOf(entry: URL, options: unknown): URL {
  const { environment } = (options ?? {}) as { environment?: unknown };
  const own = ours.some((folder) => entry.pathname.startsWith(folder));
  return own && typeof environment === 'string' && URL.canParse(environment)
    ? new URL(environment)
    : entry;
}
