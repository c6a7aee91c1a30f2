/**
 * Tests that rejected calls of a replay buffer name the rule and the values, and leave the buffer
 * unchanged.
 */
import { expect } from 'chai';
import type { TypedArray } from '../../src/base/dtype.ts';
import type { OffPolicyRows } from '../../src/store/rows/fields.ts';
import { ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { refusal } from '../rig/refusal.ts';
import { A, C, count, D, transitions, width, withCritic } from './transitions.ts';

describe('ReplayBuffer with invalid arguments', () => {
  const make = (criticDim = 0) =>
    ReplayBuffer.offPolicy({ capacity: 4, obsDim: D, actionDim: A, criticDim });
  const refusals: [string, object, new () => Error, string, number?][] = [
    [
      'add() throws for a field with a wrong number of elements',
      { rewards: count(3, 0) },
      RangeError,
      'rewards must hold 1 elements per row × 2 rows = 2, got 3',
    ],
    [
      'add() throws for unequal row counts',
      { nextObs: count(3 * D, 0) },
      RangeError,
      'nextObs must hold 3 elements per row × 2 rows = 6, got 9',
    ],
    [
      'add() throws for a field that ends within a row',
      { obs: count(5, 0) },
      RangeError,
      'obs must hold whole rows of 3 elements, got 5',
    ],
    ['add() throws for zero rows', { obs: count(0, 0) }, RangeError, 'at least one row'],
    [
      'add() throws for a field of another dtype',
      { actions: new Float64Array(2 * A) },
      TypeError,
      'actions must be a Float32Array (float32), got a Float64Array of 4',
    ],
    [
      'add() throws for plain arrays',
      { obs: [1, 2, 3, 4, 5, 6] },
      TypeError,
      'obs must be a Float32Array (float32), got an array of 6',
    ],
    [
      'add() throws for a missing field',
      { dones: undefined },
      TypeError,
      'not given dones (float32, 1 elements per row)',
    ],
    [
      'add() throws for an unknown field',
      { reward: count(2, 0) },
      TypeError,
      'reward, which this buffer does not have; it has obs',
    ],
    [
      'add() throws for critic fields if criticDim is 0',
      { critic: count(2, 0) },
      TypeError,
      'critic, which this buffer does not have (criticDim is 0)',
    ],
    [
      'add() throws for missing critic fields',
      {},
      TypeError,
      'not given critic (float32, 4 elements per row)',
      C,
    ],
    [
      'add() throws for a terminalMask of another length',
      { terminalMask: new Uint8Array(3), terminalNextObs: count(2 * D, 0) },
      RangeError,
      'terminalMask must hold one element per row = 2, got 3',
    ],
    [
      'add() throws for a terminalMask that is a number',
      { terminalMask: 1 },
      TypeError,
      'terminalMask must be',
    ],
    [
      'add() throws for terminalMask without terminalNextObs',
      { terminalMask: new Uint8Array(2) },
      TypeError,
      'not given terminalNextObs',
    ],
    [
      'add() throws for terminalNextObs without terminalMask',
      { terminalNextObs: count(2 * D, 0) },
      TypeError,
      'terminalNextObs is given without terminalMask',
    ],
    [
      'add() throws for a terminalNextObs of another length',
      { terminalMask: new Uint8Array(2), terminalNextObs: count(D, 0) },
      RangeError,
      'terminalNextObs must hold 3 elements per row × 2 rows = 6, got 3',
    ],
  ];
  for (const [what, change, error, text, criticDim] of refusals) {
    it(what, () => {
      using buffer = make(criticDim);
      expect(() => buffer.add({ ...transitions(2), ...change } as OffPolicyRows)).to.throw(
        error,
        text,
      );
      expect(buffer.ptr, 'no row was added').to.equal(0);
    });
  }

  it('add() throws for a missing terminalNextCritic', () => {
    using buffer = make(C);
    const rows = {
      ...withCritic(2),
      terminalMask: new Uint8Array(2),
      terminalNextObs: count(2 * D, 0),
    };
    expect(() => buffer.add(rows)).to.throw(TypeError, 'not given terminalNextCritic');
  });

  it('add() throws for more rows than the capacity', () => {
    using buffer = make();
    expect(() => buffer.add(transitions(5))).to.throw(
      RangeError,
      '5 rows is more than the capacity of 4 rows',
    );
  });

  it('add() throws for terminalMask in a general schema, and for null', () => {
    using buffer = ReplayBuffer.create({ capacity: 2, fields: { x: { shape: [] } } });
    const rows = { x: Float32Array.of(1), terminalMask: Uint8Array.of(1) };
    expect(() => buffer.add(rows)).to.throw(TypeError, 'terminalMask');
    expect(() => buffer.add(null as never)).to.throw(TypeError, 'got null');
  });

  it('create() throws for capacities that are not whole numbers from 1 to 2^32 − 1', () => {
    for (const capacity of [0, -1, 1.5, Number.NaN, 2 ** 32]) {
      expect(() => ReplayBuffer.create({ capacity, fields: { x: { shape: [] } } })).to.throw(
        RangeError,
        `got ${capacity}`,
      );
    }
  });

  it('create() throws if the rows need more shared memory than is free', () => {
    const make = () =>
      ReplayBuffer.create({ capacity: 2 ** 32 - 1, fields: { x: { shape: [2 ** 20] } } });
    expect(make)
      .to.throw(RangeError, /needs 180143985\d+ bytes of shared memory, and \d+ are free/)
      .with.property('code', 'ERR_HOTSLOT_MEMORY');
  });

  it('gather() throws for invalid indices and for an `out` that is too small', () => {
    using buffer = make();
    buffer.add(transitions(2));
    const out = new Float32Array(2 * width);
    expect(() => buffer.gather(Uint32Array.of(0, 2), out)).to.throw(
      RangeError,
      'indices[1] is 2, but the buffer holds 2 rows',
    );
    expect(() => buffer.gather(BigInt64Array.of(-1n), out)).to.throw(
      RangeError,
      'indices[0] is -1',
    );
    expect(() => buffer.gather(Uint32Array.of(0, 1, 0), out)).to.throw(
      RangeError,
      '3 rows × 44 bytes = 132, got 88 bytes',
    );
    expect(() => buffer.gather([0] as unknown as Uint32Array, out)).to.throw(
      TypeError,
      'indices must be',
    );
    expect(() => buffer.gather(Uint32Array.of(0), [] as unknown as TypedArray)).to.throw(
      TypeError,
      'out must be',
    );
    expect(buffer.gather(new Uint32Array(0), out)).to.equal(out);
  });

  it('sample() throws for an invalid seed or count, and for arrays that are too small', () => {
    using buffer = make();
    buffer.add(transitions(2));
    expect(() => buffer.sample({ seed: -1, count: 1 })).to.throw(RangeError, 'seed');
    expect(() => buffer.sample({ seed: 1, count: 0 })).to.throw(RangeError, 'count');
    expect(() => buffer.sample({ seed: 1, count: 2, indices: new Uint32Array(1) })).to.throw(
      TypeError,
      'at least 2, got 1',
    );
    expect(() => buffer.sample({ seed: 1, count: 2 }, new Float32Array(1))).to.throw(
      RangeError,
      'out must hold 2 rows',
    );
  });

  it('attach() throws for objects and memory that share() did not return', () => {
    expect(() => ReplayBuffer.attach({} as never)).to.throw(TypeError, 'share()');
    using buffer = make();
    const shared = buffer.share();
    expect(() => ReplayBuffer.attach({ ...shared, capacity: 3 })).to.throw(
      TypeError,
      'holds 4 rows of 44 bytes, its description says 3',
    );
    const memory = new SharedArrayBuffer(shared.memory.byteLength);
    expect(() => ReplayBuffer.attach({ ...shared, memory })).to.throw(
      TypeError,
      'holds 0 rows of 0 bytes',
    );
    new Uint32Array(memory, shared.offset, 4).set([1, 1, 4, 44]);
    const error = refusal(() => ReplayBuffer.attach({ ...shared, memory }));
    expect(error).to.include({ name: 'TypeError', code: 'ERR_HOTSLOT_ARGUMENT' });
    expect(error.message).to.include('not a Hotslot replay buffer of version 3');
  });
});
