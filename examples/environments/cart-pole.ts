/**
 * CartPole-v1 as Gymnasium defines it (classic_control/cartpole.py, kinematics_integrator 'euler').
 * The task is to balance a pole on a cart.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';
import { push } from './cart-pole-physics.ts';

export { push };

/** Sets each value of the state to a uniform number within ±0.05. */
export function rest(state: Float64Array, at: number, random: Random): void {
  for (let i = at; i < at + 4; i++) state[i] = random.between(-0.05, 0.05);
}

export default class CartPole implements Environment<number> {
  readonly observationSpace = { shape: [4] } as const;
  /** action 0 pushes left, action 1 right */
  readonly actionSpace = { n: 2 } as const;
  readonly maxEpisodeSteps = 500;
  /** x, x', θ, θ' */
  readonly state = new Float64Array(4);

  reset(seed: number): Float64Array {
    rest(this.state, 0, new Random(seed));
    return this.state;
  }

  /** Returns a reward of 1 for every step, including the last. */
  step(action: number): Step {
    const terminated = push(this.state, 0, action);
    return { obs: this.state, reward: 1, terminated };
  }
}
