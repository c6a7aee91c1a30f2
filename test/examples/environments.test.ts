/**
 * Tests the examples' environments against recorded results of Gymnasium's: step by step from
 * recorded states, and whole episodes.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import Acrobot from '../../examples/environments/acrobot.ts';
import CartPole from '../../examples/environments/cart-pole.ts';
import MountainCarContinuous from '../../examples/environments/mountain-car-continuous.ts';
import Pendulum from '../../examples/environments/pendulum.ts';
import type { Step } from '../../src/entries/collect.ts';

interface Track {
  environment: string;
  start: number[];
  steps: { action: number; state: number[]; obs: number[]; reward: number; terminated: boolean }[];
}
interface Tested {
  state: ArrayLike<number>;
  step(action: number | number[]): Step;
  reset(seed: number): ArrayLike<number>;
}
const fixture = new URL('../../../test/fixtures/environments.json', import.meta.url);
const { tracks } = JSON.parse(readFileSync(fileURLToPath(fixture), 'utf8')) as { tracks: Track[] };

/**
 * `exact` is the least share of state values that equal Gymnasium's bit for bit. Sums and products
 * are equal. Sine and cosine may differ in the last bit.
 */
const kinds = {
  'CartPole-v1': { make: () => new CartPole() as unknown as Tested, box: false, exact: 0.9 },
  'Pendulum-v1': { make: () => new Pendulum() as unknown as Tested, box: true, exact: 0.9 },
  'MountainCarContinuous-v0': {
    make: () => new MountainCarContinuous() as unknown as Tested,
    box: true,
    exact: 1,
  },
  'Acrobot-v1': { make: () => new Acrobot() as unknown as Tested, box: false, exact: 0.3 },
} as const;

const at = (environment: Tested, state: readonly number[]): Tested => {
  environment.state =
    environment.state instanceof Float64Array ? Float64Array.from(state) : [...state];
  return environment;
};

describe('example environments', () => {
  for (const [name, { make, box, exact }] of Object.entries(kinds)) {
    const mine = tracks.filter(({ environment }) => environment === name);
    const act = (action: number) => (box ? [action] : action);

    it(`${name}: step() matches Gymnasium from each recorded state`, () => {
      let [same, all] = [0, 0];
      for (const { start, steps } of mine) {
        let from = start;
        for (const [i, { action, state, obs, reward, terminated }] of steps.entries()) {
          const what = `${start}, step ${i}`;
          const environment = at(make(), from);
          const got = environment.step(act(action));
          for (const [j, value] of state.entries()) {
            expect(environment.state[j], `${what}: state`).to.be.closeTo(
              value,
              1e-14 * Math.max(1, Math.abs(value)),
            );
            if (environment.state[j] === value) same++;
            all++;
          }
          expect(got.reward, `${what}: reward`).to.be.closeTo(reward, 1e-13);
          expect(got.terminated, what).to.equal(terminated);
          for (const [j, value] of obs.entries())
            expect(got.obs[j], `${what}: obs`).to.be.closeTo(
              value,
              6e-8 * Math.max(1e-6, Math.abs(value)),
            );
          from = state;
        }
      }
      expect(same / all, 'share of equal state values').to.be.at.least(exact);
    });

    it(`${name}: whole episodes match Gymnasium`, () => {
      for (const { start, steps } of mine) {
        const environment = at(make(), start);
        for (const { action, state, terminated } of steps) {
          expect(environment.step(act(action)).terminated).to.equal(terminated);
          for (const [j, value] of state.entries())
            expect(environment.state[j]).to.be.closeTo(value, 1e-9 * Math.max(1, Math.abs(value)));
        }
      }
    });

    it(`${name}: reset() is equal for equal seeds, differs for other seeds and stays in bounds`, () => {
      const first = (seed: number) => [...Array.from(make().reset(seed))];
      expect(first(5)).to.deep.equal(first(5));
      const many = Array.from({ length: 200 }, (_, seed) => first(seed));
      expect(new Set(many.map(String)).size).to.equal(200);
      const bounds = {
        'CartPole-v1': [-0.05, 0.05],
        'Pendulum-v1': [-1, 1],
        'MountainCarContinuous-v0': [-0.6, 0],
        'Acrobot-v1': [-0.1, 1],
      }[name] as [number, number];
      for (const obs of many) for (const value of obs) expect(value).to.be.within(...bounds);
    });
  }
});
