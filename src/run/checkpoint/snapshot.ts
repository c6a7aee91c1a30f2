/**
 * Takes the parts as they are while nothing moves: everything but the buffer's places, which can be
 * copied afterwards.
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
  /** of the buffer's lanes; null without one */
  readonly lanes: LaneStates | null;
  /** small arrays, by names that give() knows */
  readonly arrays: NamedTensors;
  /** of learner.state() */
  readonly learner: NamedTensors | null;
  /** what collectors and the caller keep, serialised */
  readonly plain: Uint8Array | null;
  /** what had to be written while nothing moved, and need not be flushed by then */
  readonly held: readonly HeldFile[];
}

/** `pool`: what the collectors of a pool say, which stand still too. */
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
    // Whatever went wrong, nothing moves while a learner is still being read.
    await Promise.allSettled(begun);
    throw error;
  }
}

/** `begun`: what goes on by itself once it was begun. */
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
  // All of this in one turn of the caller's thread: it may go on with something else at the first
  // await.
  const state = learner?.state();
  if (state instanceof Promise) state.catch(() => {}); // told when it is awaited
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
  plain.catch(() => {}); // told when it is awaited
  if (buffer) {
    const sampler = samplerOf(buffer);
    const binding = sampler && internalsOfSampler(sampler).binding;
    if (binding && 'lanes' in buffer) {
      const {
        leaves,
        known: reached,
        ...told
      } = treeParts(binding.tree, binding.leaves, buffer.lanes);
      parts.buffer = { is: facts.buffer!, ...told };
      // Its pipeline stands still, and a copy would double it. Drawn by hand it may change while it
      // is written.
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

/** They are written while the learner goes on, and may be what it works on. */
const copied = (tensors: NamedTensors): NamedTensors =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { data, ...is }]) => [name, { ...is, data: data.slice() }]),
  );

/** What is no promise is looked at at once: its arrays may be the caller's, which goes on. */
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
      `${name} cannot be kept: ${(error as Error).message}; give what structured cloning takes`,
    );
  }
};
