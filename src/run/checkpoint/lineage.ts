/**
 * Records which folders' files hold the state of these parts. A save reuses such files only if the
 * parts were restored from that folder or saved into it.
 */
import { resolve } from 'node:path';
import { internalsOfTrajectories } from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { type Folder, INCOMPLETE, MANIFEST } from './folder.ts';
import type { Manifest } from './manifest.ts';
import type { KnownParts } from './parts.ts';
import type { Segment } from './segments.ts';

/** The contents of a folder that these parts were restored from or saved into. */
export interface Lineage {
  readonly manifest: Manifest;
  readonly segments: readonly Segment[];
}
/**
 * By the lasting object of the parts, the buffer's memory or another part, then by folder. Each
 * folder keeps its latest.
 */
const lineages = new WeakMap<object, Map<string, Lineage>>();

/**
 * Returns the lineage of exactly this save, or null. A copy of the folder that went on elsewhere is
 * another lineage.
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
 * Returns the manifest's own name and the files that it names. Without a manifest, returns its name
 * and the mark.
 */
export function filesOf(manifest: Manifest | undefined): ReadonlySet<string> {
  if (manifest === undefined) return new Set([MANIFEST, INCOMPLETE]);
  return new Set([MANIFEST, ...[...manifest.files, ...manifest.segments].map(({ file }) => file)]);
}

/**
 * Returns the object by which these parts are known. All threads' objects of one buffer share it.
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
/** Stands for the parts of a checkpoint whose only part is `extra`, a text or a function. */
const onlyExtra = {};
