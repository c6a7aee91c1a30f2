/** Batches with masks of legal actions, for tests of learners. */
import type { DType } from '../../src/base/dtype.ts';
import { packMasks } from '../../src/base/mask-bits.ts';
import type { Tensor } from '../../src/index.ts';
import { numbers, type Rig } from './traced/rig.ts';

export const [ACTIONS, ROWS, OBS] = [35, 8, 3];
/** Actions that are never legal: the first one, which an empty mask chooses, and the last one. */
export const NEVER = [0, ACTIONS - 1];

/** Values of illegal actions, with a word for titles. */
export const poisons: [string, number | undefined][] = [
  ['plain', undefined],
  ['huge', 1e30],
  ['infinite', Number.POSITIVE_INFINITY],
  ['NaN', Number.NaN],
];

export interface Columns {
  obs: Float32Array;
  nextObs: Float32Array;
  actions: Int32Array;
  rewards: Float32Array;
  discounts: Float32Array;
  actionMask: Uint8Array;
  nextActionMask: Uint8Array;
}

/**
 * Rows whose actions are legal. Every fourth next state is final, and has an empty mask. Other rows have
 * one legal action in both states.
 */
export function rowsOf(seed: number, rows: number): Columns {
  const masks = [1, 2].map((each) =>
    Uint8Array.from(numbers(rows * ACTIONS, 7 * seed + each), (x, i) =>
      Number(x > 0.2 && !NEVER.includes(i % ACTIONS)),
    ),
  ) as [Uint8Array, Uint8Array];
  const actions = Int32Array.from({ length: rows }, (_, i) => 1 + ((5 * i + seed) % (ACTIONS - 2)));
  const discounts = numbers(rows, seed + 20, 0.8, 0.99);
  for (const [i, action] of actions.entries()) {
    const of = (mask: Uint8Array) => mask.subarray(i * ACTIONS, (i + 1) * ACTIONS);
    if (i % 4 === 1) for (const mask of masks) of(mask).fill(0);
    of(masks[0])[action] = 1;
    of(masks[1])[1 + (i % 3)] = 1;
    if (i % 4 !== 3) continue;
    discounts[i] = 0;
    of(masks[1]).fill(0);
  }
  return {
    obs: numbers(rows * OBS, seed + 30),
    nextObs: numbers(rows * OBS, seed + 40),
    actions,
    rewards: numbers(rows, seed + 50),
    discounts,
    actionMask: masks[0],
    nextActionMask: masks[1],
  };
}

/** The same rows without illegal actions. */
export const ones = (columns: Columns): Columns => ({
  ...columns,
  actionMask: columns.actionMask.map(() => 1),
  nextActionMask: columns.nextActionMask.map(() => 1),
});

/** Dtype of a mask: bits, or one element for each action. */
export type Form = 'uint32' | 'bool' | 'uint8' | 'float32';

const tensorOf = (rig: Rig, dtype: DType, shape: number[], values: unknown): Tensor =>
  rig.keep(rig.device.allocate({ shape, dtype })).write(values as never);
/**
 * Returns a mask as bits, in rows with a gap, or with one element for each action. Legal actions are
 * then 1, 255 or 0.5.
 */
function maskOf(rig: Rig, bytes: Uint8Array, form: Form): Tensor {
  const rows = bytes.length / ACTIONS;
  const shape = [rows, ACTIONS];
  if (form === 'float32')
    return rig.tensor(
      shape,
      Float32Array.from(bytes, (byte) => 0.5 * byte),
    );
  if (form === 'uint8')
    return tensorOf(
      rig,
      form,
      shape,
      bytes.map((byte) => 255 * byte),
    );
  if (form === 'bool') return tensorOf(rig, form, shape, bytes);
  const words = packMasks(bytes, ACTIONS);
  const packed = new Uint32Array(3 * rows).fill(0xffffffff);
  for (let i = 0; i < rows; i++) packed.set(words.subarray(2 * i, 2 * i + 2), 3 * i + 1);
  return tensorOf(rig, form, [rows, 3], packed).view({
    shape: [rows, 2],
    offset: 1,
    strides: [3, 1],
  });
}
/** Makes a batch of the rows. Masks of bits are in rows with a gap. */
export function batchIn(rig: Rig, columns: Columns, form: Form = 'uint32') {
  const rows = columns.rewards.length;
  return {
    obs: rig.tensor([rows, OBS], columns.obs),
    nextObs: rig.tensor([rows, OBS], columns.nextObs),
    actions: tensorOf(rig, 'int32', [rows], columns.actions),
    rewards: rig.tensor([rows], columns.rewards),
    discounts: rig.tensor([rows], columns.discounts),
    actionMask: maskOf(rig, columns.actionMask, form),
    nextActionMask: maskOf(rig, columns.nextActionMask, form),
  };
}
