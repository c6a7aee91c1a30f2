/**
 * Pendulum-v1 as Gymnasium defines it (classic_control/pendulum.py). The task is to swing up a
 * pendulum and hold it, with little torque.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

const GRAVITY = 10;
const MAX_SPEED = 8;
const MAX_TORQUE = 2;
/** seconds between two states */
const TAU = 0.05;
const TURN = 2 * Math.PI;

const within = (value: number, most: number) => Math.min(Math.max(value, -most), most);

export default class Pendulum implements Environment<ArrayLike<number>> {
  /** cos θ, sin θ, θ'. θ is 0 at the top */
  readonly observationSpace = {
    shape: [3],
    low: [-1, -1, -MAX_SPEED],
    high: [1, 1, MAX_SPEED],
  } as const;
  readonly actionSpace = { shape: [1], low: -MAX_TORQUE, high: MAX_TORQUE } as const;
  readonly maxEpisodeSteps = 200;
  /** θ, θ' */
  readonly state = new Float64Array(2);
  readonly #obs = new Float64Array(3);

  /** Sets any angle, and a speed within ±1. */
  reset(seed: number): Float64Array {
    const random = new Random(seed);
    this.state[0] = random.between(-Math.PI, Math.PI);
    this.state[1] = random.between(-1, 1);
    return this.#seen();
  }

  /**
   * Returns a reward from −16.3 to 0. It is 0 at the top without speed and torque. An episode only
   * ends by truncation.
   */
  step(action: ArrayLike<number>): Step {
    const [theta, speed] = this.state as unknown as [number, number];
    const torque = within(action[0] as number, MAX_TORQUE);
    // Maps the angle to the range from −π to π.
    const turned = theta + Math.PI;
    const angle = turned - Math.floor(turned / TURN) * TURN - Math.PI;
    const cost = angle * angle + 0.1 * (speed * speed) + 0.001 * (torque * torque);
    const newSpeed = within(
      speed + (((3 * GRAVITY) / 2) * Math.sin(theta) + 3 * torque) * TAU,
      MAX_SPEED,
    );
    this.state[0] = theta + newSpeed * TAU;
    this.state[1] = newSpeed;
    return { obs: this.#seen(), reward: -cost, terminated: false };
  }

  #seen(): Float64Array {
    const [theta, speed] = this.state as unknown as [number, number];
    this.#obs[0] = Math.cos(theta);
    this.#obs[1] = Math.sin(theta);
    this.#obs[2] = speed;
    return this.#obs;
  }
}
