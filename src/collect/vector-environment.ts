/**
 * Several environments of one kind, stepped together: their observations lie in one array, one behind the other. An episode that
 * is over begins anew at once, and its last observation is kept beside. What an environment gives is checked as it is copied.
 */
import { checkCount, shown } from '../checks.ts';
import type { TypedArray } from '../dtype.ts';
import { rangeError, typeError } from '../errors.ts';
import type { AnyEnvironment, Environment, Observation, Step } from './environment.ts';
import { checkSameSpaces, observationArray, type Spaces, spacesOf } from './spaces.ts';

type Actable = Environment<number | Float32Array>;

export interface VectorOptions {
  /** environments that the caller made; they are closed with this */
  environments: readonly AnyEnvironment[];
  /** the seed of an environment's next episode, its first one too; null: it has none, and rests */
  nextSeed(environment: number): number | null;
  /** an episode is over */
  ended?(environment: number, episodeReturn: number, length: number): void;
  /** how errors call the environments */
  name?: (environment: number) => string;
}

export class VectorEnvironment {
  readonly count: number;
  readonly spaces: Spaces;
  /** what each shows now: of one that began anew the first observation of its episode */
  readonly obs: TypedArray;
  /** what each showed behind its last action, also where the episode ended with it */
  readonly nextObs: TypedArray;
  readonly rewards: Float32Array;
  /** of the last step: the episode ended by itself */
  readonly terminated: Uint8Array;
  /** of the last step: it was cut, and had not ended by itself */
  readonly truncated: Uint8Array;
  /** environments that have an episode under way */
  going: number;
  readonly #environments: readonly Actable[];
  readonly #options: VectorOptions;
  readonly #limits: Float64Array;
  readonly #returns: Float64Array;
  readonly #lengths: Float64Array;
  readonly #rests: Uint8Array;
  /** a box's actions: each environment's part of `#actions` */
  readonly #actions: Float32Array;
  readonly #parts: readonly Float32Array[];
  readonly #isFloat: boolean;
  #closed = false;

  /** Checks the spaces; nothing is reset yet. Throws TypeError or RangeError for what is no environment. */
  constructor(options: VectorOptions) {
    const { environments } = options;
    this.#environments = environments as readonly Actable[];
    this.#options = options;
    this.count = environments.length;
    const all = environments.map((environment) => checkedSpaces(environment));
    this.spaces = all[0] as Spaces;
    for (const [i, spaces] of all.entries()) checkSameSpaces(this.spaces, spaces, this.#name(i));
    this.#limits = Float64Array.from(environments, ({ maxEpisodeSteps = Infinity }) =>
      maxEpisodeSteps === Infinity ? Infinity : checkCount('maxEpisodeSteps', maxEpisodeSteps),
    );
    const { count, spaces } = this;
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
  }

  /** Begins the first episode of each. A promise where an environment gives one. */
  begin(): void | Promise<void> {
    this.going = this.count;
    return this.#each((i) => this.#begin(i));
  }

