/**
 * Tests stepsOutgoing(), which takes steps from a buffer to send them. Each step must be taken
 * once, complete and in order. A limiter must gate the writer, and steps that were overwritten
 * before are an error.
 */
import { expect } from 'chai';
import { RateLimiter, TrajectoryBuffer } from '../../src/index.ts';
import { stepsOutgoing } from '../../src/store/lanes/outgoing.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { until } from '../rig/until.ts';
import { rule } from './expected.ts';
import { fields, History } from './history.ts';
import type { LaneWork, Told } from './lane-worker.ts';
import { Look } from './looks.ts';
import { sameBuffers } from './packed.ts';
import type { PackedWork } from './packed-worker.ts';
import { refused } from './refused.ts';
import { LANES, fields as telling } from './telling.ts';

const small = { obs: { shape: [], observation: true } } as const;
const make = (lanes: number, perLane: number, limiter?: RateLimiter) =>
  TrajectoryBuffer.create({
    capacity: lanes * perLane,
    lanes,
    fields: small,
    ...(limiter ? { limiter } : {}),
  });
type Small = ReturnType<typeof make>;

/** Adds one step to every lane. `ends` says which lanes end their episode. */
function add(
  writer: ReturnType<Small['writer']>,
  value: number,
  ends: boolean | readonly boolean[] = false,
): number {
  const values = new Float32Array(writer.lanes).fill(value);
  const terminated = Array.from({ length: writer.lanes }, (_, i) =>
    typeof ends === 'boolean' ? ends : ends[i]!,
  );
  const truncated = new Uint8Array(writer.lanes);
  return writer.add({ obs: values, finalObs: values, rewards: values, terminated, truncated });
}

/** Returns lane and kind of each row. */
function headsOf(
  rowBytes: number,
  out: Uint8Array,
  rows: number,
): { lane: number; kind: number; reward: number }[] {
  const view = new DataView(out.buffer, out.byteOffset);
  return Array.from({ length: rows }, (_, i) => ({
    lane: view.getUint16(i * rowBytes, true),
    kind: view.getUint16(i * rowBytes + 2, true),
    reward: view.getFloat32(i * rowBytes + 4, true),
  }));
}

