/** Tests which sums of a plan move behind its sections, with launches that are not enqueued. */
import { expect } from 'chai';
import { arranged, withLateSums } from '../../src/learn/trace/plan/late-sums.ts';
import type { Buffer, Launch } from '../../src/learn/trace/plan/launches.ts';
import { all, arena, launch } from './hand-made.ts';

const N = 8;

/** Returns element `at` of the scalars of a learner. */
const scalar = (at: number): Buffer =>
  arena(1, { tensor: { size: 1, handle: 7, byteOffset: 4 * at }, output: true });
const sum = (out: Buffer, x: Buffer, more: Partial<Launch> = {}) =>
  launch('reduce_rows', [all(out), all(x)], { wholes: [1, N, 1, N, 0], reals: [1 / N], ...more });
/** Sums column j of rows of two elements. */
const column = (out: Buffer, x: Buffer, j: number, stride = 2) =>
  launch('column_sums', [all(out), { ...all(x), offset: j, shape: [N, 1], strides: [stride, 1] }], {
    wholes: [N, 1, stride],
    reals: [1 / N, 0],
  });

describe('late sums', () => {
  const [x, y, out] = [arena(N), arena(2 * N), scalar(0)];
  const write = (buffer: Buffer, more: Partial<Launch> = {}) => launch('fill', [all(buffer)], more);
  const read = (buffer: Buffer, more: Partial<Launch> = {}) =>
    launch('unary', [all(arena(N)), all(buffer)], more);
  /** Moves sums to `out` in a plan of three sections, of which the last one is for records. */
  const late = (launches: readonly Launch[], reported: readonly Buffer[] = [out]) =>
    withLateSums(launches, [{}, {}, { records: true }], new Set(reported));
  const stays = (what: string, launches: readonly Launch[], reported?: readonly Buffer[]) =>
    it(`${what} stays at its place`, () => {
      const { launches: made, sums } = late(launches, reported);
      expect(sums).to.deep.equal([]);
      expect(made).to.deep.equal(launches);
    });

  it('a sum stays at its place if its offset in a large plan is above 2^31 − 1', () => {
    for (const [size, moves] of [
      [2 ** 31 - 4096, true],
      [2 ** 31, false],
    ] as const) {
      const large = arena(size);
      const launches = [
        write(large),
        write(x),
        launch('binary', [all(large), all(large), all(x)]),
        sum(out, x),
      ];
      const options = { late: true, use: 'none', poison: false } as const;
      const { planned, sums } = arranged(launches, [{}], new Set([out]), options);
      expect(planned.layout.offsets.get(x)).to.equal(size);
      expect(sums.map(({ offset }) => offset)).to.deep.equal(moves ? [size] : []);
      expect(planned.launches.at(-1)!.late).to.equal(moves ? 0 : undefined);
    }
  });

  it('a sum moves behind all sections, and step_end gets its order', () => {
    const [first, own, last] = [write(x), sum(out, x), read(x, { section: 1 })];
    const { launches, sums } = late([first, own, last]);
    expect(launches).to.deep.equal([first, last, { ...own, section: 3, late: 0 }]);
    const place = { buffer: x, offset: 0, rows: 1, columns: N, factor: 1 / N };
    expect(sums).to.deep.equal([{ section: 0, result: out, kind: 2, ...place }]);
  });

  it('the sum of a column keeps the distance of its elements', () => {
    const { launches, sums } = late([write(y), column(out, y, 1)]);
    expect(launches.map(({ section }) => section)).to.deep.equal([0, 3]);
    const place = { buffer: y, offset: 1, rows: N, columns: 2, factor: 1 / N };
    expect(sums).to.deep.equal([{ section: 0, result: out, kind: 1, ...place }]);
  });

  it('a long sum keeps its pieces', () => {
    const wholes = [1, 4, 2, 1, N];
    const own = { ...sum(out, x, { wholes, section: 1 }), kernel: 'sum_long' };
    const { launches, sums } = late([write(x), own]);
    expect(launches.map(({ late: of }) => of)).to.deep.equal([undefined, 1]);
    const place = { buffer: x, offset: 0, rows: 4, columns: 2, factor: 1 / N };
    expect(sums).to.deep.equal([{ section: 1, result: out, kind: 2, ...place }]);
  });

  it('a sum that a record reads moves', () => {
    expect(late([write(x), sum(out, x), read(out, { section: 2 })]).sums).to.have.length(1);
  });

  stays('a sum that is not reported', [write(x), sum(out, x)], []);
  stays('a sum that another launch reads', [write(x), sum(out, x), read(out, { section: 1 })]);
  stays('a sum whose operand another launch overwrites', [
    ...[write(x), sum(out, x), write(x, { section: 1 })],
  ]);
  stays('a maximum', [write(x), sum(out, x, { wholes: [1, N, 1, N, 1] })]);
  stays('the sum of a batch column', [sum(out, arena(N, { kind: 'input' }))]);
  stays('the sum of a result', [write(x), sum(out, arena(N, { output: true }))]);
  stays('a sum that is added to another', [write(y), { ...column(out, y, 0), reals: [1 / N, 1] }]);
});
