/** Which folder's files hold what these parts are: a save goes on from them only where they came from there, or went there. */
import { insideOfBuffer, ReplayBuffer } from '../buffer/replay-buffer.ts';
import { insideOfTrajectories } from '../trajectories/trajectory-buffer.ts';
import { MANIFEST } from './folder.ts';
import type { Manifest } from './manifest.ts';
import type { KnownParts } from './parts.ts';
import type { Segment } from './segments.ts';

/** What a folder holds, as these parts came from it or went to it. */
export interface Lineage {
  readonly manifest: Manifest;
  readonly segments: readonly Segment[];
}
/** By what of the parts lasts: the buffer's memory, or another part. */
const lineages = new WeakMap<object, Lineage>();

export const lineageOf = (known: KnownParts): Lineage | null => lineages.get(anchorOf(known)) ?? null;
export function remember(known: KnownParts, lineage: Lineage): void {
  lineages.set(anchorOf(known), lineage);
}

/** The files that it names, and its own. */
export function filesOf(manifest: Manifest | undefined): ReadonlySet<string> {
  return new Set([MANIFEST, ...(manifest ? [...manifest.files, ...manifest.segments].map(({ file }) => file) : [])]);
}

/** Threads' objects of one buffer are one. */
function anchorOf({ buffer, pipeline, learner, mailbox, limiter, collectors, extra }: KnownParts): object {
  if (buffer instanceof ReplayBuffer) return insideOfBuffer(buffer).memory.buffer;
  if (buffer) return insideOfTrajectories(buffer).memory.buffer;
  const other = pipeline ?? learner ?? mailbox?.share().memory ?? limiter?.share().memory ?? collectors ?? extra;
  return typeof other === 'object' && other !== null ? other : onlyExtra;
}
/** Of a checkpoint of nothing but a text or a function. */
const onlyExtra = {};
