/**
 * CartPole-v1 with many poles at once. The state has float64 precision and observations have
 * float32 precision, as in Gymnasium.
 */
import type { Random } from '../../src/index.ts';
import { push, rest } from '../environments/cart-pole.ts';

export const OBS_DIM = 4;
export const ACTIONS = 2;
/** largest number of steps of an episode, after which it is truncated */
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
  /** the state in float32, which the agent observes */
  readonly obs: Float32Array;
  /**
   * number of steps in the current episode of each pole. As each step earns 1, it is also the
   * return so far
   */
  readonly steps: Int32Array;
  /** 1 if the pole fell or the cart left the track in the last step */
  readonly terminated: Uint8Array;
  /** 1 if the last step reached the time limit */
  readonly truncated: Uint8Array;
  readonly #random: Random;

  /** Begins an episode for every pole. */
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
   * Moves one pole. Action 1 pushes right and action 0 left. Every step earns a reward of 1,
   * including the last.
   */
  step(pole: number, action: number): void {
    this.terminated[pole] = push(this.state, pole * OBS_DIM, action) ? 1 : 0;
    const steps = (this.steps[pole] as number) + 1;
    this.steps[pole] = steps;
    this.truncated[pole] = steps >= EPISODE_LIMIT ? 1 : 0;
    this.#observe(pole);
  }

  /** Returns whether the episode of a pole is over. If so, call reset() before the next step(). */
  over(pole: number): boolean {
    return this.terminated[pole] === 1 || this.truncated[pole] === 1;
  }

  /** Returns a copy of all state, for restore(). */
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
