/**
 * Writes a snapshot to its folder. The rows are written first, before writers of the buffer
 * overwrite them. The manifest is written last.
 */
import { fillSafetensors } from '../../base/arrays/safetensors.ts';
import type { FileFacts, Folder } from './folder.ts';
import type { Lineage } from './lineage.ts';
import { type Manifest, writeManifest } from './manifest.ts';
import type { KnownParts } from './parts.ts';
import { type Segment, Segments } from './segments.ts';
import type { Snapshot } from './snapshot.ts';

/** A checkpoint that is written to its folder, and the bytes that this save wrote. */
export interface WrittenCheckpoint extends Lineage {
  readonly bytes: number;
}

/**
 * Writes a checkpoint. It reuses segments of `before`, the previous checkpoint of the folder. The
 * caller must flush the folder afterwards.
 */
export async function writeTaken(
  folder: Folder,
  { ledger }: KnownParts,
  {
    run,
    save,
    taken,
    before,
  }: { run: string; save: number; taken: Snapshot; before: Lineage | null },
): Promise<WrittenCheckpoint> {
  const files: FileFacts[] = [];
  const parts = { ...taken.parts };
  const arrays = { ...taken.arrays };
  let segments: readonly Segment[] = [];
  let bytes = 0;
  if (ledger && taken.lanes) {
    const written = await new Segments(ledger, before?.segments).save(folder, save, taken.lanes);
    segments = written.segments;
    bytes += written.bytes;
    const shape = [ledger.lanes, ledger.numbers];
    arrays.lanes = { dtype: 'float64', shape, data: written.states };
    if (parts.limiter) {
      const inserts = (parts.limiter.inserts as number) + written.beyond;
      parts.limiter = { ...parts.limiter, inserts };
    }
  }
  for (const held of taken.held) files.push(await held.place());
  const put = async (
    kind: string,
    fill: Parameters<Folder['write']>[1],
    ending = 'safetensors',
  ) => {
    files.push(await folder.write(`${kind}-${save}.${ending}`, fill));
  };
  if (taken.learner)
    await put('learner', fillSafetensors('learner', taken.learner, { format: 'pt' }));
  if (Object.keys(arrays).length > 0) await put('run', fillSafetensors('run', arrays));
  const { plain } = taken;
  if (plain) await put('plain', (to) => to(plain), 'v8');
  const kept = segments.map(({ file, bytes: size, crc32 }) => ({ file, bytes: size, crc32 }));
  const time = new Date().toISOString();
  const manifest: Manifest = { run, save, tick: taken.tick, time, parts, files, segments: kept };
  const { bytes: last } = await writeManifest(folder, manifest);
  return {
    manifest,
    segments,
    bytes: bytes + last + files.reduce((sum, file) => sum + file.bytes, 0),
  };
}
