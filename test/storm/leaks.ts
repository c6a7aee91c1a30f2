/** What a process holds: a life of a storm leaves as much as it found. */
import { readdirSync } from 'node:fs';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { openFiles } from '../rig/open-files.ts';
import type { Wrong } from './oracle.ts';

/** Bytes by which memory may be larger than behind the first life. */
const SLACK = 96 * 2 ** 20;
/** Threads of the host device's pool, which stay, and which a first life may not have needed. */
const POOL = 2;

export interface Held {
  /** open ones of devices */
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

/** Asked for a while: threads end by themselves, and a little later than they are told to. */
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
