/**
 * Shared by pipeline tests of trajectories: small filled lanes, and a plain replica of prioritized
 * draws at a fixed lag.
 */
import {
  type PrioritizedOptions,
  prioritized,
  type RateLimiter,
  TrajectoryBuffer,
  type TransitionSample,
  type TransitionsOptions,
} from '../../src/index.ts';

const LANES = 4;
const fields = {
  obs: { shape: [3], observation: true },
  action: { shape: [], dtype: 'int32' },
  pixels: { shape: [2, 5], dtype: 'uint8', observation: true },
} as const;

/**
 * Adds `ticks` steps to each lane, from tick `from` on. Every element holds lane and tick. Some
 * episodes are terminated and others truncated.
 */
export function addSteps(writer: { add(steps: never): number }, ticks: number, from = 0): void {
  for (let t = from; t < from + ticks; t++) {
    const each = <A>(make: (lane: number) => A) =>
      Array.from({ length: LANES }, (_, lane) => make(lane));
    const floats = (width: number, value: (lane: number) => number) =>
      Float32Array.from(
        { length: LANES * width },
        (_, i) => value(Math.floor(i / width)) + (i % width) / 8,
      );
    const bytes = (plus: number) =>
      Uint8Array.from({ length: LANES * 10 }, (_, i) => (t * 3 + i * 7 + plus) % 251);
    writer.add({
      obs: floats(3, (lane) => lane * 1000 + t),
      finalObs: floats(3, (lane) => -lane * 1000 - t),
      pixels: bytes(0),
      finalPixels: bytes(100),
      action: Int32Array.from(each((lane) => t + lane)),
      rewards: Float32Array.from(each((lane) => ((t * 7 + lane * 3) % 11) / 4)),
      terminated: Uint8Array.from(each((lane) => Number((t + lane) % 13 === 12))),
      truncated: Uint8Array.from(each((lane) => Number((t + lane) % 9 === 8))),
    } as never);
  }
}

export function stepsBuffer(ticks = 120, capacity = 400, limiter?: RateLimiter) {
  const buffer = TrajectoryBuffer.create({
    capacity,
    lanes: LANES,
    fields,
    ...(limiter ? { limiter } : {}),
  });
  const writer = buffer.writer();
  addSteps(writer, ticks);
  return { buffer, writer };
}

export const VIEW: TransitionsOptions = { nStep: 2, gamma: 0.5, stack: { pixels: 3 } };

/**
 * Computes what a pipeline over the same steps must draw if its learner returns each row's reward
 * as priority. Draw s uses the updates of draws up to s − depth. Seeds begin at `seed`. Returns the
 * draws, and the tree's leaves after all updates.
 */
export function replica(options: {
  ticks: number;
  depth: number;
  rows: number;
  seed: number;
  sampling?: PrioritizedOptions;
  /** computes the priorities, by default the rewards */
  priorities?: (draw: TransitionSample) => Float32Array;
}) {
  const { ticks, depth, rows, seed, priorities = (draw) => draw.rewards } = options;
  const { buffer } = stepsBuffer();
  const view = buffer.transitions(VIEW);
  const sampler = prioritized(options.sampling);
  const draws: TransitionSample[] = [];
  const apply = (s: number) => buffer.updatePriorities(draws[s]!.ids, priorities(draws[s]!));
  for (let s = 0; s < ticks; s++) {
    if (s >= depth) apply(s - depth);
    draws.push(buffer.sample({ view, seed: seed + s, count: rows, sampler }) as TransitionSample);
  }
  for (let s = Math.max(0, ticks - depth); s < ticks; s++) apply(s);
  return { draws, leaves: sampler.inspect() };
}
