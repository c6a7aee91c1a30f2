/**
 * Tests what an exchange transfers on cubes, with vectors and on lines of cells. Also tests which
 * topologies and specifications are rejected.
 */
import { expect } from 'chai';
import { shareHaloExchange } from '../../src/extras/halo/shared-exchange.ts';
import type { QuantityHaloOptions } from '../../src/extras/halo/spec.ts';
import {
  cubedSphereTopology,
  cubeFaces,
  periodicTopology,
} from '../../src/extras/halo/topology.ts';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { ExchangeControlBlock, exchangeControlBytes } from '../../src/shm/exchange-control.ts';
import { allocateShared } from '../../src/shm/memory.ts';
import { refusal } from '../rig/refusal.ts';

describe('halo/updater: what is exchanged', () => {
  const field = (more: Partial<QuantityHaloOptions> = {}): QuantityHaloOptions => ({
    nPoints: 2,
    shape: [8, 8],
    origin: [2, 2],
    extent: [4, 4],
    dims: ['i', 'j'],
    dtype: 'float64',
    ...more,
  });

  it('an exchange on a cube fills every halo with the values beyond the edge', async () => {
    const [n, points] = [4, 2];
    const shared = shareHaloExchange({ topology: cubedSphereTopology(), x: [field()] });
    /** returns a number for a point on the cube's surface, in half cells from the cube's center */
    const at = (face: number, i: number, j: number): number => {
      const { normal, x, y } = cubeFaces[face]!;
      const fold = (along: number) => ({
        side: Math.max(-n, Math.min(n, along)),
        in: Math.max(0, Math.abs(along) - n),
      });
      const [a, b] = [fold(2 * i + 1 - n), fold(2 * j + 1 - n)];
      const point = normal.map(
        (_, d) => normal[d]! * (n - a.in - b.in) + x[d]! * a.side + y[d]! * b.side,
      );
      return point.reduce((sum, each) => sum * 100 + each + 50, 0);
    };
    const parts = cubeFaces.map((_, face) => {
      const data = new Float64Array(64).fill(-1);
      for (let i = 0; i < n; i++)
        for (let j = 0; j < n; j++) data[(i + points) * 8 + j + points] = at(face, i, j);
      return data;
    });
    const updaters = parts.map((_, rank) => new HaloUpdater(shared, rank));
    for (const [rank, each] of updaters.entries()) each.start([{ data: parts[rank]! }]);
    for (const each of updaters) expect(await each.wait()).to.equal(true);
    for (const [face, data] of parts.entries()) {
      for (let i = -points; i < n + points; i++)
        for (let j = -points; j < n + points; j++) {
          const corner = (i < 0 || i >= n) && (j < 0 || j >= n);
          expect(data[(i + points) * 8 + j + points], `face ${face} at (${i}, ${j})`).to.equal(
            corner ? -1 : at(face, i, j),
          );
        }
    }
    for (const each of updaters) each.close();
  });

  it('start() ignores later changes to the lists that it was given', async () => {
    const shared = shareHaloExchange({
      topology: periodicTopology({ layout: [1, 1] }),
      x: [field()],
      y: [field()],
    });
    using one = new HaloUpdater(shared, 0);
    const [u, v] = [new Float64Array(64), new Float64Array(64)];
    for (const data of [u, v])
      for (let i = 2; i < 6; i++) for (let j = 2; j < 6; j++) data[i * 8 + j] = 1;
    const [x, y] = [[{ data: u }], [{ data: v }]];
    one.start(x, y);
    for (const list of [x, y]) list[0] = { data: new Float64Array(64) };
    expect(await one.wait()).to.equal(true);
    expect([u, v].map((data) => data.every((value) => value === 1))).to.deep.equal([true, true]);
  });

  it('the components of a vector are swapped between neighbors a quarter turn apart', async () => {
    // Two ranks that meet at edges E and N, a quarter turn apart. u of one rank is v of the other.
    const topology = {
      ranks: 2,
      neighbors: [
        [{ edge: 'E', rank: 1, edgeThere: 'N', clockwiseRotation: 1 }],
        [{ edge: 'N', rank: 0, edgeThere: 'E', clockwiseRotation: 3 }],
      ],
    } as const;
    const shared = shareHaloExchange({ topology, x: [field()], y: [field()], points: 1 });
    const updaters = [0, 1].map((rank) => new HaloUpdater(shared, rank));
    const of = (rank: number) => ({
      u: new Float64Array(64).fill(1 + 2 * rank),
      v: new Float64Array(64).fill(2 + 2 * rank),
    });
    const parts = [of(0), of(1)];
    for (const [rank, each] of updaters.entries())
      each.start([{ data: parts[rank]!.u }], [{ data: parts[rank]!.v }]);
    for (const each of updaters) expect(await each.wait()).to.equal(true);
    const halo = (rank: number, name: 'u' | 'v') => {
      const [i, j] = rank === 0 ? [6, 3] : [3, 6];
      return Math.abs(parts[rank]![name][i * 8 + j]!);
    };
    expect([halo(0, 'u'), halo(0, 'v')]).to.deep.equal([4, 3]);
    expect([halo(1, 'u'), halo(1, 'v')]).to.deep.equal([2, 1]);
    expect(refusal(() => updaters[0]!.start([{ data: parts[0]!.u }])).message).to.include(
      'needs y too',
    );
    for (const each of updaters) each.close();
  });

  it('shareHaloExchange() throws for inconsistent topologies and specifications, with ranks and edges', () => {
    const topology = periodicTopology({ layout: [2, 1] });
    const says = (options: object) =>
      refusal(() => shareHaloExchange({ topology, x: [field()], ...options })).message;
    expect(says({ x: [] })).to.include('at least one HaloExchangeSpec');
    expect(says({ x: [field(), field({ dtype: 'float32' })] })).to.include(
      'one buffer holds one dtype',
    );
    expect(says({ points: 3 })).to.include('points');
    expect(says({ points: 0 })).to.include('points');
    expect(says({ x: [field({ nPoints: 0 })] })).to.include('exchange at least one point');
    expect(says({ typo: 1 })).to.include("unknown option 'typo'");
    expect(says({ topology: { ranks: 3, neighbors: topology.neighbors } })).to.include(
      'a list for each of 3 ranks',
    );
    const [mine, theirs] = topology.neighbors as [object[], object[]];
    expect(says({ topology: { ranks: 2, neighbors: [mine, theirs.slice(1)] } })).to.match(
      /neighbors are mutual: over edge . rank . meets rank .'s edge ., turned 0 times, but that edge meets nobody/,
    );
    expect(says({ topology: { ranks: 2, neighbors: [[...mine, mine[0]], theirs] } })).to.include(
      'rank 0 has two neighbors over edge',
    );
    expect(
      says({ topology: cubedSphereTopology(), x: [field({ shape: [8, 6], extent: [4, 2] })] }),
    ).to.match(
      /rank \d's edge \w at rank \d's edge \w: x\[0\] arrives as \[\d,\d\], its halo there is \[\d,\d\] of \[i,j\]/,
    );
    expect(
      says({
        x: [
          field({
            shape: [8, 8, 2 ** 44],
            origin: [2, 2, 0],
            extent: [4, 4, 2 ** 44],
            dims: ['i', 'j', 'k'],
          }),
        ],
      }),
    ).to.include('bytes of shared memory');
    // An edge across a missing dimension is rejected. Otherwise the whole compute domain would be
    // sent over it.
    for (const dims of [
      ['i', 'k'],
      ['lon', 'lat'],
    ])
      expect(says({ x: [field({ dims })] })).to.match(
        /x\[0\] has neither '[ij]' nor '[ij]_interface' in \[.*edge \w+ of/,
      );
    expect(says({ topology: undefined })).to.include('topology is { ranks, neighbors }');
  });

  it('a one-dimensional exchange works on a ring of three ranks', async () => {
    const n = 3;
    const line = {
      nPoints: 2,
      shape: [9],
      origin: [2],
      extent: [5],
      dims: ['i'],
      dtype: 'int32' as const,
    };
    const shared = shareHaloExchange({ topology: periodicTopology({ layout: [n] }), x: [line] });
    const arrays = Array.from({ length: n }, (_, rank) =>
      new Int32Array(9).map((_, i) => 5 * rank + i - 2),
    );
    const ranks = arrays.map((_, rank) => new HaloUpdater(shared, rank));
    for (const [rank, updater] of ranks.entries()) {
      const data = arrays[rank]!;
      for (const halo of [0, 1, 7, 8]) data[halo] = -1;
      updater.start([{ data }]);
      data.fill(-2, 2, 7);
    }
    for (const [rank, updater] of ranks.entries()) {
      expect(await updater.wait()).to.equal(true);
      const at = (i: number) => (5 * rank + i + 15) % 15;
      expect([...arrays[rank]!]).to.deep.equal([at(-2), at(-1), -2, -2, -2, -2, -2, at(5), at(6)]);
      updater.close();
    }
  });

  it('HaloUpdater accepts a structured clone of the shared exchange', () => {
    const topology = periodicTopology({ layout: [1, 1] });
    const shared = structuredClone(shareHaloExchange({ topology, x: [field()] }));
    const updater = new HaloUpdater(shared, 0);
    updater.start([{ data: new Float64Array(64) }]);
    expect(updater.waitSync()).to.equal(true);
    updater.close();
  });

  it('exchange numbers can exceed 32 bits', () => {
    const words = new ExchangeControlBlock(
      allocateShared('words', exchangeControlBytes(1, 1), 64),
      1,
      1,
    );
    for (const n of [2 ** 30 - 1, 2 ** 30, 2 ** 30 + 1, 2 ** 31, 2 ** 40 + 3]) {
      expect([words.isEmpty(0, n), words.holds(0, n)]).to.deep.equal([true, false]);
      words.fill(0, n);
      expect([words.isEmpty(0, n), words.holds(0, n), words.isEmpty(0, n + 1)]).to.deep.equal([
        false,
        true,
        true,
      ]);
      expect([words.holds(0, n - 2), words.holds(0, n + 2)]).to.deep.equal([false, false]);
      words.empty(0, n);
    }
  });
});
