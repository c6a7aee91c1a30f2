/**
 * Acrobot-v1 as Gymnasium defines it (classic_control/acrobot.py, with the book's equations). The
 * task is to swing up the lower of two links.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

const GRAVITY = 9.8;
/** seconds between two states. One Runge-Kutta step covers them */
const TAU = 0.2;
const { PI, cos, sin } = Math;
const MAX_SPEEDS = [4 * PI, 9 * PI] as const;
/**
 * distance of a link's center of mass from its joint. Each link has mass 1, length 1 and moment of
 * inertia 1
 */
const CENTRE = 0.5;

/**
 * θ₁, θ₂, θ₁', θ₂'. θ₁ is 0 if the upper link hangs down. θ₂ is 0 if the lower link is in line with
 * the upper one.
 */
type State = readonly [theta1: number, theta2: number, spin1: number, spin2: number];

/** Returns the derivatives of the state under a torque on the joint between the links. */
function slopes([theta1, theta2, spin1, spin2]: State, torque: number): State {
  const d1 = CENTRE * CENTRE + (1 + CENTRE * CENTRE + 2 * CENTRE * cos(theta2)) + 1 + 1;
  const d2 = CENTRE * CENTRE + CENTRE * cos(theta2) + 1;
  const phi2 = CENTRE * GRAVITY * cos(theta1 + theta2 - PI / 2);
  const phi1 =
    -CENTRE * (spin2 * spin2) * sin(theta2) -
    2 * CENTRE * spin2 * spin1 * sin(theta2) +
    (CENTRE + 1) * GRAVITY * cos(theta1 - PI / 2) +
    phi2;
  const spinUp2 =
    (torque + (d2 / d1) * phi1 - CENTRE * (spin1 * spin1) * sin(theta2) - phi2) /
    (CENTRE * CENTRE + 1 - (d2 * d2) / d1);
  return [spin1, spin2, -(d2 * spinUp2 + phi1) / d1, spinUp2];
}

const moved = (from: State, by: number, slope: State): State =>
  from.map((value, i) => value + by * (slope[i] as number)) as unknown as State;

function wrapped(angle: number): number {
  let x = angle;
  while (x > PI) x -= 2 * PI;
  while (x < -PI) x += 2 * PI;
  return x;
}

export default class Acrobot implements Environment<number> {
  /** cosine and sine of each angle, followed by the two speeds */
  readonly observationSpace = { shape: [6] } as const;
  /** torques −1, 0 and 1 */
  readonly actionSpace = { n: 3 } as const;
  readonly maxEpisodeSteps = 500;
  state: State = [0, 0, 0, 0];
  readonly #obs = new Float64Array(6);

  /** Sets each value of the state to a uniform number within ±0.1, in float32 precision. */
  reset(seed: number): Float64Array {
    const random = new Random(seed);
    const any = () => Math.fround(random.between(-0.1, 0.1));
    this.state = [any(), any(), any(), any()];
    return this.#seen();
  }

  /**
   * Returns a reward of −1 for each step. The step that raises the tip more than a link's length
   * above the upper joint earns 0 and ends the episode.
   */
  step(action: number): Step {
    const torque = action - 1;
    const from = this.state;
    const k1 = slopes(from, torque);
    const k2 = slopes(moved(from, TAU / 2, k1), torque);
    const k3 = slopes(moved(from, TAU / 2, k2), torque);
    const k4 = slopes(moved(from, TAU, k3), torque);
    const next = from.map(
      (value, i) =>
        value +
        (TAU / 6) *
          ((k1[i] as number) + 2 * (k2[i] as number) + 2 * (k3[i] as number) + (k4[i] as number)),
    ) as unknown as State;
    const bound = (speed: number, most: number) => Math.min(Math.max(speed, -most), most);
    this.state = [
      ...([wrapped(next[0]), wrapped(next[1])] as const),
      ...([bound(next[2], MAX_SPEEDS[0]), bound(next[3], MAX_SPEEDS[1])] as const),
    ];
    const terminated = -cos(this.state[0]) - cos(this.state[1] + this.state[0]) > 1;
    return { obs: this.#seen(), reward: terminated ? 0 : -1, terminated };
  }

  #seen(): Float64Array {
    const [theta1, theta2, spin1, spin2] = this.state;
    this.#obs.set([cos(theta1), sin(theta1), cos(theta2), sin(theta2), spin1, spin2]);
    return this.#obs;
  }
}
