/**
 * Steps as packed rows, which are sent from one buffer to another. There is one row per place.
 * native/rows/packed_steps.hpp describes a row.
 */

import { type CodedError, rangeError } from '../../base/errors.ts';
import { notFinite, packedNumber } from '../rows/field-roles.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import { finalKey, type StepLayout } from './schema.ts';

/**
 * Returns the layout of a row's head, which precedes the bytes of the place. The object also has
 * the values of a row's kind, such as `final`.
 */
const stepRow = () => rowsAddon().layouts.stepRow;

/** Returns the bytes of a row. */
export const rowBytesOf = ({ placeBytes }: StepLayout): number => stepRow().bytes + placeBytes;

/**
 * Returns the number of steps in `bytes`, which must contain only valid rows. Rows of final
 * observations are not counted.
 */
export function stepsAmong(bytes: Uint8Array, rowBytes: number): number {
  const { kind, final } = stepRow();
  let steps = 0;
  for (let at = kind; at < bytes.length; at += rowBytes) if (bytes[at] !== final) steps++;
  return steps;
}

/**
 * Returns whether a row is a step that ended its episode. The next row is then its final
 * observation.
 */
export function endsEpisode(bytes: Uint8Array, rowBytes: number, row: number): boolean {
  const { kind, ended } = stepRow();
  return ((bytes[row * rowBytes + kind] as number) & ended) !== 0;
}

/** Returns a row's lane, counted from its writer's first lane. */
export function laneOf(bytes: Uint8Array, rowBytes: number, row: number): number {
  const at = row * rowBytes + stepRow().lane;
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

/** Returns the error of a row that native code rejected. The writer has `lanes` lanes. */
export function packedFault(
  bytes: Uint8Array,
  layout: StepLayout,
  row: number,
  lanes: number,
): CodedError {
  const wrong = wrongKind(bytes, rowBytesOf(layout), row, lanes);
  return wrong === null ? nonFiniteNumber(bytes, layout, row) : rangeError(wrong);
}

const kindOf = (bytes: Uint8Array, rowBytes: number, row: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset + row * rowBytes).getUint16(stepRow().kind, true);

/** Returns a text that says what is wrong with a row's lane or kind, or null if both are valid. */
function wrongKind(bytes: Uint8Array, rowBytes: number, row: number, lanes: number): string | null {
  const { ended, final, first } = stepRow();
  const lane = laneOf(bytes, rowBytes, row);
  const kind = kindOf(bytes, rowBytes, row);
  if (lane >= lanes)
    return `row ${row} is of lane ${lane}, and this writer has ${lanes}: they count from its firstLane`;
  if (kind !== final && (kind & ~first) > ended)
    return `row ${row} is of kind ${kind}: 0 is a step, 1 to ${ended} one that ended its episode, ${first} more its first; ${final} a final observation`;
  const follows = (one: number, other: number) =>
    one >= 0 &&
    (other + 1) * rowBytes <= bytes.length &&
    endsEpisode(bytes, rowBytes, one) &&
    kindOf(bytes, rowBytes, other) === final &&
    laneOf(bytes, rowBytes, one) === laneOf(bytes, rowBytes, other);
  if (kind === final && !follows(row - 1, row))
    return `row ${row} is a final observation of lane ${lane}, and the row before it does not end an episode of that lane`;
  if (kind !== final && endsEpisode(bytes, rowBytes, row) && !follows(row, row + 1))
    return `row ${row} ends an episode of lane ${lane}, and the next row is not its final observation`;
  return null;
}

/** Returns the error of a row that has a non-finite value. */
function nonFiniteNumber(bytes: Uint8Array, layout: StepLayout, row: number): CodedError {
  const { bytes: head, final: finalKind, reward } = stepRow();
  const from = row * rowBytesOf(layout);
  const final = kindOf(bytes, rowBytesOf(layout), row) === finalKind;
  for (const { key, dtype, offset, elements, observation } of layout.fields) {
    if (!(observation || (key === 'actions' && !final))) continue;
    for (let element = 0; element < elements; element++) {
      const value = packedNumber(bytes, from + head + offset, dtype, element);
      if (!Number.isFinite(value))
        return notFinite(final ? finalKey(key) : key, element, value, `row ${row}`, final);
    }
  }
  return notFinite(
    'rewards',
    0,
    packedNumber(bytes, from + reward, 'float32', 0),
    `row ${row}`,
    false,
  );
}
