/**
 * The layout of the learner's buffer as text, from which a host creates a buffer with the same
 * layout. The text contains numbers and names, no code.
 */

import { crc32 } from '../../base/arrays/crc32.ts';
import type { DType } from '../../base/dtype.ts';
import { unavailableError } from '../../base/errors.ts';
import type { StepFields } from '../../store/lanes/schema.ts';
import { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { RateLimiter } from '../../store/rate-limiter.ts';
import type { NonFiniteNumbers } from '../../store/rows/field-roles.ts';
import type { FieldSpec } from '../../store/rows/fields.ts';
import { describeField, type FieldLayout } from '../../store/rows/pack-layout.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';

/** Returns a buffer's layout as text. Two layouts are equal if their texts are equal. */
export function layoutText(buffer: ReplayBuffer | TrajectoryBuffer): string {
  if (buffer instanceof ReplayBuffer) {
    const { fields, rowBytes } = buffer.layout;
    const each = Object.entries(fields).map(
      ([name, { key, dtype, shape, offset, bytes, mask }]) => ({
        name,
        key,
        dtype,
        shape,
        offset,
        bytes,
        mask,
      }),
    );
    const { offPolicy, nonFinite } = buffer.share();
    return JSON.stringify({ of: 'rows', offPolicy, nonFinite, rowBytes, fields: each });
  }
  const { fields, placeBytes } = buffer.layout;
  // A field without masks has no `mask` in the text, because it is undefined.
  const each = fields.map(({ key, dtype, shape, observation, offset, bytes, mask }) => ({
    key,
    dtype,
    shape,
    observation,
    offset,
    bytes,
    mask,
  }));
  return JSON.stringify({
    of: 'steps',
    nonFinite: buffer.share().nonFinite,
    placeBytes,
    fields: each,
  });
}

export const layoutSum = (text: string): number => crc32(Buffer.from(text));

/** Returns the fields with their dtypes and shapes, for an error's text. */
export function describeLayout(text: string): string {
  const { fields } = JSON.parse(text) as {
    fields: FieldLayout[];
  };
  return fields.map((field) => `${field.key} ${describeField(field, ', ')}`).join(', ');
}

interface FieldDescription {
  dtype: DType;
  shape: number[];
  /** number of actions of a field that stores masks */
  mask?: number;
}
const specOf = ({ dtype, shape, mask }: FieldDescription): FieldSpec =>
  mask === undefined ? { dtype, shape } : { mask };

interface RowsDescription {
  of: 'rows';
  offPolicy: boolean;
  nonFinite: NonFiniteNumbers;
  rowBytes: number;
  fields: (FieldDescription & { name: string })[];
}
interface StepsDescription {
  of: 'steps';
  nonFinite: NonFiniteNumbers;
  placeBytes: number;
  fields: (FieldDescription & { key: string; observation: boolean })[];
}

/**
 * Creates a buffer with this layout that needs at most `bytes` bytes. A buffer of steps has `lanes`
 * lanes. If the buffer is full, its limiter makes collectors wait until a message takes rows out of
 * it. So no collector overwrites a row before that. Throws ERR_HOTSLOT_UNAVAILABLE if this version
 * of Hotslot would create another layout.
 */
export function bufferLike(
  text: string,
  bytes: number,
  lanes: number,
): ReplayBuffer | TrajectoryBuffer {
  let made: ReplayBuffer | TrajectoryBuffer;
  let there: string;
  try {
    there = describeLayout(text);
    const description = JSON.parse(text) as RowsDescription | StepsDescription;
    made =
      description.of === 'rows'
        ? rowsLike(description, bytes)
        : stepsLike(description, bytes, lanes);
  } catch (error) {
    throw unavailableError(
      `the run's layout cannot be created on this host: ${(error as Error).message}`,
      undefined,
      error,
    );
  }
  const here = layoutText(made);
  if (here === text) return made;
  made.close();
  throw unavailableError(
    `the run's rows have another layout than this version of Hotslot makes: there ${there}; here ${describeLayout(here)}: ` +
      'use one version on all machines',
  );
}

function rowsLike(
  { offPolicy, nonFinite, rowBytes, fields }: RowsDescription,
  bytes: number,
): ReplayBuffer {
  const capacity = Math.max(2, Math.floor(bytes / rowBytes));
  const limiter = gate(capacity - 1);
  if (!offPolicy) {
    const specs = Object.fromEntries(fields.map((field) => [field.name, specOf(field)]));
    return ReplayBuffer.create({
      capacity,
      limiter,
      nonFinite,
      fields: specs as Record<string, FieldSpec>,
    });
  }
  const size = (of: string) => fields.find(({ name }) => name === of)?.shape[0] ?? 0;
  const { mask: actionMask = 0 } = fields.find(({ name }) => name === 'action_mask') ?? {};
  const dims = { obsDim: size('obs'), actionDim: size('actions'), criticDim: size('critic') };
  return ReplayBuffer.offPolicy({
    capacity,
    ...dims,
    actionMask,
    limiter,
    nonFinite,
  }) as unknown as ReplayBuffer;
}

function stepsLike(
  { nonFinite, placeBytes, fields }: StepsDescription,
  bytes: number,
  lanes: number,
): TrajectoryBuffer {
  // The limiter admits so few steps that each lane alone has space for all of them, even if each
  // step has a final observation.
  const perLane = Math.max(4 * lanes + 4, Math.floor(bytes / placeBytes / lanes));
  const steps = Math.floor(perLane / 2) - lanes - 1;
  const specs = fields.map((field) => [
    field.key,
    { ...specOf(field), observation: field.observation },
  ]);
  const limiter = gate(Math.max(1, steps));
  return TrajectoryBuffer.create({
    capacity: perLane * lanes,
    lanes,
    limiter,
    nonFinite,
    fields: Object.fromEntries(specs) as StepFields,
  }) as TrajectoryBuffer;
}

/** Creates a limiter that lets additions lead removals by at most `errorBuffer`. */
const gate = (errorBuffer: number) =>
  RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer, gateAdd: true });
