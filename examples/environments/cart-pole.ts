/**
 * CartPole-v1 as Gymnasium defines it (classic_control/cartpole.py, kinematics_integrator 'euler'):
 * hold a pole up on a cart.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';
import { push } from './cart-pole-physics.ts';

export { push };

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
