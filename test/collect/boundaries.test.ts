/**
 * Tests values at the boundary of environments: values that float32 cannot represent, bounds of box
 * spaces, observations after an end, and the ownership of arrays.
 */
import { once } from 'node:events';
import { expect } from 'chai';
import { highEnd, lowEnd } from '../../src/base/float32.ts';
import { type AnyEnvironment, evaluate } from '../../src/entries/collect.ts';
import { type ActorPolicy, SacPolicy, Td3Policy } from '../../src/entries/learner.ts';
import { takeActions } from '../../src/run/environments/actions.ts';
import { rowColumns } from '../../src/run/environments/columns.ts';
import { FrameStack } from '../../src/run/environments/frame-stack.ts';
import { spacesOf } from '../../src/run/environments/spaces.ts';
import { EnvironmentList } from '../../src/run/environments/vector-environment.ts';

type DType = 'float32' | 'float64' | 'int32' | 'uint8';

/**
 * Creates an environment whose observation is `shown(step)`. Its episode ends with the second step.
 */
function environment(
  dtype: DType,
  shown: (step: number) => number,
  terminated = true,
): AnyEnvironment {
  let step = 0;
  return {
    observationSpace: { shape: [2], dtype },
    actionSpace: { n: 2 },
    reset: () => {
      step = 0;
      return [0, 1];
    },
    step: () => {
      const over = ++step === 2;
      return {
        obs: [1, shown(step)],
        reward: 1,
        terminated: over && terminated,
        truncated: over && !terminated,
      };
    },
  } as AnyEnvironment;
}
const hooks = { nextSeed: () => 1 };

async function stepped(of: AnyEnvironment, steps: number) {
  const vector = new EnvironmentList([of]).play(hooks);
  await vector.begin();
  for (let i = 0; i < steps; i++) await vector.step([0]);
  return vector;
}

