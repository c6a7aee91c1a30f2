/**
 * Tests goalReward() against values computed by hand, a float64 reference, and the device kernel's
 * bits.
 */
import { expect } from 'chai';
import { goalReward, openDevice, Random } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';

const random = new Random(12);

/** Makes windows whose steps are at the goal, about the threshold away from it, or anywhere. */
function windows(rows: number, n: number, dims: number, threshold: number) {
  const goal = Float32Array.from({ length: rows * dims }, () => random.between(-2, 2));
  const steps = Int32Array.from({ length: rows }, (_, i) => i % (n + 1));
  const achieved = Float32Array.from({ length: rows * n * dims }, (_, at) => {
    const wanted = goal[Math.floor(at / (n * dims)) * dims + (at % dims)] as number;
    const step = Math.floor(at / dims) % 4;
    return wanted + [0, threshold / Math.sqrt(dims), 1.5 * threshold, random.between(-1, 1)][step]!;
  });
  return { achieved, goal, steps, n, dims, threshold };
}

describe('goalReward()', () => {
  it('returns the discounted sum of rewards: 0 within `threshold` of the goal, −1 beyond', () => {
    const achieved = Float32Array.of(0, 0, 3, 4, 0, 0, 3, 4, 3, 4, 0, 0);
    const given = {
      achieved,
      goal: Float32Array.of(0, 0, 3, 4),
      n: 3,
      dims: 2,
      gamma: 0.5,
      threshold: 1,
    };
    expect([...goalReward({ ...given, steps: Int32Array.of(3, 3) })]).to.deep.equal([-0.5, -0.25]);
    expect([...goalReward({ ...given, steps: Int32Array.of(1, 2) })]).to.deep.equal([0, 0]);
    expect([...goalReward({ ...given, steps: Int32Array.of(0, 0), gamma: 0 })]).to.deep.equal([
      0, 0,
    ]);
    // A distance equal to the threshold reaches the goal. A NaN distance does not.
    expect([...goalReward({ ...given, steps: Int32Array.of(3, 3), threshold: 5 })]).to.deep.equal([
      0, 0,
    ]);
    achieved[0] = Number.NaN;
    expect([...goalReward({ ...given, steps: Int32Array.of(3, 3), threshold: 5 })]).to.deep.equal([
      -1, 0,
    ]);
    const none = {
      achieved: new Float32Array(0),
      goal: new Float32Array(0),
      steps: new Int32Array(0),
    };
    expect(goalReward({ ...given, ...none }).length).to.equal(0);
  });

  it('agrees with a float64 computation except at distances near the threshold', () => {
    const [rows, n, dims, gamma, threshold] = [200, 4, 3, 0.97, 0.05];
    const given = windows(rows, n, dims, threshold);
    const got = goalReward({ ...given, gamma });
    for (let i = 0; i < rows; i++) {
      let [least, most] = [0, 0];
      for (let j = 0; j < given.steps[i]!; j++) {
        const off = Array.from(
          { length: dims },
          (_, c) => given.achieved[(i * n + j) * dims + c]! - given.goal[i * dims + c]!,
        );
        const far = Math.hypot(...off);
        if (far > threshold * 1.00001) most -= gamma ** j;
        if (far > threshold * 0.99999) least -= gamma ** j;
      }
      expect(got[i]).to.be.within(least - 1e-5, most + 1e-5);
    }
  });

  it('returns the same bits as the goal_reward kernel on strided views', async () => {
    using device = openDevice(TESTED);
    const stream = device.currentStream;
    for (const [rows, n, dims, gamma, threshold] of [
      [1, 1, 1, 1, 0],
      [300, 1, 3, 0.99, 0.05],
      [257, 5, 2, 0.9, 0.3],
      [64, 40, 7, 0.999, 1],
    ] as const) {
      const given = windows(rows, n, dims, threshold);
      const [width, from, apart] = [n * dims, dims + 1, n * dims + dims + 4];
      const packed = new Float32Array(rows * apart);
      for (let i = 0; i < rows; i++) {
        packed.set(given.goal.subarray(i * dims, (i + 1) * dims), i * apart);
        packed.set(given.achieved.subarray(i * width, (i + 1) * width), i * apart + from);
      }
      using memory = device.allocate({ shape: [rows, apart] }).write(packed);
      using steps = device.allocate({ shape: [rows], dtype: 'int32' }).write(given.steps);
      const goal = memory.view({ shape: [rows, dims], strides: [apart, 1] });
      const achieved = memory.view({
        shape: [rows, n, dims],
        offset: from,
        strides: [apart, dims, 1],
      });
      const reward = memory.view({ shape: [rows], offset: from + width, strides: [apart] });
      const wholes = [rows, n, dims, rows > 1 ? apart : 1, apart, apart, 1] as const;
      stream.launch('goal_reward', {
        tensors: [reward, achieved, goal, steps],
        wholes,
        reals: [gamma, threshold],
      });
      const want = goalReward({ ...given, gamma });
      expect(new Uint32Array((await reward.toArray()).buffer)).to.deep.equal(
        new Uint32Array(want.buffer),
      );
      if (rows > 1) expect(new Set(want).size).to.be.greaterThan(1);
    }
  });

  it('clamps `steps` to the range from 0 to n in the device kernel', async () => {
    using device = openDevice(TESTED);
    using reward = device.allocate({ shape: [2] });
    using steps = device.allocate({ shape: [2], dtype: 'int32' }).write(Int32Array.of(-5, 9));
    using achieved = device.allocate({ shape: [2, 3, 1] });
    using goal = device.allocate({ shape: [2, 1] }).write(Float32Array.of(1, 1));
    const tensors = [reward, achieved, goal, steps] as const;
    device.currentStream.launch('goal_reward', {
      tensors,
      wholes: [2, 3, 1, 1, 3, 1, 1],
      reals: [0.5, 0.1],
    });
    expect([...(await reward.toArray())]).to.deep.equal([0, -1.75]);
  });

  it('throws for arrays of wrong length or type, values out of range and unknown options', () => {
    const given = { ...windows(4, 3, 2, 0.1), gamma: 0.9 };
    const text = (change: object) => refusal(() => goalReward({ ...given, ...change })).message;
    expect(text({ achieved: new Float32Array(23) })).to.equal(
      'goalReward: achieved must hold 4 rows × 3 × 2 = 24 elements, got 23',
    );
    expect(text({ goal: new Float32Array(9) })).to.include(
      'goal must hold 4 rows × 2 = 8 elements, got 9',
    );
    expect(text({ steps: Int32Array.of(1, 2, 4, 0) })).to.include(
      'steps[2] must be within [0, 3], got 4',
    );
    expect(text({ steps: Int32Array.of(1, -1, 3, 0) })).to.include(
      'steps[1] must be within [0, 3], got -1',
    );
    expect(text({ gamma: 1.1 })).to.include('gamma must be within [0, 1], got 1.1');
    expect(text({ threshold: Number.NaN })).to.include(
      'threshold must be within [0, 1000000000000000000], got NaN',
    );
    expect(text({ n: 0 })).to.include('n must be a whole number of at least 1, got 0');
    expect(text({ radius: 1 })).to.include("unknown option 'radius'");
    for (const [key, wrong] of Object.entries({
      achieved: [1],
      goal: new Float64Array(8),
      steps: [1],
      gamma: '1',
    }))
      expect(
        refusal(() => goalReward({ ...given, [key]: wrong } as never)),
        key,
      ).to.be.instanceOf(TypeError);
  });
});
