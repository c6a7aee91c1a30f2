/** Steps as rows, one for each place, in which they go from one buffer to another: native/rows/packed_steps.hpp draws them. */

import { type CodedError, rangeError } from '../../base/errors.ts';
import { notFinite, packedNumber } from '../rows/field-roles.ts';
import { finalKey, type StepLayout } from './schema.ts';

/** lane, kind and reward, in front of the place */
const HEAD_BYTES = 8;
/** kinds: what of a step says that it ended its episode, a final observation, and what says that a step is its episode's first */
const ENDED = 3;
const FINAL = 4;
const FIRST = 8;

/** Bytes of a row. */
export const rowBytesOf = ({ placeBytes }: StepLayout): number => HEAD_BYTES + placeBytes;

/** Of rows that were found good: how many are steps. */
export function stepsAmong(bytes: Uint8Array, rowBytes: number): number {
  let steps = 0;
  for (let at = 2; at < bytes.length; at += rowBytes) if (bytes[at] !== FINAL) steps++;
  return steps;
}

/** Whether a row is a step that ended its episode: its final observation is the row behind it. */
export const endsEpisode = (bytes: Uint8Array, rowBytes: number, row: number): boolean =>
  ((bytes[row * rowBytes + 2] as number) & ENDED) !== 0;

/** A row's lane, counted from its writer's first one. */
export const laneOf = (bytes: Uint8Array, rowBytes: number, row: number): number =>
  (bytes[row * rowBytes] as number) | ((bytes[row * rowBytes + 1] as number) << 8);

/** Why native code refused this row of a writer of so many lanes. */
export function packedFault(bytes: Uint8Array, layout: StepLayout, row: number, lanes: number): CodedError {
  const wrong = wrongKind(bytes, rowBytesOf(layout), row, lanes);
  return wrong === null ? oddNumber(bytes, layout, row) : rangeError(wrong);
}

const kindOf = (bytes: Uint8Array, rowBytes: number, row: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset + row * rowBytes).getUint16(2, true);

/** Null where the row's lane and kind are what they should be. */
function wrongKind(bytes: Uint8Array, rowBytes: number, row: number, lanes: number): string | null {
  const lane = laneOf(bytes, rowBytes, row);
  const kind = kindOf(bytes, rowBytes, row);
  if (lane >= lanes)
    return `row ${row} is of lane ${lane}, and this writer has ${lanes}: they count from its firstLane`;
  if (kind !== FINAL && (kind & ~FIRST) > ENDED)
    return `row ${row} is of kind ${kind}: 0 is a step, 1 to 3 one that ended its episode, ${FIRST} more its first; ${FINAL} a final observation`;
  const follows = (one: number, other: number) =>
    one >= 0 &&
    (other + 1) * rowBytes <= bytes.length &&
    endsEpisode(bytes, rowBytes, one) &&
    kindOf(bytes, rowBytes, other) === FINAL &&
    laneOf(bytes, rowBytes, one) === laneOf(bytes, rowBytes, other);
  if (kind === FINAL && !follows(row - 1, row))
    return `row ${row} is a final observation of lane ${lane}, and the row before it does not end an episode of that lane`;
  if (kind !== FINAL && endsEpisode(bytes, rowBytes, row) && !follows(row, row + 1))
    return `row ${row} ends an episode of lane ${lane}, and the row behind it is not its final observation`;
  return null;
}

/** Of a row that has a number that is not finite. */
function oddNumber(bytes: Uint8Array, layout: StepLayout, row: number): CodedError {
  const from = row * rowBytesOf(layout);
  const final = kindOf(bytes, rowBytesOf(layout), row) === FINAL;
  for (const { key, dtype, offset, elements, observation } of layout.fields) {
    if (!(observation || (key === 'actions' && !final))) continue;
    for (let element = 0; element < elements; element++) {
      const value = packedNumber(bytes, from + HEAD_BYTES + offset, dtype, element);
      if (!Number.isFinite(value)) return notFinite(final ? finalKey(key) : key, element, value, `row ${row}`, final);
    }
  }
  return notFinite('rewards', 0, packedNumber(bytes, from + 4, 'float32', 0), `row ${row}`, false);
}
