/** Helpers that make forged objects. */

import {
  ReplayBuffer,
  type SharedReplayBuffer,
  type SharedTrajectoryBuffer,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { rowsAddon } from '../../src/store/rows/rows-addon.ts';

/**
 * A forgery. `refused` must throw one of Hotslot's errors. `harmless` may return anything, but must
 * not crash the process.
 */
export type Case = { readonly refused: () => unknown } | { readonly harmless: () => unknown };

export const clone = <T extends object>(shared: T): T => structuredClone({ ...shared });

export const steps = (capacity: number) =>
  TrajectoryBuffer.create({
    capacity,
    lanes: 1,
    fields: { obs: { shape: [1], observation: true } },
  }) as unknown as TrajectoryBuffer;

export function fillSteps(buffer: TrajectoryBuffer, count: number): void {
  const writer = buffer.writer();
  for (let i = 0; i < count; i++) {
    const [obs, rewards] = [Float32Array.of(i), Float32Array.of(1)];
    writer.add({ obs, rewards, terminated: Uint8Array.of(0), truncated: Uint8Array.of(0) });
  }
}

/** Returns the words of the first lane: begun, committed, steps, floor. */
export function laneWords(buffer: TrajectoryBuffer): BigUint64Array {
  const { memory, offset } = buffer.share();
  return new BigUint64Array(memory, offset + rowsAddon().layouts.lanes.bytes, 4);
}

export function rowsOf(capacity: number, elements: number): ReplayBuffer {
  const buffer = ReplayBuffer.create({ capacity, fields: { x: { shape: [elements] } } });
  buffer.add({ x: new Float32Array(capacity * elements) });
  return buffer as unknown as ReplayBuffer;
}

type Shared = SharedReplayBuffer | SharedTrajectoryBuffer;

/** Returns a copy in which one field of the layout is changed. */
export function withField<S extends Shared>(shared: S, name: string | number, change: object): S {
  const copy = clone(shared) as S & { layout: { fields: Record<string | number, object> } };
  Object.assign(copy.layout.fields[name] as object, change);
  return copy;
}
