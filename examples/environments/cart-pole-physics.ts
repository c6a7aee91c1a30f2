/**
 * How CartPole-v1 moves (Gymnasium's classic_control/cartpole.py, kinematics_integrator 'euler').
 * It imports nothing: a browser runs it too.
 */
const GRAVITY = 9.8;
const POLE_MASS = 0.1;
const TOTAL_MASS = 1 + POLE_MASS;
/** half of the pole's length */
export const LENGTH = 0.5;
const POLE_MASS_LENGTH = POLE_MASS * LENGTH;
const FORCE = 10;
/** seconds between two states */
export const TAU = 0.02;
/** where the track ends, on both sides */
export const X_LIMIT = 2.4;
/** radians at which the pole counts as fallen */
export const THETA_LIMIT = (12 * 2 * Math.PI) / 360;

/**
 * Moves a state, x, x', θ and θ' from `at` on: action 1 pushes right, 0 left. True: the pole fell,
 * or the cart left the track.
 */
export function push(state: Float64Array, at: number, action: number): boolean {
  const x = state[at] as number;
  const speed = state[at + 1] as number;
  const theta = state[at + 2] as number;
  const spin = state[at + 3] as number;
  const force = action === 1 ? FORCE : -FORCE;
  const cos = Math.cos(theta);
  const sin = Math.sin(theta);
  const pushed = (force + POLE_MASS_LENGTH * (spin * spin) * sin) / TOTAL_MASS;
  const spinUp =
    (GRAVITY * sin - cos * pushed) / (LENGTH * (4 / 3 - (POLE_MASS * (cos * cos)) / TOTAL_MASS));
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
