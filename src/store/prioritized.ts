/** Prioritized sampling (Schaul et al., 2016), and the pure function that draws. */

import { checkCount, checkInternal, checkKeys, describeValue, INTERNAL } from '../base/checks.ts';
import { arrayOf } from '../base/dtype.ts';
import { rangeError, stateError, typeError } from '../base/errors.ts';
import { withPresentNames } from '../base/old-names.ts';
import { lanesAddon, type ViewHandle } from './lanes/lanes-addon.ts';
import { seedWord } from './rows/sampler.ts';
import type { View } from './views/views.ts';

/** The buffer and view to which a sampler is bound at its first use. */
interface Binding {
  /** common to this buffer's objects in all threads */
  readonly memory: SharedArrayBuffer;
  readonly view: View;
  readonly handle: ViewHandle;
  readonly tree: Float64Array;
  readonly leaves: number;
}

/**
 * The scale of weights: 1 for the least likely step of all, 1 for the least likely of the batch, or
 * none.
 */
export type Normalize = 'tree' | 'batch' | 'none';
/** @deprecated `Normalize`, until 0.5 */
export type Normalise = Normalize;
const normalizations = ['tree', 'batch', 'none'] as const;

export interface PrioritizedOptions {
  /** leaf = (|p| + epsilon)^alpha: 0 draws uniformly. Default: 0.6 */
  alpha?: number;
  /** default: 1e-6 */
  epsilon?: number;
  /** default: 'tree' */
  normalize?: Normalize;
  /** @deprecated `normalize`, until 0.5 */
  normalise?: Normalize;
}

/** For the package itself. Not exported from it. */
export let internalsOfSampler: (sampler: PrioritizedSampler) => {
  readonly normalize: number;
  binding: Binding | null;
  /** a pipeline owns the tree */
  running: boolean;
};

export class PrioritizedSampler {
  readonly alpha: number;
  readonly epsilon: number;
  readonly normalize: Normalize;
  readonly #inside: { readonly normalize: number; binding: Binding | null; running: boolean };

  /**
   * Returns true only for an object with the private field. A proxy, or an object that inherits
   * from one, lacks it.
   */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #inside in made;
  }

  static {
    internalsOfSampler = (sampler) => sampler.#inside;
  }

  constructor(
    key: unknown,
    { alpha, epsilon, normalize }: Required<Omit<PrioritizedOptions, 'normalise'>>,
  ) {
    checkInternal(key, 'PrioritizedSampler', 'prioritized()');
    this.alpha = alpha;
    this.epsilon = epsilon;
    this.normalize = normalize;
    this.#inside = { normalize: normalizations.indexOf(normalize), binding: null, running: false };
    Object.freeze(this);
  }

  /** @deprecated `normalize`, until 0.5 */
  get normalise(): Normalize {
    return this.normalize;
  }

  /**
   * Returns `leaves`, float64[capacity]: ring place p of lane l at l × capacity / lanes + p, 0 for
   * what cannot be drawn. `maxPriority` is the largest |p| ever given, and `total` the sum of all
   * leaves. `stale` counts updates that came too late so far, and `odd` priorities that were not
   * numbers. Throws ERR_HOTSLOT_STATE_EMPTY before the first use.
   */
  inspect(): {
    leaves: Float64Array;
    maxPriority: number;
    total: number;
    stale: number;
    odd: number;
  } {
    const { binding, running } = this.#inside;
    if (binding === null)
      throw stateError(
        'EMPTY',
        'this sampler is not bound to a buffer yet; sample() with it, or open a pipeline',
      );
    const leaves = new Float64Array(binding.leaves);
    const facts = new Float64Array(6);
    lanesAddon().inspectTree(binding.handle, !running, leaves, facts);
    return { leaves, maxPriority: facts[0]!, total: facts[1]!, stale: facts[3]!, odd: facts[4]! };
  }
}

/**
 * Creates a sampler for one buffer and one view, to which its first use binds it. It draws with
 * probability leaf / total. New steps have the largest priority that was ever given, initially 1.
 * Throws a TypeError or RangeError that names the option.
 */
