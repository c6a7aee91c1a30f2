/**
 * Physics of CartPole-v1 (Gymnasium's classic_control/cartpole.py, kinematics_integrator 'euler').
 * The file imports nothing, because a browser loads it too.
 */
const GRAVITY = 9.8;
const POLE_MASS = 0.1;
const TOTAL_MASS = 1 + POLE_MASS;
/** half of the pole's length, in meters */
export const LENGTH = 0.5;
const POLE_MASS_LENGTH = POLE_MASS * LENGTH;
const FORCE = 10;
/** seconds between two states */
export const TAU = 0.02;
/** distance of both ends of the track from its middle */
export const X_LIMIT = 2.4;
/** angle at which the pole counts as fallen, in radians */
export const THETA_LIMIT = (12 * 2 * Math.PI) / 360;

/**
 * Moves the state x, x', θ, θ' that begins at index `at` by one step. Action 1 pushes right and
 * action 0 left. Returns true if the pole fell or the cart left the track.
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
  // With 'euler', positions move by the velocities before this step.
  const newX = x + TAU * speed;
  const newTheta = theta + TAU * spin;
  state[at] = newX;
  state[at + 1] = speed + TAU * speedUp;
  state[at + 2] = newTheta;
  state[at + 3] = spin + TAU * spinUp;
  return Math.abs(newX) > X_LIMIT || Math.abs(newTheta) > THETA_LIMIT;
}