describe('observations and actions of environments', () => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
    it(`EnvironmentList accepts ${value} in the last observation of a terminated episode`, async () => {
      const vector = await stepped(
        environment('float32', (step) => (step === 2 ? value : 2)),
        2,
      );
      expect([...vector.nextObs]).to.deep.equal([1, value]);
      expect([...vector.obs], 'first observation of the next episode').to.deep.equal([0, 1]);
      const whole = await stepped(
        environment('uint8', (step) => (step === 2 ? value : 2)),
        2,
      );
      expect([...whole.nextObs], 'whole numbers have none').to.deep.equal([0, 0]);
    });
    it(`EnvironmentList rejects ${value} in any other observation`, async () => {
      const refused = async (of: AnyEnvironment) => {
        try {
          await stepped(of, 2);
        } catch (error) {
          return (error as Error).message;
        }
        return 'nothing';
      };
      expect(await refused(environment('float32', () => value))).to.include(
        `returned ${value} as number 1`,
      );
      expect(
        await refused(environment('float32', (step) => (step === 2 ? value : 2), false)),
      ).to.include('in step 2');
    });
  }

  it('evaluate() and rowColumns() reject a finite observation beyond the range of float32', async () => {
    const of = () => environment('float64', () => 1e39, false);
    const policy = { act: () => [0] };
    for (const stack of [1, 3]) {
      const error = await evaluate({ environments: [of()], policy, stack, episodes: 1 }).catch(
        (error: Error) => error,
      );
      expect(error).to.be.instanceOf(RangeError);
      expect((error as Error).message).to.equal(
        'environment 0: number 1 of an observation is 1e+39, which float32 cannot hold; scale it, or clip it',
      );
    }
    const vector = await stepped(of(), 1);
    const field = { shape: [2], dtype: 'float32' } as const;
    const columns = rowColumns(
      { nextObs: field },
      { vector, obs: vector.obs, actions: new Float32Array(1), actionMask: null },
    );
    expect(() => columns.nextObs!()).to.throw(
      RangeError,
      "number 1 of the buffer's nextObs is 1e+39",
    );
  });

  it('FrameStack emits an ObservationWarning when float32 rounds an integer beyond 2^24', async () => {
    const vector = await stepped(
      environment('int32', () => 2 ** 24 + 1),
      1,
    );
    const seen = new FrameStack(vector, 2);
    const warned = once(process, 'warning');
    seen.begin();
    seen.push();
    const [warning] = (await warned) as [Error];
    expect(warning.name).to.equal('ObservationWarning');
    expect(warning.message).to.include(
      'number 1 of an observation is 16777217: float32 makes it 16777216',
    );
    expect([...seen.obs].slice(-2)).to.deep.equal([1, 16777216]);
    const exact = new FrameStack(
      await stepped(
        environment('int32', () => 2 ** 30),
        1,
      ),
      1,
    );
    exact.begin();
    expect([...exact.obs]).to.deep.equal([1, 2 ** 30]);
  });

  describe('bounds of box spaces', () => {
    it('are rounded inward to float32', () => {
      for (const end of [0.1, -0.1, 1e-50, -1e-50, 1 / 3, 1e30, -1e30, 0.5, 0, 16777217]) {
        expect(lowEnd(end))
          .to.equal(Math.fround(lowEnd(end)))
          .and.at.least(end);
        expect(highEnd(end))
          .to.equal(Math.fround(highEnd(end)))
          .and.at.most(end);
        if (Math.fround(end) === end) expect([lowEnd(end), highEnd(end)]).to.deep.equal([end, end]);
        else expect(highEnd(end), 'float32 neighbors of the bound').to.be.below(lowEnd(end));
      }
      const { action } = spacesOf({
        observationSpace: { shape: [1] },
        actionSpace: { shape: [2], low: [-0.1, -1], high: [0.1, 1] },
      });
      expect(action).to.deep.include({
        low: [-0.09999999403953552, -1],
        high: [0.09999999403953552, 1],
      });
    });

    it('takeActions() clamps an action at the declared bound to the float32 bound inside the box', () => {
      const spaces = spacesOf({
        observationSpace: { shape: [1] },
        actionSpace: { shape: [1], low: -0.1, high: 0.1 },
      });
      const into = new Float32Array(1);
      for (const [given, taken] of [
        [-0.1, -0.09999999403953552],
        [Math.fround(0.1), 0.09999999403953552],
        [0.05, Math.fround(0.05)],
      ] as const) {
        takeActions([given], into, spaces, 1, () => 'it');
        expect(into[0]).to.equal(taken);
      }
      expect(() => takeActions([0.1001], into, spaces, 1, () => 'it')).to.throw(
        RangeError,
        'number 0 of its actions is',
      );
    });

    it('spacesOf() rejects action bounds that are too large or indistinguishable in float32', () => {
      for (const end of [3.4e38, 3.4028234663852886e38, 1e300, Number.POSITIVE_INFINITY])
        expect(() =>
          spacesOf({
            observationSpace: { shape: [1] },
            actionSpace: { shape: [1], low: -end, high: end },
          }),
        ).to.throw(
          RangeError,
          'actionSpace needs low and high, numbers that are finite in float32',
        );
      const between = { shape: [1], low: 0.1, high: 0.1 + 1e-12 };
      expect(() => spacesOf({ observationSpace: { shape: [1] }, actionSpace: between })).to.throw(
        RangeError,
        'float32 has no two numbers from',
      );
      const wide = { shape: [1], low: -1e300, high: 1e300 };
      expect(spacesOf({ observationSpace: wide, actionSpace: { n: 2 } }).observation.size).to.equal(
        1,
      );
    });

    it('SacPolicy and Td3Policy keep saturated actions at the float32 bound inside the box', () => {
      const how = { obsDim: 1, actionDim: 1, actorHidden: [4], actionLow: -0.1, actionHigh: 0.1 };
      const policies: ActorPolicy[] = [new SacPolicy(how, { greedy: true }), new Td3Policy(how)];
      for (const policy of policies)
        for (const sign of [-1, 1]) {
          // A bias of the last layer that is so large that tanh returns ±1.
          const weights = new Float32Array(policy.length);
          weights.fill(100 * sign, -policy.network.outputs);
          const [action] = policy.load(weights).act(Float32Array.of(0), 1);
          expect(Math.abs(action as number)).to.equal(0.09999999403953552);
          expect(Math.sign(action as number)).to.equal(sign);
        }
    });
  });

  it('FrameStack keeps earlier frames unchanged when a policy overwrites its observations', async () => {
    const vector = await stepped(
      environment('float32', (step) => 10 * step, false),
      0,
    );
    const seen = new FrameStack(vector, 2);
    seen.begin();
    expect([...seen.obs]).to.deep.equal([0, 1, 0, 1]);
    seen.obs.fill(255);
    await vector.step([0]);
    seen.push();
    expect([...seen.obs]).to.deep.equal([0, 1, 1, 10]);
  });

  it('rowColumns() leaves the arrays of the environment set unchanged for either order of columns', async () => {
    const { spaces } = await stepped(
      environment('float32', () => 2),
      2,
    );
    const two = (...values: number[]) => Uint8Array.from(values);
    const set = {
      ...{ count: 2, spaces, skipped: Uint8Array.of(1, 0), going: 2, begin() {}, step() {} },
      ...{ actionMask: null, nextActionMask: null },
      obs: Float32Array.of(1, 2, 3, 4),
      nextObs: Float32Array.of(5, 6, 7, 8),
      rewards: Float32Array.of(9, 10),
      terminated: two(0, 1),
      truncated: two(0, 0),
    };
    const flag = { shape: [], dtype: 'float32' } as const;
    for (const order of [
      ['terminated', 'dones'],
      ['dones', 'terminated'],
    ]) {
      const fields = Object.fromEntries(order.map((name) => [name, flag]));
      const columns = rowColumns(
        { ...fields, rewards: flag },
        { vector: set, obs: set.obs, actions: new Float32Array(2), actionMask: null },
      );
      for (let again = 0; again < 2; again++)
        expect(Object.entries(columns).map(([name, fill]) => [name, ...fill()])).to.deep.equal([
          ...order.map((name) => [name, 1]),
          ['rewards', 10],
        ]);
    }
    expect([[...set.terminated], [...set.rewards]], 'arrays of the environment set').to.deep.equal([
      [0, 1],
      [9, 10],
    ]);
  });
});
