/**
 * Restores a checkpoint into new parts. It reads and checks every file before it changes the state
 * of a part.
 */

import { join } from 'node:path';
import { deserialize } from 'node:v8';
import { readSafetensors } from '../../base/arrays/safetensors.ts';
import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { Products } from '../../device/facts.ts';
import { internalsOf } from '../../engine/pipeline/replay-pipeline.ts';
import { restoreTree } from '../../store/lanes/snapshot-io.ts';
import { internalsOfSampler } from '../../store/prioritized.ts';
import { internalsOfLimiter } from '../../store/rate-limiter.ts';
import type { LaneStates } from '../../store/rows/snapshot-io.ts';
import { versionsOf } from '../../store/weights/weight-mailbox.ts';
import { pausables } from '../collectors/pool-pause.ts';
import { factsOf, learnerFacts } from './facts.ts';
import type { Folder } from './folder.ts';
import {
  differences,
  type Manifest,
  type Plain,
  type PlainRecord,
  parts as partNames,
} from './manifest.ts';
import { type CheckpointCollectors, type KnownParts, samplerOf } from './parts.ts';
import { loadSegments } from './segment-reader.ts';
import type { Segment } from './segments.ts';

/**
 * Throws if these parts differ from the checkpoint's. The error names up to 12 of the differences.
 */
export async function checkFit(
  known: KnownParts,
  manifest: Manifest,
  folder: Folder,
): Promise<void> {
  const misfits: string[] = [];
  const here = factsOf(known);
  for (const name of partNames) {
    if (name === 'collectors' || name === 'extra') continue;
    const there = manifest.parts[name];
    const given = known[name] !== undefined;
    if (given && !there) misfits.push(`${name} is not in the checkpoint`);
    else if (!given && there) misfits.push(`${name} is in the checkpoint, but was not given`);
    else if (given && there) {
      misfits.push(
        ...(name === 'learner'
          ? await learnerDifferences(known, there.is)
          : differences(here[name], there.is, name)),
      );
    }
  }
  if (misfits.length > 0)
    throw rangeError(
      `the checkpoint in '${folder.path}' does not fit these parts: ${few(misfits)}`,
    );
}

/**
 * Matches entries of this package's learners' states that checkpoints of earlier versions lack.
 * loadState() does not need these entries.
 */
const added = /ptimiser\.options$/;

/**
 * Returns the facts of the learner, without settings and entries that the checkpoint is too old to
 * have.
 */
async function ofLearner({ learner }: KnownParts, there: PlainRecord): Promise<PlainRecord> {
  const { settings, state, ...facts } = learnerFacts(learner!, await learner!.state()) as Record<
    string,
    PlainRecord
  >;
  const known = (there.state ?? {}) as PlainRecord;
  const entries = Object.entries(state!).filter(([name]) => !added.test(name) || name in known);
  return {
    ...facts,
    ...(settings && there.settings ? { settings } : {}),
    state: Object.fromEntries(entries),
  };
}

/**
 * Returns the precision of a learner's products. Settings without it, also those of earlier versions,
 * are those of a learner in float32.
 */
const productsOf = (settings: object | Plain | undefined): Products =>
  (settings as PlainRecord | undefined)?.products === 'tf32' ? 'tf32' : 'float32';

/** Returns the facts of a learner without the precision of its products. */
function withoutProducts(facts: PlainRecord): PlainRecord {
  if (facts.settings === undefined) return facts;
  const { products: _, ...settings } = facts.settings as PlainRecord;
  return { ...facts, settings };
}

/** Returns texts of what differs between the learner and the one of the checkpoint. */
async function learnerDifferences(known: KnownParts, there: PlainRecord): Promise<string[]> {
  const here = await ofLearner(known, there);
  const [mine, its] = [productsOf(known.learner?.settings), productsOf(there.settings)];
  if (mine === its) return differences(here, there, 'learner');
  return [
    `products is '${mine}' here, and '${its}' in the checkpoint: open the learner's device with products: '${its}'`,
    ...differences(withoutProducts(here), withoutProducts(there), 'learner'),
  ];
}

const MAX_NAMED = 12;
const few = (texts: readonly string[]) =>
  texts.length <= MAX_NAMED
    ? texts.join('; ')
    : `${texts.slice(0, MAX_NAMED).join('; ')}; and ${texts.length - MAX_NAMED} more`;

/** Throws ERR_HOTSLOT_STATE_BUSY for a part that was used already. */
export function checkFresh({ buffer, limiter, mailbox, pipeline, collectors }: KnownParts): void {
  const used = (what: string) => stateError('BUSY', `${what}; restore into new parts`);
  if (buffer && buffer.ptr > 0) throw used(`the buffer has had ${buffer.ptr} rows`);
  if (limiter && limiter.inserts + limiter.samples > 0) throw used('the limiter has counted rows');
  if (mailbox && mailbox.begun > 0) throw used(`the mailbox has had ${mailbox.begun} versions`);
  if (pipeline) internalsOf(pipeline).positions.checkFresh();
  if (collectors && pausables.has(collectors))
    throw stateError(
      'BUSY',
      'open collectors are collecting already; restore without them, then open them with { resume: restored.collectors }',
    );
}

