/** Steps in which every element follows from the step's id. All episodes have the same length. */
import { TrajectoryBuffer } from '../../src/index.ts';

export const LANES = 3;
/** steps of an episode, whose final observation takes one more place */
export const LENGTH = 11;
const fields = {
  obs: { shape: [2], observation: true },
  pixels: { shape: [3], dtype: 'uint8', observation: true },
  action: { shape: [], dtype: 'int32' },
} as const;

export const numberedBuffer = (perLane: number) =>
  TrajectoryBuffer.create({ capacity: LANES * perLane, lanes: LANES, fields });
export type NumberedBuffer = ReturnType<typeof numberedBuffer>;

/** Adds the steps [from, from + n) of every lane. */
export function addNumbered(
  writer: ReturnType<NumberedBuffer['writer']>,
  from: number,
  n: number,
): void {
  for (let t = from; t < from + n; t++) {
    const ends = t % LENGTH === LENGTH - 1;
    const place = Math.floor(t / LENGTH) * (LENGTH + 1) + (t % LENGTH);
    const observed = (at: number) => {
      const ids = Array.from({ length: LANES }, (_, lane) => at * LANES + lane);
      return [
        Float32Array.from(ids.flatMap((id) => [id, -id])),
        Uint8Array.from(ids.flatMap((id) => [id, id >> 8, id >> 16])),
        Int32Array.from(ids),
      ] as const;
    };
    const [obs, pixels, action] = observed(place);
    const [finalObs, finalPixels] = observed(place + 1);
    writer.add({
      obs,
      pixels,
      action,
      finalObs,
      finalPixels,
      rewards: new Float32Array(LANES).fill(1 + (t % 5)),
      terminated: new Uint8Array(LANES),
      truncated: new Uint8Array(LANES).fill(Number(ends)),
    });
  }
}
