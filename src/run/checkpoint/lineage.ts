/**
 * Records which checkpoints these parts were restored from or saved into. A save into the same
 * folder reuses the folder's files only if they are recorded here.
 */
import { resolve } from 'node:path';
import { internalsOfTrajectories } from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { type Folder, INCOMPLETE, MANIFEST } from './folder.ts';
import type { Manifest } from './manifest.ts';
import type { KnownParts } from './parts.ts';
import type { Segment } from './segments.ts';

/** The checkpoint of a folder that these parts were restored from or saved into. */
export interface Lineage {
  readonly manifest: Manifest;
  readonly segments: readonly Segment[];
}
/**
 * The latest lineage of each folder, for each set of parts. The keys are the anchors of the parts
 * (see anchorOf()), then the folders' paths.
 */
const lineages = new WeakMap<object, Map<string, Lineage>>();

/**
 * Returns the lineage with exactly this manifest, or null. If another run has saved into a copy of
 * the folder, the copy's manifest differs.
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

/**
 * Returns the manifest's own name and the names of its files. Without a manifest, returns the
 * manifest's name and the mark's name.
 */
export function filesOf(manifest: Manifest | undefined): ReadonlySet<string> {
  if (manifest === undefined) return new Set([MANIFEST, INCOMPLETE]);
  return new Set([MANIFEST, ...[...manifest.files, ...manifest.segments].map(({ file }) => file)]);
}

/**
 * Returns the object that identifies these parts in `lineages`. If a buffer is among the parts, it
 * is the buffer's shared memory, which the objects of all threads have in common.
 */
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
/** Identifies a checkpoint whose only part is an `extra` that is not an object. */
const onlyExtra = {};
