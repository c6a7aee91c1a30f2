/**
 * Code of a strict consumer with trajectories, and code that must not compile. Only compiled, never
 * run.
 */
import {
  hindsight,
  prioritized,
  prioritizedIndices,
  type SharedTrajectoryBuffer,
  TrajectoryBuffer,
  type TransitionSample,
  type View,
  type WindowSample,
} from 'hotslot';

/** Whether the types are identical, and not merely assignable to each other. */
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <T extends true>(_?: T) => {};

// ---- fields and steps ---------------------------------------------------------------------------

const fields = {
  obs: { shape: [4], observation: true },
  legal: { mask: 3, observation: true },
  image: { shape: [84, 84], dtype: 'uint8', observation: true },
  half: { shape: [], dtype: 'float16' },
  key: { shape: [], dtype: 'int64' },
} as const;
const buffer = TrajectoryBuffer.create({ capacity: 64, lanes: 2, fields });
// @ts-expect-error no lanes
TrajectoryBuffer.create({ capacity: 64, fields });
const odd = { obs: { shape: [4], dtype: 'float23', observation: true } } as const;
// @ts-expect-error no such dtype
TrajectoryBuffer.create({ capacity: 64, lanes: 2, fields: odd });
// @ts-expect-error no such option
TrajectoryBuffer.create({ capacity: 64, lanes: 2, fields, size: 3 });

const writer = buffer.writer({ firstLane: 0, lanes: 2 });
// @ts-expect-error no such option
buffer.writer({ first: 0 });
const floats = new Float32Array(8);
const bytes = new Uint8Array(2);
const step = {
  obs: floats,
  legal: new Uint8Array(2 * 3),
  image: new Uint8Array(2 * 84 * 84),
  half: new Uint16Array(2),
  key: new BigInt64Array(2),
  rewards: new Float32Array(2),
  terminated: bytes,
  truncated: [false, true],
};
export const lanes: number = writer.add(step);
writer.add({
  ...step,
  half: floats,
  skip: [true, false],
  finalObs: floats,
  finalImage: step.image,
});
// @ts-expect-error misspelt
writer.add({ ...step, ops: floats });
// @ts-expect-error another dtype
writer.add({ ...step, obs: step.image });
// @ts-expect-error another dtype of what is rounded
writer.add({ ...step, half: new Float64Array(2) });
// @ts-expect-error numbers are no keys
writer.add({ ...step, key: floats });
// @ts-expect-error what is no observation has no final one
writer.add({ ...step, finalKey: step.key });
// @ts-expect-error another dtype of a final observation
writer.add({ ...step, finalObs: step.image });
// @ts-expect-error without flags
writer.add({ ...step, truncated: undefined });
const { rewards: _, ...unpaid } = step;
// @ts-expect-error without rewards
writer.add(unpaid);

// ---- views and samples --------------------------------------------------------------------------

const view = buffer.transitions({ nStep: 3, gamma: 0.9, stack: { obs: 4 }, pad: 'zero' });
const windows = buffer.windows({ length: 8, burnIn: 4, edges: 'anchor' });
// @ts-expect-error windows have a length
buffer.windows({ burnIn: 4 });
// @ts-expect-error no such padding
buffer.transitions({ pad: 'none' });
// @ts-expect-error no such edges
buffer.windows({ length: 8, edges: 'head' });
// @ts-expect-error not of hindsight()
buffer.transitions({ relabel: { goal: 'obs', achieved: 'obs' } });
buffer.transitions({
  relabel: hindsight({ goal: 'obs', achieved: 'obs', strategy: 'final', ratio: 1 }),
});
// @ts-expect-error no such strategy
hindsight({ goal: 'obs', achieved: 'obs', strategy: 'past' });

const sampler = prioritized({ alpha: 0.6, normalize: 'batch' });
// @ts-expect-error no such option
prioritized({ beta: 0.4 });
const rows = buffer.sample({ view, seed: 1n, count: 8, sampler, beta: 0.4 });
same<Same<typeof rows, TransitionSample<typeof fields>>>();
same<Same<typeof rows.obs, Float32Array>>();
export const next: Float32Array = rows.nextObs;
export const images: Uint8Array = rows.nextImage;
export const masks: Uint8Array = rows.nextLegal;
export const halves: Uint16Array = rows.half;
export const keys: BigInt64Array = rows.key;
export const perRow: [Float32Array, Float32Array, Int32Array, Float64Array] = [
  ...([rows.rewards, rows.discounts, rows.steps, rows.ids] as const),
];
export const weights: Float64Array | undefined = rows.weights;
// @ts-expect-error not there without a prioritized sampler
export const surely: Float64Array = rows.weights;
// @ts-expect-error what is no observation has no next
rows.nextKey;
// @ts-expect-error misspelt
rows.imge;
// @ts-expect-error transitions are not padded
rows.mask;
// @ts-expect-error columns are read only
rows.obs = floats;

const some = buffer.sample({ view: windows, seed: 1, count: 8 });
same<Same<typeof some, WindowSample<typeof fields>>>();
export const padded: [Float32Array, Float32Array] = [some.mask, some.learn];
// @ts-expect-error windows have one observation more instead
some.nextObs;
// @ts-expect-error windows are not summed up
some.discounts;
// @ts-expect-error no such option
buffer.sample({ view, seed: 1, cuont: 2 });
// @ts-expect-error a view, not its options
buffer.sample({ view: { nStep: 3 }, seed: 1, count: 2 });

const chosen = buffer.transitionsAt({ view: windows, ids: some.ids });
same<Same<typeof chosen, typeof some>>();
const { obs, final, ids } = buffer.read([1, 2]);
export const read: [Float32Array, Uint8Array, Float64Array] = [obs, final, ids];
buffer.updatePriorities(ids, [1, 2]);
buffer.updatePriorities(ids, floats);
// @ts-expect-error text is no priority
buffer.updatePriorities(ids, ['1']);
const { leaves, maxPriority, total } = sampler.inspect();
export const drawn: Uint32Array = prioritizedIndices({ leaves, seed: 1, count: 2 }).indices;
export const sum: number = maxPriority + total;

// ---- any buffer ---------------------------------------------------------------------------------

const attached = TrajectoryBuffer.attach(buffer.share());
// @ts-expect-error what was shared has no such field
attached.writer().add({ ...step, ops: floats });
declare const message: SharedTrajectoryBuffer;
const any = TrajectoryBuffer.attach(message);
any.writer().add({ anything: floats });
export const { anything } = any.sample({ view: any.transitions(), seed: 1, count: 1 });
/** A function that uses no field accepts any buffer. */
const sizeOf = (each: TrajectoryBuffer, of: View) => each.size + each.drawable(of);
sizeOf(buffer, view);
sizeOf(attached, windows);
