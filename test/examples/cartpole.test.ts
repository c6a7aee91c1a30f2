/**
 * Tests the example's CartPole against Gymnasium 1.3.0. The numbers below are what its CartPole-v1
 * computed.
 */
import { expect } from 'chai';
import { CartPoles, EPISODE_LIMIT, OBS_DIM } from '../../examples/cartpole-dqn/cartpole.ts';
import { Random } from '../../src/index.ts';

/** Returns one pole that begins in the given state. */
function poleAt(...state: number[]): CartPoles {
  const pole = new CartPoles(1, new Random(0));
  pole.state.set(state);
  pole.begin(0);
  return pole;
}

function expectState(pole: CartPoles, expected: readonly number[], what: string): void {
  expected.forEach(
    (value, i) => void expect(pole.state[i], `${what}, state[${i}]`).to.be.closeTo(value, 1e-14),
  );
}

describe('CartPoles', () => {
  it('step() follows Gymnasium for ten steps from a tilted start', () => {
    const pole = poleAt(0.01, -0.02, 0.03, 0.04);
    const actions = [1, 0, 0, 1, 1, 1, 0, 1, 0, 0];
    const gymnasium = [
      [0.009600000000000001, 0.17467919574755525, 0.030799999999999998, -0.2430687179600081],
      [0.013093583914951107, -0.020868848948191993, 0.025938625640799837, 0.0591679999394166],
      [0.012676206935987267, -0.21635292104612766, 0.02712198563958817, 0.3599205713784138],
      [0.008349148515064714, -0.021626799199488206, 0.03432039706715644, 0.0759116989474441],
      [0.00791661253107495, 0.17298676004769037, 0.035838631046105324, -0.20574851582677406],
      [0.011376347732028757, 0.3675783725675468, 0.03172366072956984, -0.4869142013445082],
      [0.01872791518337969, 0.17202349486382784, 0.02198537670267968, -0.18440428392099584],
      [0.022168385080656248, 0.36682408600495897, 0.01829729102425976, -0.4700713747851109],
      [0.02950486680075543, 0.1714485132472654, 0.008895863528557544, -0.17167796834313398],
      [0.03293383706570074, -0.02379962460232901, 0.0054623041616948635, 0.12379799946559022],
    ];
    actions.forEach((action, step) => {
      pole.step(0, action);
      expectState(pole, gymnasium[step] as number[], `step ${step}`);
      expect(pole.over(0)).to.equal(false);
    });
    expect([...pole.obs]).to.deep.equal([...Float32Array.from(gymnasium[9] as number[])]);
  });

  it('the pole falls at the ninth push to the left from rest, as in Gymnasium', () => {
    const pole = poleAt(0, 0, 0, 0);
    for (let step = 1; step <= 9; step++) {
      expect(pole.over(0), `before step ${step}`).to.equal(false);
      pole.step(0, 0);
    }
    expectState(
      pole,
      [-0.14065097203306187, -1.7603811257683097, 0.21518604988500967, 2.777886494012814],
      'the end',
    );
    expect([pole.terminated[0], pole.truncated[0], pole.steps[0]]).to.deep.equal([1, 0, 9]);
  });

  it('step() matches the equations of motion for the first push from rest', () => {
    // push = 10/1.1; θ'' = −push / (0.5·(4/3 − 0.1/1.1)); x'' = push − 0.05·θ''/1.1; positions move
    // by the old velocities.
    const push = 10 / 1.1;
    const spinUp = -push / (0.5 * (4 / 3 - 0.1 / 1.1));
    const pole = poleAt(0, 0, 0, 0);
    pole.step(0, 1);
    expectState(pole, [0, 0.02 * (push - (0.05 * spinUp) / 1.1), 0, 0.02 * spinUp], 'one push');
  });

  it('step() terminates when the new position is beyond 2.4 on either side or 12 degrees', () => {
    const ends = (pole: CartPoles, action: number) => {
      pole.step(0, action);
      return [pole.terminated[0], pole.state[0], pole.state[2]];
    };
    expect(ends(poleAt(2.39, 1, 0, 0), 1)).to.deep.equal([1, 2.41, 0]);
    expect(ends(poleAt(-2.39, -1, 0, 0), 1)).to.deep.equal([1, -2.41, 0]);
    expect(ends(poleAt(2.39, 0, 0, 0), 1)).to.deep.equal([0, 2.39, 0]);
    expect(ends(poleAt(0, 0, 0.2, 0.5), 0)).to.deep.equal([1, 0, 0.21000000000000002]);
    expect(ends(poleAt(0, 0, 0.2, 0.45), 0)[0]).to.equal(0);
  });

  it('step() truncates an episode at its 500th step, and reset() clears the flag', () => {
    const pole = poleAt(0, 0, 0, 0);
    for (let step = 1; step <= EPISODE_LIMIT; step++) {
      // Resets the state before each step, so that only the number of steps can end the episode.
      pole.state.fill(0);
      pole.step(0, step % 2);
      expect(pole.truncated[0], `after step ${step}`).to.equal(step === EPISODE_LIMIT ? 1 : 0);
    }
    expect(pole.terminated[0]).to.equal(0);
    pole.reset(0);
    expect([pole.steps[0], pole.truncated[0]]).to.deep.equal([0, 0]);
  });

  it('initial states lie within ±0.05, are equal for equal seeds and differ for other seeds', () => {
    const count = 500;
    const poles = new CartPoles(count, new Random(7));
    expect(Math.max(...poles.state)).to.be.within(0.049, 0.05);
    expect(Math.min(...poles.state)).to.be.within(-0.05, -0.049);
    const mean = poles.state.reduce((sum, value) => sum + value, 0) / (count * OBS_DIM);
    expect(mean).to.be.closeTo(0, 0.003);
    expect([...new CartPoles(count, new Random(7)).state]).to.deep.equal([...poles.state]);
    expect([...new CartPoles(count, new Random(8)).state]).to.not.deep.equal([...poles.state]);
    expect([...new CartPoles(count, new Random(7, 1)).state]).to.not.deep.equal([...poles.state]);
  });
});