export function prioritized(options: PrioritizedOptions = {}): PrioritizedSampler {
  const given = withPresentNames('prioritized', options);
  checkKeys('prioritized', given, ['alpha', 'epsilon', 'normalize']);
  const { alpha = 0.6, epsilon = 1e-6, normalize = 'tree' } = given;
  checkAtLeast0('alpha', alpha);
  checkAtLeast0('epsilon', epsilon);
  return new PrioritizedSampler(INTERNAL, { alpha, epsilon, normalize: checkNormalize(normalize) });
}

/**
 * Draws by `leaves`, which are already raised to alpha. A draw's mass is torch's float64 uniform of
 * `seed` × the sum of the leaves. It takes the first leaf at which the running sum reaches the
 * mass, never a zero one. `masses` instead of `seed` and `count` draws at these. Weights are (p /
 * least p)^−beta ('tree': of all leaves that are not zero, 'batch': of those drawn) or (leaves ×
 * p)^−beta ('none'). Throws a RangeError if all leaves are zero.
 */
export function prioritizedIndices(options: {
  leaves: Float64Array;
  seed?: number | bigint;
  count?: number;
  beta?: number;
  normalize?: Normalize;
  /** @deprecated `normalize`, until 0.5 */
  normalise?: Normalize;
  masses?: Float64Array;
}): { indices: Uint32Array; probabilities: Float64Array; weights: Float64Array } {
  const given = withPresentNames('prioritizedIndices', options);
  checkKeys('prioritizedIndices', given, [
    'leaves',
    'seed',
    'count',
    'beta',
    'normalize',
    'masses',
  ]);
  const { leaves, seed, beta = 0.4, normalize = 'tree', masses } = given;
  if (!(leaves instanceof Float64Array))
    throw typeError(`leaves must be a Float64Array, got ${describeValue(leaves)}`);
  if (leaves.length === 0) throw rangeError('leaves must hold at least one leaf, got none');
  const wrong = leaves.findIndex((leaf) => !(leaf >= 0 && leaf < Number.POSITIVE_INFINITY));
  if (wrong >= 0)
    throw rangeError(`leaves[${wrong}] must be finite and not negative, got ${leaves[wrong]}`);
  if (leaves.reduce((sum, leaf) => sum + leaf, 0) === Number.POSITIVE_INFINITY)
    throw rangeError(`the ${leaves.length} leaves add up to more than a float64 holds`);
  if (masses !== undefined && !(masses instanceof Float64Array))
    throw typeError(`masses must be a Float64Array, got ${describeValue(masses)}`);
  if (masses !== undefined && (seed !== undefined || options.count !== undefined))
    throw rangeError('give masses, or seed and count, not both');
  const invalid =
    masses?.findIndex((mass) => !(mass >= 0 && mass < Number.POSITIVE_INFINITY)) ?? -1;
  if (invalid >= 0)
    throw rangeError(
      `masses[${invalid}] must be finite and not negative, got ${masses?.[invalid]}`,
    );
  const word = masses === undefined ? seedWord(seed as number) : 0;
  const count = masses?.length ?? checkCount('count', options.count, 0);
  const indices = arrayOf('uint32', count);
  const probabilities = arrayOf('float64', count);
  const weights = arrayOf('float64', count);
  const how = normalizations.indexOf(checkNormalize(normalize));
  const drawn = lanesAddon().drawLeaves(
    ...([
      leaves,
      word,
      count,
      checkBeta(beta),
      how,
      masses,
      indices,
      probabilities,
      weights,
    ] as const),
  );
  if (!drawn) throw rangeError(`all ${leaves.length} leaves are zero; one must be positive`);
  return { indices, probabilities, weights };
}

export function checkBeta(beta: unknown): number {
  if (typeof beta !== 'number')
    throw typeError(`beta must be a number, got ${describeValue(beta)}`);
  if (!(beta >= 0 && beta <= 1)) throw rangeError(`beta must be from 0 to 1, got ${beta}`);
  return beta;
}

function checkNormalize(normalize: unknown): Normalize {
  if (!normalizations.includes(normalize as Normalize))
    throw typeError(
      `normalize must be ${normalizations.map((n) => `'${n}'`).join(', ')}, got ${describeValue(normalize)}`,
    );
  return normalize as Normalize;
}

function checkAtLeast0(name: string, value: unknown): void {
  if (typeof value !== 'number')
    throw typeError(`${name} must be a number, got ${describeValue(value)}`);
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY))
    throw rangeError(`${name} must be finite and at least 0, got ${value}`);
}
