/**
 * Takes the state of the parts while nothing moves: everything but the buffer's places, which can
 * be copied afterwards.
 */
import { serialize } from 'node:v8';
import { fillSafetensors } from '../../base/arrays/safetensors.ts';
import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import type { DType } from '../../base/dtype.ts';
import { typeError } from '../../base/errors.ts';
import { internalsOf } from '../../engine/pipeline/replay-pipeline.ts';
import { treeParts } from '../../store/lanes/snapshot-io.ts';
import { internalsOfSampler } from '../../store/prioritized.ts';
import type { LaneStates } from '../../store/rows/snapshot-io.ts';
import { factsOf, learnerFacts } from './facts.ts';
import type { Folder, HeldFile } from './folder.ts';
import type { PartFacts, PartName } from './manifest.ts';
import { type KnownParts, samplerOf } from './parts.ts';

export interface Snapshot {
  readonly parts: Partial<Record<PartName, PartFacts>>;
  readonly tick: number;
  /** states of the buffer's lanes, null without a buffer */
  readonly lanes: LaneStates | null;
  /** small arrays, by names that restore() knows */
  readonly arrays: NamedTensors;
  /** the result of learner.state() */
  readonly learner: NamedTensors | null;
  /** states of collectors and of the caller, serialized */
  readonly plain: Uint8Array | null;
  /** files that had to be written while nothing moved, and can be flushed later */
  readonly held: readonly HeldFile[];
}

/** Takes a snapshot. `pool`: the states of a pool's collectors, which stand still too. */
export async function takeSnapshot(
  known: KnownParts,
  folder: Folder,
  save: number,
  pool: unknown,
): Promise<Snapshot> {
  const begun: unknown[] = [];
  try {
    return await snapshotOf(known, folder, save, pool, begun);
  } catch (error) {
    // Waits in any case, so that nothing moves while a learner is still being read.
    await Promise.allSettled(begun);
    throw error;
  }
}

/** Takes a snapshot. `begun`: gets the promises that continue on their own once begun. */
async function snapshotOf(
  known: KnownParts,
  folder: Folder,
  save: number,
  pool: unknown,
  begun: unknown[],
): Promise<Snapshot> {
  const { buffer, ledger, limiter, mailbox, pipeline, learner, collectors, extra } = known;
  const facts = factsOf(known);
  const parts: Partial<Record<PartName, PartFacts>> = {};
  const arrays: Record<string, TensorData> = {};
  const held: HeldFile[] = [];
  // All of this runs in one turn of the caller's thread, which may continue with something else at
  // the first await.
  const state = learner?.state();
  if (state instanceof Promise) state.catch(() => {}); // thrown when it is awaited
  begun.push(state);
  let tick = -1;
  const position = pipeline && internalsOf(pipeline).positions.take();
  if (position) {
    const { updates, prepared, ...where } = position;
    tick = where.tick;
    parts.pipeline = {
      is: facts.pipeline!,
      ...where,
      updates: updates.length,
      prepared: prepared?.tick ?? null,
    };
    for (const [i, { ids, priorities }] of updates.entries()) {
      arrays[`updates.${i}.ids`] = tensor('float64', ids);
      arrays[`updates.${i}.priorities`] = tensor('float32', priorities);
    }
    if (prepared) arrays.prepared = tensor('uint8', prepared.bytes);
  }
  const lanes = ledger?.states() ?? null;
  if (limiter) {
    const ahead = pipeline ? internalsOf(pipeline).positions.countedAhead : 0;
    parts.limiter = {
      is: facts.limiter!,
      inserts: limiter.inserts,
      samples: limiter.samples - ahead,
    };
  }
  if (mailbox) {
    const weights = new Float32Array(mailbox.length);
    const version = mailbox.read(weights);
    parts.mailbox = { is: facts.mailbox!, version };
    if (version > 0) arrays.weights = tensor('float32', weights);
  }
  const kept: [string, unknown][] = [];
  if (collectors) {
    parts.collectors = { is: {} };
    kept.push(['collectors', pool ?? (collectors as { state(): unknown }).state()]);
  }
  if (extra !== undefined) {
    parts.extra = { is: {} };
    kept.push(['extra', typeof extra === 'function' ? extra() : extra]);
  }
  const plain = serialised(kept);
  plain.catch(() => {}); // thrown when it is awaited
  if (buffer) {
    const sampler = samplerOf(buffer);
    const binding = sampler && internalsOfSampler(sampler).binding;
    if (binding && 'lanes' in buffer) {
      const {
        leaves,
        known: reached,
        largest,
        stale,
        nonFinite: odd,
      } = treeParts(binding.tree, binding.leaves, buffer.lanes);
      parts.buffer = { is: facts.buffer!, largest, stale, odd };
      // With a pipeline, which stands still, a copy would only double the memory. Without one,
      // priorities may change while they are written.
      const [kept, upTo] = pipeline ? [leaves, reached] : [leaves.slice(), reached.slice()];
      const tree = { leaves: tensor('float64', kept), known: tensor('uint64', upTo) };
      held.push(
        await folder.writeHeld(`priorities-${save}.safetensors`, fillSafetensors('save', tree)),
      );
    } else parts.buffer = { is: facts.buffer! };
  }
  try {
    const learned = state === undefined ? null : copied(await state);
    if (learner && learned) parts.learner = { is: learnerFacts(learner, learned) };
    return { parts, tick, lanes, arrays, learner: learned, plain: await plain, held };
  } catch (error) {
    for (const file of held) await file.drop();
    throw error;
  }
}

const tensor = (dtype: DType, data: TensorData['data']): TensorData => ({
  dtype,
  shape: [data.length],
  data,
});

/**
 * Copies the tensors. They are written while the learner goes on, and may be the arrays that it
 * works on.
 */
const copied = (tensors: NamedTensors): NamedTensors =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { data, ...is }]) => [name, { ...is, data: data.slice() }]),
  );

/**
 * Serializes the values. A value that is not a promise is read at once: its arrays may belong to
 * the caller, which continues.
 */
async function serialised(
  kept: readonly (readonly [string, unknown])[],
): Promise<Uint8Array | null> {
  const bytes = await Promise.all(
    kept.map(
      async ([name, value]) =>
        [name, bytesOf(name)(isPromise(value) ? await value : value)] as const,
    ),
  );
  return bytes.length === 0 ? null : serialize(Object.fromEntries(bytes));
}

const isPromise = (value: unknown): value is Promise<unknown> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === 'function';

const bytesOf = (name: string) => (value: unknown) => {
  try {
    return serialize(value);
  } catch (error) {
    throw typeError(
      `${name} cannot be saved: ${(error as Error).message}; give a value that structured cloning supports`,
    );
  }
};
