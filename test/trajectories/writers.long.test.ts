/**
 * Tests TrajectoryWriter: which steps an add accepts, how the limiter gates adds, and which thread
 * owns a lane.
 */
import { expect } from 'chai';
import { fromBfloat16, fromFloat16, RateLimiter, TrajectoryBuffer } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { refused } from './refused.ts';
import type { WriterWork } from './writer-worker.ts';

const fields = {
  obs: { shape: [], observation: true },
  image: { shape: [2], dtype: 'uint8', observation: true },
  half: { shape: [], dtype: 'float16', observation: true },
  action: { shape: [], dtype: 'int32' },
  flag: { shape: [], dtype: 'bool' },
  brain: { shape: [], dtype: 'bfloat16' },
} as const;
/** Returns one step of two lanes. */
const step = () => ({
  obs: Float32Array.of(1, 2),
  image: Uint8Array.of(1, 2, 3, 4),
  half: Float32Array.of(1, 65519.99),
  action: Int32Array.of(5, 6),
  flag: Uint8Array.of(0, 1),
  brain: Float32Array.of(3.140625, -0),
  rewards: Float32Array.of(0.5, -0.5),
  terminated: [false, false] as readonly boolean[],
  truncated: Uint8Array.of(0, 0),
});
const finals = () => ({
  finalObs: Float32Array.of(7, 8),
  finalImage: Uint8Array.of(5, 6, 7, 8),
  finalHalf: Uint16Array.of(0x3c00, 0x4000),
});

