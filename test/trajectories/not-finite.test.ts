/**
 * Tests steps with NaN or infinite values. They are rejected with lane and field, stored as 0 after
 * a termination, or kept.
 */
import { expect } from 'chai';
import { TrajectoryBuffer } from '../../src/index.ts';

const fields = {
  obs: { shape: [2], observation: true },
  actions: { shape: [1] },
  mine: { shape: [1] },
} as const;

/** Returns a step of three lanes, in which the second lane ends its episode. */
function step(ends: 'terminated' | 'truncated' = 'terminated') {
  const flags = Uint8Array.of(0, 1, 0);
  return {
    obs: Float32Array.of(1, 2, 3, 4, 5, 6),
    finalObs: Float32Array.of(11, 12, 13, 14, 15, 16),
    actions: Float32Array.of(1, 2, 3),
    mine: new Float32Array(3).fill(Number.NaN),
    rewards: Float32Array.of(1, 2, 3),
    terminated: ends === 'terminated' ? flags : new Uint8Array(3),
    truncated: ends === 'truncated' ? flags : new Uint8Array(3),
  };
}
const made = (nonFinite?: 'keep') =>
  TrajectoryBuffer.create({ capacity: 24, lanes: 3, fields, ...(nonFinite && { nonFinite }) });

describe('TrajectoryWriter with non-finite numbers', () => {
  it('add() zeroes a non-finite final observation if the step terminated, or throws if truncated', () => {
    const buffer = made();
    const writer = buffer.writer();
    const given = step();
    given.finalObs.set([Number.NaN], 3);
    given.finalObs.set([Number.NaN], 0); // ignored, because lane 0 ends no episode
    writer.add(given);
    expect([...buffer.read([1, 4]).obs], 'step and final observation of lane 1').to.deep.equal([
      3, 4, 0, 0,
    ]);
    const cut = step('truncated');
    cut.finalObs.set([Number.NaN], 3);
    expect(() => writer.add(cut)).to.throw(
      RangeError,
      'finalObs of lane 1 holds NaN as number 1, and the episode did not terminate there',
    );
    expect(buffer.ptr).to.equal(3);
    // If both flags are set, the step counts as terminated.
    cut.terminated = Uint8Array.of(0, 1, 0);
    writer.add(cut);
    expect([...buffer.read([7, 10]).obs]).to.deep.equal([3, 4, 0, 0]);
    writer.close();
  });

  for (const key of ['obs', 'actions', 'rewards'] as const)
    it(`add() throws with lane and field for non-finite ${key}, and adds no step`, () => {
      const buffer = made();
      const writer = buffer.writer();
      for (let lane = 0; lane < 3; lane++) {
        const given = step();
        const width = given[key].length / 3;
        given[key][lane * width + width - 1] = Number.NEGATIVE_INFINITY;
        expect(() => writer.add(given)).to.throw(
          RangeError,
          `${key} of lane ${lane} holds -Infinity as number ${width - 1}`,
        );
        const skip = Uint8Array.of(0, 0, 0);
        skip[lane] = 1;
        expect(
          made()
            .writer()
            .add({ ...given, skip }),
          'a skipped lane is not checked',
        ).to.equal(3);
      }
      expect(buffer.ptr).to.equal(0);
      writer.close();
    });

  it('add() throws with the lane number of the buffer if the writer has only some lanes', () => {
    const buffer = made();
    const writer = buffer.writer({ firstLane: 2, lanes: 1 });
    const one = {
      obs: Float32Array.of(0, Number.NaN),
      actions: new Float32Array(1),
      mine: new Float32Array(1),
    };
    const flags = { rewards: new Float32Array(1), terminated: [false], truncated: [false] };
    expect(() => writer.add({ ...one, ...flags })).to.throw(
      RangeError,
      'obs of lane 2 holds NaN as number 1',
    );
    writer.close();
  });

  it("add() stores non-finite numbers if nonFinite is 'keep'", () => {
    const buffer = made('keep');
    const writer = TrajectoryBuffer.attach(buffer.share()).writer();
    const given = step('truncated');
    given.obs[2] = Number.NaN;
    given.finalObs[2] = Number.POSITIVE_INFINITY;
    given.rewards[0] = Number.NaN;
    writer.add(given);
    expect([...buffer.read([1, 4]).obs]).to.deep.equal([
      Number.NaN,
      4,
      Number.POSITIVE_INFINITY,
      14,
    ]);
    writer.close();
  });

  it('addPacked() checks numbers as add() does, and throws an error with the row', () => {
    const buffer = made();
    const writer = buffer.writer();
    const rowBytes = 8 + buffer.layout.placeBytes;
    /** returns a step of lane 0 of this kind, and its final observation */
    const packed = (kind: number, obs: number, final: number, reward = 1) => {
      const bytes = new Uint8Array(2 * rowBytes);
      const view = new DataView(bytes.buffer);
      for (const [row, { of, value }] of [
        { of: kind, value: obs },
        { of: 4, value: final },
      ].entries()) {
        view.setUint16(row * rowBytes + 2, of, true);
        view.setFloat32(row * rowBytes + 4, row === 0 ? reward : 0, true);
        view.setFloat32(row * rowBytes + 8 + 4, value, true);
      }
      return bytes;
    };
    expect(writer.addPacked(packed(1, 5, Number.NaN), 2)).to.equal(2);
    expect([...buffer.read([0, 3]).obs]).to.deep.equal([0, 5, 0, 0]);
    const refused: [Uint8Array, number, string][] = [
      [
        packed(2, 5, Number.NaN),
        1,
        'finalObs of row 1 holds NaN as number 1, and the episode did not terminate there',
      ],
      [packed(1, Number.POSITIVE_INFINITY, 0), 0, 'obs of row 0 holds Infinity as number 1'],
      [packed(1, 5, 0, Number.NaN), 0, 'rewards of row 0 holds NaN as number 0'],
    ];
    for (const [bytes, row, words] of refused)
      expect(() => writer.addPacked(bytes, 2))
        .to.throw(RangeError, words)
        .with.property('row', row);
    expect(buffer.ptr).to.equal(1);
    writer.close();
  });
});
