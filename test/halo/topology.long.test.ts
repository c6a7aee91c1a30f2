/**
 * Tests which ranks are neighbors: after an exchange every halo cell must hold the value that
 * geometry says.
 */
import { expect } from 'chai';
import { type Edge, edgeSlices } from '../../src/extras/halo/edges.ts';
import { HaloExchangeSpec, type QuantityHaloSpec } from '../../src/extras/halo/spec.ts';
import {
  cubedSphereTopology,
  cubeFaces,
  type HaloTopology,
  periodicTopology,
} from '../../src/extras/halo/topology.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { Cube, faces, scatter } from './cube.ts';
import { around, check, fromOrigin, indices, level, specOf } from './plain-exchange.ts';

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
/**
 * The positions of a vector's components x and y: cell centers (A), corners (B), the edges that
 * each component crosses (C), or the edges that it follows (D).
 */
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
  cube: layouts.flatMap((layout) =>
    [true, false].map((corners) => cubedSphereTopology({ layout, corners })),
  ),
})) {
  describe(`halo/topology: ${name}`, () => {
    it('neighbors are mutual, over the same two edges and with opposite rotations', () => {
      for (const { neighbors } of topologies) {
        neighbors.forEach((mine, rank) => {
          for (const { edge, rank: other, edgeThere, clockwiseRotation } of mine) {
            const back = neighbors[other]?.filter((each) => each.edge === edgeThere);
            const opposite = (4 - clockwiseRotation) % 4;
            expect(back).to.deep.equal([
              { edge: edgeThere, rank, edgeThere: edge, clockwiseRotation: opposite },
            ]);
            expect(edgeThere.length).to.equal(edge.length);
          }
        });
      }
    });

    it('is frozen plain data that structuredClone() copies unchanged', () => {
      for (const topology of topologies) {
        expect(structuredClone(topology)).to.deep.equal(topology);
        expect(topology.ranks).to.equal(topology.neighbors.length);
        expect(topology.ranks).to.equal(topology.places.length);
        const [columns, rows] = topology.layout;
        topology.places.forEach(({ face, column, row }, rank) => {
          expect((face * rows + row) * columns + column).to.equal(rank);
          expect([column < columns, row < rows]).to.deep.equal([true, true]);
        });
        for (const each of [
          topology,
          topology.layout,
          topology.places,
          topology.neighbors,
          ...topology.neighbors,
        ])
          expect(Object.isFrozen(each)).to.equal(true);
        for (const each of [...topology.places, ...topology.neighbors.flat()])
          expect(Object.isFrozen(each)).to.equal(true);
      }
    });
  });
}

