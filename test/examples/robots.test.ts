/**
 * Tests the robots against Gymnasium's v5 environments. The fixture has what Gymnasium's code
 * returns for the states that MuJoCo computes from Gymnasium's models.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { mujoco } from '../../examples/environments/mujoco/engine.ts';
import makeRobot, { Robot } from '../../examples/environments/mujoco/robot.ts';
import { robots } from '../../examples/environments/mujoco/rules.ts';
import { rejection } from '../rig/refusal.ts';

interface Track {
  robot: string;
  qpos: number[];
  qvel: number[];
  first: number[];
  steps: { action: number[]; obs: number[]; reward: number; terminated: boolean }[];
}
const fixture = new URL('../../../test/fixtures/robots.json', import.meta.url);
const { robots: tracks } = JSON.parse(readFileSync(fileURLToPath(fixture), 'utf8')) as {
  robots: Track[];
};
const sizes = {
  HalfCheetah: [17, 6],
  Hopper: [11, 3],
  Walker2d: [17, 6],
  Ant: [105, 8],
  Humanoid: [348, 17],
} as const;

describe('MuJoCo robots', () => {
  it('makeRobot() offers the robots and spaces of Gymnasium, and rejects other names', async () => {
    expect(Object.keys(robots)).to.deep.equal(Object.keys(sizes));
    for (const [name, [seen, moved]] of Object.entries(sizes)) {
      const robot = await makeRobot({ index: 0, options: { robot: name } });
      expect([robot.observationSpace.shape, robot.actionSpace.shape]).to.deep.equal([
        [seen],
        [moved],
      ]);
      const most = name === 'Humanoid' ? 0.4 : 1;
      // The model stores the limits in double precision.
      for (const high of robot.actionSpace.high) expect(high).to.equal(most);
      robot.close();
    }
    const { message } = await rejection(makeRobot({ index: 0, options: { robot: 'Dog' } }));
    expect(message).to.equal(
      "robot must be one of HalfCheetah, Hopper, Walker2d, Ant, Humanoid, got 'Dog'",
    );
  });

  for (const { robot: name, qpos, qvel, first, steps } of tracks)
    it(`${name}: observations, rewards and terminations match Gymnasium at every step`, async () => {
      const robot = new Robot(await mujoco(), robots[name]!);
      robot.data.qpos.set(qpos);
      robot.data.qvel.set(qvel);
      const close = (got: ArrayLike<number>, wanted: number[], what: string) => {
        expect(got.length, what).to.equal(wanted.length);
        for (const [i, value] of wanted.entries())
          expect(got[i], `${what}: obs[${i}]`).to.be.closeTo(
            value,
            1e-12 * Math.max(1, Math.abs(value)),
          );
      };
      close(robot.begin(), first, 'at first');
      for (const [i, { action, obs, reward, terminated }] of steps.entries()) {
        const got = robot.step(Float32Array.from(action));
        close(got.obs as number[], obs, `step ${i}`);
        // Gymnasium sums the squared actions in single precision.
        expect(got.reward, `step ${i}: reward`).to.be.closeTo(reward, 1e-6);
        expect(got.terminated, `step ${i}`).to.equal(terminated);
      }
      robot.close();
    });

  it('healthy() returns false outside the limits of Gymnasium', async () => {
    const engine = await mujoco();
    const healthy = (name: string, change: (robot: Robot) => void): boolean => {
      const robot = new Robot(engine, robots[name]!);
      change(robot);
      const is = robots[name]!.healthy(robot.data);
      robot.close();
      return is;
    };
    const z = (at: number, value: number) => (robot: Robot) => {
      robot.data.qpos[at] = value;
    };
    const speed = (value: number) => (robot: Robot) => {
      robot.data.qvel[1] = value;
    };
    const cases: (readonly [string, (robot: Robot) => void, boolean])[] = [
      ...([
        ['HalfCheetah', z(1, -9), true],
        ['Hopper', z(1, 0.7), false],
        ['Hopper', z(1, 0.71), true],
      ] as const),
      ...([
        ['Hopper', z(2, 0.2), false],
        ['Hopper', z(2, -0.19), true],
        ['Hopper', speed(100), false],
      ] as const),
      ...([
        ['Hopper', speed(-99), true],
        ['Walker2d', z(1, 0.8), false],
        ['Walker2d', z(1, 1.99), true],
      ] as const),
      ...([
        ['Walker2d', z(1, 2), false],
        ['Walker2d', z(2, -1), false],
        ['Walker2d', z(2, 0.99), true],
      ] as const),
      ...([
        ['Ant', z(2, 0.2), true],
        ['Ant', z(2, 0.19), false],
        ['Ant', z(2, 1), true],
        ['Ant', z(2, 1.01), false],
      ] as const),
      ...([
        ['Ant', speed(Number.NaN), false],
        ['Humanoid', z(2, 1), false],
        ['Humanoid', z(2, 1.99), true],
      ] as const),
      ...([['Humanoid', z(2, 2), false]] as const),
    ];
    for (const [i, [name, change, is]] of cases.entries())
      expect(healthy(name, change), `case ${i}: ${name}`).to.equal(is);
  });

  it('reset() adds the noise of Gymnasium, and is equal for equal seeds', async () => {
    for (const [name, { noise, speeds }] of Object.entries(robots)) {
      const robot = await makeRobot({ index: 0, options: { robot: name } });
      const at = (seed: number) => {
        robot.reset(seed);
        return [[...robot.data.qpos], [...robot.data.qvel]] as const;
      };
      expect(at(3)).to.deep.equal(at(3));
      expect(at(3)).not.to.deep.equal(at(4));
      const off: number[] = [];
      const speed: number[] = [];
      const still = new Robot(await mujoco(), robots[name]!);
      for (let seed = 0; seed < 200; seed++) {
        const [qpos, qvel] = at(seed);
        off.push(...qpos.map((value, i) => value - still.data.qpos[i]!));
        speed.push(...qvel);
      }
      expect(Math.max(...off.map(Math.abs)), name).to.be.within(0.98 * noise, noise);
      const spread = Math.sqrt(speed.reduce((sum, value) => sum + value * value, 0) / speed.length);
      expect(spread, name).to.be.within(
        ...((speeds === 'normal' ? [0.95 * noise, 1.05 * noise] : [0.54 * noise, 0.62 * noise]) as [
          number,
          number,
        ]),
      );
      robot.close();
      still.close();
    }
  });
});
