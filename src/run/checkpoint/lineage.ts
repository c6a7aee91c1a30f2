/**
 * Which folder's files hold what these parts are: a save goes on from them only where they came
 * from there, or went there.
 */
import { resolve } from 'node:path';
import { internalsOfTrajectories } from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { type Folder, INCOMPLETE, MANIFEST } from './folder.ts';
import type { Manifest } from './manifest.ts';
import type { KnownParts } from './parts.ts';
import type { Segment } from './segments.ts';

/** What a folder holds, as these parts came from it or went to it. */
export interface Lineage {
  readonly manifest: Manifest;
  readonly segments: readonly Segment[];
}
/**
 * By what of the parts lasts, the buffer's memory or another part; then by folder, of which each
 * keeps its latest.
 */
const lineages = new WeakMap<object, Map<string, Lineage>>();

/**
 * Null unless these parts came from this very save or went to it: a folder's copy that went on
 * elsewhere is another.
 */
export function lineageOf(known: KnownParts, manifest: Manifest): Lineage | null {
  const text = JSON.stringify(manifest);
  const all = lineages.get(anchorOf(known))?.values() ?? [];
  return [...all].find((lineage) => JSON.stringify(lineage.manifest) === text) ?? null;
}
export function remember(known: KnownParts, folder: Folder, lineage: Lineage): void {
  const anchor = anchorOf(known);
  const all = lineages.get(anchor) ?? new Map<string, Lineage>();
  lineages.set(anchor, all.set(resolve(folder.path), lineage));
}

/** The files that it names, and its own; without one, the mark that says so. */
export function filesOf(manifest: Manifest | undefined): ReadonlySet<string> {
  if (manifest === undefined) return new Set([MANIFEST, INCOMPLETE]);
  return new Set([MANIFEST, ...[...manifest.files, ...manifest.segments].map(({ file }) => file)]);
}

/** Threads' objects of one buffer are one. */
function anchorOf({
  buffer,
  pipeline,
  learner,
  mailbox,
  limiter,
  collectors,
  extra,
}: KnownParts): object {
  if (buffer instanceof ReplayBuffer) return internalsOfBuffer(buffer).memory.buffer;
  if (buffer) return internalsOfTrajectories(buffer).memory.buffer;
  const other =
    pipeline ??
    learner ??
    mailbox?.share().memory ??
    limiter?.share().memory ??
    collectors ??
    extra;
  return typeof other === 'object' && other !== null ? other : onlyExtra;
}
/** Of a checkpoint of nothing but a text or a function. */
const onlyExtra = {};
