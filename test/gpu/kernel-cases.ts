/**
 * One launch of every kernel whose result does not depend on the order of additions. The arguments
 * have remainders, strides, subnormal numbers, both zeros and indexes outside. The kernels are
 * elementwise, or add in the same order on every family.
 */
import { type ArrayOf, type DType, dtypes, type TypedArray } from '../../src/base/dtype.ts';
import { Random } from '../../src/base/random.ts';
import { encode } from '../../src/extras/halo/moves.ts';

export interface LaunchCase {
  /** initial values (outputs start with other values than results) */
  tensors: readonly TypedArray[];
  /** dtypes of tensors whose dtype differs from that of their array */
  dtypes?: readonly (DType | undefined)[];
  wholes?: readonly number[];
  reals?: readonly number[];
}

export function random(n: number, seed: number, scale = 1): Float32Array {
  const numbers = new Random(seed);
  return Float32Array.from({ length: n }, () => scale * numbers.between(-1, 1));
}

/** Returns random numbers, with some in which wrong rounding and flushing would show. */
export function awkward(n: number, seed: number): Float32Array {
  const values = random(n, seed, 3);
  const specials = [0, -0, 1e-45, -1e-40, 1.17549435e-38, 1 / 3, 16_777_217, -1];
  for (const [i, value] of specials.entries()) if (i * 5 < n) values[(i * 5 + seed) % n] = value;
  return values;
}

const stale = (n: number) => new Float32Array(n).fill(-7);
const indices = (n: number, below: number) =>
  Int32Array.from({ length: n }, (_, i) => ((i * 7919) % (below + 2)) - 1);
const wholeFloats = (n: number, below: number) => Float32Array.from(indices(n, below));

/** Bits of 0.5 as float32. */
const halfBits = 0x3f000000;

// More elements than a grid has threads on the largest GPUs, and not a multiple of any block size.
const many = 600_011;
const [rows, columns, wide] = [37, 53, 61];
const area = rows * wide;
const acts = ['none', 'relu', 'tanh'];

/**
 * Returns a conversion of random bits in strided rows. Doubles are mostly of a size that floats
 * also have.
 */
function convert(dtype: DType, reals: readonly number[]): LaunchCase {
  const numbers = new Random(dtypes[dtype].code, 5);
  const x = new dtypes[dtype].array(area) as ArrayOf<DType>;
  const words = new Uint32Array(x.buffer, 0, Math.floor(x.byteLength / 4));
  for (let i = 0; i < words.length; i++) words[i] = numbers.below(2 ** 32);
  if (x instanceof Float64Array) {
    for (let i = 0; i < x.length; i++)
      if (i % 7 > 0) x[i] = numbers.between(-2, 2) * 2 ** (numbers.below(290) - 155);
  }
  return {
    tensors: [stale(area), x],
    dtypes: ['float32', dtype],
    wholes: [rows, columns, wide, wide, dtypes[dtype].code],
    reals,
  };
}

/**
 * Returns a step of 10,007 parameters whose optimizer has one or two moments. With a counter, the
 * launch has a target, which moves at every second step. Adam has a counter in any case.
 */
function step(
  moments: 1 | 2,
  counted: number | undefined,
  reals: readonly number[],
  more: readonly number[] = [],
): LaunchCase {
  const n = 10_007;
  const counter = Int32Array.of(counted ?? 997);
  const [first, count] = [301, 8192];
  return {
    tensors: [
      awkward(n, 20),
      awkward(n, 21),
      ...(moments === 2 ? [random(n, 22).map(Math.abs)] : []),
      ...(counted === undefined ? [] : [awkward(count, 29)]),
      stale(4),
      awkward(n, 23),
      random(256, 19).map(Math.abs),
      ...(moments === 2 || counted !== undefined ? [counter] : []),
      Float32Array.of(1e-3),
    ],
    wholes: [
      n,
      ...(counted !== undefined ? [1, first, count, 2] : moments === 2 ? [3] : []),
      ...more,
    ],
    reals,
  };
}

/**
 * Returns windows in wider rows, some short and some with an invalid length. Every third step is at
 * its goal, or just next to it.
 */