  /** One step of each that has an episode under way; count × size numbers. A promise where an environment gives one. */
  step(actions: ArrayLike<number>): void | Promise<void> {
    this.#take(actions);
    const discrete = this.spaces.action.kind === 'discrete';
    return this.#each((i) => {
      if (this.#rests[i] === 1) return;
      const environment = this.#environments[i] as Actable;
      const step = environment.step(discrete ? (this.#actions[i] as number) : (this.#parts[i] as Float32Array));
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
      // What was promised meanwhile is not left to nobody.
      for (const promised of late) promised.catch(() => {});
      throw error;
    }
    if (late.length > 0) return Promise.all(late).then(() => {});
  }

  /** Closes every environment, also when one of them throws; throws the first error then. What is late comes to nothing. */
  async close(): Promise<void> {
    this.#closed = true;
    const ends = await Promise.allSettled(this.#environments.map(async (environment) => environment.close?.()));
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed) throw failed.reason;
  }

  /** Copies the actions; throws for one that the space does not have. */
  #take(actions: ArrayLike<number>): void {
    const { action } = this.spaces;
    const { length } = this.#actions;
    if (typeof actions?.length !== 'number' || actions.length !== length) {
      const each = action.kind === 'discrete' ? 'one' : action.size;
      throw rangeError(
        `actions must be ${length} numbers, ${each} for each of ${this.count} environments; got ${shown(actions)}`,
      );
    }
    if (action.kind === 'discrete') {
      for (let i = 0; i < length; i++) {
        const value = actions[i] as number;
        if (!(value >= 0 && value < action.n && Number.isInteger(value)))
          throw rangeError(`action ${value} for ${this.#name(i)}: its actions are 0 to ${action.n - 1}`);
        this.#actions[i] = value;
      }
      return;
    }
    const { low, high, size } = action;
    for (let i = 0, j = 0; i < length; i++) {
      const value = Math.fround(actions[i] as number);
      const [least, most] = [low[j] as number, high[j] as number];
      // What float32 makes of an end may lie behind it.
      if (!(value >= Math.fround(least) && value <= Math.fround(most)))
        throw rangeError(
          `action ${value} for ${this.#name(Math.floor(i / size))}: number ${j} of its actions is ${least} to ${most}`,
        );
      this.#actions[i] = value;
      if (++j === size) j = 0;
    }
  }

  /** What a step gave; a promise where the next episode has to be waited for. */
  #arrive(i: number, step: Step): void | Promise<void> {
    if (this.#closed) return;
    if (typeof step !== 'object' || step === null)
      throw typeError(
        `${this.#name(i)}: step() must give { obs, reward, terminated, truncated }, it gave ${shown(step)}`,
      );
    const { obs, reward, terminated, truncated = false } = step;
    if (typeof reward !== 'number' || !Number.isFinite(Math.fround(reward)))
      throw typeError(
        `${this.#name(i)}: reward must be a number that is finite in single precision, got ${shown(reward)}${this.#when(i)}`,
      );
    if (typeof terminated !== 'boolean') throw this.#noFlag(i, 'terminated', terminated);
    if (typeof truncated !== 'boolean') throw this.#noFlag(i, 'truncated', truncated);
    this.#copy(i, obs, this.nextObs, 'step()');
    this.rewards[i] = reward;
    this.#returns[i]! += reward;
    const length = ++this.#lengths[i]!;
    const cut = !terminated && (truncated || length >= (this.#limits[i] as number));
    this.terminated[i] = terminated ? 1 : 0;
    this.truncated[i] = cut ? 1 : 0;
    if (terminated || cut) {
      this.#options.ended?.(i, this.#returns[i] as number, length);
      return this.#begin(i);
    }
    const { size } = this.spaces.observation;
    for (let at = i * size; at < (i + 1) * size; at++) this.obs[at] = this.nextObs[at] as number;
  }

  #begin(i: number): void | Promise<void> {
    this.#returns[i] = this.#lengths[i] = 0;
    const seed = this.#options.nextSeed(i);
    if (seed === null) {
      this.#rests[i] = 1;
      this.going--;
      return;
    }
    const first = (this.#environments[i] as Actable).reset(seed);
    if (isPromise(first)) return first.then((first) => this.#copy(i, bare(first), this.obs, 'reset()'));
    this.#copy(i, bare(first), this.obs, 'reset()');
  }

  #copy(i: number, obs: ArrayLike<number>, to: TypedArray, by: string): void {
    const { size, shape } = this.spaces.observation;
    if (typeof obs !== 'object' || obs === null || typeof obs.length !== 'number')
      throw typeError(`${this.#name(i)}: ${by} must give an observation, an array of numbers; it gave ${shown(obs)}`);
    if (obs.length !== size)
      throw rangeError(
        `${this.#name(i)}: ${by} gave an observation of ${obs.length} numbers, its space is [${shape}]${this.#when(i)}`,
      );
    const start = i * size;
    if (!this.#isFloat && obs.constructor === to.constructor) {
      to.set(obs as never, start);
      return;
    }
    for (let j = 0; j < size; j++) {
      const value = obs[j] as number;
      to[start + j] = value;
      // NaN and infinities, what becomes one in this precision, and what is no number at all.
      if (typeof value !== 'number' || !(Math.abs(to[start + j] as number) <= Number.MAX_VALUE))
        throw typeError(
          `${this.#name(i)}: ${by} gave ${shown(value)} as number ${j} of an observation${this.#when(i)}`,
        );
      if (!this.#isFloat && to[start + j] !== value)
        throw rangeError(
          `${this.#name(i)}: ${by} gave ${value} as number ${j} of an observation, which ${this.spaces.observation.dtype} has not${this.#when(i)}`,
        );
    }
  }

  #noFlag(i: number, key: string, value: unknown): Error {
    return typeError(`${this.#name(i)}: ${key} must be a boolean, got ${shown(value)}${this.#when(i)}`);
  }
  #name(i: number): string {
    return this.#options.name?.(i) ?? `environment ${i}`;
  }
  #when(i: number): string {
    return `, in step ${(this.#lengths[i] as number) + 1} of its episode`;
  }
}

function checkedSpaces(environment: AnyEnvironment): Spaces {
  const spaces = spacesOf(environment);
  for (const method of ['reset', 'step'] as const)
    if (typeof environment[method] !== 'function')
      throw typeError(`an environment must have ${method}(), it is ${shown(environment[method])}`);
  return spaces;
}

/** What reset() gave, without the object that may be around it. */
const bare = (first: Observation | { readonly obs: Observation }): Observation =>
  typeof first === 'object' && first !== null && 'obs' in first ? first.obs : first;

const isPromise = <T>(value: T | Promise<T>): value is Promise<T> =>
  typeof (value as { then?: unknown } | null)?.then === 'function';
