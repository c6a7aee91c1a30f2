/**
 * CartPole-v1 as Gymnasium defines it (classic_control/cartpole.py, kinematics_integrator 'euler'), many poles at once.
 * State is kept in double precision and observed in single, as there.
 */
import type { Random } from '../../src/index.ts';

const GRAVITY = 9.8;
const POLE_MASS = 0.1;
const TOTAL_MASS = 1 + POLE_MASS;
/** half of the pole's length */
const LENGTH = 0.5;
const POLE_MASS_LENGTH = POLE_MASS * LENGTH;
const FORCE = 10;
/** seconds between two states */
const TAU = 0.02;
const X_LIMIT = 2.4;
const THETA_LIMIT = (12 * 2 * Math.PI) / 360;

export const OBS_DIM = 4;
export const ACTIONS = 2;
/** an episode longer than this is truncated */
export const EPISODE_LIMIT = 500;

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

  /** Begins a new episode of one pole: every part of its state uniform within ±0.05. */
  reset(pole: number): void {
    for (let i = pole * OBS_DIM; i < (pole + 1) * OBS_DIM; i++) this.state[i] = this.#random.between(-0.05, 0.05);
    this.begin(pole);
  }

  /** Begins an episode from the state written to `state`. */
  begin(pole: number): void {
    this.steps[pole] = 0;
    this.terminated[pole] = 0;
    this.truncated[pole] = 0;
    this.#observe(pole);
  }

  /** Moves one pole: action 1 pushes right, 0 left. Every step earns a reward of 1, the last one too. */
  step(pole: number, action: number): void {
    const { state } = this;
    const at = pole * OBS_DIM;
    const x = state[at] as number;
    const speed = state[at + 1] as number;
    const theta = state[at + 2] as number;
    const spin = state[at + 3] as number;
    const force = action === 1 ? FORCE : -FORCE;
    const cos = Math.cos(theta);
    const sin = Math.sin(theta);
    const push = (force + POLE_MASS_LENGTH * spin * spin * sin) / TOTAL_MASS;
    const spinUp = (GRAVITY * sin - cos * push) / (LENGTH * (4 / 3 - (POLE_MASS * cos * cos) / TOTAL_MASS));
    const speedUp = push - (POLE_MASS_LENGTH * spinUp * cos) / TOTAL_MASS;
    // Positions move by the velocities before this step: that is what 'euler' means.
    const newX = x + TAU * speed;
    const newTheta = theta + TAU * spin;
    state[at] = newX;
    state[at + 1] = speed + TAU * speedUp;
    state[at + 2] = newTheta;
    state[at + 3] = spin + TAU * spinUp;
    const steps = (this.steps[pole] as number) + 1;
    this.steps[pole] = steps;
    this.terminated[pole] = Math.abs(newX) > X_LIMIT || Math.abs(newTheta) > THETA_LIMIT ? 1 : 0;
    this.truncated[pole] = steps >= EPISODE_LIMIT ? 1 : 0;
    this.#observe(pole);
  }

  /** Whether the episode of this pole is over: it needs a reset() before the next step(). */
  over(pole: number): boolean {
    return this.terminated[pole] === 1 || this.truncated[pole] === 1;
  }

  #observe(pole: number): void {
    for (let i = pole * OBS_DIM; i < (pole + 1) * OBS_DIM; i++) this.obs[i] = this.state[i] as number;
  }
}
