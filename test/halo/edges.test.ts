/**
 * Tests the ranges that are packed and unpacked at an edge. They must equal NDSL's, and arrays that
 * are too small are rejected.
 */
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import type { DType } from '../../src/base/dtype.ts';
import { type Edge, edgeSlices, edges } from '../../src/extras/halo/edges.ts';
import { type HaloRange, QuantityHaloSpec } from '../../src/extras/halo/spec.ts';
import { refusal } from '../rig/refusal.ts';

interface Golden {
  name: string;
  dtype: DType;
  dims: string[];
  shape: number[];
  strides: number[];
  nHalo: number;
  origin: number[];
  extent: number[];
  edges: Edge[];
  descriptors: { pack: HaloRange[]; unpack: HaloRange[] }[][];
}

const fixture = new URL('../../../test/fixtures/halo_ndsl.json', import.meta.url);
const { cases } = JSON.parse(readFileSync(fixture, 'utf8')) as { cases: Golden[] };
const specOf = ({
  nHalo,
  name: _,
  edges: __,
  descriptors: ___,
  dtype,
  dims,
  shape,
  strides,
  origin,
  extent,
}: Golden) => new QuantityHaloSpec({ nPoints: nHalo, dtype, dims, shape, strides, origin, extent });

const plane = (more: Partial<ConstructorParameters<typeof QuantityHaloSpec>[0]> = {}) =>
  new QuantityHaloSpec({
    nPoints: 2,
    dims: ['i', 'j', 'k'],
    shape: [9, 10, 4],
    origin: [2, 2, 1],
    extent: [5, 6, 3],
    dtype: 'float32',
    ...more,
  });

