/** Who is whose neighbour: every halo cell must hold what is geometrically there. */
import { expect } from 'chai';
import { type Edge, edgeSlices } from '../../../src/operators/halo/edges.ts';
import { HaloExchangeSpec, type HaloRange, QuantityHaloSpec } from '../../../src/operators/halo/spec.ts';
import {
  cubedSphereTopology,
  cubeFaces,
  type HaloTopology,
  periodicTopology,
} from '../../../src/operators/halo/topology.ts';
import { refusal } from '../../device/rig.ts';

/** One component of what a rank holds: values in row-major order, undefined where nothing is known. */
interface Component {
  spec: QuantityHaloSpec;
  values: unknown[];
}
interface Block {
  shape: number[];
  values: unknown[];
}

/** Every index of the box, the last dimension fastest. */
function indices(box: readonly HaloRange[]): number[][] {
  return box.reduce<number[][]>(
    (all, [start, stop]) =>
      all.flatMap((index) => Array.from({ length: stop - start }, (_, at) => [...index, start + at])),
    [[]],
  );
}
const offset = (shape: readonly number[], index: readonly number[]) =>
  index.reduce((sum, at, d) => sum * (shape[d] as number) + at, 0);
const whole = (shape: readonly number[]) => shape.map((n) => [0, n] as const);

function block(shape: number[], valueAt: (index: number[]) => unknown): Block {
  return { shape, values: indices(whole(shape)).map(valueAt) };
}
function flip({ shape, values }: Block, d: number): Block {
  return block(
    shape,
    (index) =>
      values[
        offset(
          shape,
          index.map((at, each) => (each === d ? (shape[d] as number) - 1 - at : at)),
        )
      ],
  );
}
function swap({ shape, values }: Block, a: number, b: number): Block {
  const other = <T>(list: T[]) => list.map((at, d) => (d === a ? list[b] : d === b ? list[a] : at) as T);
  return block(other(shape), (index) => values[offset(shape, other(index))]);
}

/** The packer's rules: n = −rotation mod 4 quarter turns of the arrays, then of the vector's components. */
function pack(components: Component[], edge: Edge, rotation: number): unknown[][] {
  const n = (4 - rotation) % 4;
  const turned = components.map(({ spec, values }) => {
    const slices = edgeSlices(spec, edge, { interior: true });
    const shape = slices.map(([start, stop]) => stop - start);
    const out = { shape, values: indices(slices).map((index) => values[offset(spec.shape, index)]) };
    if (n === 1) return swap(flip(out, spec.xDim), spec.xDim, spec.yDim).values;
    if (n === 3) return swap(flip(out, spec.yDim), spec.xDim, spec.yDim).values;
    return n === 2 ? flip(flip(out, spec.xDim), spec.yDim).values : out.values;
  });
  const [x, y] = turned as [unknown[], unknown[]];
  if (components.length === 1 || n === 0) return turned;
  const minus = (values: unknown[]) => values.map((value) => 0 - (value as number));
  if (n === 1) return [y, minus(x)];
  return n === 3 ? [minus(y), x] : [minus(x), minus(y)];
}

function unpack(components: Component[], edge: Edge, parts: unknown[][]): void {
  components.forEach(({ spec, values }, c) => {
    const to = indices(edgeSlices(spec, edge, { interior: false }));
    const from = parts[c] as unknown[];
    expect(from.length, `${spec.dims} at ${edge}`).to.equal(to.length);
    to.forEach((index, at) => {
      const place = offset(spec.shape, index);
      if (values[place] !== undefined) throw new Error(`[${index}] of [${spec.dims}] is written twice`);
      values[place] = from[at];
    });
  });
}

function exchange(topology: HaloTopology, ranks: Component[][]): void {
  const sent = topology.neighbours.flatMap((neighbours, rank) =>
    neighbours.map((to) => ({ ...to, parts: pack(ranks[rank] as Component[], to.edge, to.clockwiseRotation) })),
  );
  for (const { rank, edgeThere, parts } of sent) unpack(ranks[rank] as Component[], edgeThere, parts);
}

/** Cells of a rank along x and y; the arrays have a margin around their halo which nothing may touch. */
function specOf(dims: string[], cells: { i: number; j: number }, nPoints: number): QuantityHaloSpec {
  const widths = dims.map((name) => {
    if (name.startsWith('k')) return 2;
    return cells[name[0] as 'i' | 'j'] + (name.endsWith('_interface') ? 1 : 0);
  });
  const before = dims.map((name) => (name.startsWith('k') ? 1 : nPoints + 1));
  const shape = widths.map((width, d) => width + 2 * (before[d] as number));
  return new QuantityHaloSpec({ nPoints, dims, shape, origin: before, extent: widths, dtype: 'float64' });
}

