/**
 * Builds MuJoCo models as MJCF text from numbers. The models omit everything that is only for
 * display.
 */

export type Attributes = Readonly<Record<string, number | string | boolean | readonly number[]>>;

/** Returns an element with its attributes and the elements inside it. */
export function element(tag: string, attributes: Attributes, ...inside: readonly string[]): string {
  const text = Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${Array.isArray(value) ? value.join(' ') : value}"`)
    .join('');
  return `<${tag}${text}>${inside.join('')}</${tag}>`;
}

export type Triple = readonly [x: number, y: number, z: number];

export const body = (pos: Triple, attributes: Attributes, ...inside: readonly string[]): string =>
  element('body', { pos, ...attributes }, ...inside);
/** Returns a hinge joint with an axis and a range of angles. */
export const hinge = (
  name: string,
  axis: Triple,
  range: readonly [number, number],
  more: Attributes = {},
): string => element('joint', { name, type: 'hinge', axis, range, ...more });
export const capsule = (size: number | readonly number[], attributes: Attributes): string =>
  element('geom', { type: 'capsule', size, ...attributes });
export const sphere = (size: number, pos: Triple): string =>
  element('geom', { type: 'sphere', size, pos });
export const motors = (
  gears: Readonly<Record<string, number>>,
  attributes: Attributes = {},
): string =>
  element(
    'actuator',
    {},
    ...Object.entries(gears).map(([joint, gear]) =>
      element('motor', { joint, gear, ...attributes }),
    ),
  );

/**
 * Returns the joints of a robot that moves in a plane: slides along x and z and a hinge around y,
 * all without resistance.
 */
export function planar(height?: number): string {
  const free = { armature: 0, damping: 0, limited: false, stiffness: 0 };
  const below = height === undefined ? {} : { pos: [0, 0, -height] };
  const ref = height === undefined ? {} : { ref: height };
  return [
    element('joint', { name: 'rootx', type: 'slide', axis: [1, 0, 0], ...free, ...below }),
    element('joint', { name: 'rootz', type: 'slide', axis: [0, 0, 1], ...free, ...below, ...ref }),
    element('joint', { name: 'rooty', type: 'hinge', axis: [0, 1, 0], ...free }),
  ].join('');
}
