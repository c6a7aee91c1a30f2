/**
 * Tests non-finite numbers in rows. Depending on the option, add() throws with row and field or
 * keeps the number. In the next observation of a terminated episode it stores 0 instead of
 * throwing.
 */
import { expect } from 'chai';
import { toBfloat16, toFloat16 } from '../../src/base/float16.ts';
import { ReplayBuffer } from '../../src/index.ts';

const odd = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];

/** Makes three off-policy rows. By default the second is terminated. */
function rows(ends: { dones: number; truncated: number } = { dones: 1, truncated: 0 }) {
  const field = (width: number) => Float32Array.from({ length: 3 * width }, (_, i) => i + 1);
  return {
    obs: field(2),
    nextObs: field(2),
    critic: field(1),
    nextCritic: field(1),
    actions: field(1),
    rewards: field(1),
    dones: Float32Array.of(0, ends.dones, 0),
    truncated: Float32Array.of(0, ends.truncated, 0),
  };
}
const made = (nonFinite?: 'refuse' | 'keep') =>
  ReplayBuffer.offPolicy({
    capacity: 8,
    obsDim: 2,
    actionDim: 1,
    criticDim: 1,
    ...(nonFinite && { nonFinite }),
  });
const row = (buffer: ReplayBuffer, at: number, key: string) => {
  const { offset, bytes } = Object.values(buffer.layout.fields).find((field) => field.key === key)!;
  const out = buffer.gather(Uint32Array.of(at), new Uint8Array(buffer.rowBytes));
  return new Float32Array(out.buffer, offset, bytes / 4);
};

