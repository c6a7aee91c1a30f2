/**
 * CartPole-v1, many poles at once. State is kept in double precision and observed in single, as
 * Gymnasium does.
 */
import type { Random } from '../../src/index.ts';
import { push, rest } from '../environments/cart-pole.ts';

export const OBS_DIM = 4;
export const ACTIONS = 2;
/** an episode longer than this is truncated */
export const EPISODE_LIMIT = 500;

export interface SavedPoles {
  state: Float64Array;
  steps: Int32Array;
  terminated: Uint8Array;
  truncated: Uint8Array;
  random: number[];
}

export class CartPoles {
  readonly count: number;
  /** x, x', θ, θ' of each pole */
  readonly state: Float64Array;
  /** the same in single precision: what an agent sees */
  readonly obs: Float32Array;
  /** steps of the episode under way; with a reward of 1 a step, also its return so far */
  readonly steps: Int32Array;
  /** of the last step: the pole fell or the cart left the track */
  readonly terminated: Uint8Array;
  /** of the last step: the time limit was reached */
  readonly truncated: Uint8Array;
  readonly #random: Random;

  /** Every pole begins an episode. */
  constructor(count: number, random: Random) {
    this.count = count;
    this.state = new Float64Array(count * OBS_DIM);
    this.obs = new Float32Array(count * OBS_DIM);
    this.steps = new Int32Array(count);
    this.terminated = new Uint8Array(count);
    this.truncated = new Uint8Array(count);
    this.#random = random;
    for (let pole = 0; pole < count; pole++) this.reset(pole);
  }

  /** Begins a new episode of one pole. */
  reset(pole: number): void {
    rest(this.state, pole * OBS_DIM, this.#random);
    this.begin(pole);
  }

  /** Begins an episode from the state written to `state`. */
  begin(pole: number): void {
    this.steps[pole] = 0;
    this.terminated[pole] = 0;
    this.truncated[pole] = 0;
    this.#observe(pole);
  }

  /**
   * Moves one pole: action 1 pushes right, 0 left. Every step earns a reward of 1, the last one
   * too.
   */
  step(pole: number, action: number): void {
    this.terminated[pole] = push(this.state, pole * OBS_DIM, action) ? 1 : 0;
    const steps = (this.steps[pole] as number) + 1;
    this.steps[pole] = steps;
    this.truncated[pole] = steps >= EPISODE_LIMIT ? 1 : 0;
    this.#observe(pole);
  }

  /** Whether the episode of this pole is over: it needs a reset() before the next step(). */
  over(pole: number): boolean {
    return this.terminated[pole] === 1 || this.truncated[pole] === 1;
  }

  /** Where every pole is, for restore(). */
  saved(): SavedPoles {
    const { state, steps, terminated, truncated } = this;
    const copies = { state: state.slice(), steps: steps.slice() };
    return {
      ...copies,
      terminated: terminated.slice(),
      truncated: truncated.slice(),
      random: this.#random.state(),
    };
  }
  restore({ state, steps, terminated, truncated, random }: SavedPoles): void {
    this.state.set(state);
    this.steps.set(steps);
    this.terminated.set(terminated);
    this.truncated.set(truncated);
    this.#random.loadState(random);
    for (let pole = 0; pole < this.count; pole++) this.#observe(pole);
  }

  #observe(pole: number): void {
    for (let i = pole * OBS_DIM; i < (pole + 1) * OBS_DIM; i++)
      this.obs[i] = this.state[i] as number;
  }
}
