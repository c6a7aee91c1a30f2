/**
 * Hindsight goals: the goal that a later step achieved replaces the wanted goal (Andrychowicz et
 * al., 2017).
 */
import { checkInternal, checkKeys, describeValue, INTERNAL } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { nextKey, type StepLayout } from '../lanes/schema.ts';

export interface HindsightOptions {
  /** the observation that holds the goal that is wanted */
  goal: string;
  /** the observation that holds the goal that is achieved, of the same dtype and shape */
  achieved: string;
  /** a step from the row's own on, its episode's last, or any of its episode. Default: 'future' */
  strategy?: 'future' | 'final' | 'episode';
  /** share of a batch that gets another goal, 0 to 1. Default: 0.8, four of five */
  ratio?: number;
}

/** The object that `transitions({ relabel })` accepts. */
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
 * Gives `ratio` of a batch the goal that a later step achieved, now and next, and marks those rows
 * in `relabelled`. The batch has `nextAchieved`, from which `goal_reward` or your own kernel makes
 * rewards. Throws a TypeError or RangeError that names the option.
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

/** Throws unless both are observations of one kind, and unstacked. */
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
