/**
 * Views: descriptions of how to build a batch. A view is checked once, frozen, and valid for one
 * schema.
 */
import { checkCount, checkInternal, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { StepFields, StepLayout } from '../lanes/schema.ts';
import { checkHindsight, type Hindsight } from './hindsight.ts';

/** Number of frames of each stacked observation, by name. */
export type Stack = Readonly<Record<string, number>>;

/** Options of a TrajectoryBuffer's transitions(). */
export interface TransitionsOptions {
  /** environment steps that a transition sums up, fewer if the episode ends before, default 1 */
  nStep?: number;
  /** discount of one environment step, 0 to 1, default 0.99 */
  gamma?: number;
  /**
   * observations that are returned as the last k frames of their episode, oldest first, e.g.
   * `{ obs: 4 }`, default: none
   */
  stack?: Stack;
  /**
   * padding before an episode's first frame: copies of that frame ('repeat') or zeros ('zero'),
   * default 'repeat'
   */
  pad?: 'repeat' | 'zero';
  /** hindsight goals, the result of hindsight(), default: none */
  relabel?: Hindsight;
}

/** Options of a TrajectoryBuffer's windows(). */
export interface WindowsOptions {
  /** steps of a window that the learner learns from, at least 1 */
  length: number;
  /** steps before the `length` steps, which only warm up the recurrent state, default 0 */
  burnIn?: number;
  /**
   * parts of a window that may be padding, default 'full'. 'full': no part. 'tail': steps after the
   * episode's end. 'anchor': these, and burn-in steps before the episode's start
   */
  edges?: 'full' | 'tail' | 'anchor';
  /** as in TransitionsOptions */
  stack?: Stack;
  /** as in TransitionsOptions */
  pad?: 'repeat' | 'zero';
}

/** All options of a view, with defaults filled in. */
export interface ViewSpec {
  readonly kind: 'transitions' | 'windows';
  readonly nStep: number;
  readonly gamma: number;
  readonly length: number;
  readonly burnIn: number;
  readonly edges: 'full' | 'tail' | 'anchor';
  readonly stack: Stack;
  readonly pad: 'repeat' | 'zero';
  readonly relabel: Hindsight | null;
  /** signature of the fields and lane capacity for which the view was created */
  readonly signature: string;
}
/** The options of a view without its signature. */
type Unsigned = Omit<ViewSpec, 'signature'>;

/** Returns the options of a view. The package does not export this function. */
export let specOf: (view: View) => ViewSpec;

/**
 * Describes how a batch is built from stored steps. buffer.transitions() and buffer.windows()
 * create a view. Any buffer with the same fields and lane capacity accepts the view, in any thread.
 * @example
 * const view = buffer.transitions({ nStep: 3, gamma: 0.99 });
 * const batch = buffer.sample({ view, seed: 7, count: 256 });
 */
export class View<
  S extends StepFields = StepFields,
  K extends 'transitions' | 'windows' = 'transitions' | 'windows',
> {
  readonly kind: K;
  readonly #spec: ViewSpec;
  /** exists only as a type */
  declare readonly '~fields'?: S;

  /**
   * Returns true only for an object with this class's private field. A proxy of a view, or an
   * object that inherits from a view, lacks the field.
   */
  static [Symbol.hasInstance](made: unknown): boolean {
    return typeof made === 'object' && made !== null && #spec in made;
  }

  static {
    specOf = (view) => view.#spec;
  }

  /** buffer.transitions() and buffer.windows() call it, with a ViewSpec. */
  constructor(key: unknown, given: { kind: K }) {
    checkInternal(key, 'View', 'buffer.transitions() or buffer.windows()');
    const spec = given as ViewSpec & { kind: K };
    this.kind = spec.kind;
    this.#spec = Object.freeze({ ...spec });
    Object.freeze(this);
  }
}

const edges = ['full', 'tail', 'anchor'] as const;

export function transitionsSpec(
  options: TransitionsOptions,
  layout: StepLayout,
  perLane: number,
): Unsigned {
  checkKeys('transitions', options, ['nStep', 'gamma', 'stack', 'pad', 'relabel']);
  const { nStep = 1, gamma = 0.99, relabel } = options;
  checkCount('nStep', nStep);
  if (typeof gamma !== 'number')
    throw typeError(`gamma must be a number, got ${describeValue(gamma)}`);
  if (!(gamma >= 0 && gamma <= 1)) throw rangeError(`gamma must be from 0 to 1, got ${gamma}`);
  const stack = checkStack(options.stack, layout);
  checkFits(`nStep ${nStep}`, nStep, stack, perLane);
  if (relabel !== undefined) checkHindsight(relabel, layout, stack);
  const pad = checkPad(options.pad);
  return {
    kind: 'transitions',
    nStep,
    gamma,
    length: 1,
    burnIn: 0,
    edges: 'full',
    stack,
    pad,
    relabel: relabel ?? null,
  };
}

export function windowsSpec(
  options: WindowsOptions,
  layout: StepLayout,
  perLane: number,
): Unsigned {
  checkKeys('windows', options, ['length', 'burnIn', 'edges', 'stack', 'pad']);
  const { length, burnIn = 0, edges: at = 'full' } = options;
  checkCount('length', length);
  checkCount('burnIn', burnIn, 0);
  if (!edges.includes(at))
    throw typeError(
      `edges must be ${edges.map((e) => `'${e}'`).join(', ')}, got ${describeValue(at)}`,
    );
  const stack = checkStack(options.stack, layout);
  checkFits(`burnIn ${burnIn} + length ${length}`, burnIn + length, stack, perLane);
  const pad = checkPad(options.pad);
  return {
    kind: 'windows',
    nStep: 1,
    gamma: 1,
    length,
    burnIn,
    edges: at,
    stack,
    pad,
    relabel: null,
  };
}

function checkPad(pad: unknown = 'repeat'): 'repeat' | 'zero' {
  if (pad !== 'repeat' && pad !== 'zero')
    throw typeError(`pad must be 'repeat' or 'zero', got ${describeValue(pad)}`);
  return pad;
}

function checkStack(stack: unknown, layout: StepLayout): Stack {
  // The object has no prototype, because a field may have any name, even one that every object
  // inherits.
  const frames: Record<string, number> = Object.create(null);
  if (stack === undefined) return Object.freeze(frames);
  if (typeof stack !== 'object' || stack === null)
    throw typeError(
      `stack must be an object of frames by field, e.g. { obs: 4 }, got ${describeValue(stack)}`,
    );
  const known = layout.fields.filter(({ observation }) => observation).map(({ key }) => key);
  for (const [name, count] of Object.entries(stack)) {
    if (!known.includes(name))
      throw rangeError(
        `stack.${name}: only observations can be stacked; these are ${known.join(', ')}`,
      );
    if (layout.fields.find(({ key }) => key === name)?.mask !== undefined)
      throw rangeError(`stack.${name}: masks cannot be stacked; the last one counts`);
    frames[name] = checkCount(`stack.${name}`, count);
  }
  return Object.freeze(frames);
}

/**
 * Throws unless a lane's ring has room for the steps, the frames before them and the observation
 * after them.
 */
function checkFits(what: string, steps: number, stack: Stack, perLane: number): void {
  const before = Math.max(1, ...Object.values(stack)) - 1;
  if (steps + before + 1 <= perLane) return;
  const with_ = before > 0 ? `, ${before} frames before` : '';
  throw rangeError(
    `${what}${with_} and the observation after it need ${steps + before + 1} places of a lane; it has ${perLane} (capacity / lanes)`,
  );
}