function goals(n: number, d: number, threshold: number): LaunchCase {
  const [achieved, goal] = [awkward(rows * (n * d + 5), 25), awkward(rows * (d + 1), 26)];
  for (let i = 0; i < rows; i++)
    for (let at = 0; at < n * d; at++)
      if ((i + Math.floor(at / d)) % 3 === 0) {
        const off = i % 2 ? 0 : threshold / Math.sqrt(d);
        achieved[i * (n * d + 5) + at] = (goal[i * (d + 1) + (at % d)] as number) + off;
      }
  return {
    tensors: [
      stale(rows * 2),
      achieved,
      goal,
      Int32Array.from({ length: rows * 3 }, (_, i) => (i % (n + 3)) - 1),
    ],
    wholes: [rows, n, d, 2, n * d + 5, d + 1, 3],
    reals: [0.97, threshold],
  };
}

/**
 * Returns moves of ten arrays' parts, forwards and backwards, some with their sign changed. There
 * are more elements than a grid has threads.
 */
function halo(
  dtype: 'uint8' | 'uint16' | 'float32' | 'float64',
  direction: 'pack' | 'unpack',
): LaunchCase {
  const numbers = new Random(31);
  const elements = 80_021;
  const filled = (n: number) =>
    new dtypes[dtype].array(Array.from({ length: n }, () => (numbers.next() - 0.5) * 65_536));
  const extents = [19, 37, 85];
  const count = 19 * 37 * 85;
  const moves = Array.from({ length: 10 }, (_, array) => {
    const signs = extents.map((_, d) => ((array >> d) & 1 ? -1 : 1));
    const steps = [37 * 85 + array, 85, 1].map((step, d) => step * (signs[d] as number));
    const base = steps.reduce(
      (sum, step, d) => (step < 0 ? sum - step * ((extents[d] as number) - 1) : sum),
      array,
    );
    return {
      array,
      buffer: array * count,
      base,
      extents,
      steps,
      negate: array % 3 === 1 && direction === 'pack',
    };
  });
  const arrays = moves.map(() => filled(elements));
  const total = 10 * count;
  return {
    tensors: [filled(total), encode(moves, direction), ...arrays],
    wholes: [10, total, ...arrays.map(() => elements)],
  };
}

