/**
 * Tests a replay buffer in one thread: rows are stored unchanged, in order, and read back by
 * gather() and sample().
 */
import { expect } from 'chai';
import { internalsOfBuffer, ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { A, C, count, D, transitions, width, withCritic } from './transitions.ts';

describe('ReplayBuffer', () => {
  it('packs a row as obs, next_obs, actions, rewards, dones, truncated', () => {
    using buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: D, actionDim: A });
    expect(buffer.add(transitions(2))).to.equal(2);
    expect([buffer.size, buffer.ptr, buffer.capacity, buffer.rowBytes]).to.deep.equal([
      2,
      2,
      4,
      width * 4,
    ]);
    const rows = buffer.gather(Uint32Array.of(1, 0), new Float32Array(2 * width));
    expect(Array.from(rows.subarray(0, width))).to.deep.equal([
      3, 4, 5, 103, 104, 105, 202, 203, 301, 401, 501,
    ]);
    expect(Array.from(rows.subarray(width))).to.deep.equal([
      0, 1, 2, 100, 101, 102, 200, 201, 300, 400, 500,
    ]);
  });

  it('packs critic and next_critic at the end of the row', () => {
    using buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: D, actionDim: A, criticDim: C });
    buffer.add(withCritic(2));
    const row = buffer.gather(Uint32Array.of(1), new Float32Array(width + 2 * C));
    expect(Array.from(row.subarray(width))).to.deep.equal([604, 605, 606, 607, 704, 705, 706, 707]);
  });

  it('replaces the oldest rows when the ring is full, and ptr keeps counting', () => {
    using buffer = ReplayBuffer.create({ capacity: 3, fields: { x: { shape: [] } } });
    for (let i = 0; i < 5; i++) buffer.add({ x: Float32Array.of(i) });
    buffer.add({ x: Float32Array.of(5, 6, 7) });
    expect([buffer.ptr, buffer.size]).to.deep.equal([8, 3]);
    expect(Array.from(buffer.gather(Uint32Array.of(0, 1, 2), new Float32Array(3)))).to.deep.equal([
      6, 7, 5,
    ]);
  });

  it('stores fields of uint8, float64, int64 and int16 byte for byte', () => {
    using buffer = ReplayBuffer.create({
      capacity: 2,
      fields: {
        a: { shape: [3], dtype: 'uint8' },
        b: { shape: [], dtype: 'float64' },
        c: { shape: [2], dtype: 'int64' },
        d: { shape: [], dtype: 'int16' },
      },
    });
    const added = {
      a: Uint8Array.of(1, 2, 3),
      b: Float64Array.of(0.1),
      c: BigInt64Array.of(-5n, 2n ** 60n),
      d: Int16Array.of(-7),
    };
    buffer.add(added);
    const row = buffer.gather(Uint32Array.of(0), new Uint8Array(buffer.rowBytes));
    for (const [name, { offset, bytes }] of Object.entries(buffer.layout.fields)) {
      const want = added[name as keyof typeof added];
      expect(
        Buffer.from(row.subarray(offset, offset + bytes)).equals(Buffer.from(want.buffer)),
        name,
      ).to.equal(true);
    }
  });

  it('stores the first and the last row of a large add that wraps', () => {
    using buffer = ReplayBuffer.create({ capacity: 1000, fields: { x: { shape: [1500] } } });
    buffer.add({ x: new Float32Array(7 * 1500) });
    expect(buffer.add({ x: count(1000 * 1500, 0) })).to.equal(1000);
    const row = buffer.gather(Uint32Array.of(6, 7), new Float32Array(3000));
    expect([row[0], row[1499], row[1500]]).to.deep.equal([999 * 1500, 999 * 1500 + 1499, 0]);
    expect(buffer.ptr).to.equal(1007);
  });

  it('add() and gather() respect the offset of views, in shared and ordinary memory', () => {
    using buffer = ReplayBuffer.create({ capacity: 2, fields: { x: { shape: [2] } } });
    const shared = new Float32Array(new SharedArrayBuffer(64));
    shared.set([1, 2, 3, 4, 5]);
    buffer.add({ x: shared.subarray(1, 3) });
    buffer.add({ x: Float32Array.of(9, 8, 7, 6).subarray(2) });
    const out = new Float32Array(new SharedArrayBuffer(32)).subarray(1, 5);
    expect(Array.from(buffer.gather(Uint32Array.of(0, 1), out))).to.deep.equal([2, 3, 7, 6]);
  });

  it('gather() writes the chosen rows, and only into `out`, for 1, 5 and 8,000 rows', () => {
    using buffer = ReplayBuffer.create({ capacity: 500, fields: { x: { shape: [43] } } });
    buffer.add({ x: count(500 * 43, 0) });
    for (const n of [1, 5, 8000]) {
      const indices = Uint32Array.from({ length: n }, (_, i) => (i * 77) % 500);
      const out = new Float32Array(n * 43 + 2).fill(-1);
      buffer.gather(indices, out.subarray(1, 1 + n * 43));
      expect([out[0], out[n * 43 + 1]]).to.deep.equal([-1, -1]);
      const wrong = out
        .subarray(1, 1 + n * 43)
        .findIndex((v, i) => v !== indices[Math.floor(i / 43)]! * 43 + (i % 43));
      expect(wrong, `first wrong element of ${n} rows`).to.equal(-1);
    }
  });

  it('stores the terminal fields as next_obs and next_critic of masked rows', () => {
    using buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: D, actionDim: A, criticDim: C });
    const terminal = {
      terminalNextObs: count(3 * D, 1000),
      terminalNextCritic: count(3 * C, 2000),
    };
    buffer.add({ ...withCritic(3), terminalMask: Uint8Array.of(0, 1, 0), ...terminal });
    const rows = buffer.gather(Uint32Array.of(0, 1, 2), new Float32Array(3 * (width + 2 * C)));
    const row = (i: number) => rows.subarray(i * (width + 2 * C), (i + 1) * (width + 2 * C));
    expect(Array.from(row(0).subarray(D, 2 * D))).to.deep.equal([100, 101, 102]);
    expect(Array.from(row(1).subarray(D, 2 * D))).to.deep.equal([1003, 1004, 1005]);
    expect(Array.from(row(1).subarray(width + C))).to.deep.equal([2004, 2005, 2006, 2007]);
    expect(Array.from(row(2).subarray(width + C))).to.deep.equal([708, 709, 710, 711]);
    expect(
      [row(1)[0], row(1)[2 * D], row(1)[width]],
      'the other fields are unchanged',
    ).to.deep.equal([3, 202, 604]);
  });

  it('accepts terminalMask as booleans, and ignores the terminal fields if no element is set', () => {
    using buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: D, actionDim: A });
    const terminalNextObs = count(2 * D, 1000);
    buffer.add({ ...transitions(2), terminalMask: [true, false], terminalNextObs });
    buffer.add({ ...transitions(2), terminalMask: new Uint8Array(2), terminalNextObs });
    const rows = buffer.gather(Uint32Array.of(0, 1, 2, 3), new Float32Array(4 * width));
    expect([0, 1, 2, 3].map((i) => rows[i * width + D])).to.deep.equal([1000, 103, 100, 103]);
  });

  it('sample() draws stored rows, and returns the ptr and size of the snapshot', () => {
    using buffer = ReplayBuffer.create({ capacity: 10, fields: { x: { shape: [] } } });
    expect(() => buffer.sample({ seed: 1, count: 1 }))
      .to.throw('empty')
      .with.property('code', 'ERR_HOTSLOT_STATE_EMPTY');
    buffer.add({ x: Float32Array.of(5, 6) });
    const sample = buffer.sample<Float32Array>({ seed: 1, count: 100 });
    expect([sample.ptr, sample.size]).to.deep.equal([2, 2]);
    expect(new Set(sample.rows)).to.deep.equal(new Set([5, 6]));
    const out = new Float32Array(100);
    expect(buffer.sample({ seed: 1, count: 100 }, out).rows).to.equal(out);
    expect(out).to.deep.equal(sample.rows);
  });

  it('counts rows exactly beyond 2^32, and keeps wrapping', () => {
    using buffer = ReplayBuffer.create({ capacity: 3, fields: { x: { shape: [] } } });
    const start = 2 ** 32 + 1; // 2^32 mod 3 is 1, so the next row has index 2
    internalsOfBuffer(buffer).setCounters(start);
    expect([buffer.ptr, buffer.size]).to.deep.equal([start, 3]);
    buffer.add({ x: Float32Array.of(1, 2) });
    expect(buffer.ptr).to.equal(start + 2);
    expect(Array.from(buffer.gather(Uint32Array.of(2, 0, 1), new Float32Array(3)))).to.deep.equal([
      1, 2, 0,
    ]);
    const far = 2 ** 53 - 10;
    internalsOfBuffer(buffer).setCounters(far);
    buffer.add({ x: Float32Array.of(7) });
    expect(buffer.ptr).to.equal(far + 1);
  });

  it('shares rows through share() and attach(), and closes each handle separately', () => {
    const buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: D, actionDim: A });
    const other = ReplayBuffer.attach(structuredClone(buffer.share()));
    other.add({ ...transitions(1), terminalMask: [true], terminalNextObs: count(D, 50) });
    expect([buffer.ptr, other.layout]).to.deep.equal([1, buffer.layout]);
    buffer.close();
    buffer.close();
    expect(other.size).to.equal(1);
    for (const use of [
      () => buffer.add(transitions(1)),
      () => buffer.ptr,
      () => buffer.size,
      () => buffer.share(),
      () => buffer.sample({ seed: 0, count: 1 }),
      () => buffer.gather(new Uint32Array(1), new Float32Array(width)),
    ]) {
      expect(use).to.throw('closed').with.property('code', 'ERR_HOTSLOT_STATE_CLOSED');
    }
  });

  it('add() derives dones from terminated and truncated, and throws for contradicting dones', () => {
    using buffer = ReplayBuffer.offPolicy({ capacity: 8, obsDim: D, actionDim: A });
    const { dones: _, truncated: __, ...rest } = transitions(4);
    // The four combinations: running, terminated, truncated, and both, which counts as terminated.
    const [terminated, truncated] = [Uint8Array.of(0, 1, 0, 1), [false, false, true, true]];
    expect(buffer.add({ ...rest, terminated, truncated })).to.equal(4);
    const flags = (row: number) =>
      Array.from(buffer.gather(Uint32Array.of(row), new Float32Array(width)).subarray(-2));
    expect([0, 1, 2, 3].map(flags), 'dones and truncated').to.deep.equal([
      [0, 0],
      [1, 0],
      [1, 1],
      [1, 0],
    ]);
    const dones = Float32Array.of(0, 1, 1, 1);
    const pair = { truncated: Float32Array.of(0, 0, 1, 1), terminated };
    expect(buffer.add({ ...rest, ...pair, dones })).to.equal(4);
    dones[2] = 0;
    expect(() => buffer.add({ ...rest, ...pair, dones })).to.throw(
      RangeError,
      'dones of row 2 is 0, with terminated 0 and truncated 1: a row is done if it terminated or was truncated',
    );
    expect(() =>
      buffer.add({ ...rest, truncated, terminated: Float32Array.of(0, 0.5, 0, 0) }),
    ).to.throw(RangeError, 'terminated of row 1 must be 0 or 1, got 0.5');
    expect(() => buffer.add({ ...rest, terminated } as never)).to.throw(
      TypeError,
      'truncated must be a Float32Array',
    );
    expect(buffer.ptr).to.equal(8);
  });

  it('rings a claimed bell after an add', () => {
    using buffer = ReplayBuffer.create({ capacity: 3, fields: { x: { shape: [] } } });
    const bell = internalsOfBuffer(buffer).bells.claim()!;
    const seen = bell.read();
    buffer.add({ x: Float32Array.of(1) });
    expect(bell.read()).to.equal(seen + 1);
    internalsOfBuffer(buffer).bells.release(bell);
  });

  it('reports committed rows in ptr while a writer has reserved more rows', () => {
    using buffer = ReplayBuffer.create({ capacity: 4, fields: { x: { shape: [] } } });
    buffer.add({ x: Float32Array.of(0, 1, 2, 3) });
    const { reserved, committed, ledger } = internalsOfBuffer(buffer);
    expect([reserved.load(), committed.load()]).to.deep.equal([4, 4]);
    // Acts as a writer that has reserved two rows. They overwrite the oldest two.
    reserved.store(6);
    expect([ledger.read(0, 0, 4, new Uint8Array(4 * buffer.rowBytes)), buffer.ptr]).to.deep.equal([
      2, 4,
    ]);
    committed.store(6);
    expect(buffer.ptr).to.equal(6);
  });
});
