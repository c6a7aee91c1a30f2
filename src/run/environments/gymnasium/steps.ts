/** Plays episodes of environments that Python steps, in Gymnasium's three autoreset modes. */
import { describeValue } from '../../../base/checks.ts';
import type { TypedArray } from '../../../base/dtype.ts';
import { rangeError, typeError } from '../../../base/errors.ts';
import { takeActions } from '../actions.ts';
import type { EpisodeHooks, SteppedSet } from '../environment-set.ts';
import { ActionMasks } from '../masks.ts';
import { observationArray, type Spaces } from '../spaces.ts';
import { type Answer, type Fault, type Greeting, RESET, type Request, STEP } from './frames.ts';

interface StepsSetup {
  spaces: Spaces;
  count: number;
  request: Request;
  answer: Answer;
  /** sends the request and waits for the answer. Returns the answer's fault, or null without one */
  ask: (operation: number) => Fault | null;
  autoreset: Greeting['autoreset'];
  hooks: EpisodeHooks;
  /** name of the whole set, in errors */
  name: string;
}

export class GymnasiumSteps implements SteppedSet {
  readonly count: number;
  readonly spaces: Spaces;
  readonly obs: TypedArray;
  readonly nextObs: TypedArray;
  readonly rewards: Float32Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  readonly skipped: Uint8Array | null;
  going = 0;
  readonly #setup: StepsSetup;
  readonly #returns: Float64Array;
  readonly #lengths: Float64Array;
  readonly #rests: Uint8Array;
  /**
   * only in next-step mode: 1 if the environment's episode is over, so that its next step only
   * begins another episode
   */
  readonly #over: Uint8Array;
  readonly #masks: ActionMasks;

  constructor(setup: StepsSetup) {
    const { spaces, count, autoreset } = setup;
    this.#setup = setup;
    this.count = count;
    this.spaces = spaces;
    this.obs = observationArray(spaces, count);
    this.nextObs = observationArray(spaces, count);
    this.rewards = new Float32Array(count);
    this.terminated = new Uint8Array(count);
    this.truncated = new Uint8Array(count);
    this.skipped = autoreset === 'next-step' ? new Uint8Array(count) : null;
    this.#returns = new Float64Array(count);
    this.#lengths = new Float64Array(count);
    this.#rests = new Uint8Array(count);
    this.#over = new Uint8Array(count);
    this.#masks = new ActionMasks(spaces, count, this.#name);
  }

  get actionMask(): Uint8Array | null {
    return this.#masks.current;
  }
  get nextActionMask(): Uint8Array | null {
    return this.#masks.next;
  }

  begin(): void {
    const { count } = this;
    this.going = count;
    this.#rests.fill(0);
    this.#over.fill(0);
    for (let i = 0; i < count; i++) this.#nextEpisode(i);
    this.#reset();
  }

