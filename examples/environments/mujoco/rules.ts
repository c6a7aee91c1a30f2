/**
 * Observations, rewards and ends of episodes of each robot. They follow the v5 rules of Gymnasium
 * (envs/mujoco/*_v5.py) with their defaults.
 */
import type { MjData, MjModel } from './engine.ts';
import { ant } from './models/ant.ts';
import { halfCheetah } from './models/half-cheetah.ts';
import { humanoid } from './models/humanoid.ts';
import { hopper, walker2d } from './models/walkers.ts';

/** Values of an environment step from which the reward is computed. */
export interface Moved {
  /** speed along x of the position that `place` returns, in meters per second */
  readonly speed: number;
  /** sum of the squares of the action's elements */
  readonly effort: number;
}

export interface Rules {
  /** model in MJCF */
  readonly model: string;
  /** number of physics steps in an environment step */
  readonly frameSkip: number;
  /**
   * size of the noise at a reset. Elements of qpos get uniform noise within ±noise. Elements of
   * qvel get the same or, with speeds 'normal', normal noise with this deviation
   */
  readonly noise: number;
  readonly speeds: 'uniform' | 'normal';
  /** returns the robot's position along x */
  place(model: MjModel, data: MjData): number;
  /** appends the observation to `to` */
  show(data: MjData, to: number[]): void;
  reward(data: MjData, moved: Moved): number;
  /** returns false if the episode must end */
  healthy(data: MjData): boolean;
}

type Numbers = Float64Array;
/** Returns the vectors of all bodies except the world. */
const ofBodies = (vectors: Numbers, width: number): Numbers => vectors.subarray(width);

const add = (to: number[], from: Numbers, first = 0): void => {
  for (let i = first; i < from.length; i++) to.push(from[i] as number);
};
const clipped = (value: number, most: number): number => Math.min(Math.max(value, -most), most);
const at = (from: Numbers, i: number): number => from[i] as number;

/**
 * Returns the rules of a robot that moves in a plane. Its position along x is the first element of
 * qpos, and the observation leaves it out.
 */
const planar = (mostSpeed = Infinity) => ({
  place: (_: MjModel, { qpos }: MjData) => at(qpos, 0),
  show({ qpos, qvel }: MjData, to: number[]): void {
    add(to, qpos, 1);
    for (let i = 0; i < qvel.length; i++) to.push(clipped(at(qvel, i), mostSpeed));
  },
});

const hopperHealthy = ({ qpos, qvel }: MjData): boolean => {
  const within = (numbers: Numbers, first: number) => {
    for (let i = first; i < numbers.length; i++)
      if (!(Math.abs(at(numbers, i)) < 100)) return false;
    return true;
  };
  return within(qpos, 2) && within(qvel, 0) && at(qpos, 1) > 0.7 && Math.abs(at(qpos, 2)) < 0.2;
};
const walkerHealthy = ({ qpos }: MjData): boolean =>
  at(qpos, 1) > 0.8 && at(qpos, 1) < 2 && Math.abs(at(qpos, 2)) < 1;
const antHealthy = ({ qpos, qvel }: MjData): boolean =>
  at(qpos, 2) >= 0.2 &&
  at(qpos, 2) <= 1 &&
  qpos.every(Number.isFinite) &&
  qvel.every(Number.isFinite);
const humanoidHealthy = ({ qpos }: MjData): boolean => at(qpos, 2) > 1 && at(qpos, 2) < 2;

const squares = (numbers: Numbers, most = Infinity): number =>
  numbers.reduce((sum, value) => sum + clipped(value, most) ** 2, 0);

/** Returns the x coordinate of the robot's center of mass. */
function massCentre({ body_mass: mass }: MjModel, { xipos }: MjData): number {
  let [sum, all] = [0, 0];
  for (let i = 0; i < mass.length; i++) {
    sum += at(mass, i) * at(xipos, 3 * i);
    all += at(mass, i);
  }
  return sum / all;
}

export const robots: Readonly<Record<string, Rules>> = {
  HalfCheetah: {
    model: halfCheetah,
    frameSkip: 5,
    noise: 0.1,
    speeds: 'normal',
    ...planar(),
    reward: (_, { speed, effort }) => speed - 0.1 * effort,
    healthy: () => true,
  },
  Hopper: {
    model: hopper,
    frameSkip: 4,
    noise: 5e-3,
    speeds: 'uniform',
    ...planar(10),
    reward: (data, { speed, effort }) => speed + Number(hopperHealthy(data)) - 1e-3 * effort,
    healthy: hopperHealthy,
  },
  Walker2d: {
    model: walker2d,
    frameSkip: 4,
    noise: 5e-3,
    speeds: 'uniform',
    ...planar(10),
    reward: (data, { speed, effort }) => speed + Number(walkerHealthy(data)) - 1e-3 * effort,
    healthy: walkerHealthy,
  },
  Ant: {
    model: ant,
    frameSkip: 5,
    noise: 0.1,
    speeds: 'normal',
    // Body 1 is the torso, so element 3 of xpos is its x coordinate.
    place: (_, { xpos }) => at(xpos, 3),
    show({ qpos, qvel, cfrc_ext: forces }, to) {
      add(to, qpos, 2);
      add(to, qvel);
      for (const force of ofBodies(forces, 6)) to.push(clipped(force, 1));
    },
    reward: (data, { speed, effort }) =>
      speed + Number(antHealthy(data)) - (0.5 * effort + 5e-4 * squares(data.cfrc_ext, 1)),
    healthy: antHealthy,
  },
  Humanoid: {
    model: humanoid,
    frameSkip: 5,
    noise: 1e-2,
    speeds: 'uniform',
    place: massCentre,
    show({ qpos, qvel, cinert, cvel, qfrc_actuator: torques, cfrc_ext: forces }, to) {
      add(to, qpos, 2);
      add(to, qvel);
      add(to, ofBodies(cinert, 10));
      add(to, ofBodies(cvel, 6));
      add(to, torques, 6);
      add(to, ofBodies(forces, 6));
    },
    reward: (data, { speed, effort }) =>
      1.25 * speed +
      5 * Number(humanoidHealthy(data)) -
      (0.1 * effort + Math.min(5e-7 * squares(data.cfrc_ext), 10)),
    healthy: humanoidHealthy,
  },
};
