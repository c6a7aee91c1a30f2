/**
 * Prioritized sampling (Schaul et al., 2016), and its draw as a pure function,
 * prioritizedIndices().
 */

import { checkCount, checkInternal, checkKeys, describeValue, INTERNAL } from '../base/checks.ts';
import { arrayOf } from '../base/dtype.ts';
import { rangeError, stateError, typeError } from '../base/errors.ts';
import { withPresentNames } from '../base/old-names.ts';
import { lanesAddon, type ViewHandle } from './lanes/lanes-addon.ts';
import { seedWord } from './rows/sampler.ts';
import type { View } from './views/views.ts';

/** The buffer and view to which a sampler is bound at its first use. */
interface Binding {
  /** the buffer's memory, which its objects in all threads share */
  readonly memory: SharedArrayBuffer;
  readonly view: View;
  readonly handle: ViewHandle;
  readonly tree: Float64Array;
  readonly leaves: number;
}

/**
 * The scale of importance weights. With 'tree' the least likely step of the buffer has the weight
 * 1, and with 'batch' the least likely step of the batch. 'none' leaves the weights unscaled.
 */
export type Normalize = 'tree' | 'batch' | 'none';
/** @deprecated `Normalize`, until 0.5 */
export type Normalise = Normalize;
const normalizations = ['tree', 'batch', 'none'] as const;

/** Options of prioritized(). */
export interface PrioritizedOptions {
  /** exponent of a leaf (|p| + epsilon)^alpha, at least 0, default 0.6. 0 samples uniformly */
  alpha?: number;
  /** number added to each |p|, at least 0, default 1e-6 */
  epsilon?: number;
  /** scale of the importance weights, default 'tree' */
  normalize?: Normalize;
  /** @deprecated `normalize`, until 0.5 */
  normalise?: Normalize;
}

/**
 * Returns parts of a sampler for other modules of the package. The package does not export this
 * function.
 */
export let internalsOfSampler: (sampler: PrioritizedSampler) => {
  readonly normalize: number;
  binding: Binding | null;
  /** whether a pipeline owns the tree */
  running: boolean;
};

/**
 * Samples the steps of one buffer in proportion to their priorities (Schaul et al., 2016).
 * prioritized() creates it.
 * @example
 * const sampler = prioritized();
 * const { ids, weights } = buffer.sample({ view, seed: 7, count: 256, sampler, beta: 0.4 });
 * buffer.updatePriorities(ids, tdErrors);
 */
export class PrioritizedSampler {
  readonly alpha: number;
  readonly epsilon: number;
  readonly normalize: Normalize;
  readonly #inside: { readonly normalize: number; binding: Binding | null; running: boolean };

  /**
   * Returns true only for an object with this class's private field. A proxy of a sampler, or an
   * object that inherits from a sampler, lacks the field.
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
   * Returns the leaves of the priority tree, and its counts.
   *
   * @returns `leaves`: float64 [capacity]. The leaf of index p in the ring of lane l is at l ×
   *   capacity / lanes + p. The leaf of a step that is not drawable is 0. `maxPriority`: the
   *   largest |p| ever given. `total`: the sum of all leaves. `stale`: number of updates whose
   *   steps were overwritten. `nonFinite`: number of priorities from a device that were NaN,
   *   infinite or negative
   * @throws {ERR_HOTSLOT_STATE_EMPTY} before the first use
   */
  inspect(): {
    leaves: Float64Array;
    maxPriority: number;
    total: number;
    stale: number;
    nonFinite: number;
    /** @deprecated the old name of `nonFinite`, until 0.5 */
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
    const [maxPriority = 0, total = 0, , stale = 0, nonFinite = 0] = facts;
    return { leaves, maxPriority, total, stale, nonFinite, odd: nonFinite };
  }
}

/**
 * Creates a sampler. Its first use binds it to one buffer and one view. It samples a step with
 * probability leaf / total. New steps have the largest priority that was ever given, initially 1.
 *
 * @param options `alpha` (default 0.6), `epsilon` (default 1e-6) and `normalize` (default 'tree')
 * @throws {TypeError|RangeError} for an invalid option. The text names it
 * @example
 * const sampler = prioritized({ alpha: 0.7 });
 * const batch = buffer.sample({ view, seed: 7, count: 256, sampler, beta: 0.4 });
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
 * Draws indices in proportion to `leaves`, which are already raised to alpha. The mass of a draw is
 * torch's float64 uniform number for `seed`, times the sum of the leaves. The draw takes the first
 * leaf at which the running sum reaches the mass, and never a leaf of 0.
 *
 * Weights are (p / least p)^−beta. With 'tree' the least p is that of all leaves that are not zero,
 * and with 'batch' that of the drawn leaves. With 'none', weights are (N × p)^−beta for N leaves
 * that are not zero.
 *
 * @param options `leaves`: float64, finite and not negative. `seed` and `count`: as for
 *   uniformIndices(). `masses`: float64, instead of `seed` and `count`. `beta`: 0 to 1, default
 *   0.4. `normalize`: default 'tree'
 * @returns `indices`: uint32 [count]. `probabilities` and `weights`: float64 [count]
 * @throws {TypeError|RangeError} for an invalid option, and for `masses` together with `seed` or
 *   `count`
 * @throws {RangeError} if all leaves are 0, or if their sum is infinite
 * @example
 * const leaves = Float64Array.of(1, 0, 3);
 * const { indices, weights } = prioritizedIndices({ leaves, seed: 0, count: 32 });
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
