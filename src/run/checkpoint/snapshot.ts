/**
 * Takes the state of the parts while the collectors and the pipeline stand still. The buffer's
 * places are copied later, while the run continues.
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
  /** small arrays, by the names that restore() reads */
  readonly arrays: NamedTensors;
  /** the result of learner.state(), null without a learner */
  readonly learner: NamedTensors | null;
  /** serialized states of `collectors` and `extra`, null without both */
  readonly plain: Uint8Array | null;
  /** files that had to be written during the pause. They are flushed after it */
  readonly held: readonly HeldFile[];
}

/**
 * Takes a snapshot. `pool` contains the states of a pool's collectors, which stand still during the
 * snapshot. It is undefined without a pool.
 */
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
    // Waits for the reads in `begun` although the save fails. The caller resumes the pipeline after
    // this function, and its updates could change a learner's state during a read.
    await Promise.allSettled(begun);
    throw error;
  }
}

/**
 * Takes a snapshot. It adds promises to `begun` that the caller must await if this function
 * rejects.
 */
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
  // The code up to the first await runs in one turn of the caller's thread. At an await, the
  // caller's code may run and change the parts.
  const state = learner?.state();
  if (state instanceof Promise) state.catch(() => {}); // `await state` throws it
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
  plain.catch(() => {}); // `await plain` throws it
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
      // A pipeline stands still now, so the priorities are written without a copy, which would
      // double their memory. Without a pipeline they may change during the write, so they are
      // copied.
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
 * Copies the tensors. A save writes them to disk while the learner continues, and the arrays may be
 * the learner's own.
 */
const copied = (tensors: NamedTensors): NamedTensors =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { data, ...is }]) => [name, { ...is, data: data.slice() }]),
  );

/**
 * Serializes the values. A value that is not a promise is serialized before this function returns.
 * The caller may change the value's arrays after that.
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
