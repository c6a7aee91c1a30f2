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
    if (name === 'words')
      return Uint32Array.from({ length: n }, (_, at) => Math.imul(at + 1, 2654435761) >>> 0);
    if (name === 'counter') return Int32Array.of(8);
    if (name === 'program') return chainProgram();
    if (kernel === 'count_non_finite' && name === 'found') return new Int32Array(n);
    if (kernel === 'count_non_finite' && name === 'x')
      return random(n, i).map((value, at) => (at % 20 === 3 ? Number.NaN : value));
    if (kernel === 'categorical_project' && name === 'probs') return random(n, i, 1).map(Math.abs);
    // A permutation of each row, or indices from −1 to 9, of which some are no number.
    if (kernel === 'scatter_along_rows' && name === 'index')
      return Float32Array.from({ length: n }, (_, at) => ((at % 56) * 7 + 3) % 53);
    if (/^(take|pick|gather_along)/.test(kernel) && name === 'index')
      return Float32Array.from({ length: n }, (_, at) =>
        at % 17 === 8 ? Number.NaN : ((at * 7919) % 11) - 1,
      );
    if (kernel === 'categorical_draw' && name === 'uniform') return random(n, i).map(Math.abs);
    if (kernel === 'categorical_draw' && name === 'logits')
      return random(n, i, 9).map((value, at) => (at % 7 ? value : Number.NEGATIVE_INFINITY));
    // Probabilities of 0, and their logarithms.
    if (kernel === 'softmax_rows_backward' && name === 'y')
      return random(n, i).map((value, at) =>
        at % 7 ? value : wholes.at(-1) ? Number.NEGATIVE_INFINITY : 0,
      );
    return i % 2 ? awkward(n, i + 1) : random(n, i + 1);
  });
  return { tensors, wholes, reals };
}

/**
 * Returns a chain's program of 12 steps of many kinds. The last step and the first three have outputs.
 */
function chainProgram(): Float32Array {
  const ops = [66, 9, 96, 7, 12, 64, 32 + 10, 83, 97, 98, 76, 99];
  const steps = ops.length;
  const words = new Float32Array(65);
  for (let s = 0; s < steps; s++) {
    const before = s > 0 ? s - 1 : 16;
    const output = [steps - 1, 1, 0, 2].indexOf(s) + 1;
    const [b, c] = s === 8 ? [32, 33] : [17 + (s % 5), s === 9 ? 32 : 18];
    words.set([ops[s]!, before + 64 * b + 4096 * c, output + 8 * 33], 3 * s);
  }
  words.set([-0.5, 0.25], 48);
  words.set([steps], 64);
  return words;
}

const [rows, columns] = [37, 53];
const unary = Array.from({ length: 21 }, (_, op) => op);