/** The results of restore(). */
export interface Restored {
  readonly collectors: unknown;
  readonly extra: unknown;
  /** segments that a later save into this folder reuses */
  readonly segments: readonly Segment[];
}

export async function restore(
  known: KnownParts,
  manifest: Manifest,
  folder: Folder,
): Promise<Restored> {
  const { buffer, ledger, limiter, mailbox, pipeline, learner, collectors } = known;
  const { parts } = manifest;
  const arrays = (await tensorsOf(folder, manifest, 'run')) ?? {};
  const tree = await tensorsOf(folder, manifest, 'priorities');
  const learned = await tensorsOf(folder, manifest, 'learner');
  const kept = await plainOf(folder, manifest);
  const lanes = arrays.lanes?.data as LaneStates | undefined;
  const segments =
    ledger && lanes ? await loadSegments(folder, manifest.segments, ledger, lanes) : [];
  // loadState() of the learner and of the collectors comes first, because no later step throws. If
  // one of them throws, the buffer still counts as empty, and the caller can restore into the same
  // parts again.
  if (learner && learned) {
    await learner.loadState(learned);
    // state() waits for the work that loadState() has enqueued. So the first update may use any
    // stream.
    await learner.state();
  }
  if (collectors && parts.collectors)
    await (collectors as CheckpointCollectors).loadState(kept.collectors);
  if (ledger && lanes) ledger.restore(lanes);
  const binding = internalsOfBinding(known);
  if (binding && tree && buffer && 'lanes' in buffer) {
    const { largest, stale, odd } = parts.buffer as unknown as {
      largest: number;
      stale: number;
      odd: number;
    };
    const leaves = tree.leaves!.data as Float64Array;
    const places = tree.known!.data as BigUint64Array;
    const saved = { leaves, known: places, largest, stale, nonFinite: odd };
    restoreTree(binding.tree, binding.leaves, buffer.lanes, saved);
  }
  if (limiter) {
    const { inserts, samples } = parts.limiter as unknown as { inserts: number; samples: number };
    internalsOfLimiter(limiter).restore(inserts, samples);
  }
  if (mailbox && arrays.weights)
    versionsOf(mailbox).restore(
      parts.mailbox!.version as number,
      arrays.weights.data as Float32Array,
    );
  if (pipeline) await resume(known, manifest, arrays);
  return { collectors: kept.collectors, extra: kept.extra, segments };
}

async function resume(
  { pipeline }: KnownParts,
  { parts }: Manifest,
  arrays: NamedTensors,
): Promise<void> {
  const { tick, sequence, beta, applied, updates, prepared } = parts.pipeline as unknown as Record<
    string,
    number
  >;
  const array = <T>(name: string) => (arrays[name] as TensorData).data as T;
  const pendingUpdates = Array.from({ length: updates as number }, (_, i) => ({
    ids: array<Float64Array>(`updates.${i}.ids`),
    priorities: array<Float32Array>(`updates.${i}.priorities`),
  }));
  await internalsOf(pipeline!).positions.resume({
    tick: tick!,
    sequence: sequence!,
    beta: beta!,
    applied: applied!,
    updates: pendingUpdates,
    prepared:
      typeof prepared === 'number'
        ? { tick: prepared, bytes: array<Uint8Array>('prepared') }
        : null,
  });
}

const internalsOfBinding = ({ buffer }: KnownParts) => {
  const sampler = samplerOf(buffer);
  return sampler && internalsOfSampler(sampler).binding;
};

const fileOf = ({ files }: Manifest, kind: string) =>
  files.find(({ file }) => file.startsWith(`${kind}-`));

async function tensorsOf(
  folder: Folder,
  manifest: Manifest,
  kind: string,
): Promise<NamedTensors | null> {
  const facts = fileOf(manifest, kind);
  if (facts === undefined) return null;
  await folder.read(facts, () => {});
  return (await readSafetensors(join(folder.path, facts.file))).tensors;
}

export async function plainOf(
  folder: Folder,
  manifest: Manifest,
): Promise<{ collectors?: unknown; extra?: unknown }> {
  const facts = fileOf(manifest, 'plain');
  if (facts === undefined) return {};
  const bytes = Buffer.alloc(facts.bytes);
  let at = 0;
  await folder.read(facts, (piece) => {
    bytes.set(piece, at);
    at += piece.length;
  });
  try {
    const each = Object.entries(deserialize(bytes) as Record<string, Uint8Array>);
    return Object.fromEntries(each.map(([name, value]) => [name, deserialize(value)]));
  } catch (error) {
    throw typeError(`'${facts.file}' was written by a newer Node.js: ${(error as Error).message}`);
  }
}
