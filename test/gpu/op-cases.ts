/**
 * One launch of every kernel of ops, networks and learners, with awkward numbers and with tensors
 * of exactly the size that the core requires.
 */
import { kernels } from '../../src/device/kernels.ts';
import { nativeKernels } from '../../src/device/native.ts';
import { awkward, type LaunchCase, random } from './kernel-cases.ts';

/**
 * Creates tensors of the sizes that the core requires. Every second tensor has plain numbers from
 * −1 to 1.
 */
function sized(
  kernel: keyof typeof kernels,
  wholes: readonly number[],
  reals: readonly number[],
): LaunchCase {
  const reach = nativeKernels().kernelReach(
    kernel,
    Float64Array.of(...wholes, ...reals),
    wholes.length,
    reals.length,
  );
  const tensors = kernels[kernel].tensors.map((name, i) => {
    const n = Math.ceil((reach[2 * i] as number) / 4);
    if (name === 'ends') return Int32Array.from({ length: n }, (_, part) => 17 * (part + 1));
    if (name === 'counter') return Int32Array.of(8);
    if (kernel === 'count_non_finite' && name === 'found') return new Int32Array(n);
    if (kernel === 'count_non_finite' && name === 'x')
      return random(n, i).map((value, at) => (at % 20 === 3 ? Number.NaN : value));
    if (kernel === 'categorical_project' && name === 'probs') return random(n, i, 1).map(Math.abs);
    return i % 2 ? awkward(n, i + 1) : random(n, i + 1);
  });
  return { tensors, wholes, reals };
}

const [rows, columns] = [37, 53];
const unary = Array.from({ length: 17 }, (_, op) => op);

const all: readonly (readonly [
  kernel: keyof typeof kernels,
  wholes: readonly number[],
  reals?: readonly number[],
])[] = [
  ...unary.map((op) => ['unary', [rows, columns, 54, 55, op]] as const),
  ...unary.map((op) => ['unary_backward', [rows, columns, 54, 55, 56, op]] as const),
  ...Array.from(
    { length: 12 },
    (_, op) => ['binary', [rows, columns, 54, 55, 1, 0, 1, op]] as const,
  ),
  ['where', [rows, columns, 54, 0, 1, 55, 1, 1, 0]],
  ['clip', [rows, columns, 54, 55], [-0.5, 0.25]],
  ...[0, 1, 2, 3, 4].map((op) => ['reduce_rows', [rows, 301, 2, 303, op], [0.5]] as const),
  ['softmax_rows', [rows, 301, 302, 303, 0]],
  ['softmax_rows', [rows, 301, 302, 303, 1]],
  ['layer_norm', [rows, 301, 302, 303], [1e-5]],
  ['layer_norm_backward', [rows, 301, 302, 303, 304, 305]],
  ...[-1, 9, 12, 13].map((op) => ['norm_act', [rows, 301, 302, 303, op], [1e-5]] as const),
  ...[-1, 9, 12, 13].map(
    (op) => ['norm_act_backward', [rows, 301, 302, 303, 304, 305, op]] as const,
  ),
  ['squashed_gaussian', [rows, 7, 8, 15, 0, 0], [-5, 2, 1e30]],
  ['squashed_gaussian', [rows, 7, 8, 15, 1, 3], [-5, 2, 3]],
  ['squashed_gaussian_backward', [rows, 7, 15, 16, 8, 1, 1, 2], [-5, 2, 3, 0.25]],
  ['categorical_project', [rows, 101, 1, 1, 0], [-3, 3]],
  ['categorical_loss', [rows, 101, 102, 1, 103, 1], [-1e30, 0.1, -3, 3]],
  ['categorical_mean', [rows, 101, 2, 103], [-3, 3]],
  ['categorical_mean_backward', [rows, 101, 102, 2, 103, 3], [-3, 3]],
  ['count_non_finite', [17 * 5, 5, 4]],
  ['patches', [5, 3, 21, 19, 4, 3, 2, 1, 1200]],
  ['patches_backward', [5, 3, 21, 19, 4, 3, 2, 1, 1200]],
  ...[0, 1, 2].map((act) => ['planes', [5, 7, 121, 850, act]] as const),
  ...[0, 1, 2].map((act) => ['planes_backward', [5, 7, 121, 850, 851, act]] as const),
];

/** Launches in which the output has the same rows as the inputs that it may overwrite. */
const alike: typeof all = [
  ['gather_columns', [rows, columns, 54, 1]],
  ...unary.map((op) => ['unary', [rows, columns, 54, 54, op]] as const),
  ['unary_backward', [rows, columns, 54, 54, 54, 13]],
  ['binary', [rows, columns, 54, 54, 1, 54, 1, 3]],
  ['where', [rows, columns, 54, 54, 1, 54, 1, 54, 1]],
  ['clip', [rows, columns, 54, 54], [-0.5, 0.25]],
  ...[0, 1].map((logarithm) => ['softmax_rows', [rows, 301, 302, 302, logarithm]] as const),
  ['layer_norm', [rows, 301, 302, 302], [1e-5]],
  ['layer_norm_backward', [rows, 301, 302, 303, 302, 305]],
  ['norm_act_backward', [rows, 301, 302, 303, 304, 302, 12]],
];

const cases = (of: typeof all) =>
  of.map(
    ([kernel, wholes, reals = []]) =>
      [`[${wholes}]`, kernel, sized(kernel, wholes, reals)] as const,
  );
export const opCases = cases(all);
export const inPlaceCases = cases(alike);