describe('halo/topology: periodic', () => {
  const undivided = (
    topology: HaloTopology,
    spec: QuantityHaloSpec,
    cells: { i: number; j: number },
  ) => {
    const [columns, rows] = topology.layout;
    return (rank: number, component: number, index: number[]) => {
      const { column, row } = topology.places[rank] as HaloTopology['places'][number];
      const [x, y] = [
        column * cells.i + fromOrigin(spec, index, spec.xDim),
        row * cells.j + fromOrigin(spec, index, spec.yDim),
      ];
      const [wide, high] = [columns * cells.i, rows * cells.j];
      return scatter([
        2 * ((x + wide) % wide),
        2 * ((y + high) % high),
        level(spec, index),
        component,
      ]);
    };
  };
  for (const layout of [
    [1, 1],
    [1, 2],
    [2, 1],
    [3, 2],
    [2, 3],
  ] as const) {
    it(`an exchange of ${layout.join(' x ')} ranks fills halos with the values of the undivided plane`, () => {
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

  it('every rank has eight neighbors, or four without corners, and can be its own neighbor', () => {
    expect(periodicTopology({ layout: [3, 2] }).neighbors.map((each) => each.length)).to.deep.equal(
      Array(6).fill(8),
    );
    const alone = periodicTopology({ layout: [1, 1], corners: false }).neighbors;
    expect(
      alone.map((each) => each.map(({ edge, rank, edgeThere }) => `${edge} ${rank} ${edgeThere}`)),
    ).to.deep.equal([['N 0 S', 'S 0 N', 'E 0 W', 'W 0 E']]);
    expect(
      periodicTopology({ layout: [3, 2] }).neighbors[1]?.map(({ rank }) => rank),
    ).to.deep.equal([4, 4, 2, 0, 5, 3, 5, 3]);
  });
});

describe('halo/topology: cube', () => {
  it('the six faces are right-handed, with outward normals and the expected neighbors', () => {
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
      cubedSphereTopology().neighbors[face]?.map(
        ({ edge, rank, edgeThere, clockwiseRotation }) =>
          `${edge} ${rank}${edgeThere} ${clockwiseRotation}`,
      );
    expect(over(0)).to.deep.equal(['N 2W 3', 'S 5N 0', 'E 1W 0', 'W 4N 1']);
    expect(over(1)).to.deep.equal(['N 2S 0', 'S 5E 3', 'E 3S 1', 'W 0E 0']);
  });

  for (const layout of layouts) {
    const [n] = layout;
    // Halos of two points behave as those of one and three, so the short setting omits them.
    const depths = n === 3 ? [3] : setting({ short: [1, 3], all: [1, 2, 3] });
    itLonger(
      `every halo point of ${layout.join(' x ')} ranks per face has the value beyond the edge`,
      () => {
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
      },
    );

    const declare = n === 1 ? it : itAll;
    declare(
      `vectors of ${layout.join(' x ')} ranks per face keep their direction in space on grids A to D`,
      () => {
        const topology = cubedSphereTopology({ layout });
        for (const points of depths)
          for (const dims of orders)
            for (const [alongX, alongY] of Object.values(grids)) {
              const specs = [alongX, alongY].map((along) =>
                specOf(stagger(dims, along), square(3), points),
              );
              check(topology, specs, new Cube(topology, 3).vector(specs));
            }
      },
    );
  }

  it('an exchange without corners fills only the edges', () => {
    const topology = cubedSphereTopology({ layout: [2, 2], corners: false });
    const spec = specOf(['i', 'j'], square(3), 2);
    const cube = new Cube(topology, 3);
    const value = cube.scalar(spec);
    check(topology, [spec], (rank, c, index) =>
      cube.inSubdomain(spec, index) ? value(rank, c, index) : undefined,
    );
  });

  it('ranks have diagonal neighbors except at the corners of the cube', () => {
    for (const layout of layouts) {
      const [n] = layout;
      const all = cubedSphereTopology({ layout }).neighbors.flat();
      expect(all).to.have.length(6 * n * n * 8 - 24);
      const arrivals = new Set(all.map(({ rank, edgeThere }) => `${rank} ${edgeThere}`));
      expect(arrivals).to.have.property('size', all.length);
    }
  });

  it('the two sides of a rotated edge differ in size if only one dimension is an interface', () => {
    const turnedEdge = cubedSphereTopology().neighbors[0]?.[0] as { edge: Edge; edgeThere: Edge };
    const sides = (dims: string[]) => {
      const spec = specOf(dims, square(4), 2);
      return ([turnedEdge.edge, turnedEdge.edgeThere] as const).map((edge, there) =>
        edgeSlices(spec, edge, { interior: there === 0 }).reduce(
          (size, [start, stop]) => size * (stop - start),
          1,
        ),
      );
    };
    expect(sides(['j', 'i'])).to.deep.equal([8, 8]);
    expect(sides(['j_interface', 'i_interface'])).to.deep.equal([10, 10]);
    expect(sides(['j_interface', 'i'])).to.deep.equal([8, 10]);
  });

  it('pack and unpack sizes are equal on both sides of every edge', () => {
    const { neighbors } = cubedSphereTopology({ layout: [2, 2] });
    const specification = specOf(['k', 'j', 'i'], square(5), 2);
    for (const { edge, edgeThere, clockwiseRotation } of neighbors.flat()) {
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

describe('halo/topology', () => {
  it('cubedSphereTopology() and periodicTopology() throw for invalid layouts and options', () => {
    const calls: [() => unknown, typeof TypeError | typeof RangeError, RegExp][] = [
      [
        () => cubedSphereTopology({ layout: [2, 3] }),
        RangeError,
        /square, got \[2, 3\], because turned faces/,
      ],
      [() => cubedSphereTopology({ layout: [0, 0] }), RangeError, /columns of the layout .* got 0/],
      [() => periodicTopology({ layout: [2, 1.5] }), RangeError, /rows of the layout .* got 1.5/],
      [
        () => cubedSphereTopology({ layout: [2] as never }),
        TypeError,
        /layout is \[columns, rows\], got \[2\]/,
      ],
      [() => periodicTopology({ layout: [0] }), RangeError, /columns of the layout .* got 0/],
      [
        () => periodicTopology({ layout: 4 as never }),
        TypeError,
        /layout is \[columns, rows\], got 4/,
      ],
      [() => periodicTopology({} as never), TypeError, /got undefined/],
      [() => periodicTopology(undefined as never), TypeError, /takes an options object/],
      [() => periodicTopology({ layout: ['2', 1] as never }), TypeError, /got string \(2\)/],
      [
        () => cubedSphereTopology({ corners: 1 as never }),
        TypeError,
        /corners is true or false, got 1/,
      ],
      [() => cubedSphereTopology({ corner: false } as never), TypeError, /unknown option 'corner'/],
    ];
    for (const [call, kind, text] of calls) {
      const error = refusal(call);
      expect(error).to.be.instanceOf(kind);
      expect(error.message).to.match(text);
    }
  });
});
