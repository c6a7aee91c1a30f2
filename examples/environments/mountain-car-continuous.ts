/**
 * MountainCarContinuous-v0 as Gymnasium defines it (classic_control/continuous_mountain_car.py).
 * The car is too weak to climb the hill directly, so it must swing. A step computes in float64 and
 * stores its state with float32 precision.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

const [MIN_X, MAX_X] = [-1.2, 0.6];
const MAX_SPEED = 0.07;
const GOAL = 0.45;
const POWER = 0.0015;

export default class MountainCarContinuous implements Environment<ArrayLike<number>> {
  /** position and speed */
  readonly observationSpace = {
    shape: [2],
    low: [MIN_X, -MAX_SPEED],
    high: [MAX_X, MAX_SPEED],
  } as const;
  readonly actionSpace = { shape: [1], low: -1, high: 1 } as const;
  readonly maxEpisodeSteps = 999;
  /**
   * position and speed. They have float64 precision after reset() and float32 precision after a
   * step, as in Gymnasium
   */
  readonly state = new Float64Array(2);

  /** Places the car at rest near the bottom of the valley. */
  reset(seed: number): Float64Array {
    this.state[0] = new Random(seed).between(-0.6, -0.4);
    this.state[1] = 0;
    return this.state;
  }

  /** Returns a reward of 100 at the goal. Each step costs a tenth of the square of its action. */
  step(action: ArrayLike<number>): Step {
    const { state } = this;
    const given = action[0] as number;
    const force = Math.min(Math.max(given, -1), 1);
    let speed =
      (state[1] as number) + (force * POWER - 0.0025 * Math.cos(3 * (state[0] as number)));
    speed = Math.min(Math.max(speed, -MAX_SPEED), MAX_SPEED);
    const x = Math.min(Math.max((state[0] as number) + speed, MIN_X), MAX_X);
    if (x === MIN_X && speed < 0) speed = 0;
    const terminated = x >= GOAL && speed >= 0;
    state[0] = Math.fround(x);
    state[1] = Math.fround(speed);
    return { obs: state, reward: (terminated ? 100 : 0) - given * given * 0.1, terminated };
  }
}
