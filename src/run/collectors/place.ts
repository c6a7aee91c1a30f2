/** The origin of a collector's error: a line of the user's, never one of this package. */

import { basename } from 'node:path';
import { packageRoot } from '../../base/package-root.ts';

const root = packageRoot(import.meta.url);
/** This package's folders, as they are run and as source maps show them. */
const ours = ['dist/src/', 'dist/actors/', 'src/', 'actors/'].map((folder) => root + folder);
/** Frames of thread pools and of Node are not the user's either. */
const foreign = [...ours, '/node_modules/piscina/', 'node:'];

/**
 * Returns ' (file:line:column)' of the frame in `module`, or else of the first frame outside this
 * package. If an environment rejects with a value that has no such frame, returns ' (file)', the
 * module that rejected.
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
 * Returns the module that users know: train()'s collectors are this package's, but their
 * environments are the user's.
 */
export function moduleOf(entry: URL, options: unknown): URL {
  const { environment } = (options ?? {}) as { environment?: unknown };
  const own = ours.some((folder) => entry.pathname.startsWith(folder));
  return own && typeof environment === 'string' && URL.canParse(environment)
    ? new URL(environment)
    : entry;
}
