/**
 * Tests policies on the calling thread: their outputs equal the reference's, they act greedily, and
 * they check sizes.
 */
import { expect } from 'chai';
import { encodeOnnx } from '../../src/entries/formats.ts';
import { DqnPolicy, MlpPolicy, SacPolicy, Td3Policy } from '../../src/entries/learner.ts';
import { refusal } from '../rig/refusal.ts';
import { expectClose, flat, forward, type Rows, randomRows, rounded } from './reference.ts';

describe('policies', () => {
  for (const sizes of [
    [4, 120, 84, 2],
    [3, 7, 5],
    [9, 6],
    [5, 1],
  ]) {
    for (const n of [1, 2, 5, 64]) {
      it(`MlpPolicy [${sizes}] returns the reference's values and argmax for ${n} rows`, () => {
        const policy = new MlpPolicy({ sizes, activation: n === 5 ? 'tanh' : 'relu' });
        policy.load(policy.network.initialize(1));
        const obs = rounded(randomRows(n, n, sizes[0] as number));
        const want = forward(policy.network, policy.parameters, obs).at(-1) as Rows;
        expectClose(policy.values(flat(obs), n), want.flat(), 1e-6, 'values');
        expect([...policy.act(flat(obs), n)]).to.deep.equal(
          want.map((row) => row.indexOf(Math.max(...row))),
        );
      });
    }
  }

  it('MlpPolicy returns the same values for a row alone and among other rows', () => {
    const policy = new MlpPolicy({ sizes: [4, 30, 3] });
    policy.load(policy.network.initialize(2));
    const obs = flat(randomRows(3, 9, 4));
    const together = Float32Array.from(policy.values(obs, 9));
    for (let row = 0; row < 9; row++) {
      expect(policy.values(obs.subarray(4 * row, 4 * row + 4), 1)).to.deep.equal(
        together.subarray(3 * row, 3 * row + 3),
      );
    }
  });

  it('MlpPolicy acts by the latest weights, and throws for arrays of the wrong length', () => {
    const policy = new MlpPolicy({ sizes: [1, 2] }, Float32Array.of(1, -1, 0, 0));
    expect([...policy.act(Float32Array.of(3, -3), 2)]).to.deep.equal([0, 1]);
    policy.load(Float32Array.of(-1, 1, 0, 0));
    expect([...policy.act(Float32Array.of(3, -3), 2)]).to.deep.equal([1, 0]);
    expect([...policy.act(Float32Array.of(), 0)]).to.deep.equal([]);
    expect(() => policy.load(new Float32Array(5))).to.throw(
      RangeError,
      'must be 4 floats for a network from 1 to 2 numbers, got 5',
    );
    const many = new Array(1_000_000).fill(0.5);
    expect(() => policy.load(many as never)).to.throw(
      TypeError,
      /^parameters must be a Float32Array, got an array of 1000000$/,
    );
    expect(() => policy.act(new Float32Array(1), 2)).to.throw(
      RangeError,
      '2 rows of 1 need 2 floats, or those of more rows, got 1',
    );
  });

  it('throw when they have no weights or an observation is NaN', () => {
    const box = { obsDim: 3, actionDim: 2, actorHidden: [4] };
    const make = {
      MlpPolicy: () => new MlpPolicy({ sizes: [3, 2] }),
      DqnPolicy: () => new DqnPolicy({ obsDim: 3, actions: 2, hidden: [4] }),
      SacPolicy: () => new SacPolicy(box, { greedy: true }),
      Td3Policy: () => new Td3Policy(box),
      'SacPolicy with a normalizer': () =>
        new SacPolicy({ ...box, normalizer: true }, { greedy: true }),
    };
    const obs = Float32Array.of(0.1, 0.2, 0.3);
    for (const [name, made] of Object.entries(make)) {
      const policy = made();
      const act = (seen: Float32Array, n = 1) => refusal(() => policy.act(seen, n));
      for (const error of [act(obs), refusal(() => encodeOnnx(policy))]) {
        expect(error.code, name).to.equal('ERR_HOTSLOT_STATE_EMPTY');
        expect(error.message).to.match(/^\w+: this policy has no weights yet; load\(\)/);
      }
      policy.load(new Float32Array('length' in policy ? policy.length : policy.parameters.length));
      expect(policy.act(obs, 1).length, name).to.equal(
        name.startsWith('Mlp') || name.startsWith('Dqn') ? 1 : 2,
      );
      expect(act(new Float32Array(5)).message, name).to.equal(
        '1 rows of 3 need 3 floats, or those of more rows, got 5',
      );
      // An array with more rows than n is accepted, and only the first n rows are read.
      const more = Float32Array.of(...obs, 0, Number.NaN, 0);
      expect(policy.act(more, 1).length).to.be.at.most(2);
      expect(act(more, 2).message, name).to.equal(
        'obs has NaN in row 1, number 1; the policy cannot choose an action',
      );
    }
    const written = new MlpPolicy({ sizes: [1, 2] });
    written.parameters.set([1, -1, 0, 0]);
    expect([...written.act(Float32Array.of(-3), 1)]).to.deep.equal([1]);
  });
});
