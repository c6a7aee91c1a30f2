/**
 * Several environments of one kind that are stepped together. Their observations are in one array,
 * one environment after the other. When an episode has ended, its environment is reset at once, and
 * `nextObs` still contains the last observation. The results of environments are checked while they
 * are copied.
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import type { TypedArray } from '../../base/dtype.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { takeActions } from './actions.ts';
import type { ActionMask, AnyEnvironment, Environment, Observation, Step } from './environment.ts';
import type { EnvironmentSet, EpisodeHooks, SteppedSet } from './environment-set.ts';
import { ActionMasks } from './masks.ts';
import { checkSameSpaces, observationArray, type Spaces, spacesOf } from './spaces.ts';

type Actable = Environment<number | Float32Array>;
type MaybeMask = ActionMask | null | undefined;
type First = Observation | { readonly obs: Observation; readonly actionMask?: MaybeMask };

class VectorEnvironment implements SteppedSet {
  readonly count: number;
  readonly spaces: Spaces;
  readonly obs: TypedArray;
  readonly nextObs: TypedArray;
  readonly rewards: Float32Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  readonly skipped = null;
  going: number;
  readonly #environments: readonly Actable[];
  readonly #hooks: EpisodeHooks;
  readonly #limits: Float64Array;
  readonly #returns: Float64Array;
  readonly #lengths: Float64Array;
  readonly #rests: Uint8Array;
  /** actions of all environments, and a view of each environment's own actions */
  readonly #actions: Float32Array;
  readonly #parts: readonly Float32Array[];
  readonly #isFloat: boolean;
  readonly #masks: ActionMasks;
  #closed = false;

  /** Creates the set. begin() resets the environments for the first time. */
  constructor(
    environments: readonly AnyEnvironment[],
    spaces: Spaces,
    limits: Float64Array,
    hooks: EpisodeHooks,
  ) {
    this.#environments = environments as readonly Actable[];
    this.#hooks = hooks;
    this.#limits = limits;
    const count = environments.length;
    this.count = count;
    this.spaces = spaces;
    this.obs = observationArray(spaces, count);
    this.nextObs = observationArray(spaces, count);
    this.#isFloat = spaces.observation.dtype.startsWith('float');
    this.rewards = new Float32Array(count);
    this.terminated = new Uint8Array(count);
    this.truncated = new Uint8Array(count);
    this.#returns = new Float64Array(count);
    this.#lengths = new Float64Array(count);
    this.#rests = new Uint8Array(count);
    this.going = 0;
    const { size } = spaces.action;
    this.#actions = new Float32Array(count * size);
    this.#parts = environments.map((_, i) => this.#actions.subarray(i * size, (i + 1) * size));
    this.#masks = new ActionMasks(spaces, count, this.#name);
  }

  get actionMask(): Uint8Array | null {
    return this.#masks.current;
  }
  get nextActionMask(): Uint8Array | null {
    return this.#masks.next;
  }

  begin(): void | Promise<void> {
    this.going = this.count;
    return this.#each((i) => this.#begin(i));
  }

  step(actions: ArrayLike<number>): void | Promise<void> {
    const mask = this.#masks.current;
    const legal = mask === null ? undefined : { mask, when: this.#when };
    takeActions(actions, this.#actions, this.spaces, this.count, this.#name, legal);
    const discrete = this.spaces.action.kind === 'discrete';
    return this.#each((i) => {
      if (this.#rests[i] === 1) return;
      const environment = this.#environments[i] as Actable;
      const step = environment.step(
        discrete ? (this.#actions[i] as number) : (this.#parts[i] as Float32Array),
      );
      return isPromise(step) ? step.then((step) => this.#arrive(i, step)) : this.#arrive(i, step);
    });
  }

  #each(act: (i: number) => void | Promise<void>): void | Promise<void> {
    const late: Promise<void>[] = [];
    try {
      for (let i = 0; i < this.count; i++) {
        const promised = act(i);
        if (promised) late.push(promised);
      }
    } catch (error) {
      // Promises of other environments may reject later. The caller gets only this error, so those
      // rejections are ignored.
      for (const promised of late) promised.catch(() => {});
      throw error;
    }
    if (late.length > 0) return Promise.all(late).then(() => {});
  }

  /** Closes the set. Results of steps that arrive later are ignored. */
  close(): void {
    this.#closed = true;
  }

  /**
   * Checks and copies the results of a step. Returns a promise if the next episode's reset()
   * returns one.
   */
  #arrive(i: number, step: Step): void | Promise<void> {
    if (this.#closed) return;
    if (typeof step !== 'object' || step === null)
      throw typeError(
        `${this.#name(i)}: step() must return { obs, reward, terminated, truncated }, it returned ${describeValue(step)}`,
      );
    const { obs, reward, terminated, truncated = false } = step;
    if (typeof reward !== 'number' || !Number.isFinite(Math.fround(reward)))
      throw typeError(
        `${this.#name(i)}: reward must be a number that is finite in single precision, got ${describeValue(reward)}${this.#when(i)}`,
      );
    if (typeof terminated !== 'boolean') throw this.#noFlag(i, 'terminated', terminated);
    if (typeof truncated !== 'boolean') throw this.#noFlag(i, 'truncated', truncated);
    this.#copy(i, obs, this.nextObs, 'step()', terminated);
    this.rewards[i] = reward;
    const length = (this.#lengths[i] as number) + 1;
    const cut = !terminated && (truncated || length >= (this.#limits[i] as number));
    const mask = step.actionMask ?? this.#environments[i]?.actionMask?.();
    this.#masks.afterStep(i, mask, terminated, this.#when);
    this.#lengths[i] = length;
    this.#returns[i]! += reward;
    this.terminated[i] = terminated ? 1 : 0;
    this.truncated[i] = cut ? 1 : 0;
    if (terminated || cut) {
      this.#hooks.ended?.(i, this.#returns[i] as number, length);
      return this.#begin(i);
    }
    const { size } = this.spaces.observation;
    for (let at = i * size; at < (i + 1) * size; at++) this.obs[at] = this.nextObs[at] as number;
    this.#masks.goOn(i);
  }

  #begin(i: number): void | Promise<void> {
    this.#returns[i] = this.#lengths[i] = 0;
    const seed = this.#hooks.nextSeed(i);
    if (seed === null) {
      this.#rests[i] = 1;
      this.going--;
      this.#masks.rest(i);
      return;
    }
    const first = (this.#environments[i] as Actable).reset(seed);
    if (isPromise(first)) return first.then((first) => this.#take(i, first));
    this.#take(i, first);
  }

  /** Checks and copies the result of a reset. */
  #take(i: number, first: First): void {
    if (this.#closed) return;
    const isObject = typeof first === 'object' && first !== null && 'obs' in first;
    this.#copy(i, isObject ? first.obs : first, this.obs, 'reset()');
    const mask = isObject ? first.actionMask : undefined;
    this.#masks.afterReset(i, mask ?? this.#environments[i]?.actionMask?.());
  }

  /**
   * Copies an observation. `last`: whether the observation follows a step that terminated. Then it
   * may be non-finite, because the learner does not use it and the buffer stores 0.
   */
  #copy(i: number, obs: ArrayLike<number>, to: TypedArray, by: string, last = false): void {
    const { size, shape } = this.spaces.observation;
    if (typeof obs !== 'object' || obs === null || typeof obs.length !== 'number')
      throw typeError(
        `${this.#name(i)}: ${by} must return an observation, an array of numbers; it returned ${describeValue(obs)}`,
      );
    if (obs.length !== size)
      throw rangeError(
        `${this.#name(i)}: ${by} returned an observation of ${obs.length} numbers, but its space is [${shape}]${this.#when(i)}`,
      );
    const start = i * size;
    if (!this.#isFloat && obs.constructor === to.constructor) {
      to.set(obs as never, start);
      return;
    }
    for (let j = 0; j < size; j++) {
      const value = obs[j] as number;
      to[start + j] = value;
      if (last && typeof value === 'number' && !Number.isFinite(value)) {
        if (this.#isFloat) continue;
        to.fill(0 as never, start, start + size);
        return;
      }
      // Throws for NaN, for infinities, for numbers that overflow the dtype of `to`, and for values
      // that are not numbers.
      if (typeof value !== 'number' || !(Math.abs(to[start + j] as number) <= Number.MAX_VALUE))
        throw typeError(
          `${this.#name(i)}: ${by} returned ${describeValue(value)} as number ${j} of an observation${this.#when(i)}`,
        );
      if (!this.#isFloat && to[start + j] !== value)
        throw rangeError(
          `${this.#name(i)}: ${by} returned ${value} as number ${j} of an observation, which ${this.spaces.observation.dtype} cannot hold${this.#when(i)}`,
        );
    }
  }

  #noFlag(i: number, key: string, value: unknown): Error {
    return typeError(
      `${this.#name(i)}: ${key} must be a boolean, got ${describeValue(value)}${this.#when(i)}`,
    );
  }
  #name = (i: number): string => this.#hooks.name?.(i) ?? `environment ${i}`;
  #when = (i: number): string => `, in step ${(this.#lengths[i] as number) + 1} of its episode`;
}

/** Closes every environment, even if one of them throws. Then rejects with the first error. */
export async function closeAll(environments: readonly AnyEnvironment[]): Promise<void> {
  const ends = await Promise.allSettled(
    environments.map(async (environment) => environment.close?.()),
  );
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}

/** A set of environments that were made one by one. It closes them together. */
export class EnvironmentList implements EnvironmentSet {
  readonly count: number;
  readonly spaces: Spaces;
  readonly #environments: readonly AnyEnvironment[];
  readonly #limits: Float64Array;
  #playing: VectorEnvironment | null = null;

  /**
   * Throws a TypeError or RangeError for an invalid environment, and if the environments' spaces
   * differ.
   */
  constructor(environments: readonly AnyEnvironment[], name = (i: number) => `environment ${i}`) {
    this.#environments = environments;
    this.count = environments.length;
    const all = environments.map(checkedSpaces);
    this.spaces = all[0] as Spaces;
    for (const [i, spaces] of all.entries()) checkSameSpaces(this.spaces, spaces, name(i));
    this.#limits = Float64Array.from(environments, ({ maxEpisodeSteps = Infinity }) =>
      maxEpisodeSteps === Infinity ? Infinity : checkCount('maxEpisodeSteps', maxEpisodeSteps),
    );
  }

  play(hooks: EpisodeHooks): SteppedSet {
    this.#playing?.close();
    this.#playing = new VectorEnvironment(this.#environments, this.spaces, this.#limits, hooks);
    return this.#playing;
  }

  async close(): Promise<void> {
    this.#playing?.close();
    await closeAll(this.#environments);
  }
}

function checkedSpaces(environment: AnyEnvironment): Spaces {
  const spaces = spacesOf(environment);
  for (const method of ['reset', 'step'] as const)
    if (typeof environment[method] !== 'function')
      throw typeError(
        `an environment must have ${method}(), it is ${describeValue(environment[method])}`,
      );
  return spaces;
}

const isPromise = <T>(value: T | Promise<T>): value is Promise<T> =>
  typeof (value as { then?: unknown } | null)?.then === 'function';
