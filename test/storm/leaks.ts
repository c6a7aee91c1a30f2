/** The resources of a storm's process: after each life there must be no more than before. */
import { readdirSync } from 'node:fs';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { openFiles } from '../rig/open-files.ts';
import type { Wrong } from './oracle.ts';

/** Number of bytes by which memory may exceed the size after the first life. */
const SLACK = 96 * 2 ** 20;
/**
 * Threads of the CPU device's pool that may appear after the first life. They stay until the
 * process ends.
 */
const POOL = 2;

export interface Held {
  /** number of open device handles */
  readonly handles: number;
  readonly pinned: number;
  readonly threads: number;
  readonly files: number;
  readonly bytes: number;
}

export function held(): Held {
  for (let i = 0; i < 3; i++) globalThis.gc?.();
  return {
    handles: Object.values(openHandles()).reduce((sum, open) => sum + open, 0),
    pinned: pinnedHandles(),
    threads: readdirSync('/proc/self/task').length,
    files: openFiles().length,
    bytes: process.memoryUsage().rss,
  };
}

/**
 * Returns what the process has now, and reports a leak if that is too much. It measures for up to
 * ten seconds, because threads end a little after they are asked to.
 */
export async function leakedSince(before: Partial<Held>, wrong: Wrong): Promise<Held> {
  const {
    handles = 0,
    pinned = 0,
    threads = Infinity,
    files = Infinity,
    bytes = Infinity,
  } = before;
  const more = (now: Held): boolean =>
    now.handles > handles ||
    now.pinned > pinned ||
    now.threads > threads + POOL ||
    now.files > files ||
    now.bytes > bytes + SLACK;
  let now = held();
  for (const end = performance.now() + 10_000; more(now) && performance.now() < end; now = held())
    await new Promise((resolve) => setTimeout(resolve, 50));
  if (more(now))
    wrong(
      `a life left more than it found: ${JSON.stringify({ before, now, open: openHandles(), files: now.files > files ? openFiles() : [] })}`,
    );
  return now;
}