describe('halo/edges', () => {
  it('edgeSlices() returns the ranges that NDSL packs over the same edge', () => {
    expect(cases).to.have.length(60);
    for (const each of cases) {
      const spec = specOf(each);
      each.descriptors.forEach((components, e) => {
        const edge = each.edges[e] as Edge;
        for (const { pack } of components)
          expect(edgeSlices(spec, edge, { interior: true }), `${each.name} ${edge}`).to.deep.equal(
            pack,
          );
      });
    }
  });

  it('edgeSlices() returns the ranges that NDSL unpacks, at edges and at corners', () => {
    const seen = new Set<Edge>();
    for (const each of cases) {
      const spec = specOf(each);
      each.descriptors.forEach((components, e) => {
        const edge = each.edges[e] as Edge;
        const alike = edges.filter((other) => other.length === edge.length);
        for (const { unpack } of components) {
          const fitting = alike.filter(
            (other) =>
              JSON.stringify(edgeSlices(spec, other, { interior: false })) ===
              JSON.stringify(unpack),
          );
          expect(fitting, `${each.name} ${edge} -> ${JSON.stringify(unpack)}`).to.not.be.empty;
          if (spec.xDim >= 0 && spec.yDim >= 0) {
            expect(fitting).to.have.length(1);
            seen.add(fitting[0] as Edge);
          }
        }
      });
    }
    expect([...seen].sort()).to.deep.equal([...edges].sort());
  });

  it('edgeSlices() returns the points nearest to the edge if fewer points are requested', () => {
    const spec = plane({ dims: ['i', 'j_interface', 'k'] });
    const both = (edge: Edge) =>
      [true, false].map((interior) => edgeSlices(spec, edge, { interior, points: 1 }));
    const k = [1, 4];
    expect(both('N')).to.deep.equal([
      [[2, 7], [6, 7], k],
      [[2, 7], [8, 9], k],
    ]);
    expect(both('SE')).to.deep.equal([
      [[6, 7], [3, 4], k],
      [[7, 8], [1, 2], k],
    ]);
    expect(both('W')).to.deep.equal([
      [[2, 3], [2, 8], k],
      [[1, 2], [2, 8], k],
    ]);
    expect(edgeSlices(spec, 'N', { interior: true, points: 0 })[1]).to.deep.equal([7, 7]);
    const ranges = edgeSlices(spec, 'N', { interior: true });
    expect([ranges, ...ranges].every(Object.isFrozen)).to.equal(true);
  });

  it('edgeSlices() returns the whole compute domain if the array lacks the dimension', () => {
    const spec = plane({ dims: ['i', 'k_interface', 'tile'] });
    const whole = [
      [2, 7],
      [2, 8],
      [1, 4],
    ];
    for (const interior of [true, false])
      expect(edgeSlices(spec, 'N', { interior })).to.deep.equal(whole);
    expect(edgeSlices(spec, 'NE', { interior: true })).to.deep.equal([[5, 7], ...whole.slice(1)]);
  });

  it('edgeSlices() throws if the compute domain is smaller than the requested points', () => {
    const leave = (extent: number[], dims: string[], points = 2) =>
      edgeSlices(plane({ extent, dims }), 'NW', { interior: true, points });
    expect(leave([2, 2, 3], ['i', 'j', 'k'])).to.deep.equal([
      [2, 4],
      [2, 4],
      [1, 4],
    ]);
    expect(leave([2, 3, 3], ['i', 'j_interface', 'k'])[1]).to.deep.equal([2, 4]);
    for (const [call, text] of [
      [() => leave([1, 2, 3], ['i', 'j', 'k']), "'i': a compute domain of 1 cannot give 2 points"],
      [
        () => leave([2, 2, 3], ['i', 'j_interface', 'k']),
        "'j_interface': a compute domain of 2 cannot give 2 points besides the one on the edge",
      ],
    ] as const) {
      const error = refusal(call);
      expect(error).to.be.instanceOf(RangeError);
      expect(error.message).to.equal(text);
    }
  });

  it('edgeSlices() throws if the halo does not fit into the array, on either side', () => {
    const spec = plane({ origin: [1, 3, 1], extent: [6, 6, 3] });
    for (const [edge, text] of [
      ['W', "'i': a halo of 2 points before 1 does not fit into a dimension of 9"],
      ['N', "'j': a halo of 2 points from 9 on does not fit into a dimension of 10"],
    ] as const) {
      const error = refusal(() => edgeSlices(spec, edge, { interior: false }));
      expect(error).to.be.instanceOf(RangeError);
      expect(error.message).to.equal(text);
      expect(() => edgeSlices(spec, edge, { interior: true })).to.not.throw();
      expect(() => edgeSlices(spec, edge, { interior: false, points: 1 })).to.not.throw();
    }
    expect(() => edgeSlices(spec, 'SE', { interior: false })).to.not.throw();
  });

  it('edgeSlices() throws for an invalid edge, number of points or option', () => {
    const spec = plane();
    const interior = true;
    const calls: [() => unknown, typeof TypeError | typeof RangeError, RegExp][] = [
      [
        () => edgeSlices(spec, 'EN' as Edge, { interior }),
        TypeError,
        /N, S, E, W, NE, NW, SE, SW, got 'EN'/,
      ],
      [() => edgeSlices(spec, 'toString' as Edge, { interior }), TypeError, /got 'toString'/],
      [() => edgeSlices(spec, ['N'] as never, { interior }), TypeError, /got an array of 1/],
      [
        () => edgeSlices(spec, 'N', { interior, points: 3 }),
        RangeError,
        /points .* at most 2, got 3/,
      ],
      [() => edgeSlices(spec, 'N', { interior, points: -1 }), RangeError, /got -1/],
      [() => edgeSlices(spec, 'N', { interior, points: 0.5 }), RangeError, /got 0.5/],
      [
        () => edgeSlices(spec, 'N', { interior, points: '1' as never }),
        TypeError,
        /got string \(1\)/,
      ],
      [
        () => edgeSlices(spec, 'N', {} as never),
        TypeError,
        /interior is true or false, got undefined/,
      ],
      [
        () => edgeSlices(spec, 'N', { interior, point: 1 } as never),
        TypeError,
        /unknown option 'point'/,
      ],
      [
        () => edgeSlices({ ...spec } as QuantityHaloSpec, 'N', { interior }),
        TypeError,
        /got an object/,
      ],
    ];
    for (const [call, kind, text] of calls) {
      const error = refusal(call);
      expect(error).to.be.instanceOf(kind);
      expect(error.message).to.match(text);
    }
  });
});
