/**
 * The half cheetah (Wawrzyński, 2009) with Gymnasium's masses, springs and gears. Angles are in
 * radians.
 */
import { body, capsule, element, hinge, motors, planar, type Triple } from './mjcf.ts';

const RADIUS = 0.046;
const UP: Triple = [0, 1, 0];

/**
 * A joint at `pos` and its bone, a capsule of half length `half`. The bone's center is at `middle`,
 * and `angle` is its rotation.
 */
interface Bone {
  name: string;
  pos: Triple;
  range: readonly [number, number];
  damping: number;
  stiffness: number;
  middle: Triple;
  angle: number;
  half: number;
}
const leg = ([bone, ...rest]: readonly Bone[]): string => {
  if (!bone) return '';
  const { name, pos, range, damping, stiffness, middle, angle, half } = bone;
  return body(
    pos,
    {},
    hinge(name, UP, range, { damping, stiffness }),
    capsule([RADIUS, half], { pos: middle, axisangle: [...UP, angle] }),
    leg(rest),
  );
};

const back: readonly Bone[] = [
  {
    name: 'bthigh',
    pos: [-0.5, 0, 0],
    range: [-0.52, 1.05],
    damping: 6,
    stiffness: 240,
    middle: [0.1, 0, -0.13],
    angle: -3.8,
    half: 0.145,
  },
  {
    name: 'bshin',
    pos: [0.16, 0, -0.25],
    range: [-0.785, 0.785],
    damping: 4.5,
    stiffness: 180,
    middle: [-0.14, 0, -0.07],
    angle: -2.03,
    half: 0.15,
  },
  {
    name: 'bfoot',
    pos: [-0.28, 0, -0.14],
    range: [-0.4, 0.785],
    damping: 3,
    stiffness: 120,
    middle: [0.03, 0, -0.097],
    angle: -0.27,
    half: 0.094,
  },
];
const front: readonly Bone[] = [
  {
    name: 'fthigh',
    pos: [0.5, 0, 0],
    range: [-1, 0.7],
    damping: 4.5,
    stiffness: 180,
    middle: [-0.07, 0, -0.12],
    angle: 0.52,
    half: 0.133,
  },
  {
    name: 'fshin',
    pos: [-0.14, 0, -0.24],
    range: [-1.2, 0.87],
    damping: 3,
    stiffness: 120,
    middle: [0.065, 0, -0.09],
    angle: -0.6,
    half: 0.106,
  },
  {
    name: 'ffoot',
    pos: [0.13, 0, -0.18],
    range: [-0.5, 0.5],
    damping: 1.5,
    stiffness: 60,
    middle: [0.045, 0, -0.07],
    angle: -0.6,
    half: 0.07,
  },
];

export const halfCheetah = element(
  'mujoco',
  { model: 'half-cheetah' },
  element('compiler', { angle: 'radian', inertiafromgeom: true, settotalmass: 14 }),
  element('option', { timestep: 0.01 }),
  element(
    'default',
    {},
    element('joint', {
      armature: 0.1,
      damping: 0.01,
      limited: true,
      solimplimit: [0, 0.8, 0.03],
      solreflimit: [0.02, 1],
      stiffness: 8,
    }),
    element('geom', {
      contype: 1,
      conaffinity: 0,
      condim: 3,
      friction: [0.4, 0.1, 0.1],
      solimp: [0, 0.8, 0.01],
      solref: [0.02, 1],
    }),
    element('motor', { ctrllimited: true, ctrlrange: [-1, 1] }),
  ),
  element(
    'worldbody',
    {},
    element('geom', { type: 'plane', size: [40, 40, 40], conaffinity: 1 }),
    body(
      [0, 0, 0.7],
      {},
      planar(),
      capsule(RADIUS, { fromto: [-0.5, 0, 0, 0.5, 0, 0] }),
      capsule([RADIUS, 0.15], { pos: [0.6, 0, 0.1], axisangle: [...UP, 0.87] }),
      leg(back),
      leg(front),
    ),
  ),
  motors({ bthigh: 120, bshin: 90, bfoot: 60, fthigh: 120, fshin: 60, ffoot: 30 }),
);