describe('TrajectoryWriter.add()', () => {
  it('stores 16-bit floats as rounded float32 values, and accepts their bits', () => {
    using buffer = TrajectoryBuffer.create({ capacity: 8, lanes: 2, fields });
    using writer = buffer.writer();
    writer.add({
      ...step(),
      ...finals(),
      terminated: [true, false],
      truncated: Uint8Array.of(0, 1),
    });
    const {
      half,
      brain,
      flag,
      obs,
      image,
      action,
      final,
      episodeStep,
      terminated,
      truncated,
      rewards,
    } = buffer.read([0, 1, 2, 3]);
    expect([...fromFloat16(half)]).to.deep.equal([1, 65504, 1, 2]);
    expect([...fromBfloat16(brain)]).to.deep.equal([3.140625, -0, 0, 0]);
    expect([[...flag], [...obs], [...image]]).to.deep.equal([
      [0, 1, 0, 0],
      [1, 2, 7, 8],
      [1, 2, 3, 4, 5, 6, 7, 8],
    ]);
    expect([[...action], [...final], [...episodeStep]]).to.deep.equal([
      [5, 6, 0, 0],
      [0, 0, 1, 1],
      [0, 0, 1, 1],
    ]);
    expect([[...terminated], [...truncated], [...rewards]]).to.deep.equal([
      [1, 0, 0, 0],
      [0, 1, 0, 0],
      [0.5, -0.5, 0, 0],
    ]);
  });

  it('throws with the field for an incomplete or invalid step, and stores nothing', () => {
    using buffer = TrajectoryBuffer.create({ capacity: 8, lanes: 2, fields });
    using writer = buffer.writer();
    const add = (more: object) => () => writer.add({ ...step(), ...more });
    const ending = { ...finals(), terminated: [false, true] };
    refused([
      [
        'another type',
        add({ obs: [1, 2] }),
        'TypeError',
        'obs must be a Float32Array (float32), got an array of 2',
      ],
      ['doubles', add({ obs: new Float64Array(2) }), 'TypeError', 'got a Float64Array of 2'],
      [
        'numbers for int32',
        add({ action: new Float32Array(2) }),
        'TypeError',
        'action must be a Int32Array (int32)',
      ],
      [
        'doubles for halves',
        add({ half: new Float64Array(2) }),
        'TypeError',
        'of bits, or a Float32Array (float16)',
      ],
      [
        'signed bits',
        add({ brain: new Int16Array(2) }),
        'TypeError',
        'brain must be a Uint16Array of bits',
      ],
      [
        'one lane',
        add({ obs: new Float32Array(1) }),
        'RangeError',
        'obs must hold 1 elements × 2 lanes = 2, got 1',
      ],
      [
        'elements',
        add({ image: new Uint8Array(2) }),
        'RangeError',
        'image must hold 2 elements × 2 lanes = 4, got 2',
      ],
      [
        'halves of one lane',
        add({ half: new Float32Array(3) }),
        'RangeError',
        'half must hold 1 elements × 2 lanes',
      ],
      [
        'a missing field',
        add({ flag: undefined }),
        'TypeError',
        'flag must be a Uint8Array (bool), got undefined',
      ],
      [
        'an unknown field',
        add({ reward: 1 }),
        'TypeError',
        "add: unknown option 'reward'; it takes obs",
      ],
      [
        'final of what is none',
        add({ finalAction: 1 }),
        'TypeError',
        "add: unknown option 'finalAction'",
      ],
      [
        'rewards',
        add({ rewards: [1, 2] }),
        'TypeError',
        'rewards must be a Float32Array, got an array of 2',
      ],
      [
        'three rewards',
        add({ rewards: new Float32Array(3) }),
        'RangeError',
        'rewards must hold 1 elements × 2 lanes',
      ],
      [
        'no flags',
        add({ terminated: undefined }),
        'TypeError',
        'terminated must be a Uint8Array or an array of boo',
      ],
      [
        'one flag',
        add({ truncated: [true] }),
        'RangeError',
        'truncated must hold 1 elements × 2 lanes = 2, got 1',
      ],
      ['flags as floats', add({ skip: new Float32Array(2) }), 'TypeError', 'skip must be'],
      ['skip of three', add({ skip: [true, false, false] }), 'RangeError', 'skip must hold'],
      [
        'no final',
        add({ terminated: [false, true] }),
        'TypeError',
        'lane 1 ends its episode, but finalObs is missing',
      ],
      [
        'one of the finals',
        add({ ...ending, finalHalf: undefined }),
        'TypeError',
        'but finalHalf is missing',
      ],
      [
        'a short final',
        add({ ...ending, finalImage: new Uint8Array(2) }),
        'RangeError',
        'finalImage must hold 2 elem',
      ],
      [
        'another final',
        add({ ...ending, finalObs: new Uint8Array(2) }),
        'TypeError',
        'finalObs must be a Float32Array',
      ],
      ['nothing', () => writer.add(undefined as never), 'TypeError', 'add takes an options object'],
    ]);
    expect([buffer.ptr, buffer.size]).to.deep.equal([0, 0]);
    // A skipped lane needs no final observation, even if its episode would end.
    expect(writer.add({ ...step(), terminated: [false, true], skip: [false, true] })).to.equal(2);
    expect([buffer.ptr, refusal(() => buffer.read([1])).code]).to.deep.equal([
      1,
      'ERR_HOTSLOT_RANGE',
    ]);
    // The rejected steps changed nothing. This is lane 1's first step, and lane 0's second.
    writer.add(step());
    expect([...buffer.read([0, 1, 2]).episodeStep]).to.deep.equal([0, 0, 1]);
  });

  it('returns 0 and stores nothing while the limiter gates', () => {
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 2,
      errorBuffer: 4,
      gateAdd: true,
    });
    using buffer = TrajectoryBuffer.create({ capacity: 64, lanes: 2, fields, limiter });
    using writer = buffer.writer();
    const taken: number[] = [];
    // The limiter admits two steps by minSize and four by the error buffer.
    for (let i = 0; i < 5; i++)
      taken.push(writer.add({ ...step(), ...finals(), terminated: [i === 2, false] }));
    expect(taken).to.deep.equal([2, 2, 2, 0, 0]);
    expect([buffer.ptr, limiter.inserts]).to.deep.equal([6, 6]);
    // A skipped lane does not count as a step. There is no room for one step either, but an add
    // without steps succeeds.
    expect([
      writer.add({ ...step(), skip: [true, false] }),
      writer.add({ ...step(), skip: [true, true] }),
    ]).to.deep.equal([0, 2]);
    limiter.countSamples(1);
    expect(writer.add(step())).to.equal(0);
    expect(writer.add({ ...step(), skip: [true, false] })).to.equal(2);
    expect([buffer.ptr, buffer.size, limiter.inserts]).to.deep.equal([7, 7, 7]);
    limiter.countSamples(4);
    expect(writer.add({ ...step(), truncated: Uint8Array.of(1, 0), ...finals() })).to.equal(2);
    // Lane 0 has three steps and a final observation, then a new episode of one step and its final
    // observation.
    expect([...buffer.read([0, 2, 4, 6, 8, 10]).episodeStep]).to.deep.equal([0, 1, 2, 3, 0, 1]);
    limiter.checkBand({ sampleCount: 3 });
    const error = refusal(() => {
      for (let i = 0; i < 9; i++) writer.add(step());
    });
    expect([error.name, error.code]).to.deep.equal(['RangeError', 'ERR_HOTSLOT_RANGE']);
    expect(error.message).to.include('errorBuffer 4 is too small');
    const attached = TrajectoryBuffer.attach(buffer.share());
    expect(attached.limiter?.inserts).to.equal(limiter.inserts);
  });
});

