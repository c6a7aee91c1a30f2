/**
 * The hopper with one leg and the walker with two (Erez, Tassa and Todorov, 2011), with Gymnasium's
 * numbers. Angles are in degrees.
 */
import {
  type Attributes,
  body,
  capsule,
  element,
  hinge,
  motors,
  planar,
  type Triple,
} from './mjcf.ts';

const DOWN: Triple = [0, -1, 0];
const HEIGHT = 1.25;
/**
 * This number and others repeat all digits of Gymnasium's file. There they result from a change of
 * the frame of reference.
 */
const TORSO = 0.19999999999999996;
const THIGH = 0.22500000000000003;
// Quaternion of a rotation by 90 degrees. Its components differ in their last digits, as in
// Gymnasium's file.
const quarter = [Math.SQRT1_2, 0, -0.70710678118654746, 0];

interface Foot {
  /** distance from the ankle to the foot's frame */
  ahead: number;
  half: number;
  friction: number;
}

/** Returns thigh, leg and foot, each attached to the one before. */
const leg = (side: string, { ahead, half, friction }: Foot): string =>
  body(
    [0, 0, -TORSO],
    {},
    hinge(`thigh${side}`, DOWN, [-150, 0]),
    capsule([0.05, THIGH], { pos: [0, 0, -0.22500000000000009], friction: 0.9 }),
    body(
      [0, 0, -0.70000000000000007],
      {},
      hinge(`leg${side}`, DOWN, [-150, 0], { pos: [0, 0, 0.25] }),
      capsule([0.04, 0.25], { friction: 0.9 }),
      body(
        [ahead, 0, -0.35],
        {},
        hinge(`foot${side}`, DOWN, [-45, 45], { pos: [-ahead, 0, 0.1] }),
        capsule([0.06, half], { pos: [-ahead / 2, 0, 0.1], quat: quarter, friction }),
      ),
    ),
  );

const walker = (
  model: string,
  joint: Attributes,
  geom: Attributes,
  floor: Attributes,
  gear: number,
  ...legs: [string, Foot][]
): string =>
  element(
    'mujoco',
    { model },
    element('compiler', { angle: 'degree', inertiafromgeom: true }),
    element('option', { integrator: 'RK4', timestep: 0.002 }),
    element('default', {}, element('joint', { limited: true, ...joint }), element('geom', geom)),
    element(
      'worldbody',
      {},
      element('geom', { type: 'plane', conaffinity: 1, condim: 3, ...floor }),
      body(
        [0, 0, HEIGHT],
        {},
        planar(HEIGHT),
        capsule([0.05, TORSO], { friction: 0.9 }),
        ...legs.map(([side, foot]) => leg(side, foot)),
      ),
    ),
    motors(
      Object.fromEntries(
        legs.flatMap(([side]) => ['thigh', 'leg', 'foot'].map((name) => [`${name}${side}`, gear])),
      ),
      { ctrllimited: true, ctrlrange: [-1, 1] },
    ),
  );

export const hopper = walker(
  'hopper',
  { armature: 1, damping: 1 },
  {
    contype: 1,
    conaffinity: 1,
    condim: 1,
    margin: 0.001,
    solimp: [0.8, 0.8, 0.01],
    solref: [0.02, 1],
  },
  { size: [20, 20, 0.125] },
  200,
  ['', { ahead: 0.13, half: 0.195, friction: 2 }],
);

const foot: Foot = { ahead: 0.2, half: 0.1, friction: 1.9 };
export const walker2d = walker(
  'walker2d',
  { armature: 0.01, damping: 0.1 },
  { contype: 1, conaffinity: 0, condim: 3, density: 1000, friction: [0.7, 0.1, 0.1] },
  { size: [40, 40, 40] },
  100,
  ['', foot],
  ['_left', foot],
);
