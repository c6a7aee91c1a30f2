/**
 * The code of a thread that adds rows or steps as fast as it can. Each one holds its number, and
 * values that follow from the number.
 */
import {
  ReplayBuffer,
  type SharedReplayBuffer,
  type SharedTrajectoryBuffer,
  TrajectoryBuffer,
} from '../../src/index.ts';

/** Number of float64 values in a row or step. */
export const WORDS = 12;
export const fields = { words: { shape: [WORDS], dtype: 'float64' } } as const;
export const laneFields = {
  words: { shape: [WORDS], dtype: 'float64', observation: true },
} as const;
/** Returns the i-th value of the row or step with this number. */
export const wordOf = (number: number, i: number) => (i === 0 ? number : number * 31 + i);

export interface WriterTask {
  rows?: SharedReplayBuffer<never>;
  lanes?: SharedTrajectoryBuffer<never>;
  /** Int32. 1 ends the thread */
  stop: Int32Array;
}

/** The thread's code. Only the module writer-thread.ts calls it with a task. */
export function write({ rows, lanes, stop }: WriterTask): number {
  let number = 0;
  if (rows) {
    const buffer = ReplayBuffer.attach(rows) as unknown as ReplayBuffer;
    const many = 16;
    const words = new Float64Array(many * WORDS);
    for (number = buffer.ptr; Atomics.load(stop, 0) === 0; number += many) {
      for (let i = 0; i < words.length; i++)
        words[i] = wordOf(number + Math.floor(i / WORDS), i % WORDS);
      buffer.add({ words } as never);
    }
    return number;
  }
  const buffer = TrajectoryBuffer.attach(lanes!) as unknown as TrajectoryBuffer;
  using writer = buffer.writer({ resume: buffer.ptr > 0 });
  const count = buffer.lanes;
  const words = new Float64Array(count * WORDS);
  const none = new Uint8Array(count);
  // Lane l has a step at every time that l + 1 divides. Each lane numbers its steps separately.
  const numbers = Array.from({ length: count }, () => 0);
  for (let t = 0; Atomics.load(stop, 0) === 0; t++) {
    const skip = Uint8Array.from(numbers, (_, lane) => Number(t % (lane + 1) !== 0));
    for (let i = 0; i < words.length; i++)
      words[i] = wordOf(numbers[Math.floor(i / WORDS)]!, i % WORDS);
    writer.add({
      words,
      finalWords: words,
      rewards: new Float32Array(count),
      terminated: none,
      truncated: none,
      skip,
    } as never);
    for (let lane = 0; lane < count; lane++) if (!skip[lane]) numbers[lane]!++;
  }
  return Math.max(...numbers);
}
