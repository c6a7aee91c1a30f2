/** The ant (Schulman et al., 2015) with Gymnasium's numbers. Angles are in degrees. */
import { body, capsule, element, hinge, motors, sphere } from './mjcf.ts';

const RADIUS = 0.08;

/**
 * Returns a leg that points towards (x, y), each ±1. It consists of a stub, a part that turns at
 * the hip, and a part that the ankle lifts.
 */
const leg = (number: number, x: number, y: number, range: readonly [number, number]): string => {
  const bone = (length: number) =>
    capsule(RADIUS, { fromto: [0, 0, 0, x * length, y * length, 0] });
  return body(
    [0, 0, 0],
    {},
    bone(0.2),
    body(
      [0.2 * x, 0.2 * y, 0],
      {},
      hinge(`hip_${number}`, [0, 0, 1], [-30, 30]),
      bone(0.2),
      body([0.2 * x, 0.2 * y, 0], {}, hinge(`ankle_${number}`, [-x * y, 1, 0], range), bone(0.4)),
    ),
  );
};

export const ant = element(
  'mujoco',
  { model: 'ant' },
  element('compiler', { angle: 'degree', inertiafromgeom: true }),
  element('option', { integrator: 'RK4', timestep: 0.01 }),
  element(
    'default',
    {},
    element('joint', { armature: 1, damping: 1, limited: true }),
    element('geom', {
      conaffinity: 0,
      condim: 3,
      density: 5,
      friction: [1, 0.5, 0.5],
      margin: 0.01,
    }),
  ),
  element(
    'worldbody',
    {},
    element('geom', { type: 'plane', size: [40, 40, 40], conaffinity: 1 }),
    body(
      [0, 0, 0.75],
      {},
      sphere(0.25, [0, 0, 0]),
      element('joint', {
        name: 'root',
        type: 'free',
        armature: 0,
        damping: 0,
        limited: false,
        margin: 0.01,
      }),
      leg(1, 1, 1, [30, 70]),
      leg(2, -1, 1, [-70, -30]),
      leg(3, -1, -1, [-70, -30]),
      leg(4, 1, -1, [30, 70]),
    ),
  ),
  motors(
    Object.fromEntries(
      [4, 1, 2, 3].flatMap((leg) => [
        [`hip_${leg}`, 150],
        [`ankle_${leg}`, 150],
      ]),
    ),
    {
      ctrllimited: true,
      ctrlrange: [-1, 1],
    },
  ),
);
