/**
 * Computes the ranges of an array that are sent and received over each of its edges and corners.
 */

import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { type HaloRange, QuantityHaloSpec } from './spec.ts';

/**
 * The [x, y] step across each edge and each corner, the four edges first. E is toward +i, and N is
 * toward +j.
 */
export const edgeSteps = Object.freeze({
  N: [0, 1],
  S: [0, -1],
  E: [1, 0],
  W: [-1, 0],
  NE: [1, 1],
  NW: [-1, 1],
  SE: [1, -1],
  SW: [-1, -1],
} as const);
export type Edge = keyof typeof edgeSteps;
export const edges = Object.freeze(Object.keys(edgeSteps) as Edge[]);

export interface EdgeSlicesOptions {
  /**
   * true for the points of the compute domain that are sent, false for the halo points that
   * received data overwrites
   */
  interior: boolean;
  /** number of halo points, counted from the compute domain (default: all halo points) */
  points?: number;
}

/**
 * Returns a range per dimension for HaloExchangeSpec: `packSlices` with `interior: true`,
 * `unpackSlices` with `interior: false`. In dimensions that the edge does not cross, the range is
 * the whole compute domain. In an interface dimension, both neighbors have the points on their
 * common edge. The outgoing range therefore starts one point further inside.
 *
 * Throws TypeError for an unknown edge. Throws RangeError if the halo or the compute domain has
 * fewer points than requested, or if the halo does not fit into the array.
 */
export function edgeSlices(
  spec: QuantityHaloSpec,
  edge: Edge,
  options: EdgeSlicesOptions,
): readonly HaloRange[] {
  if (!(spec instanceof QuantityHaloSpec))
    throw typeError(`edgeSlices takes a QuantityHaloSpec, got ${describeValue(spec)}`);
  if (typeof edge !== 'string' || !Object.hasOwn(edgeSteps, edge))
    throw typeError(`edge is one of ${edges.join(', ')}, got ${describeValue(edge)}`);
  checkKeys('edgeSlices', options, ['interior', 'points']);
  const { interior, points = spec.nPoints } = options;
  if (typeof interior !== 'boolean')
    throw typeError(`interior is true or false, got ${describeValue(interior)}`);
  checkCount('points', points, 0, spec.nPoints);
  const [x, y] = edgeSteps[edge];
  return Object.freeze(
    spec.dims.map((_, d) => {
      const step = d === spec.xDim ? x : d === spec.yDim ? y : 0;
      return Object.freeze(
        interior ? leaving(spec, d, step, points) : arriving(spec, d, step, points),
      );
    }),
  );
}

type Step = -1 | 0 | 1;

function domain(spec: QuantityHaloSpec, d: number) {
  const [name, n, start, extent] = [
    spec.dims[d] as string,
    spec.shape[d]!,
    spec.origin[d]!,
    spec.extent[d]!,
  ];
  return { name, n, start, extent, stop: start + extent };
}

function leaving(spec: QuantityHaloSpec, d: number, step: Step, points: number): HaloRange {
  const { name, start, extent, stop } = domain(spec, d);
  if (step === 0) return [start, stop];
  const common = name.endsWith('_interface') ? 1 : 0;
  if (common + points > extent)
    throw rangeError(
      `'${name}': a compute domain of ${extent} cannot give ${points} points${common ? ' besides the one on the edge' : ''}`,
    );
  return step > 0
    ? [stop - common - points, stop - common]
    : [start + common, start + common + points];
}

function arriving(spec: QuantityHaloSpec, d: number, step: Step, points: number): HaloRange {
  const { name, n, start, stop } = domain(spec, d);
  if (step === 0) return [start, stop];
  const [first, end] = step > 0 ? [stop, stop + points] : [start - points, start];
  if (first < 0 || end > n)
    throw rangeError(
      `'${name}': a halo of ${points} points ${step > 0 ? `from ${stop} on` : `before ${start}`} does not fit into a dimension of ${n}`,
    );
  return [first, end];
}
