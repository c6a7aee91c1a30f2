/** The humanoid (Tassa, Erez and Todorov, 2012) with Gymnasium's numbers. Angles are in degrees. */
import {
  type Attributes,
  body,
  capsule,
  element,
  hinge,
  motors,
  sphere,
  type Triple,
} from './mjcf.ts';

const spring = (armature: number, stiffness: number, damping: number): Attributes => ({
  armature,
  stiffness,
  damping,
});

/**
 * Returns a leg. `y` is −1 for the right side and 1 for the left. The hips of both sides turn in
 * opposite directions.
 */
function leg(side: 'right' | 'left', y: number): string {
  const isRight = side === 'right';
  const hip = (name: string, axis: Triple, range: readonly [number, number], how: Attributes) =>
    hinge(`${side}_hip_${name}`, axis, range, how);
  return body(
    [0, 0.1 * y, -0.04],
    {},
    hip('x', [-y, 0, 0], [-25, 5], spring(0.01, 10, 5)),
    hip('z', [0, 0, -y], [-60, 35], spring(0.01, 10, 5)),
    hip('y', [0, 1, 0], [-110, 20], spring(isRight ? 0.008 : 0.01, 20, 5)),
    capsule(0.06, { fromto: [0, 0, 0, 0, -0.01 * y, -0.34] }),
    body(
      [0, -0.01 * y, -0.403],
      {},
      hinge(`${side}_knee`, [0, -1, 0], [-160, -2], {
        pos: [0, 0, 0.02],
        armature: 0.006,
        ...(isRight ? {} : { stiffness: 1 }),
      }),
      capsule(0.049, { fromto: [0, 0, 0, 0, 0, -0.3] }),
      body([0, 0, -0.45], {}, sphere(0.075, [0, 0, 0.1])),
    ),
  );
}

function arm(side: 'right' | 'left', y: number): string {
  const range = side === 'right' ? ([-85, 60] as const) : ([-60, 85] as const);
  const shoulder = (number: number, axis: Triple, armature: number) =>
    hinge(`${side}_shoulder${number}`, axis, range, { armature, stiffness: 1 });
  return body(
    [0, 0.17 * y, 0.06],
    {},
    shoulder(1, [2, -y, 1], 0.0068),
    shoulder(2, [0, y, 1], 0.0051),
    capsule([0.04, 0.16], { fromto: [0, 0, 0, 0.16, 0.16 * y, -0.16] }),
    body(
      [0.18, 0.18 * y, -0.18],
      {},
      hinge(`${side}_elbow`, [0, -1, -y], [-90, 50], { armature: 0.0028, stiffness: 0 }),
      capsule(0.031, { fromto: [0.01, -0.01 * y, 0.01, 0.17, -0.17 * y, 0.17] }),
      sphere(0.04, [0.18, -0.18 * y, 0.18]),
    ),
  );
}

/** Returns a tendon over hip and knee. It measures a length and exerts no force. */
const tendon = (side: string): string =>
  element(
    'fixed',
    {},
    element('joint', { joint: `${side}_hip_y`, coef: -1 }),
    element('joint', { joint: `${side}_knee`, coef: 1 }),
  );

const abdomen = (
  axis: 'x' | 'y' | 'z',
  pos: Triple,
  range: readonly [number, number],
  stiffness: number,
): string =>
  hinge(
    `abdomen_${axis}`,
    [Number(axis === 'x'), Number(axis === 'y'), Number(axis === 'z')],
    range,
    {
      pos,
      ...spring(0.02, stiffness, 5),
    },
  );
const tilted = { quat: [1, 0, -0.002, 0] };

const ofLeg = (side: string) => ({
  [`${side}_hip_x`]: 100,
  [`${side}_hip_z`]: 100,
  [`${side}_hip_y`]: 300,
  [`${side}_knee`]: 200,
});
const ofArm = (side: string) => ({
  [`${side}_shoulder1`]: 25,
  [`${side}_shoulder2`]: 25,
  [`${side}_elbow`]: 25,
});

export const humanoid = element(
  'mujoco',
  { model: 'humanoid' },
  element('compiler', { angle: 'degree', inertiafromgeom: true }),
  element('option', { integrator: 'RK4', iterations: 50, solver: 'PGS', timestep: 0.003 }),
  element(
    'default',
    {},
    element('joint', { armature: 1, damping: 1, limited: true }),
    element('geom', { contype: 1, conaffinity: 1, condim: 1, margin: 0.001 }),
    element('motor', { ctrllimited: true, ctrlrange: [-0.4, 0.4] }),
  ),
  element(
    'worldbody',
    {},
    element('geom', { type: 'plane', size: [20, 20, 0.125], condim: 3, friction: [1, 0.1, 0.1] }),
    body(
      [0, 0, 1.4],
      {},
      element('joint', {
        name: 'root',
        type: 'free',
        armature: 0,
        damping: 0,
        limited: false,
        stiffness: 0,
      }),
      capsule(0.07, { fromto: [0, -0.07, 0, 0, 0.07, 0] }),
      sphere(0.09, [0, 0, 0.19]),
      capsule(0.06, { fromto: [-0.01, -0.06, -0.12, -0.01, 0.06, -0.12] }),
      body(
        [-0.01, 0, -0.26],
        tilted,
        capsule(0.06, { fromto: [0, -0.06, 0, 0, 0.06, 0] }),
        abdomen('z', [0, 0, 0.065], [-45, 45], 20),
        abdomen('y', [0, 0, 0.065], [-75, 30], 10),
        body(
          [0, 0, -0.165],
          tilted,
          abdomen('x', [0, 0, 0.1], [-35, 35], 10),
          capsule(0.09, { fromto: [-0.02, -0.07, 0, -0.02, 0.07, 0] }),
          leg('right', -1),
          leg('left', 1),
        ),
      ),
      arm('right', -1),
      arm('left', 1),
    ),
  ),
  element('tendon', {}, tendon('left'), tendon('right')),
  motors({
    abdomen_y: 100,
    abdomen_z: 100,
    abdomen_x: 100,
    ...ofLeg('right'),
    ...ofLeg('left'),
    ...ofArm('right'),
    ...ofArm('left'),
  }),
);
