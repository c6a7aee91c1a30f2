/** CartPole-v1 as Gymnasium defines it (classic_control/cartpole.py, kinematics_integrator 'euler'): hold a pole up on a cart. */
import type { Environment, Step } from '../../src/collect/index.ts';
import { Random } from '../../src/index.ts';

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

/** Moves a state, x, x', θ and θ' from `at` on: action 1 pushes right, 0 left. True: the pole fell, or the cart left the track. */
export function push(state: Float64Array, at: number, action: number): boolean {
  const x = state[at] as number;
  const speed = state[at + 1] as number;
  const theta = state[at + 2] as number;
  const spin = state[at + 3] as number;
  const force = action === 1 ? FORCE : -FORCE;
  const cos = Math.cos(theta);
  const sin = Math.sin(theta);
  const pushed = (force + POLE_MASS_LENGTH * (spin * spin) * sin) / TOTAL_MASS;
  const spinUp = (GRAVITY * sin - cos * pushed) / (LENGTH * (4 / 3 - (POLE_MASS * (cos * cos)) / TOTAL_MASS));
  const speedUp = pushed - (POLE_MASS_LENGTH * spinUp * cos) / TOTAL_MASS;
  // Positions move by the velocities before this step: that is what 'euler' means.
  const newX = x + TAU * speed;
  const newTheta = theta + TAU * spin;
  state[at] = newX;
  state[at + 1] = speed + TAU * speedUp;
  state[at + 2] = newTheta;
  state[at + 3] = spin + TAU * spinUp;
  return Math.abs(newX) > X_LIMIT || Math.abs(newTheta) > THETA_LIMIT;
}

/** Every part of the state uniform within ±0.05. */
export function rest(state: Float64Array, at: number, random: Random): void {
  for (let i = at; i < at + 4; i++) state[i] = random.between(-0.05, 0.05);
}

export default class CartPole implements Environment<number> {
  readonly observationSpace = { shape: [4] } as const;
  /** 0 pushes left, 1 right */
  readonly actionSpace = { n: 2 } as const;
  readonly maxEpisodeSteps = 500;
  /** x, x', θ, θ' */
  readonly state = new Float64Array(4);

  reset(seed: number): Float64Array {
    rest(this.state, 0, new Random(seed));
    return this.state;
  }

  /** Every step earns a reward of 1, the last one too. */
  step(action: number): Step {
    const terminated = push(this.state, 0, action);
    return { obs: this.state, reward: 1, terminated };
  }
}
