/** Tests which sums of a plan become one launch, with launches that are not enqueued. */
import { expect } from 'chai';
import type { Buffer, Launch, View } from '../../src/learn/trace/plan/launches.ts';
import { withJoinedSums } from '../../src/learn/trace/plan/sums.ts';

const N = 8;

const arena = (size: number, more: object = {}): Buffer => ({
  kind: 'arena',
  size,
  name: '',
  dtype: 'float32',
  tensor: null,
  output: false,
  readers: 1,
  ...more,
});
/** Returns element `at` of the scalars of a learner. */
const scalar = (at: number): Buffer => {
  const of = (size: number) => ({ size, handle: 7, byteOffset: 4 * at, view: () => of(2) });
  return arena(1, { tensor: of(1), output: true });
};
const all = (buffer: Buffer): View => ({
  buffer,
  offset: 0,
  shape: [1, buffer.size],
  strides: [buffer.size, 1],
});
const launch = (kernel: string, views: readonly View[], more: Partial<Launch> = {}): Launch => ({
  kernel,
  views,
  writes: 1,
  inPlace: [],
  wholes: [],
  reals: [],
  node: {} as Launch['node'],
  section: 0,
  ...more,
});
const sum = (out: Buffer, x: Buffer, more: Partial<Launch> = {}) =>
  launch('reduce_rows', [all(out), all(x)], { wholes: [1, N, 1, N, 0], reals: [1 / N], ...more });
/** Sums column j of rows of two elements. */
const column = (out: Buffer, x: Buffer, j: number, stride = 2) =>
  launch('column_sums', [all(out), { ...all(x), offset: j, shape: [N, 1], strides: [stride, 1] }], {
    wholes: [N, 1, stride],
    reals: [1 / N, 0],
  });
const kernels = (launches: readonly Launch[]) =>
  withJoinedSums(launches).map(({ kernel, wholes }) => `${kernel} ${wholes}`);

describe('joined sums', () => {
  const [x, y] = [arena(N), arena(N)];
  const single = 'reduce_rows 1,8,1,8,0';
  const write = (buffer: Buffer) => launch('fill', [all(buffer)]);

  it('two sums whose results are neighbors read two rows of one buffer', () => {
    const made = withJoinedSums([write(x), write(y), sum(scalar(0), x), sum(scalar(1), y)]);
    expect(made.map(({ kernel }) => kernel)).to.deep.equal(['fill', 'fill', 'reduce_rows']);
    const [first, second, joined] = made as [Launch, Launch, Launch];
    const [a, b, from] = [first.views[0]!, second.views[0]!, joined.views[1]!];
    expect([a.offset, b.offset, from.offset]).to.deep.equal([0, N, 0]);
    expect([b.buffer, from.buffer]).to.deep.equal([a.buffer, a.buffer]);
    expect([a.buffer.size, from.shape, from.strides]).to.deep.equal([2 * N, [2, N], [N, 1]]);
    expect([joined.wholes, joined.views[0]!.buffer.tensor!.size]).to.deep.equal([
      [2, N, 1, N, 0],
      2,
    ]);
  });

  it('two neighboring columns are summed together', () => {
    const terms = arena(2 * N);
    expect(kernels([column(scalar(3), terms, 0), column(scalar(4), terms, 1)])).to.deep.equal([
      'column_sums 8,2,2',
    ]);
  });

  const apart: [string, readonly Launch[]][] = [
    ['results in the other order', [sum(scalar(1), x), sum(scalar(0), y)]],
    ['results that are no neighbors', [sum(scalar(0), x), sum(scalar(2), y)]],
    ['other factors', [sum(scalar(0), x), sum(scalar(1), y, { reals: [-1 / N] })]],
    ['other reductions', [sum(scalar(0), x), sum(scalar(1), y, { wholes: [1, N, 1, N, 1] })]],
    ['other sections', [sum(scalar(0), x), sum(scalar(1), y, { section: 1 })]],
    ['one operand', [sum(scalar(0), x), sum(scalar(1), x)]],
    ['a result as operand', [sum(scalar(0), x), sum(scalar(1), arena(N, { output: true }))]],
    ['a part of a buffer', [sum(scalar(0), x), sum(scalar(1), arena(2 * N))]],
    ['an input', [sum(scalar(0), x), sum(scalar(1), arena(N, { kind: 'input' }))]],
    [
      'a launch between them that writes the first operand',
      [sum(scalar(0), x), write(x), sum(scalar(1), y)],
    ],
    ['columns in the other order', [column(scalar(0), y, 1), column(scalar(1), y, 0)]],
    ['columns of two buffers', [column(scalar(0), x, 0), column(scalar(1), y, 1)]],
    ['rows of one column', [column(scalar(0), x, 0, 1), column(scalar(1), x, 1, 1)]],
  ];
  for (const [what, launches] of apart)
    it(`${what}: the launches stay as they are`, () => {
      expect(withJoinedSums(launches)).to.deep.equal(launches);
    });

  it('a launch between them that reads the first result: they stay as they are', () => {
    const first = scalar(0);
    const read = launch('copy2d', [all(arena(1)), all(first)]);
    expect(kernels([sum(first, x), read, sum(scalar(1), y)])).to.deep.equal([
      single,
      'copy2d ',
      single,
    ]);
  });
});