describe('ReplayBuffer with non-finite numbers', () => {
  for (const value of odd)
    it(`add() zeroes a next observation with ${value} if the row terminated, and throws otherwise`, () => {
      const buffer = made();
      const given = rows();
      given.nextObs[3] = value;
      given.nextCritic[1] = value;
      expect(buffer.add(given)).to.equal(3);
      expect([...row(buffer, 1, 'nextObs')], 'the whole next observation is 0').to.deep.equal([
        0, 0,
      ]);
      expect([...row(buffer, 1, 'nextCritic')]).to.deep.equal([0]);
      expect([...row(buffer, 0, 'nextObs')]).to.deep.equal([1, 2]);
      expect([...row(buffer, 1, 'obs')]).to.deep.equal([3, 4]);
      expect(given.nextObs[3], 'the caller’s array is unchanged').to.deep.equal(value);
      for (const ends of [
        { dones: 0, truncated: 0 },
        { dones: 1, truncated: 1 },
      ]) {
        const bad = rows(ends);
        bad.nextObs[3] = value;
        expect(() => buffer.add(bad))
          .to.throw(
            RangeError,
            `nextObs of row 1 holds ${value} as number 1, and the episode did not terminate there`,
          )
          .with.property('code', 'ERR_HOTSLOT_RANGE');
      }
      expect(buffer.ptr, 'rejected rows are not added').to.equal(3);
    });

  for (const key of ['obs', 'critic', 'actions', 'rewards', 'dones', 'truncated'] as const)
    it(`add() throws with row and field for non-finite ${key}, and adds no row`, () => {
      const buffer = made();
      for (const value of odd)
        for (let at = 0; at < 3; at++) {
          const given = rows();
          const width = given[key].length / 3;
          given[key][at * width + width - 1] = value;
          expect(() => buffer.add(given)).to.throw(
            RangeError,
            `${key} of row ${at} holds ${value} as number ${width - 1}: learners need finite numbers`,
          );
        }
      expect(buffer.ptr).to.equal(0);
    });

  it('add() stores the largest finite float32 numbers and −0 unchanged', () => {
    const buffer = made();
    const given = rows({ dones: 0, truncated: 0 });
    given.obs.set([3.4028234663852886e38, -3.4028234663852886e38, -0]);
    buffer.add(given);
    expect([...row(buffer, 0, 'obs'), row(buffer, 1, 'obs')[0]]).to.deep.equal([
      3.4028234663852886e38, -3.4028234663852886e38, -0,
    ]);
  });

  it("add() accepts non-finite numbers if nonFinite is 'keep', also in an attached buffer", () => {
    const buffer = made('keep');
    const given = rows();
    given.nextObs[3] = Number.NaN;
    given.obs[0] = Number.POSITIVE_INFINITY;
    buffer.add(given);
    expect([...row(buffer, 1, 'nextObs')]).to.deep.equal([3, Number.NaN]);
    expect(row(buffer, 0, 'obs')[0]).to.equal(Number.POSITIVE_INFINITY);
    expect(ReplayBuffer.attach(buffer.share()).add(given)).to.equal(3);
    expect(() =>
      ReplayBuffer.create({
        capacity: 8,
        fields: { a: { shape: [] } },
        nonFinite: 'drop' as never,
      }),
    ).to.throw(TypeError, "nonFinite must be 'refuse' or 'keep', got 'drop'");
  });

  it('add() checks the terminal fields of masked rows instead of the replaced fields', () => {
    const buffer = made();
    const given = {
      ...rows({ dones: 1, truncated: 1 }),
      terminalMask: [false, true, false],
      terminalNextObs: new Float32Array(6).fill(Number.NaN),
      terminalNextCritic: new Float32Array(3),
    };
    expect(() => buffer.add(given)).to.throw(
      RangeError,
      'terminalNextObs of row 1 holds NaN as number 0',
    );
    given.terminalNextObs.set([5, 6], 2);
    given.nextObs[3] = Number.NaN;
    expect(buffer.add(given)).to.equal(3);
    expect([...row(buffer, 1, 'nextObs')]).to.deep.equal([5, 6]);
  });

  it('addPacked() checks numbers as add() does, and throws an error with the row', () => {
    const buffer = made();
    buffer.add(rows());
    const packed = new Uint8Array(3 * buffer.rowBytes);
    buffer.gather(Uint32Array.of(0, 1, 2), packed);
    const floats = new Float32Array(packed.buffer);
    const each = buffer.rowBytes / 4;
    floats[each + 3] = Number.NaN; // nextObs of row 1, which terminated
    expect(buffer.addPacked(packed, 3)).to.equal(3);
    expect([...row(buffer, 4, 'nextObs')]).to.deep.equal([0, 0]);
    expect([...row(buffer, 5, 'nextObs')]).to.deep.equal([5, 6]);
    floats[2 * each + 4] = Number.NaN; // actions of row 2
    expect(() => buffer.addPacked(packed, 3))
      .to.throw(RangeError, 'actions of row 2 holds NaN as number 0')
      .with.property('row', 2);
    expect(buffer.ptr).to.equal(6);
  });

  describe('add() with a general schema', () => {
    const endings = {
      discounts: { going: 0.99, over: 0 },
      terminated: { going: 0, over: 1 },
      dones: { going: 0, over: 1 },
    } as const;
    for (const [key, { going, over }] of Object.entries(endings))
      for (const dtype of ['float32', 'float64', 'uint8', 'bool', 'int32'] as const) {
        if (key === 'discounts' && !dtype.startsWith('float')) continue;
        it(`reads the termination of an episode from '${key}' of ${dtype}`, () => {
          const fields = { nextObs: { shape: [] }, [key]: { shape: [], dtype } } as const;
          const buffer = ReplayBuffer.create({ capacity: 8, fields });
          const flags = (value: number) => {
            const made = new {
              float32: Float32Array,
              float64: Float64Array,
              uint8: Uint8Array,
              bool: Uint8Array,
              int32: Int32Array,
            }[dtype](1);
            made[0] = value;
            return made;
          };
          const nextObs = Float32Array.of(Number.NaN);
          expect(buffer.add({ nextObs, [key]: flags(over) } as never)).to.equal(1);
          expect(() => buffer.add({ nextObs, [key]: flags(going) } as never)).to.throw(
            RangeError,
            'nextObs of row 0',
          );
          if (dtype.startsWith('float'))
            expect(
              buffer.add({ nextObs, [key]: flags(key === 'discounts' ? -0 : 1) } as never),
            ).to.equal(1);
        });
      }

    for (const dtype of ['float16', 'bfloat16', 'float64'] as const)
      it(`distinguishes finite from non-finite ${dtype} numbers`, () => {
        const buffer = ReplayBuffer.create({ capacity: 8, fields: { obs: { shape: [2], dtype } } });
        const as = (...values: number[]) =>
          dtype === 'float64'
            ? Float64Array.from(values)
            : (dtype === 'float16' ? toFloat16 : toBfloat16)(Float32Array.from(values));
        buffer.add({ obs: as(1, 65000) } as never);
        for (const value of odd)
          expect(() => buffer.add({ obs: as(1, value) } as never)).to.throw(
            RangeError,
            `obs of row 0 holds ${value} as number 1`,
          );
        expect(buffer.ptr).to.equal(1);
      });

    it('stores non-finite numbers in fields with custom names', () => {
      const buffer = ReplayBuffer.create({ capacity: 2, fields: { mine: { shape: [3] } } });
      buffer.add({ mine: Float32Array.from(odd) });
      expect([...buffer.gather(Uint32Array.of(0), new Float32Array(3))]).to.deep.equal(odd);
    });
  });
});
