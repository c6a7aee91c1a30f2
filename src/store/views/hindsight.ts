/**
 * Hindsight goals: the goal that a later step achieved replaces the wanted goal (Andrychowicz et
 * al., 2017).
 */
import { checkInternal, checkKeys, describeValue, INTERNAL } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { nextKey, type StepLayout } from '../lanes/schema.ts';

/** Options of hindsight(). */
export interface HindsightOptions {
  /** name of the observation that is the wanted goal */
  goal: string;
  /** name of the observation that is the achieved goal, of the same dtype and shape */
  achieved: string;
  /**
   * steps that may provide the new goal, default 'future'. These are the row's own and later steps
   * ('future'), the episode's last step ('final'), or all of its steps ('episode')
   */
  strategy?: 'future' | 'final' | 'episode';
  /** probability that a row gets a new goal, 0 to 1, default 0.8 */
  ratio?: number;
}

/** The result of hindsight(), which `transitions({ relabel })` accepts. */
export class Hindsight {
  readonly goal: string;
  readonly achieved: string;
  readonly strategy: 'future' | 'final' | 'episode';
  readonly ratio: number;

  constructor(key: unknown, { goal, achieved, strategy, ratio }: Required<HindsightOptions>) {
    checkInternal(key, 'Hindsight', 'hindsight()');
    this.goal = goal;
    this.achieved = achieved;
    this.strategy = strategy;
    this.ratio = ratio;
    Object.freeze(this);
  }
}

const strategies = ['future', 'final', 'episode'] as const;

/**
 * Creates hindsight goals for a view (Andrychowicz et al., 2017). A share `ratio` of a batch's rows
 * gets a goal that the episode achieved. The new goal is in the goal's column and in its next
 * column, and `relabelled` marks these rows. Compute rewards from the batch's `nextAchieved` by
 * goalReward(), the kernel `goal_reward` or your own code.
 *
 * @param options `goal`, `achieved`, `strategy` (default 'future') and `ratio` (default 0.8)
 * @throws {TypeError|RangeError} for an invalid option. The text names it
 * @example
 * const relabel = hindsight({ goal: 'goal', achieved: 'reached' });
 * const view = buffer.transitions({ nStep: 3, gamma: 0.98, relabel });
 */
export function hindsight(options: HindsightOptions): Hindsight {
  checkKeys('hindsight', options, ['goal', 'achieved', 'strategy', 'ratio']);
  const { goal, achieved, strategy = 'future', ratio = 0.8 } = options;
  for (const [name, value] of Object.entries({ goal, achieved }))
    if (typeof value !== 'string')
      throw typeError(`hindsight: ${name} must name an observation, got ${describeValue(value)}`);
  if (!strategies.includes(strategy))
    throw typeError(
      `strategy must be ${strategies.map((s) => `'${s}'`).join(', ')}, got ${describeValue(strategy)}`,
    );
  if (typeof ratio !== 'number')
    throw typeError(`ratio must be a number, got ${describeValue(ratio)}`);
  if (!(ratio >= 0 && ratio <= 1)) throw rangeError(`ratio must be from 0 to 1, got ${ratio}`);
  return new Hindsight(INTERNAL, { goal, achieved, strategy, ratio });
}

/**
 * Throws unless the goal and the achieved goal are observations of the same dtype and shape, and
 * neither is stacked.
 */
export function checkHindsight(
  relabel: unknown,
  layout: StepLayout,
  stack: Readonly<Record<string, number>>,
): void {
  if (!(relabel instanceof Hindsight))
    throw typeError(`relabel must be a result of hindsight(), got ${describeValue(relabel)}`);
  const [goal, achieved] = [relabel.goal, relabel.achieved].map((name) => {
    const field = layout.fields.find(({ key }) => key === name);
    if (!field?.observation)
      throw rangeError(`hindsight: '${name}' is not an observation of this buffer`);
    if (
      layout.fields.some(({ key, observation }) => observation && nextKey(key) === 'nextAchieved')
    )
      throw rangeError(
        `hindsight makes a column nextAchieved: the observation 'achieved' needs another name`,
      );
    if (stack[name] !== undefined) throw rangeError(`hindsight: '${name}' cannot be stacked`);
    return field;
  });
  if (goal?.dtype !== achieved?.dtype || String(goal?.shape) !== String(achieved?.shape)) {
    const texts = [goal, achieved].map(
      (field) => `${field?.key} is ${field?.dtype} [${field?.shape}]`,
    );
    throw rangeError(`hindsight: goal and achieved must be alike, ${texts.join(', ')}`);
  }
}