export const kernelCases: readonly (readonly [
  title: string,
  kernel: string,
  launch: LaunchCase,
])[] = [
  [
    'scales and adds',
    'axpby',
    { tensors: [awkward(many, 1), awkward(many, 2)], wholes: [many], reals: [0.3, 0.7] },
  ],
  [
    'does not read what beta 0 drops',
    'axpby',
    {
      tensors: [new Float32Array(99).fill(Number.NaN), awkward(99, 2)],
      wholes: [99],
      reals: [1.7, 0],
    },
  ],
  [
    'columns of packed rows',
    'copy2d',
    { tensors: [stale(area), awkward(area, 3)], wholes: [rows, columns, wide, wide] },
  ],
  [
    'rows by index, zeros outside',
    'gather',
    {
      tensors: [stale(5000 * 43), awkward(700 * 47, 4), indices(5000, 700)],
      wholes: [5000, 43, 700, 43, 47],
    },
  ],
  [
    'one column each, NaN outside',
    'gather_columns',
    {
      tensors: [stale(rows), awkward(area, 5), wholeFloats(rows * 2, columns)],
      wholes: [rows, columns, wide, 2],
    },
  ],
  ...acts.map(
    (name, act) =>
      [
        name,
        'bias_act',
        {
          tensors: [stale(area), awkward(area, 6), awkward(columns, 7)],
          wholes: [rows, columns, wide, wide, act],
        },
      ] as const,
  ),
  ...acts.map(
    (name, act) =>
      [
        name,
        'act_backward',
        {
          tensors: [stale(area), awkward(area, 8), random(area, 9)],
          wholes: [rows, columns, wide, wide, wide, act],
        },
      ] as const,
  ),
  [
    'the first of equals, never NaN',
    'argmax_rows',
    {
      tensors: [
        new Int32Array(rows).fill(-1),
        stale(rows),
        awkward(area, 10).map((value, i) => (i % 11 === 0 ? Number.NaN : Math.round(value))),
      ],
      wholes: [rows, columns, wide],
    },
  ],
  [
    'episodes that ended, and were cut',
    'td_target',
    {
      tensors: [
        stale(rows),
        awkward(rows * 5, 11),
        awkward(rows * 5, 12),
        awkward(rows, 13),
        wholeFloats(rows, 2).map((value) => Number(value > 0)),
        wholeFloats(rows, 3).map((value) => Number(value > 1)),
      ],
      wholes: [rows, 5, 5, 5, 1, 1, 1],
      reals: [0.97],
    },
  ],
  [
    'a discount for each row',
    'td_target_discounts',
    {
      tensors: [
        stale(rows),
        awkward(rows * 5, 11),
        awkward(rows * 5, 12),
        awkward(rows, 13),
        random(rows * 2, 27).map(Math.abs),
      ],
      wholes: [rows, 5, 5, 5, 1, 2],
    },
  ],
  ...(
    [
      [0, 1, rows],
      [1, 3, rows],
      [1, 0, rows],
      [0, 2, 9],
    ] as const
  ).map(
    ([delta, apart, own]) =>
      [
        `${delta ? 'Huber' : 'squared'}, weights ${apart} apart, of ${own} rows`,
        'td_loss_weighted',
        {
          tensors: [
            stale(rows * 5),
            stale(rows * 2),
            stale(rows * 2),
            awkward(rows * 5, 14),
            awkward(rows, 15),
            wholeFloats(rows, 5),
            random(rows * 3, 28),
          ],
          wholes: [rows, 5, 5, 2, 5, 1, apart, rows, own, own],
          reals: [delta, 1 / rows],
        },
      ] as const,
  ),
  ...(
    [
      [0, 1, rows],
      [1, 0, rows],
      [0, 2, 9],
    ] as const
  ).map(
    ([delta, apart, own]) =>
      [
        `${delta ? 'Huber' : 'squared'}, weights ${apart} apart, of ${own} rows`,
        'td_loss_target',
        {
          tensors: [
            ...[stale(rows * 5), stale(rows * 2), stale(rows)],
            awkward(rows * 5, 14),
            // Among the discounts and weights are zeros, with which NaN does not count.
            awkward(rows * 6, 15).map((value, i) => (i % 11 === 3 ? Number.NaN : value)),
            ...[awkward(rows * 7, 16), random(rows * 2, 27), awkward(rows * 3, 28)],
            ...[wholeFloats(rows * 2, 5), awkward(rows * 3, 29)],
          ],
          wholes: [rows, 5, 5, 6, 7, 2, 3, 2, apart, own, rows, own],
          reals: [delta, 1 / rows],
        },
      ] as const,
  ),
  ...(
    [
      [37, 53, 61],
      [1, 130, 130],
      [63, 4, 4],
      [64, 3, 12],
      [65, 5, 5],
      [513, 1, 1],
      [1000, 130, 133],
      [4096, 2, 9],
      [8192, 67, 67],
    ] as const
  ).flatMap(([n, width, apart]) =>
    [0.5, 0].map((beta) => {
      const out = beta === 0 ? new Float32Array(width).fill(Number.NaN) : awkward(width, 16);
      const launch = {
        tensors: [out, awkward(n * apart, 17)],
        wholes: [n, width, apart],
        reals: [1 / n, beta],
      };
      return [`${n} × ${width}, beta ${beta}`, 'column_sums', launch] as const;
    }),
  ),
  ...[1, 2047, 2049, 10_007, many].map(
    (n) =>
      [`of ${n}`, 'grad_norm', { tensors: [stale(256), awkward(n, 18)], wholes: [n] }] as const,
  ),
  [
    'a norm too large',
    'clip_scale',
    { tensors: [stale(4), random(256, 19).map(Math.abs)], reals: [0.5] },
  ],
  ...[0, 0.5].flatMap((maxNorm) => {
    const how = maxNorm > 0 ? 'a clipped step' : 'a step';
    return [
      [how, 'adam', step(2, undefined, [0.1, 0.001, 1e-8, 0.1, 0.01, maxNorm])],
      [how, 'sgd', step(1, undefined, [0.9, 0.01, maxNorm], [1])],
      ...([1, 0.01] as const).flatMap((tau) =>
        [999, 1000].map((counted) => {
          const title = `${how}, tau ${tau} after step ${counted}`;
          const reals = [0.1, 0.001, 1e-8, 0.1, 0.01, maxNorm, tau, 1 - tau];
          return [title, 'adam_follow', step(2, counted, reals)] as const;
        }),
      ),
      [`${how} with a target`, 'sgd_follow', step(1, 999, [0.9, 0.01, maxNorm, 0.01, 0.99], [1])],
    ] as const;
  }),
  ...[
    ['random_uniform', [-0.5, 1.5]],
    ['random_normal', [2, 3]],
  ].map(
    ([kernel, reals]) =>
      [
        'across the low word',
        kernel as string,
        {
          tensors: [stale(many), Int32Array.of(77, -3, -9, 4)],
          wholes: [many],
          reals: reals as number[],
        },
      ] as const,
  ),
  ...(['uint8', 'uint16', 'float32', 'float64'] as const).flatMap((dtype) =>
    (['pack', 'unpack'] as const).map(
      (direction) => [direction, `halo${8 * dtypes[dtype].bytes}`, halo(dtype, direction)] as const,
    ),
  ),
  ...(Object.keys(dtypes) as DType[]).flatMap((dtype) =>
    (
      [
        [1, 0],
        [1 / 255, -0.5],
      ] as const
    ).map(
      (reals) =>
        [`${dtype} · ${reals[0]} + ${reals[1]}`, 'convert', convert(dtype, reals)] as const,
    ),
  ),
  ...(
    [
      [1, 3, 0.05],
      [3, 2, 0.9],
      [5, 1, 0],
    ] as const
  ).map(
    ([n, d, threshold]) => [`${n} steps of ${d}`, 'goal_reward', goals(n, d, threshold)] as const,
  ),
  [
    'round the ring',
    'draw_places',
    { tensors: [new Int32Array(1009), Int32Array.of(7, 3, 9, 1, 90, 60, 100, 0)], wholes: [1009] },
  ],
  [
    'some outside',
    'gather_places',
    {
      tensors: [
        new Uint32Array(1009 * 20),
        Uint32Array.from({ length: 99 * 20 }, (_, i) => i * 2_654_435_761),
        indices(1009, 99),
      ],
      wholes: [1009, 20, 99, 3],
    },
  ],
  ...(
    [
      [64, 16, 16],
      [12, 8, 4],
      [7, 5, 1],
    ] as const
  ).map(
    ([width, offset, unit]) =>
      [
        `${unit} bytes at a time`,
        'gather_fields',
        {
          tensors: [
            new Uint8Array(1009 * width),
            Uint8Array.from({ length: 90 * 80 }, (_, i) => i * 37),
            Uint8Array.from({ length: 9 * 80 }, (_, i) => i * 91),
            indices(1009, 99),
          ],
          wholes: [1009, width, offset, 80, 90, 9, unit, 3],
        },
      ] as const,
  ),
  [
    'fewer than there is room for',
    'put_places',
    {
      tensors: [
        Uint32Array.from({ length: 99 * 20 }, (_, i) => i * 7),
        Uint32Array.from({ length: 50 * 21 }, (_, i) =>
          i < 40 * 20 ? i * 2_654_435_761 : (i * 7) % 99,
        ),
        Int32Array.of(40),
      ],
      wholes: [50, 20, 99, 3],
    },
  ],
  ['carries', 'random_advance', { tensors: [Int32Array.of(77, -3, -9, 4)], wholes: [100] }],
  ...[0, 0.5].map(
    (beta) =>
      [
        `sums, counters and a generator, beta ${beta}`,
        'step_end',
        {
          tensors: [
            beta === 0 ? new Float32Array(10).fill(Number.NaN) : awkward(10, 26),
            awkward(10, 27),
            Int32Array.of(2 ** 31 - 1, 7),
            Int32Array.of(1, 2, -3, 4),
            awkward(5000, 28),
            Int32Array.of(
              ...[0, 0, 0, 0, 0, 0],
              ...[1, 0, 1, 2047, 2, halfBits],
              ...[2, 1, 0, 37, 100, halfBits],
              // The last group is due, and no step has the group after it.
              ...[1, 30, 0, 9, 1, halfBits],
              ...[1, 31, 0, 9, 1, halfBits],
              // These sums end at the last element or beyond it, begin before x, or have no rows.
              ...[2, 0, 1100, 39, 100, halfBits],
              ...[2, 0, 1101, 39, 100, halfBits],
              ...[1, 0, 0, 5000, 2, halfBits],
              ...[2, 0, -1, 1, 4, halfBits],
              ...[2, 0, 0, 0, 4, halfBits],
              ...Int32Array.from({ length: 2 * 31 }, (_, i) => (i === 0 ? 1 : i * 2_654_435_761)),
            ),
          ],
          wholes: [10, 2, 31, 2 ** 30 + 3, 100, 5000],
          reals: [0.25, beta],
        },
      ] as const,
  ),
  ...[1, 0.9, 0.005].map(
    (tau) =>
      [
        `with tau ${tau}, at a step that counts`,
        'follow_every',
        {
          tensors: [
            tau === 1 ? stale(1009) : awkward(1009, 25),
            awkward(1009, 24),
            Int32Array.of(12),
          ],
          wholes: [1009, 4],
          reals: [tau, 1 - tau],
        },
      ] as const,
  ),
  ['wraps around', 'count_up', { tensors: [Int32Array.of(2 ** 31 - 1)] }],
];
