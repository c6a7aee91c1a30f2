/**
 * Cases of the section `prioritized`: draws by seed and by mass, their probabilities and weights,
 * also at the boundaries between leaves.
 */
import { prioritizedIndices } from '../../src/index.ts';
import { Difference, refused, relative, same, sameList } from './differences.ts';

export const normalizations = ['tree', 'batch', 'none'] as const;
export type Normalized = Record<(typeof normalizations)[number], number[]>;
/** Tolerance of probabilities and weights. */
export const tolerance = relative(1e-12);

export interface DrawsCase {
  name: string;
  size: number;
  /** number of leaves above zero */
  drawable: number;
  seed: number;
  count: number;
  /** the sum of the leaves, and the smallest leaf above zero */
  total: number;
  pMin: number;
  leaves: number[];
  /** torch's numbers from 0 to 1 */
  uniforms: number[];
  /** uniforms × total */
  masses: number[];
  indices: number[];
  probabilities: number[];
  weights: ({ beta: number } & Normalized)[];
}

export interface BoundaryCase {
  leaves: number[];
  total: number;
  masses: number[];
  /** the first leaf at which the running sum reaches the mass */
  lower: number[];
}

export interface RefusedCase {
  leaves: number[];
}

type Draws = ReturnType<typeof prioritizedIndices>;

export function checkDraws(golden: DrawsCase): void {
  const { seed, count } = golden;
  const leaves = Float64Array.from(golden.leaves);
  const there = golden.leaves.filter((leaf) => leaf > 0);
  same("the file's size", golden.size, leaves.length);
  same("the file's drawable", golden.drawable, there.length);
  same(
    "the file's pMin",
    golden.pMin,
    there.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
  );
  const masses = Float64Array.from(golden.uniforms, (uniform) => uniform * golden.total);
  sameList("the file's uniforms × total, masses", golden.masses, masses, {
    tolerance: relative(1e-15),
  });

  for (const { beta, ...weights } of golden.weights) {
    for (const normalize of normalizations) {
      const compare = (by: string, got: Draws) => {
        const what = `beta ${beta}, ${normalize}, by ${by}`;
        sameList(`${what}: indices`, got.indices, golden.indices);
        sameList(`${what}: probabilities`, got.probabilities, golden.probabilities, { tolerance });
        sameList(`${what}: weights`, got.weights, weights[normalize], { tolerance });
      };
      compare('seed', prioritizedIndices({ seed, count, leaves, beta, normalize }));
      compare(
        'masses',
        prioritizedIndices({ masses: Float64Array.from(golden.masses), leaves, beta, normalize }),
      );
    }
  }
}

export function checkBoundary(golden: BoundaryCase): void {
  const leaves = Float64Array.from(golden.leaves);
  const masses = Float64Array.from(golden.masses);
  const got = prioritizedIndices({ masses, leaves, beta: 0.4, normalize: 'tree' });
  const name = (i: number) => ` at mass ${golden.masses[i]}`;
  sameList('index', got.indices, golden.lower, { name });
  const probabilities = golden.lower.map((index) => golden.leaves[index]! / golden.total);
  sameList('probability', got.probabilities, probabilities, { tolerance, name });
}

export function checkRefused(golden: RefusedCase): void {
  const leaves = Float64Array.from(golden.leaves);
  const masses = Float64Array.of(0);
  for (const normalize of normalizations)
    for (const draws of [{ seed: 1, count: 1 }, { masses }]) {
      const what = `a draw by ${Object.keys(draws).join(' and ')}, ${normalize},`;
      const error = refused(what, () =>
        prioritizedIndices({ ...draws, leaves, beta: 0.4, normalize }),
      );
      // The error must be one of the library's own, with a code.
      if (!('code' in error && String(error.code).startsWith('ERR_HOTSLOT_')))
        throw new Difference(`${what} was refused by ${error}, which has no code of Hotslot's`);
    }
}
