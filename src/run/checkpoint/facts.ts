/**
 * Describes parts by texts and numbers that a person can compare. A restore requires that the facts
 * are equal.
 */

import type { NamedTensors } from '../../base/arrays/tensors.ts';
import { withSavedNames } from '../../base/old-names.ts';
import { internalsOf } from '../../engine/pipeline/replay-pipeline.ts';
import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { internalsOfSampler, type PrioritizedSampler } from '../../store/prioritized.ts';
import { describeField } from '../../store/rows/pack-layout.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { specOf } from '../../store/views/views.ts';
import type { PlainRecord } from './manifest.ts';
import { type CheckpointLearner, type KnownParts, samplerOf } from './parts.ts';

const plain = (value: unknown) => JSON.parse(JSON.stringify(value)) as PlainRecord;

export function bufferFacts(buffer: ReplayBuffer | TrajectoryBuffer): PlainRecord {
  const ofRows = buffer instanceof ReplayBuffer;
  const fields = ofRows ? Object.values(buffer.layout.fields) : buffer.layout.fields;
  return {
    kind: ofRows ? 'ReplayBuffer' : 'TrajectoryBuffer',
    capacity: buffer.capacity,
    ...(ofRows ? {} : { lanes: buffer.lanes }),
    fields: Object.fromEntries(fields.map((field) => [field.key, describeField(field)])),
  };
}

export function samplerFacts(sampler: PrioritizedSampler): PlainRecord {
  const { alpha, epsilon, normalize } = sampler;
  const { signature: _, ...view } = specOf(internalsOfSampler(sampler).binding!.view);
  return { ...withSavedNames({ alpha, epsilon, normalize }), view: plain(view) };
}

/**
 * Returns the facts of a learner. Its `kind` is its class's name by default. Bundlers change class
 * names, so a learner may define a fixed `kind`.
 */
export function learnerFacts(learner: CheckpointLearner, state: NamedTensors): PlainRecord {
  const entries = Object.entries(state).map(([name, each]) => [name, describeField(each)]);
  const { settings } = learner;
  const kind =
    typeof learner.kind === 'string' ? learner.kind : (learner.constructor?.name ?? 'object');
  const saved = settings === undefined ? {} : { settings: plain(settings) };
  return { kind, ...saved, state: Object.fromEntries(entries) as PlainRecord };
}

/**
 * Returns the facts of all parts except the learner. learnerFacts() returns the learner's facts,
 * because it needs the learner's state.
 */
export function factsOf({
  buffer,
  limiter,
  mailbox,
  pipeline,
}: KnownParts): Record<string, PlainRecord> {
  const facts: Record<string, PlainRecord> = {};
  if (buffer) {
    const sampler = samplerOf(buffer);
    facts.buffer = {
      ...bufferFacts(buffer),
      ...(sampler ? { priorities: samplerFacts(sampler) } : {}),
    };
  }
  if (limiter) {
    const { samplesPerInsert, minSize, errorBuffer, gateAdd } = limiter;
    facts.limiter = { samplesPerInsert, minSize, errorBuffer, gateAdd };
  }
  if (mailbox) facts.mailbox = { length: mailbox.length };
  if (pipeline) facts.pipeline = plain(internalsOf(pipeline).positions.facts);
  return facts;
}
