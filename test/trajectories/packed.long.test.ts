/**
 * Tests TrajectoryWriter.addPacked(): it must make the same lanes as add(), and treat the limiter,
 * the mark and the owner of lanes in the same way.
 */
import { expect } from 'chai';
import { RateLimiter, TrajectoryBuffer } from '../../src/index.ts';
import { internalsOfTrajectories } from '../../src/store/lanes/trajectory-buffer.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { until } from '../rig/until.ts';
import { rule } from './expected.ts';
import { fields, History } from './history.ts';
import { Look } from './looks.ts';
import type { MarkedWork } from './marked-worker.ts';
import { bytesOf, encode, numbered, Pending, type Row, sameBuffers } from './packed.ts';
import { refused } from './refused.ts';

const rules = [
  rule({}),
  rule({ n: 3, stack: { obs: 2 } }),
  rule({ kind: 'windows', length: 2, burnIn: 2, edges: 'anchor' }),
  rule({ strategy: 'episode', n: 2 }),
];

describe('TrajectoryWriter.addPacked()', function () {
  this.timeout(setting({ short: 120_000, all: 200_000, long: 3_600_000 }));

  for (let seed = 0; seed < setting({ short: 12, all: 20, long: 5000 }); seed++)
    itLonger(`makes the same buffer as add(): seed ${seed}`, () => {
      const history = new History(
        seed,
        1 + (seed % 4),
        [8, 12, 40][seed % 3]!,
        [0.05, 0.3, 0.9][seed % 5],
      );
      const { dice, lanes, perLane } = history;
      using buffer = TrajectoryBuffer.create({ capacity: lanes * perLane, lanes, fields });
      const pending = new Pending(history);
      // Two writers share the lanes if there are at least two.
      const half = Math.ceil(lanes / 2);
      const writers =
        lanes > 1
          ? [buffer.writer({ lanes: half }), buffer.writer({ firstLane: half })]
          : [buffer.writer()];
      const looks = rules.map((each) => new Look(history, each, buffer, `seed ${seed}`));
      const flush = () => {
        for (const writer of writers)
          for (let most = dice.of([1, 20, 1000]); ; ) {
            const rows = pending.take(dice, writer.firstLane, writer.lanes, most);
            if (rows.length === 0) break;
            expect(writer.addPacked(encode(buffer, rows), rows.length)).to.equal(rows.length);
          }
      };
      for (let round = 0; round < 12; round++) {
        // Collects adds for up to several laps of the ring before one call adds them all.
        for (let adds = dice.below(dice.of([8, 60])); adds > 0; adds--) pending.add();
        if (dice.chance(0.1)) {
          flush();
          history.clear();
          buffer.clear();
        }
        // After abandon() the next steps of each lane begin a new episode.
        if (dice.chance(0.2)) history.abandon();
        flush();
        sameBuffers(`seed ${seed}, round ${round}`, buffer, history.buffer);
        expect([buffer.ptr, buffer.size]).to.deep.equal([history.buffer.ptr, history.buffer.size]);
        for (const look of looks) look.look();
      }
      history.close();
    });

  const small = {
    act: { shape: [], dtype: 'int32' },
    obs: { shape: [2], observation: true },
  } as const;
  const make = (limiter?: RateLimiter, perLane = 16) =>
    TrajectoryBuffer.create({
      capacity: 4 * perLane,
      lanes: 4,
      fields: small,
      ...(limiter ? { limiter } : {}),
    });
  const row = (lane: number, kind = 0, value = 1): Row => ({
    lane,
    kind,
    reward: value / 2,
    values: { obs: Float32Array.of(value, -value), act: Int32Array.of(value) },
  });
  const ending = (lane: number, kind = 1, value = 1): Row[] => [
    row(lane, kind, value),
    row(lane, 4, value + 1),
  ];
  const markOf = (index: number, value: number) => {
    const words = new BigUint64Array(new SharedArrayBuffer(32));
    return { words, index, value };
  };

  it('stores values, kinds and rewards of an unaligned array, and rings the bell', () => {
    using buffer = make();
    using writer = buffer.writer({ firstLane: 1, lanes: 2 });
    const bell = internalsOfTrajectories(buffer as never).bells.claim()!;
    const rows = [row(0, 0, 5), ...ending(1, 3, 7), ...ending(0, 2, 9), row(1, 0, 11)];
    const bytes = encode(buffer, rows);
    const odd = new Uint8Array(new SharedArrayBuffer(bytes.length + 3), 3);
    odd.set(bytes);
    expect(writer.addPacked(odd, rows.length)).to.equal(6);
    expect(bell.read()).to.equal(1);
    internalsOfTrajectories(buffer as never).bells.release(bell);
    const read = buffer.read([1, 5, 9, 2, 6, 10]);
    expect([...read.obs]).to.deep.equal([5, -5, 9, -9, 10, -10, 7, -7, 8, -8, 11, -11]);
    expect([...read.act]).to.deep.equal([5, 9, 0, 7, 0, 11]);
    expect([...read.rewards]).to.deep.equal([2.5, 4.5, 0, 3.5, 0, 5.5]);
    expect([
      [...read.terminated],
      [...read.truncated],
      [...read.final],
      [...read.episodeStep],
    ]).to.deep.equal([
      [0, 0, 0, 1, 0, 0],
      [0, 1, 0, 1, 0, 0],
      [0, 0, 1, 0, 1, 0],
      [0, 1, 2, 0, 1, 0],
    ]);
    expect([buffer.ptr, buffer.size]).to.deep.equal([4, 4]);
  });

  it('keeps the last steps if a call has more steps of a lane than its ring holds', () => {
    using buffer = make(undefined, 8);
    using other = make(undefined, 8);
    using writer = buffer.writer();
    using one = other.writer({ firstLane: 2, lanes: 1 });
    const rows = Array.from({ length: 30 }, (_, i) =>
      i % 7 === 6 ? ending(2, 1, i) : [row(2, 0, i)],
    ).flat();
    expect(writer.addPacked(encode(buffer, rows), rows.length)).to.equal(34);
    for (let i = 0; i < 30; i++) {
      const { obs, act } = row(2, 0, i).values as { obs: Float32Array; act: Int32Array };
      const terminated = [i % 7 === 6];
      const finalObs = Float32Array.of(i + 1, -i - 1);
      one.add({
        obs,
        act,
        rewards: Float32Array.of(i / 2),
        terminated,
        truncated: [false],
        finalObs,
      });
    }
    sameBuffers('three laps', buffer, other);
    expect([buffer.ptr, buffer.size]).to.deep.equal([30, 7]);
  });

  it('returns 0 and keeps the mark while the limiter gates, and counts only steps as inserts', () => {
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 4,
      gateAdd: true,
    });
    using buffer = make(limiter);
    using writer = buffer.writer();
    const mark = markOf(2, 77);
    const rows = [...ending(0), ...ending(3, 2), row(1)];
    const bytes = encode(buffer, rows);
    expect(writer.addPacked(bytes, 5, mark)).to.equal(5);
    expect([limiter.inserts, buffer.ptr, [...mark.words]]).to.deep.equal([3, 3, [0n, 0n, 77n, 0n]]);
    const before = bytesOf(buffer as never);
    const next = { ...mark, value: 2 ** 53 - 1 };
    for (let i = 0; i < 3; i++) expect(writer.addPacked(bytes, 5, next)).to.equal(0);
    expect([limiter.inserts, [...mark.words]]).to.deep.equal([3, [0n, 0n, 77n, 0n]]);
    expect(bytesOf(buffer as never)).to.deep.equal(before);
    // There is room for two of three steps. A call without steps always succeeds.
    expect(writer.addPacked(encode(buffer, rows.slice(0, 4)), 4)).to.equal(4);
    expect(writer.addPacked(encode(buffer, [row(2)]), 1, { ...mark, value: 1 })).to.equal(0);
    expect(writer.addPacked(new Uint8Array(0), 0, { ...mark, value: 80 })).to.equal(0);
    expect(mark.words[2]).to.equal(80n);
    limiter.countSamples(3);
    expect(writer.addPacked(bytes, 5, next)).to.equal(5);
    expect([limiter.inserts, buffer.ptr, mark.words[2]]).to.deep.equal([8, 8, BigInt(2 ** 53 - 1)]);
    // An add that could never be admitted throws instead of waiting.
    limiter.checkBand({ sampleCount: 2 });
    const error = refusal(() => writer.addPacked(bytes, 5, mark));
    expect([error.code, mark.words[2]]).to.deep.equal(['ERR_HOTSLOT_RANGE', BigInt(2 ** 53 - 1)]);
    expect(error.message).to.include('plus an add of 3 rows');
  });

  it('throws with the row for invalid rows, and changes neither buffer nor mark', () => {
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 1e6,
      gateAdd: true,
    });
    using buffer = make(limiter);
    using writer = buffer.writer({ firstLane: 2 });
    const mark = markOf(0, 9);
    writer.addPacked(encode(buffer, [row(0), row(1)]), 2);
    const before = bytesOf(buffer as never);
    const bytes = encode(buffer, [row(0), row(1)]);
    const add = (...rows: Row[]) => {
      return () => writer.addPacked(encode(buffer, rows), rows.length, mark);
    };
    const given = (...args: unknown[]) => {
      return () => writer.addPacked(...(args as [Uint8Array, number]));
    };
    refused([
      [
        'a lane of another writer',
        add(row(0), row(1), row(2)),
        'RangeError',
        'row 2 is of lane 2, and this writer has 2',
      ],
      ['a lane that is none', add(row(65535)), 'RangeError', 'row 0 is of lane 65535'],
      ['no kind', add(row(0), row(0, 5)), 'RangeError', 'row 1 is of kind 5: 0 is a step'],
      ['a first final', add(row(0, 1), row(0, 12)), 'RangeError', 'row 1 is of kind 12'],
      ['a bit more', add(row(0, 16)), 'RangeError', 'row 0 is of kind 16'],
      ['high bits', add(row(0, 256)), 'RangeError', 'row 0 is of kind 256'],
      [
        'a final first',
        add(row(1, 4), row(0)),
        'RangeError',
        'row 0 is a final observation of lane 1, and the row before',
      ],
      [
        'two finals',
        add(...ending(0), row(0, 4)),
        'RangeError',
        'row 2 is a final observation of lane 0',
      ],
      [
        'a final of no end',
        add(row(0), row(0, 4)),
        'RangeError',
        'row 1 is a final observation of lane 0',
      ],
      [
        "another lane's",
        add(row(0, 2), row(1, 4)),
        'RangeError',
        'row 1 is a final observation of lane 1',
      ],
      [
        'an end alone',
        add(row(0), row(1, 3)),
        'RangeError',
        'row 1 ends an episode of lane 1, and the next row is not',
      ],
      [
        'a first end alone',
        add(row(1, 9), row(1)),
        'RangeError',
        'row 0 ends an episode of lane 1',
      ],
      [
        'one in between',
        add(row(0, 1), row(1), row(0, 4)),
        'RangeError',
        'row 0 ends an episode of lane 0',
      ],
      ['two ends', add(row(0, 1), ...ending(0)), 'RangeError', 'row 0 ends an episode of lane 0'],
      [
        'a byte less',
        given(bytes.subarray(1), 2),
        'RangeError',
        'bytes must hold 2 rows × 20 bytes = 40, got 39',
      ],
      [
        'a row more',
        given(bytes, 1),
        'RangeError',
        'bytes must hold 1 rows × 20 bytes = 20, got 40',
      ],
      [
        'words',
        given(new Uint32Array(10), 2),
        'TypeError',
        'bytes must be a Uint8Array, got a Uint32Array of 10',
      ],
      ['half a row', given(bytes, 0.5), 'RangeError', 'rows must be a whole number of at least 0'],
      [
        'no mark',
        given(bytes, 2, { ...mark, words: new BigUint64Array(1) }),
        'TypeError',
        'over a SharedArrayBuffer',
      ],
      [
        'a word too far',
        given(bytes, 2, { ...mark, index: 4 }),
        'RangeError',
        'mark.index must be',
      ],
    ]);
    expect(bytesOf(buffer as never)).to.deep.equal(before);
    expect([limiter.inserts, mark.words[0]]).to.deep.equal([2, 0n]);
    // The rejected rows have not changed the state of the episodes.
    add(row(0), row(1))();
    expect([...buffer.read([6, 7]).episodeStep]).to.deep.equal([1, 1]);
    expect(mark.words[0]).to.equal(9n);
  });

  it('throws after close(), and the next writer continues episodes only if `resume` is true', () => {
    using buffer = make();
    const one = buffer.transitions();
    const rows = encode(buffer, [row(1), row(1), row(3)]);
    const opened = (
      options: { resume?: boolean },
      then: (writer: ReturnType<typeof buffer.writer>) => void,
    ) => {
      const writer = buffer.writer(options);
      then(writer);
      writer.close();
      for (const call of [() => writer.addPacked(rows, 3), () => writer.cutEpisodes()])
        expect(refusal(call).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    };
    opened({}, (writer) => writer.addPacked(rows, 3));
    opened({ resume: true }, (writer) => writer.addPacked(rows, 3));
    opened({}, (writer) => {
      writer.addPacked(rows, 3);
      writer.cutEpisodes();
      writer.addPacked(rows, 3);
      // Adds the same steps by add() instead.
      const values = {
        obs: new Float32Array(8),
        act: new Int32Array(4),
        rewards: new Float32Array(4),
      };
      const [terminated, truncated] = [new Uint8Array(4), new Uint8Array(4)];
      writer.add({ ...values, terminated, truncated });
      writer.cutEpisodes();
      writer.add({ ...values, terminated, truncated });
    });
    const steps = (lane: number, count: number) => [
      ...buffer.read(Array.from({ length: count }, (_, i) => i * 4 + lane)).episodeStep,
    ];
    expect(steps(1, 10)).to.deep.equal([0, 1, 2, 3, 0, 1, 0, 1, 2, 0]);
    expect(steps(3, 6)).to.deep.equal([0, 1, 0, 0, 1, 0]);
    // If an episode was abandoned, its last step has no following observation and is not drawable.
    expect(
      [...buffer.drawableIds(one)].filter((id) => id % 4 === 1).map((id) => (id - 1) / 4),
    ).to.deep.equal([0, 1, 2, 4, 6, 7]);
  });

  itAll('stores both steps and mark, or neither, when the thread is terminated', async () => {
    const shape = {
      capacity: 32,
      lanes: 2,
      fields: { number: { shape: [], dtype: 'float64', observation: true } },
    } as const;
    using buffer = TrajectoryBuffer.create(shape);
    const words = new BigUint64Array(new SharedArrayBuffer(8));
    for (let i = 0; i < setting({ short: 4, all: 12, long: 500 }); i++) {
      const thread = new TestThread<MarkedWork>(new URL('./marked-worker.js', import.meta.url), {
        shared: buffer.share() as never,
        words,
      });
      await thread.next();
      const before = buffer.ptr;
      await until('steps came', () => buffer.ptr > before);
      await thread.terminate();
      expect(Number(words[0])).to.equal(buffer.ptr);
    }
    using other = TrajectoryBuffer.create(shape);
    using writer = other.writer();
    for (let from = 0; from < buffer.ptr; from += 1000) {
      const { bytes, rows } = numbered(other as never, from, Math.min(1000, buffer.ptr - from));
      writer.addPacked(bytes, rows);
    }
    sameBuffers('behind the last thread', buffer, other);
  });
});
