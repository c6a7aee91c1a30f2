/**
 * Rewards of goals that are either reached or not, over windows of steps. The kernel `goal_reward`
 * computes the same rewards on a device.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

/** Options of goalReward(). */
export interface GoalRewardOptions {
  /** rows × n × dims: the goal achieved after each step of a window */
  readonly achieved: Float32Array;
  /** rows × dims: the wanted goal */
  readonly goal: Float32Array;
  /** rows: the number of steps in each window that count, 0 to n */
  readonly steps: Int32Array;
  /** largest number of steps in a window */
  readonly n: number;
  /** elements of a goal */
  readonly dims: number;
  /** discount of a step, within [0, 1] */
  readonly gamma: number;
  /** largest distance at which a goal counts as reached, within [0, 1e18] */
  readonly threshold: number;
}

const known = ['achieved', 'goal', 'steps', 'n', 'dims', 'gamma', 'threshold'] as const;

/**
 * Returns each window's reward Σ gamma^j · r_j, over the first `steps` steps of the window. The
 * reward r_j is 0 if the Euclidean distance of the achieved goal from the goal is at most
 * `threshold`. It is −1 if the distance is larger or NaN.
 *
 * The arithmetic is float32 from left to right. Squares of the differences are added up and
 * compared with threshold². Powers of gamma are repeated products. The kernel `goal_reward` does
 * the same operations in the same order, so both give the same bits.
 *
 * @returns a new float32 array [rows]
 * @throws {TypeError} for an array of another type, or an option that is not a number
 * @throws {RangeError} for an array of another length, or a number out of range
 * @example
 * const achieved = Float32Array.of(0, 1); // one window of two steps
 * const goal = Float32Array.of(1);
 * const steps = Int32Array.of(2);
 * goalReward({ achieved, goal, steps, n: 2, dims: 1, gamma: 0.99, threshold: 0.1 }); // −1
 */
export function goalReward(options: GoalRewardOptions): Float32Array {
  checkKeys('goalReward', options, known);
  const { achieved, goal, steps, n, dims } = options;
  if (!(steps instanceof Int32Array))
    throw typeError(`goalReward: steps must be an Int32Array, got ${describeValue(steps)}`);
  checkCount('goalReward: n', n);
  checkCount('goalReward: dims', dims);
  const rows = steps.length;
  checkFloats('achieved', achieved, rows, [n, dims]);
  checkFloats('goal', goal, rows, [dims]);
  const threshold = Math.fround(checkWithin('threshold', options.threshold, 1e18));
  const limit = Math.fround(threshold * threshold);
  const powers = powersOf(checkWithin('gamma', options.gamma, 1), n);
  const rewards = new Float32Array(rows);
  for (let i = 0; i < rows; i++) {
    const k = steps[i] as number;
    if (k < 0 || k > n)
      throw rangeError(`goalReward: steps[${i}] must be within [0, ${n}], got ${k}`);
    let sum = 0;
    for (let j = 0; j < k; j++) {
      const at = (i * n + j) * dims;
      let far = 0;
      for (let c = 0; c < dims; c++) {
        const off = Math.fround((achieved[at + c] as number) - (goal[i * dims + c] as number));
        far = Math.fround(far + Math.fround(off * off));
      }
      // A NaN counts as a distance beyond the limit.
      if (!(far <= limit)) sum = Math.fround(sum - (powers[j] as number));
    }
    rewards[i] = sum;
  }
  return rewards;
}

/**
 * Returns 1, gamma, gamma², … as the kernel computes them. Each power is the previous power times
 * gamma, rounded to float32.
 */
function powersOf(gamma: number, n: number): Float32Array {
  const powers = new Float32Array(n);
  const factor = Math.fround(gamma);
  powers[0] = 1;
  for (let j = 1; j < n; j++) powers[j] = (powers[j - 1] as number) * factor;
  return powers;
}

function checkFloats(
  name: string,
  values: Float32Array,
  rows: number,
  shape: readonly number[],
): void {
  if (!(values instanceof Float32Array))
    throw typeError(`goalReward: ${name} must be a Float32Array, got ${describeValue(values)}`);
  const wanted = shape.reduce((product, each) => product * each, rows);
  if (values.length !== wanted) {
    const sizes = [`${rows} rows`, ...shape].join(' × ');
    throw rangeError(
      `goalReward: ${name} must hold ${sizes} = ${wanted} elements, got ${values.length}`,
    );
  }
}

function checkWithin(name: string, value: number, most: number): number {
  if (typeof value !== 'number')
    throw typeError(`goalReward: ${name} must be a number, got ${describeValue(value)}`);
  if (!(value >= 0 && value <= most))
    throw rangeError(`goalReward: ${name} must be within [0, ${most}], got ${value}`);
  return value;
}