/** Place of an index among the rank's cells: half a cell further for what sits on no interface. */
function fromOrigin(spec: QuantityHaloSpec, index: number[], d: number): number {
  const half = (spec.dims[d] as string).endsWith('_interface') ? 0 : 0.5;
  return (index[d] as number) - (spec.origin[d] as number) + half;
}
const level = (spec: QuantityHaloSpec, index: number[]) => index[spec.dims.indexOf('k')] ?? 0;

/** `points` outside the compute domain in each horizontal dimension, and the whole domain in the others. */
function around(spec: QuantityHaloSpec, points: number): HaloRange[] {
  return spec.origin.map((start, d) => {
    const grown = d === spec.xDim || d === spec.yDim ? points : 0;
    return [start - grown, start + (spec.extent[d] as number) + grown] as const;
  });
}

/** Gives every index of the compute domain its value, exchanges, and compares halo and margin. */
function check(
  topology: HaloTopology,
  specs: QuantityHaloSpec[],
  valueAt: (rank: number, component: number, index: number[]) => unknown,
): number {
  const ranks = topology.places.map((_, rank) =>
    specs.map((spec, component) => {
      const held: Component = { spec, values: new Array(spec.shape.reduce((n, d) => n * d, 1)).fill(undefined) };
      for (const index of indices(around(spec, 0)))
        held.values[offset(spec.shape, index)] = valueAt(rank, component, index);
      return held;
    }),
  );
  exchange(topology, ranks);
  let found = 0;
  ranks.forEach((components, rank) => {
    components.forEach(({ spec, values }, component) => {
      const expected = new Array(values.length).fill(undefined);
      for (const index of indices(around(spec, spec.nPoints)))
        expected[offset(spec.shape, index)] = valueAt(rank, component, index);
      found += expected.filter((value) => value !== undefined).length;
      if (values.every((value, at) => value === expected[at])) return;
      expect(values, `rank ${rank}, [${spec.dims}], ${spec.nPoints} points`).to.deep.equal(expected);
    });
  });
  return found;
}

type Vector = readonly [number, number, number];
const plus = (...terms: [number, Vector][]) =>
  [0, 1, 2].map((d) => terms.reduce((sum, [factor, v]) => sum + factor * (v[d] as number), 0)) as unknown as Vector;
const dot = (a: Vector, b: Vector) => a.reduce((sum, at, d) => sum + at * (b[d] as number), 0);

