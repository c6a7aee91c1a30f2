/** Writes the episodes of a trajectory buffer as columns of a file, lane by lane, oldest first. */

import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { type ArrayOf, arrayOf, type DType } from '../../base/dtype.ts';
import { stateError } from '../../base/errors.ts';
import { checkStill, pause, pieceOf, writeColumns } from '../rows/data-set.ts';
import type { PlacesRead } from './reader.ts';
import { finalKey, type StepField, type StepLayout, shownStep } from './schema.ts';

/** The members of TrajectoryBuffer that dump() uses. */
export interface Places {
  readonly lanes: number;
  readonly layout: StepLayout;
  readonly ptr: number;
  readonly size: number;
  read(ids: Float64Array): PlacesRead;
}

/**
 * Returns the range of places that a lane stores, from `from` to before `to`. Places are counted
 * from the first one ever written in the lane.
 */
export type Span = (lane: number) => { from: number; to: number };

/** A field's column, with a row for each step or for each final observation. */
class Rows {
  readonly data: ArrayOf<DType>;
  readonly #field: StepField;
  constructor(field: StepField, rows: number) {
    this.#field = field;
    this.data = arrayOf(field.dtype, rows * field.elements);
  }
  put(at: number, from: ArrayOf<DType>, row: number): void {
    const { elements } = this.#field;
    this.data.set(from.subarray(row * elements, (row + 1) * elements) as never, at * elements);
  }
  tensor(rows: number): TensorData {
    const { dtype, shape, elements } = this.#field;
    return {
      dtype,
      shape: [rows, ...shape],
      data: this.data.subarray(0, rows * elements) as ArrayOf<DType>,
    };
  }
}

/** Implements TrajectoryBuffer.dump(). */
export async function dumpSteps(buffer: Places, span: Span, path: string | URL): Promise<number> {
  let count = 0;
  await writeColumns(path, async () => {
    const { ptr } = buffer;
    count = buffer.size;
    if (count === 0)
      throw stateError('EMPTY', 'dump: the trajectory buffer is empty; add steps first');
    return columnsOf(buffer, span, ptr);
  });
  return count;
}

async function columnsOf(buffer: Places, span: Span, ptr: number): Promise<NamedTensors> {
  const { lanes, layout, size } = buffer;
  const { placeBytes } = layout;
  const fields = layout.fields.map(shownStep);
  const spans = Array.from({ length: lanes }, (_, lane) => span(lane));
  const finals = spans.reduce((places, { from, to }) => places + to - from, 0) - size;
  const columns = fields.map((field) => new Rows(field, size));
  const finalRows = fields.map((field) => (field.observation ? new Rows(field, finals) : null));
  const rewards = new Float32Array(size);
  const [terminated, truncated] = [new Uint8Array(size), new Uint8Array(size)];
  const [lane, episodeStep] = [new Uint32Array(size), new Uint32Array(size)];
  let [steps, ends] = [0, 0];
  const piece = pieceOf(placeBytes);
  for (let l = 0; l < lanes; l++) {
    const { from, to } = spans[l]!;
    // A lane's first place may be a final observation whose episode's steps are already
    // overwritten. The loop skips this observation, because load() needs the episode's last step
    // before it.
    const first = steps;
    for (let at = from; at < to; at += piece) {
      const ids = Float64Array.from(
        { length: Math.min(piece, to - at) },
        (_, i) => (at + i) * lanes + l,
      );
      const read = placesAt(buffer, ids, ptr);
      for (let i = 0; i < ids.length; i++) {
        if (read.final[i] && steps > first) {
          finalRows.forEach((rows, f) => {
            rows?.put(ends, read[fields[f]!.key]!, i);
          });
          ends++;
        }
        if (read.final[i]) continue;
        columns.forEach((rows, f) => {
          rows.put(steps, read[fields[f]!.key]!, i);
        });
        rewards[steps] = read.rewards[i]!;
        terminated[steps] = read.terminated[i]!;
        truncated[steps] = read.truncated[i]!;
        episodeStep[steps] = read.episodeStep[i]!;
        lane[steps++] = l;
      }
      await pause();
    }
  }
  checkStill(ptr, buffer.ptr);
  const of = (dtype: DType, data: ArrayOf<DType>): TensorData => ({ dtype, shape: [size], data });
  return Object.fromEntries([
    ...fields.map(({ key }, f) => [key, columns[f]!.tensor(size)] as const),
    ...fields.flatMap(({ key }, f) =>
      finalRows[f] ? [[finalKey(key), finalRows[f].tensor(ends)] as const] : [],
    ),
    ['rewards', of('float32', rewards)],
    ['terminated', of('bool', terminated)],
    ['truncated', of('bool', truncated)],
    ['lane', of('uint32', lane)],
    ['episodeStep', of('uint32', episodeStep)],
  ]);
}

/**
 * Reads the places with these ids. If the read fails and steps were added since dump() read `ptr`,
 * throws ERR_HOTSLOT_STATE_BUSY instead of the read's error.
 */
function placesAt(buffer: Places, ids: Float64Array, ptr: number): PlacesRead {
  try {
    return buffer.read(ids);
  } catch (error) {
    checkStill(ptr, buffer.ptr);
    throw error;
  }
}