  step(actions: ArrayLike<number>): void {
    const { request, answer, autoreset } = this.#setup;
    const mask = this.#masks.current;
    const legal = mask === null ? undefined : { mask, when: this.#when };
    takeActions(actions, request.actions, this.spaces, this.count, this.#name, legal);
    if (mask !== null) this.#restLegally();
    this.#ask(STEP, 'step()');
    this.#copy(answer.finals ?? answer.obs, this.nextObs, 'step()', true);
    request.mask.fill(0);
    let over = false;
    for (let i = 0; i < this.count; i++) over = this.#arrive(i) || over;
    if (autoreset === 'disabled' && over) this.#reset();
    else if (answer.finals) this.#copy(answer.obs, this.obs, 'step()');
    else {
      this.obs.set(this.nextObs as never);
      if (over) this.#clean();
    }
  }

  /** Checks the results of environment i's step. Returns whether the episode ended. */
  #arrive(i: number): boolean {
    const { answer, hooks, request } = this.#setup;
    const { skipped } = this;
    const begins = this.#over[i] as number;
    if (skipped) skipped[i] = begins;
    this.#over[i] = 0;
    if (begins) {
      this.rewards[i] = this.terminated[i] = this.truncated[i] = 0;
      this.#takeFirst(i);
      return false;
    }
    const reward = answer.rewards[i] as number;
    if (!Number.isFinite(Math.fround(reward)))
      throw typeError(
        `${this.#name(i)}: reward must be a number that is finite in single precision, got ${reward}${this.#when(i)}`,
      );
    this.rewards[i] = reward;
    this.terminated[i] = answer.terminated[i]!;
    const terminated = answer.terminated[i] === 1;
    this.truncated[i] = terminated ? 0 : answer.truncated[i]!;
    if (!this.#rests[i])
      this.#masks.afterStep(i, answer.mask(i, this.count, true), terminated, this.#when);
    this.#returns[i]! += reward;
    this.#lengths[i]!++;
    if (!this.terminated[i] && !this.truncated[i]) {
      if (!this.#rests[i]) this.#masks.goOn(i);
      return false;
    }
    if (this.skipped) this.#over[i] = 1;
    if (this.#rests[i]) {
      request.mask[i] = 1;
      return true;
    }
    hooks.ended?.(i, this.#returns[i] as number, this.#lengths[i] as number);
    this.#nextEpisode(i);
    if (answer.finals) this.#takeFirst(i);
    else this.#masks.rest(i);
    return true;
  }

  /** Takes the mask of environment i's first state, unless the environment rests. */
  #takeFirst(i: number): void {
    if (this.#rests[i]) this.#masks.rest(i);
    else this.#masks.afterReset(i, this.#setup.answer.mask(i, this.count, false));
  }

  /** Chooses legal actions for resting environments, because Python steps them with the others. */
  #restLegally(): void {
    const { request, answer } = this.#setup;
    for (let i = 0; i < this.count; i++)
      if (this.#rests[i])
        request.actions[i] = Math.max(0, answer.mask(i, this.count, false)?.indexOf(1) ?? 0);
  }

  /**
   * Requests the next episode of environment i. If nextSeed() returns null, the environment rests.
   * Python then still steps it with the others, but its results are ignored.
   */
  #nextEpisode(i: number): void {
    const { request, hooks } = this.#setup;
    this.#returns[i] = this.#lengths[i] = 0;
    request.mask[i] = 1;
    const seed = hooks.nextSeed(i);
    request.seeds[i] = seed ?? 0;
    if (seed !== null) return;
    this.#rests[i] = 1;
    this.going--;
  }

  #reset(): void {
    const { answer, request } = this.#setup;
    this.#ask(RESET, 'reset()');
    this.#copy(answer.obs, this.obs, 'reset()');
    for (let i = 0; i < this.count; i++) if (request.mask[i]) this.#takeFirst(i);
  }

  #ask(operation: number, by: string): void {
    const { ask, name } = this.#setup;
    const fault = ask(operation);
    if (fault === null) return;
    const { environment, gave } = fault;
    const [who, when] =
      environment === null ? [name, ''] : [this.#name(environment), this.#when(environment)];
    throw rangeError(`${who}: ${by} returned ${gave}${when}`);
  }

  /**
   * Replaces non-finite values by 0 in the last observations of episodes. In next-step mode the
   * policy receives these observations, although its actions for them are ignored. A policy throws
   * for NaN.
   */
  #clean(): void {
    const { size, dtype } = this.spaces.observation;
    if (!dtype.startsWith('float')) return;
    for (let i = 0; i < this.count; i++)
      for (let at = i * size; this.#over[i] && at < (i + 1) * size; at++)
        if (!Number.isFinite(this.obs[at])) this.obs[at] = 0;
  }

  /**
   * Copies observations. Throws for NaN and infinities. With `last`, the observation of a
   * terminated step may contain them, because the buffer stores 0 for it.
   */
  #copy(from: TypedArray, to: TypedArray, by: string, last = false): void {
    const { size, dtype } = this.spaces.observation;
    to.set(from as never);
    if (!dtype.startsWith('float')) return;
    const { terminated } = this.#setup.answer;
    for (let at = 0; at < to.length; at++)
      if (!(Math.abs(to[at] as number) <= Number.MAX_VALUE)) {
        const i = Math.floor(at / size);
        if (last && terminated[i] && !this.#over[i]) continue;
        throw typeError(
          `${this.#name(i)}: ${by} returned ${describeValue(to[at])} as number ${at % size} of an observation${this.#when(i)}`,
        );
      }
  }

  #name = (i: number): string => this.#setup.hooks.name?.(i) ?? `environment ${i}`;
  #when = (i: number): string => `, in step ${(this.#lengths[i] as number) + 1} of its episode`;
}