const all: readonly (readonly [
  kernel: keyof typeof kernels,
  wholes: readonly number[],
  reals?: readonly number[],
])[] = [
  ...unary.map((op) => ['unary', [rows, columns, 54, 55, op]] as const),
  ...unary.map((op) => ['unary_backward', [rows, columns, 54, 55, 56, op]] as const),
  ...Array.from(
    { length: 14 },
    (_, op) => ['binary', [rows, columns, 54, 55, 1, 0, 1, op]] as const,
  ),
  ['where', [rows, columns, 54, 0, 1, 55, 1, 1, 0]],
  ['chain', [rows, columns, 54, 55, 56, 57, 54, 55, -3, 0, 53, -1]],
  ['chain', [1, 5000, 5000, 5000, 0, 0, 5000, 5000, 5000, 5000, -1, 0]],
  ['clip', [rows, columns, 54, 55], [-0.5, 0.25]],
  ...[0, 1, 2, 3, 4, 5].map((op) => ['reduce_rows', [rows, 301, 2, 303, op], [0.5]] as const),
  ...[
    [3, 4, 512, 2, 2050],
    [1, 1024, 16, 1, 16_384],
    [2, 33, 45, 1, 1485],
  ].map((wholes) => ['sum_long', wholes, [0.5]] as const),
  ...[
    [1, 601, 2, 4],
    [2, 37, 100, 4],
    [1, 1, 1, 1],
    [2, 1, 301, 1],
  ].map((wholes) => ['sum_chain', wholes, [0.5]] as const),
  ['softmax_rows', [rows, 301, 302, 303, 0]],
  ['softmax_rows', [rows, 301, 302, 303, 1]],
  ...[0, 1].map((log) => ['softmax_rows_backward', [rows, 301, 302, 303, 304, log]] as const),
  ...[0, 1, 2, 3].map(
    (op) => ['binary_backward', [rows, columns, 54, 55, 1, 56, 1, 0, 1, op]] as const,
  ),
  ['clip_backward', [rows, columns, 54, 55, 56], [-0.5, 0.25]],
  ...[0, 0.5].flatMap(
    (beta) =>
      [
        ['copy4d', [3, 5, 7, 11, 385, 77, 11, 1, 1, -3, 15, 105], [beta]],
        ['copy4d', [3, 5, 7, 11, 2, 6, 30, 210, 385, 0, 11, -1], [beta]],
        ['take_rows_backward', [500, columns, 9, 54, 55, 2], [beta]],
        ['pick_backward', [rows, 9, 5, 46, 6, 2], [beta]],
        ['pick_backward', [rows, 9, 5, 46, 0, 1], [beta]],
      ] as const,
  ),
  ['take_rows', [500, columns, 9, 54, 55, 2, 0]],
  ['take_rows', [rows, columns, 9, 54, 55, 1, 7]],
  ...[0, 1].map((reverse) => ['cumsum', [rows, 41, 19, reverse]] as const),
  ['rank_rows', [rows, 9, 10, 11]],
  ['rank_rows', [5, 1024, 1025, 1026]],
  ['scatter_along_rows', [rows, columns, 54, 55, 56]],
  ['gather_along_rows', [rows, columns, 9, 54, 10, 55]],
  ['categorical_draw', [500, columns, 54]],
  ...[1, 31, 32, 33, 64, 65, 4096].map(
    (n) => ['unpack_bits', [rows, n, n + 1, Math.ceil(n / 32) + 2]] as const,
  ),
  ['layer_norm', [rows, 301, 302, 303], [1e-5]],
  ['layer_norm_backward', [rows, 301, 302, 303, 304, 305]],
  ...[-1, 9, 12, 13].map((op) => ['norm_act', [rows, 301, 302, 303, op], [1e-5]] as const),
  ...[-1, 9, 12, 13].map(
    (op) => ['norm_act_backward', [rows, 301, 302, 303, 304, 305, op]] as const,
  ),
  ...[-1, 9, 12, 13].flatMap(
    (op) =>
      [
        ['norm_act_batched', [rows, 301, 302, 303, op, 13, 303], [1e-5]],
        ['norm_act_batched', [rows, 5, 5, 6, op, 1, 15], [1e-5]],
        ['norm_act_backward_batched', [rows, 301, 905, 303, 304, op, 13, 303]],
        ['bias_act_batched', [3, rows, columns, 54, 55, 2000, 2040, 56, op]],
        ['bias_act_batched', [10, 1, columns, 53, 53, 53, 0, 0, op]],
      ] as const,
  ),
  ...[0, 0.5].flatMap(
    (beta) =>
      [
        ['column_sums_batched', [3, 513, columns, 54, 28_000, 60], [0.25, beta]],
        ['column_sums_batched', [10, rows, 1, 1, rows, 1], [1, beta]],
        ['column_sums_batched', [2, 1, 130, 130, 0, 130], [1, beta]],
      ] as const,
  ),
  ['squashed_gaussian', [rows, 7, 8, 15, 0, 0], [-5, 2, 1e30]],
  ['squashed_gaussian', [rows, 7, 8, 15, 1, 3], [-5, 2, 3]],
  ...[7, 32, 33].map(
    (n) => ['squashed_gaussian_rows', [rows, n, n + 1, 2 * n + 1, 1, n % 4], [-5, 2, 3]] as const,
  ),
  ['squashed_gaussian_backward', [rows, 7, 15, 16, 8, 1, 1, 2], [-5, 2, 3, 0.25]],
  ['categorical_project', [rows, 101, 1, 1, 0, rows, rows, 1], [-3, 3]],
  ['categorical_project', [rows, 101, 1, 2, 1, 9, 9, 9], [-3, 3]],
  ['categorical_target', [rows, 101, 103, 1, 1, 0, rows, rows, 1], [-3, 3]],
  ['categorical_target', [rows, 101, 101, 1, 2, 1, 9, 9, 9], [-3, 3]],
  ['categorical_target', [5, 1024, 1024, 1, 1, 1, 5, 5, 5], [-3, 3]],
  ['categorical_loss', [rows, 101, 102, 1, 103, 1, rows, rows], [-1e30, 0.1, -3, 3]],
  ['categorical_loss', [rows, 101, 102, 1, 103, 1, 9, 9], [-1e30, 0.1, -3, 3]],
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
  ['chain', [rows, columns, 54, 54, 54, 54, 54, 54, 54, 54, 54, 54]],
  ...unary.map((op) => ['unary', [rows, columns, 54, 54, op]] as const),
  ['unary_backward', [rows, columns, 54, 54, 54, 13]],
  ['binary', [rows, columns, 54, 54, 1, 54, 1, 3]],
  ['where', [rows, columns, 54, 54, 1, 54, 1, 54, 1]],
  ['clip', [rows, columns, 54, 54], [-0.5, 0.25]],
  ['binary_backward', [rows, columns, 54, 54, 1, 54, 1, 54, 1, 2]],
  ['clip_backward', [rows, columns, 54, 54, 54], [-0.5, 0.25]],
  ['cumsum', [rows, 41, 19, 0]],
  ['gather_along_rows', [rows, columns, 9, 54, 10, 54]],
  ...[0, 1].map((logarithm) => ['softmax_rows', [rows, 301, 302, 302, logarithm]] as const),
  ...[0, 1].map((log) => ['softmax_rows_backward', [rows, 301, 302, 302, 302, log]] as const),
  ['layer_norm', [rows, 301, 302, 302], [1e-5]],
  ['layer_norm_backward', [rows, 301, 302, 303, 302, 305]],
  ['norm_act_backward', [rows, 301, 302, 303, 304, 302, 12]],
  ...[-1, 12, 13].map(
    (op) => ['bias_act_batched', [3, rows, columns, 54, 54, 2000, 2000, 53, op]] as const,
  ),
  // Products are compared only with themselves.
  ['linear_act', [2, rows, 17, 19, 4, 18, 5, 16, rows * 18 + 1, rows * 16, 17 * 20 + 5, 12]],
  ['linear_act', [1, rows, 17, 19, -30, 18, 20, 21, 0, 0, 0, 9]],
  ['linear_backward', [2, rows, 19, 17, 20, 18, 20, rows * 19 + 3, rows * 18, 340, rows * 20, 12]],
  ['linear_gradients', [2, 17, 19, rows, -30, 18, 20, 21, rows * 18, rows * 20, 17 * 20 + 5]],
];

const cases = (of: typeof all) =>
  of.map(
    ([kernel, wholes, reals = []]) =>
      [`[${wholes}]`, kernel, sized(kernel, wholes, reals)] as const,
  );
export const opCases = cases(all);
export const inPlaceCases = cases(alike);
