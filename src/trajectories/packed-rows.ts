/** Steps as rows, one for each place, in which they go from one buffer to another: native/rows/packed_steps.hpp draws them. */
import type { StepLayout } from './schema.ts';

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
export function packedFault(bytes: Uint8Array, rowBytes: number, row: number, lanes: number): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset + row * rowBytes, HEAD_BYTES);
  const [lane, kind] = [view.getUint16(0, true), view.getUint16(2, true)];
  if (lane >= lanes)
    return `row ${row} is of lane ${lane}, and this writer has ${lanes}: they count from its firstLane`;
  if (kind !== FINAL && (kind & ~FIRST) > ENDED)
    return `row ${row} is of kind ${kind}: 0 is a step, 1 to 3 one that ended its episode, ${FIRST} more its first; ${FINAL} a final observation`;
  if (kind === FINAL)
    return `row ${row} is a final observation of lane ${lane}, and the row before it does not end an episode of that lane`;
  return `row ${row} ends an episode of lane ${lane}, and the row behind it is not its final observation`;
}