describe('stepsOutgoing()', function () {
  this.timeout(setting({ short: 120_000, all: 200_000, long: 3_600_000 }));

  for (let seed = 0; seed < setting({ short: 8, all: 20, long: 5000 }); seed++)
    itLonger(`returns rows from which addPacked() makes an equal buffer: seed ${seed}`, () => {
      const history = new History(seed, 1 + (seed % 4), 40);
      const { dice, lanes, perLane } = history;
      using buffer = TrajectoryBuffer.create({ capacity: lanes * perLane, lanes, fields });
      using writer = buffer.writer();
      const outgoing = stepsOutgoing(history.buffer as never);
      const out = new Uint8Array(100 * outgoing.rowBytes);
      const looks = [{}, { n: 3, stack: { obs: 2 } }].map(
        (r) => new Look(history, rule(r), buffer, `seed ${seed}`),
      );
      let steps = 0;
      const carry = () => {
        const waiting = outgoing.waiting();
        const most = dice.of([2, 3, 7, 100]);
        const taken = outgoing.take(out, most);
        expect(taken.rows).to.be.at.most(most);
        // A step that ends its episode needs room for two rows.
        expect(taken.rows, `of ${waiting}`).to.be.at.least(Math.min(waiting, most) - 1);
        expect(outgoing.waiting()).to.equal(waiting - taken.rows);
        steps += taken.steps;
        const bytes = out.subarray(0, taken.rows * outgoing.rowBytes);
        expect(writer.addPacked(bytes, taken.rows)).to.equal(taken.rows);
      };
      for (let round = 0; round < 10; round++) {
        for (let times = dice.below(30); times > 0; times--) {
          for (let adds = 1 + dice.below(3); adds > 0; adds--) history.add();
          carry();
          while (outgoing.waiting() > 20) carry();
          if (dice.chance(0.05)) history.abandon();
        }
        while (outgoing.waiting() > 0) carry();
        expect([steps, buffer.ptr]).to.deep.equal([history.written, history.written]);
        sameBuffers(`seed ${seed}, round ${round}`, buffer, history.buffer);
        for (const look of looks) look.look();
      }
      history.close();
    });

  it('take() shares its rows evenly among the lanes that have steps', () => {
    using buffer = make(4, 64);
    const outgoing = stepsOutgoing(buffer as never);
    const out = new Uint8Array(200 * outgoing.rowBytes);
    const lanesOf = (most: number) =>
      headsOf(outgoing.rowBytes, out, outgoing.take(out, most).rows).map(({ lane }) => lane);
    const counted = (lanes: readonly number[]) =>
      [0, 1, 2, 3].map((lane) => lanes.filter((each) => each === lane).length);
    expect(outgoing.take(out, 2)).to.deep.equal({ rows: 0, steps: 0 });
    using low = buffer.writer({ lanes: 3 });
    using high = buffer.writer({ firstLane: 3 });
    for (let i = 0; i < 50; i++) add(low, i);
    for (let i = 0; i < 5; i++) add(high, i);
    // If a lane has too few steps, the other lanes give more.
    expect(counted(lanesOf(40))).to.deep.equal([15, 10, 10, 5]);
    expect(counted(lanesOf(30))).to.deep.equal([10, 10, 10, 0]);
    const two = [lanesOf(2), lanesOf(2), lanesOf(2), lanesOf(2)].map(([lane]) => lane);
    expect([...new Set(two)].sort()).to.deep.equal([0, 1, 2]);
    expect(outgoing.waiting()).to.equal(155 - 78);
    expect(lanesOf(200).length).to.equal(155 - 78);
    expect([outgoing.waiting(), lanesOf(200)]).to.deep.equal([0, []]);
  });

  it('take() returns the last step of an episode together with its final observation', () => {
    using buffer = make(2, 256);
    using writer = buffer.writer();
    const outgoing = stepsOutgoing(buffer as never);
    const out = new Uint8Array(9 * outgoing.rowBytes);
    for (let i = 0; i < 100; i++) add(writer, i, [i % 2 === 0, i % 3 === 0]);
    const seen: { lane: number; kind: number; reward: number }[] = [];
    for (let i = 0; outgoing.waiting() > 0; i++) {
      const before = out.fill(0xcd).slice();
      const { rows, steps } = outgoing.take(out, 2 + (i % 8));
      // At most the memory of one row after the returned rows may be overwritten.
      const end = Math.min(rows + 1, 2 + (i % 8)) * outgoing.rowBytes;
      expect(Buffer.from(out.subarray(end)).equals(before.subarray(end))).to.equal(true);
      const heads = headsOf(outgoing.rowBytes, out, rows);
      expect([rows > 0, heads.filter(({ kind }) => kind !== 4).length]).to.deep.equal([
        true,
        steps,
      ]);
      heads.forEach(({ lane, kind }, r) => {
        expect(kind === 4).to.equal(
          r > 0 && heads[r - 1]!.lane === lane && (heads[r - 1]!.kind & 3) > 0,
        );
        if (kind & 3) expect(heads[r + 1]?.kind).to.equal(4);
      });
      seen.push(...heads);
    }
    for (const [lane, every] of [2, 3].entries()) {
      const rewards = seen
        .filter((row) => row.lane === lane && row.kind !== 4)
        .map(({ reward }) => reward);
      expect(rewards).to.deep.equal(Array.from({ length: 100 }, (_, i) => i));
      const first = seen
        .filter((row) => row.lane === lane && row.kind & 8)
        .map(({ reward }) => reward);
      expect(first).to.deep.equal(rewards.filter((i) => i === 0 || (i - 1) % every === 0));
    }
  });

  it('take() returns every step if the limiter gates the writer within the lane capacity', () => {
    const errorBuffer = 6;
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer,
      gateAdd: true,
    });
    using buffer = make(1, 2 * (errorBuffer + 1 + 1), limiter);
    using writer = buffer.writer();
    const outgoing = stepsOutgoing(buffer as never);
    const out = new Uint8Array(64 * outgoing.rowBytes);
    let rows = 0;
    for (let i = 0; i < 200; i++) {
      // Every step ends its episode, so each one takes two places.
      while (add(writer, 1, true) > 0);
      expect(outgoing.waiting()).to.equal(2 * (errorBuffer + 1));
      for (let left = 1 + (i % 7); left > 0; left--) {
        const taken = outgoing.take(out, 2);
        expect(taken).to.deep.equal({ rows: 2, steps: 1 });
        rows += taken.rows;
        limiter.countSamples(taken.steps);
      }
    }
    expect([rows + outgoing.waiting(), limiter.inserts]).to.deep.equal([
      2 * buffer.ptr,
      buffer.ptr,
    ]);
  });

  it('take() throws if steps were overwritten before they were taken', () => {
    for (const ends of [false, true]) {
      using buffer = make(2, 8);
      using writer = buffer.writer();
      const outgoing = stepsOutgoing(buffer as never);
      const out = new Uint8Array(32 * outgoing.rowBytes);
      // Steps of a full ring can be taken even after a clear().
      for (let i = 0; i < 8; i++) add(writer, i);
      buffer.clear();
      expect(outgoing.take(out, 32)).to.deep.equal({ rows: 16, steps: 16 });
      for (let i = 0; i < 8; i++) add(writer, i);
      expect(outgoing.take(out, 2).rows).to.equal(2);
      using last = make(1, 8);
      const lost = stepsOutgoing(last as never);
      using one = last.writer();
      for (let i = 0; i < 7; i++) add(one, i);
      add(one, 7, ends);
      if (!ends) {
        expect(lost.take(out, 2).rows).to.equal(2);
        for (let i = 0; i < 3; i++) add(one, i);
      }
      for (let again = 0; again < 2; again++) {
        const error = refusal(() => lost.take(out, 2));
        expect(error.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
        expect(error.message).to.include(
          `lane 0 was written over before its steps from place ${ends ? 0 : 2} on`,
        );
      }
    }
  });

  it('throws for invalid arguments, and for a buffer that has lost its first steps', () => {
    using buffer = make(1, 8);
    const outgoing = stepsOutgoing(buffer as never);
    expect(outgoing.rowBytes).to.equal(12);
    refused([
      [
        'one row',
        () => outgoing.take(new Uint8Array(64), 1),
        'RangeError',
        'most must be a whole number of at least 2',
      ],
      [
        'no room',
        () => outgoing.take(new Uint8Array(35), 3),
        'RangeError',
        'out must hold 3 rows × 12 bytes = 36, got 35',
      ],
      [
        'floats',
        () => outgoing.take(new Float32Array(64) as never, 2),
        'TypeError',
        'out must be a Uint8Array',
      ],
      [
        'too many lanes',
        () => stepsOutgoing(make(65537, 2) as never),
        'RangeError',
        'at most 65536 lanes can go out',
      ],
    ]);
    const lateness = () => refusal(() => stepsOutgoing(buffer as never));
    using writer = buffer.writer();
    for (let i = 0; i < 8; i++) add(writer, i);
    expect(stepsOutgoing(buffer as never).waiting()).to.equal(8);
    add(writer, 8);
    expect([lateness().code, lateness().message]).to.deep.equal([
      'ERR_HOTSLOT_STATE_BUSY',
      'lane 0 has lost its first 1 places; take lanes from their start',
    ]);
  });

  const times = setting({ short: 1, all: 3, long: 300 });
  for (const { perLane, words, roles } of [
    { perLane: 16, words: 128, roles: ['uniform', 'windows', 'places'] },
    { perLane: 64, words: 4, roles: ['by priority'] },
  ] as { perLane: number; words: number; roles: LaneWork['role'][] }[])
    (perLane === 64 ? itLonger : itAll)(
      `returns whole steps while threads write and read: lanes of ${perLane}, ${roles.join(', ')}`,
      async () => {
        const errorBuffer = perLane / 2 - LANES - 1;
        const limiter = RateLimiter.create({
          samplesPerInsert: 1,
          minSize: 1,
          errorBuffer,
          gateAdd: true,
        });
        const shape = { capacity: perLane * LANES, lanes: LANES, fields: telling(words) };
        using outbox = TrajectoryBuffer.create({ ...shape, limiter });
        using buffer = TrajectoryBuffer.create(shape);
        using writer = buffer.writer();
        const control = new SharedArrayBuffer(12);
        new Int32Array(control)[1] = roles.length;
        const task = { control, together: roles.length + 1, words };
        const readers = roles.map(
          (role) =>
            new TestThread<LaneWork>(new URL('./lane-worker.js', import.meta.url), {
              ...task,
              shared: buffer.share(),
              role,
              rows: 16,
              firstLane: 0,
              lanes: 0,
              samples: times * 200,
            }),
        );
        const adding = new TestThread<PackedWork>(new URL('./packed-worker.js', import.meta.url), {
          ...task,
          shared: outbox.share(),
        });
        let written = -1;
        const ended = adding.result<number>().then((steps) => {
          written = steps;
        });
        const outgoing = stepsOutgoing(outbox as never);
        const out = new Uint8Array(32 * outgoing.rowBytes);
        const words64 = new BigUint64Array(new SharedArrayBuffer(8));
        let [carried, waited] = [0, 0];
        await until(
          'all was carried over',
          () => {
            const { rows, steps } = outgoing.take(out, 2 + (carried % 31));
            if (rows === 0) waited++;
            carried += rows;
            writer.addPacked(out.subarray(0, rows * outgoing.rowBytes), rows, {
              words: words64,
              index: 0,
              value: carried,
            });
            limiter.countSamples(steps);
            return written >= 0 && outgoing.waiting() === 0;
          },
          setting({ short: 50_000, all: 100_000, long: 3_600_000 }),
        );
        await ended;
        const told = await Promise.all(readers.map((thread) => thread.result<Told>()));
        expect(told.map(({ wrong }) => wrong)).to.deep.equal(roles.map(() => null));
        expect([buffer.ptr, limiter.samples, Number(words64[0])]).to.deep.equal([
          written,
          written,
          carried,
        ]);
        sameBuffers('at the end', buffer, outbox);
        if (process.env.HOTSLOT_TEST_SAY) console.log(told, written, carried, waited);
      },
    );
});