/** The cube's faces from outside, written down by hand: outward normal, x, y. */
const faces: readonly (readonly [Vector, Vector, Vector])[] = [
  [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  [
    [0, 1, 0],
    [-1, 0, 0],
    [0, 0, 1],
  ],
  [
    [0, 0, 1],
    [-1, 0, 0],
    [0, -1, 0],
  ],
  [
    [-1, 0, 0],
    [0, 0, -1],
    [0, -1, 0],
  ],
  [
    [0, -1, 0],
    [0, 0, -1],
    [1, 0, 0],
  ],
  [
    [0, 0, -1],
    [0, 1, 0],
    [1, 0, 0],
  ],
] as const;

/** Cells of a cube in space. A face is 2 half cells wide per cell, its centre is at (0, 0). */
class Cube {
  readonly topology: HaloTopology;
  readonly cells: number;
  readonly half: number;
  constructor(topology: HaloTopology, cells: number) {
    this.topology = topology;
    this.cells = cells;
    this.half = topology.layout[0] * cells;
  }
  /** Position of an index and the directions of its axes; what lies beyond one edge of the face is folded over it. */
  at(spec: QuantityHaloSpec, rank: number, index: number[]): { position: Vector; axes: Vector[] } | null {
    const { face, column, row } = this.topology.places[rank] as HaloTopology['places'][number];
    const u = 2 * (column * this.cells + fromOrigin(spec, index, spec.xDim)) - this.half;
    const v = 2 * (row * this.cells + fromOrigin(spec, index, spec.yDim)) - this.half;
    const [normal, x, y] = faces[face] as (typeof faces)[number];
    const beyond = [u, v].map((at) => Math.max(0, Math.abs(at) - this.half)) as [number, number];
    if (beyond[0] > 0 && beyond[1] > 0) return null;
    const into = (at: number, axis: Vector, out: number) => (out > 0 ? plus([-Math.sign(at), normal]) : axis);
    return {
      position: plus(
        [this.half - beyond[0] - beyond[1], normal],
        [Math.sign(u) * (Math.abs(u) - beyond[0]), x],
        [Math.sign(v) * (Math.abs(v) - beyond[1]), y],
      ),
      axes: [into(u, x, beyond[0]), into(v, y, beyond[1])],
    };
  }
  inSubdomain(spec: QuantityHaloSpec, index: number[]): boolean {
    const inside = (d: number) =>
      (index[d] as number) >= (spec.origin[d] as number) &&
      (index[d] as number) < (spec.origin[d] as number) + (spec.extent[d] as number);
    return inside(spec.xDim) || inside(spec.yDim);
  }
  scalar(spec: QuantityHaloSpec): (rank: number, _: number, index: number[]) => unknown {
    return (rank, _, index) => {
      const there = this.at(spec, rank, index);
      return there === null ? undefined : `${there.position} level ${level(spec, index)}`;
    };
  }
  /** Component along its axis of a field in space that is unlike itself everywhere. */
  vector(specs: QuantityHaloSpec[]): (rank: number, component: number, index: number[]) => unknown {
    return (rank, component, index) => {
      const spec = specs[component] as QuantityHaloSpec;
      const there = this.at(spec, rank, index);
      if (there === null) return undefined;
      const k = level(spec, index);
      const field = [1, 2, 3].map((d) => scatter([...there.position, k, d])) as unknown as Vector;
      return dot(field, there.axes[component] as Vector);
    };
  }
}
function scatter(numbers: number[]): number {
  const mixed = numbers.reduce((hash, at) => Math.imul(hash ^ (at + 0x9e37), 0x01000193) ^ (hash >>> 15), 0x811c9dc5);
  return 1 + (mixed >>> 2);
}

const square = (cells: number) => ({ i: cells, j: cells });
const layouts = [1, 2, 3].map((n) => [n, n] as const);
const orders = [
  ['i', 'j'],
  ['j', 'i'],
  ['i', 'j', 'k'],
  ['i', 'k', 'j'],
  ['j', 'i', 'k'],
  ['j', 'k', 'i'],
  ['k', 'i', 'j'],
  ['k', 'j', 'i'],
];
/** Where x and y may live: cell centres, the edges that each crosses (C grid) or follows (D grid), corner points. */
const grids: Record<string, [x: string[], y: string[]]> = {
  A: [[], []],
  B: [
    ['i', 'j'],
    ['i', 'j'],
  ],
  C: [['i'], ['j']],
  D: [['j'], ['i']],
};
const stagger = (dims: string[], along: string[]) =>
  dims.map((name) => (along.includes(name) ? `${name}_interface` : name));

for (const [name, topologies] of Object.entries({
  periodic: [[1, 1] as const, [1, 2] as const, [2, 1] as const, [3, 2] as const].flatMap((layout) =>
    [true, false].map((corners) => periodicTopology({ layout, corners })),
  ),
  cube: layouts.flatMap((layout) => [true, false].map((corners) => cubedSphereTopology({ layout, corners }))),
})) {
  describe(`operators/halo/topology: ${name}`, () => {
    it('who is my neighbour has me as a neighbour, over the same two edges with the opposite turn', () => {
      for (const { neighbours } of topologies) {
        neighbours.forEach((mine, rank) => {
          for (const { edge, rank: other, edgeThere, clockwiseRotation } of mine) {
            const back = neighbours[other]?.filter((each) => each.edge === edgeThere);
            const opposite = (4 - clockwiseRotation) % 4;
            expect(back).to.deep.equal([{ edge: edgeThere, rank, edgeThere: edge, clockwiseRotation: opposite }]);
            expect(edgeThere.length).to.equal(edge.length);
          }
        });
      }
    });

    it('is frozen plain data, the same in another thread', () => {
      for (const topology of topologies) {
        expect(structuredClone(topology)).to.deep.equal(topology);
        expect(topology.ranks).to.equal(topology.neighbours.length);
        expect(topology.ranks).to.equal(topology.places.length);
        const [columns, rows] = topology.layout;
        topology.places.forEach(({ face, column, row }, rank) => {
          expect((face * rows + row) * columns + column).to.equal(rank);
          expect([column < columns, row < rows]).to.deep.equal([true, true]);
        });
        for (const each of [topology, topology.layout, topology.places, topology.neighbours, ...topology.neighbours])
          expect(Object.isFrozen(each)).to.equal(true);
        for (const each of [...topology.places, ...topology.neighbours.flat()])
          expect(Object.isFrozen(each)).to.equal(true);
      }
    });
  });
}

describe('operators/halo/topology: periodic', () => {
  const undivided = (topology: HaloTopology, spec: QuantityHaloSpec, cells: { i: number; j: number }) => {
    const [columns, rows] = topology.layout;
    return (rank: number, component: number, index: number[]) => {
      const { column, row } = topology.places[rank] as HaloTopology['places'][number];
      const [x, y] = [
        column * cells.i + fromOrigin(spec, index, spec.xDim),
        row * cells.j + fromOrigin(spec, index, spec.yDim),
      ];
      const [wide, high] = [columns * cells.i, rows * cells.j];
      return scatter([2 * ((x + wide) % wide), 2 * ((y + high) % high), level(spec, index), component]);
    };
  };
  for (const layout of [
    [1, 1],
    [1, 2],
    [2, 1],
    [3, 2],
    [2, 3],
  ] as const) {
    it(`fills the halo of ${layout.join(' x ')} ranks as the undivided plane does`, () => {
      const topology = periodicTopology({ layout });
      const cells = { i: 4, j: 3 };
      for (const points of [1, 2, 3])
        for (const dims of orders)
          for (const along of [[], ['i'], ['j'], ['i', 'j']]) {
            const spec = specOf(stagger(dims, along), cells, points);
            const found = check(topology, [spec, spec], undivided(topology, spec, cells));
            expect(found).to.equal(2 * topology.ranks * indices(around(spec, points)).length);
          }
    });
  }

  it('every rank has eight neighbours, four without corners, and may be its own', () => {
    expect(periodicTopology({ layout: [3, 2] }).neighbours.map((each) => each.length)).to.deep.equal(Array(6).fill(8));
    const alone = periodicTopology({ layout: [1, 1], corners: false }).neighbours;
    expect(alone.map((each) => each.map(({ edge, rank, edgeThere }) => `${edge} ${rank} ${edgeThere}`))).to.deep.equal([
      ['N 0 S', 'S 0 N', 'E 0 W', 'W 0 E'],
    ]);
    expect(periodicTopology({ layout: [3, 2] }).neighbours[1]?.map(({ rank }) => rank)).to.deep.equal([
      4, 4, 2, 0, 5, 3, 5, 3,
    ]);
  });
});

describe('operators/halo/topology: cube', () => {
  it('lays the faces as a staircase: right-handed, six outward normals', () => {
    expect(cubeFaces.map(({ normal, x, y }) => [normal, x, y])).to.deep.equal(faces);
    for (const { normal, x, y } of cubeFaces) {
      const cross = [0, 1, 2].map((d) => {
        const [e, f] = [(d + 1) % 3, (d + 2) % 3] as [number, number];
        return (x[e] as number) * (y[f] as number) - (x[f] as number) * (y[e] as number);
      });
      expect(cross.map((each) => each + 0)).to.deep.equal(normal);
      expect([normal, x, y].every(Object.isFrozen)).to.equal(true);
    }
    const over = (face: number) =>
      cubedSphereTopology().neighbours[face]?.map(
        ({ edge, rank, edgeThere, clockwiseRotation }) => `${edge} ${rank}${edgeThere} ${clockwiseRotation}`,
      );
    expect(over(0)).to.deep.equal(['N 2W 3', 'S 5N 0', 'E 1W 0', 'W 4N 1']);
    expect(over(1)).to.deep.equal(['N 2S 0', 'S 5E 3', 'E 3S 1', 'W 0E 0']);
  });

  for (const layout of layouts) {
    const [n] = layout;
    const depths = n === 3 ? [3] : [1, 2, 3];
    it(`every halo point of ${layout.join(' x ')} ranks a face holds what lies over the edge`, () => {
      const topology = cubedSphereTopology({ layout });
      for (const points of depths)
        for (const dims of orders)
          for (const along of [[], ['i', 'j']]) {
            const spec = specOf(stagger(dims, along), square(3), points);
            const found = check(topology, [spec], new Cube(topology, 3).scalar(spec));
            const levels = dims.includes('k') ? 2 : 1;
            const side = 3 + along.length / 2 + 2 * points;
            expect(found).to.equal(levels * (6 * n * n * side * side - 24 * points * points));
          }
    });

    it(`vectors of ${layout.join(' x ')} ranks a face point the same way in space, on every grid`, () => {
      const topology = cubedSphereTopology({ layout });
      for (const points of depths)
        for (const dims of orders)
          for (const [alongX, alongY] of Object.values(grids)) {
            const specs = [alongX, alongY].map((along) => specOf(stagger(dims, along), square(3), points));
            check(topology, specs, new Cube(topology, 3).vector(specs));
          }
    });
  }

  it('without corners fills the edges alone', () => {
    const topology = cubedSphereTopology({ layout: [2, 2], corners: false });
    const spec = specOf(['i', 'j'], square(3), 2);
    const cube = new Cube(topology, 3);
    const value = cube.scalar(spec);
    check(topology, [spec], (rank, c, index) => (cube.inSubdomain(spec, index) ? value(rank, c, index) : undefined));
  });

  it('three faces meet at a corner: nobody is diagonal there, everybody elsewhere', () => {
    for (const layout of layouts) {
      const [n] = layout;
      const all = cubedSphereTopology({ layout }).neighbours.flat();
      expect(all).to.have.length(6 * n * n * 8 - 24);
      const arrivals = new Set(all.map(({ rank, edgeThere }) => `${rank} ${edgeThere}`));
      expect(arrivals).to.have.property('size', all.length);
    }
  });

  it('over a turned edge a scalar has both interface dimensions or none: with one of them the sides differ', () => {
    const turnedEdge = cubedSphereTopology().neighbours[0]?.[0] as { edge: Edge; edgeThere: Edge };
    const sides = (dims: string[]) => {
      const spec = specOf(dims, square(4), 2);
      return ([turnedEdge.edge, turnedEdge.edgeThere] as const).map((edge, there) =>
        edgeSlices(spec, edge, { interior: there === 0 }).reduce((size, [start, stop]) => size * (stop - start), 1),
      );
    };
    expect(sides(['j', 'i'])).to.deep.equal([8, 8]);
    expect(sides(['j_interface', 'i_interface'])).to.deep.equal([10, 10]);
    expect(sides(['j_interface', 'i'])).to.deep.equal([8, 10]);
  });

  it('ranges and turns make exchanges of as many elements here as there', () => {
    const { neighbours } = cubedSphereTopology({ layout: [2, 2] });
    const specification = specOf(['k', 'j', 'i'], square(5), 2);
    for (const { edge, edgeThere, clockwiseRotation } of neighbours.flat()) {
      const exchanged = (at: Edge) =>
        new HaloExchangeSpec({
          specification,
          packSlices: edgeSlices(specification, edge, { interior: true }),
          packClockwiseRotation: clockwiseRotation,
          unpackSlices: edgeSlices(specification, at, { interior: false }),
        });
      expect(exchanged(edge).packSize).to.equal(exchanged(edgeThere).unpackSize);
    }
  });
});

describe('operators/halo/topology', () => {
  it('refuses layouts that cannot be, and options it does not know', () => {
    const calls: [() => unknown, typeof TypeError | typeof RangeError, RegExp][] = [
      [() => cubedSphereTopology({ layout: [2, 3] }), RangeError, /square, got \[2, 3\]: turned faces .* 2 ranks to 3/],
      [() => cubedSphereTopology({ layout: [0, 0] }), RangeError, /columns of the layout .* got 0/],
      [() => periodicTopology({ layout: [2, 1.5] }), RangeError, /rows of the layout .* got 1.5/],
      [() => cubedSphereTopology({ layout: [2] as never }), TypeError, /layout is \[columns, rows\], got \[2\]/],
      [() => periodicTopology({ layout: [0] }), RangeError, /columns of the layout .* got 0/],
      [() => periodicTopology({ layout: 4 as never }), TypeError, /layout is \[columns, rows\], got 4/],
      [() => periodicTopology({} as never), TypeError, /got undefined/],
      [() => periodicTopology(undefined as never), TypeError, /takes an options object/],
      [() => periodicTopology({ layout: ['2', 1] as never }), TypeError, /got string \(2\)/],
      [() => cubedSphereTopology({ corners: 1 as never }), TypeError, /corners is true or false, got 1/],
      [() => cubedSphereTopology({ corner: false } as never), TypeError, /unknown option 'corner'/],
    ];
    for (const [call, kind, text] of calls) {
      const error = refusal(call);
      expect(error).to.be.instanceOf(kind);
      expect(error.message).to.match(text);
    }
  });
});