describe('lanes of a trajectory buffer', () => {
  const small = { obs: { shape: [], observation: true } } as const;
  const make = () => TrajectoryBuffer.create({ capacity: 64, lanes: 4, fields: small });
  const start = (
    buffer: ReturnType<typeof make>,
    firstLane: number,
    lanes: number,
    then: WriterWork['then'],
  ) =>
    new TestThread<WriterWork>(new URL('./writer-worker.js', import.meta.url), {
      shared: buffer.share() as never,
      firstLane,
      lanes,
      then,
    });
  const add = (writer: ReturnType<ReturnType<typeof make>['writer']>) => {
    const values = new Float32Array(writer.lanes);
    return writer.add({
      obs: values,
      rewards: values,
      terminated: new Uint8Array(writer.lanes),
      truncated: new Uint8Array(writer.lanes),
    });
  };

  it('have one writer at a time, and a failed writer() call claims no lane', () => {
    using buffer = make();
    using attached = TrajectoryBuffer.attach(buffer.share());
    const middle = buffer.writer({ firstLane: 2, lanes: 1 });
    for (const [options, lane] of [
      [{}, 2],
      [{ firstLane: 2 }, 2],
      [{ firstLane: 1, lanes: 2 }, 2],
    ] as const)
      for (const each of [buffer, attached]) {
        const error = refusal(() => each.writer(options));
        expect(error.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
        expect(error.message).to.include(`lane ${lane} of lanes`);
      }
    // Lanes 0, 1 and 3 are still free.
    const [low, high] = [attached.writer({ lanes: 2 }), buffer.writer({ firstLane: 3 })];
    expect([low.lanes, high.firstLane, high.lanes]).to.deep.equal([2, 3, 1]);
    middle.close();
    const again = attached.writer({ firstLane: 2, lanes: 1 });
    // A second close() must not release the lane, which belongs to another writer now.
    middle.close();
    expect(refusal(() => buffer.writer({ firstLane: 2 })).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    for (const writer of [low, high, again]) writer.close();
    buffer.writer().close();
    const options = (given: object) => () => buffer.writer(given);
    refused([
      ['a lane that is none', options({ firstLane: 4 }), 'RangeError', 'firstLane must be'],
      ['too many lanes', options({ firstLane: 2, lanes: 3 }), 'RangeError', 'lanes must be'],
      ['no lanes', options({ lanes: 0 }), 'RangeError', 'got 0'],
      ['an unknown option', options({ lane: 1 }), 'TypeError', "writer: unknown option 'lane'"],
    ]);
  });

  it('belong to the writer of another thread while the thread runs', async () => {
    using buffer = make();
    using own = buffer.writer({ firstLane: 3 });
    add(own);
    const other = start(buffer, 0, 3, 'for ever');
    expect(await other.next()).to.equal('has the lanes');
    for (const options of [{}, { firstLane: 1, lanes: 1 }, { firstLane: 2 }])
      expect(refusal(() => buffer.writer(options)).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    const late = start(buffer, 2, 2, 'refused');
    const error = await late.result().catch((thrown: Error & { code?: string }) => thrown);
    expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
    expect((error as Error).message).to.include('lane 2 of lanes 2 to 3 has an open writer');
    await other.terminate();
  });

  for (const then of ['close', 'return', 'exit', 'throw', 'for ever'] as const)
    (then === 'return' ? it : itAll)(
      `are freed when their thread ends by '${then}', and the next writer begins an episode`,
      async () => {
        using buffer = make();
        const one = buffer.transitions();
        for (let round = 1; round <= 4; round++) {
          const thread = start(buffer, 1, 3, then);
          expect(await thread.next()).to.equal('has the lanes');
          thread.worker.postMessage('go on');
          if (then === 'for ever') await thread.terminate();
          else
            await thread
              .next()
              .catch((error: Error) => expect(error.message).to.match(/on purpose|ended with 3/));
          await thread.ended;
          const writer = buffer.writer({ firstLane: 1 });
          const first = buffer.drawableIds(one).length;
          add(writer);
          // The step before has no following observation, because it belongs to the ended thread's
          // episode, which did not end.
          expect(
            buffer.drawableIds(one).length,
            'drawable steps after the first add',
          ).to.be.at.most(first);
          const newest = Math.max(...buffer.drawableIds(one)) / 4;
          const ids = [1, 2, 3].map((lane) => (Math.floor(newest) + 2) * 4 + lane);
          expect([...buffer.read(ids).episodeStep]).to.deep.equal([0, 0, 0]);
          writer.close();
        }
        // No lane has leaked: a writer can claim all four, again and again.
        for (let i = 0; i < 100; i++) buffer.writer().close();
      },
    );
});
