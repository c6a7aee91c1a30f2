/**
 * Tests addPacked() and the mark that advances with the rows. Packed rows equal rows that were
 * added by field, and an add() takes all rows or none.
 */
import { expect } from 'chai';
import { RateLimiter, ReplayBuffer } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { PackedTask } from './packed-worker.ts';

const fields = {
  obs: { shape: [3] },
  action: { shape: [], dtype: 'int64' },
  done: { shape: [], dtype: 'bool' },
} as const;
const rowsOf = (n: number, from = 0) => ({
  obs: Float32Array.from({ length: 3 * n }, (_, i) => from * 3 + i),
  action: BigInt64Array.from({ length: n }, (_, i) => BigInt(from + i)),
  done: Uint8Array.from({ length: n }, (_, i) => (from + i) % 2),
});
const marks = () => new BigUint64Array(new SharedArrayBuffer(64));

/** Returns the rows [from, from + n) in packed form. */
function packed(n: number, from = 0): Uint8Array {
  using made = ReplayBuffer.create({ capacity: Math.max(1, n), fields });
  made.add(rowsOf(n, from));
  return made.gather(
    Uint32Array.from({ length: n }, (_, i) => i),
    new Uint8Array(n * made.rowBytes),
  );
}
const all = (buffer: ReplayBuffer) =>
  Array.from(
    buffer.gather(
      Uint32Array.from({ length: buffer.size }, (_, i) => i),
      new Uint8Array(buffer.size * buffer.rowBytes),
    ),
  );

describe('ReplayBuffer.addPacked()', () => {
  it('stores the same rows as add() over many laps, for different row counts', () => {
    const [one, other] = [
      ReplayBuffer.create({ capacity: 17, fields }),
      ReplayBuffer.create({ capacity: 17, fields }),
    ];
    for (let from = 0, n = 1; from < 200; from += n, n = (n * 5) % 13) {
      expect(one.add(rowsOf(n, from))).to.equal(n);
      expect(other.addPacked(packed(n, from), n)).to.equal(n);
      expect([other.ptr, all(other as ReplayBuffer)]).to.deep.equal([
        one.ptr,
        all(one as ReplayBuffer),
      ]);
    }
  });

  it('sets the mark with or without rows, and keeps the mark while the limiter gates the add', () => {
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 3,
      gateAdd: true,
    });
    const buffer = ReplayBuffer.create({ capacity: 8, fields, limiter });
    const words = marks();
    const mark = (value: number) => ({ words, index: 5, value });
    expect([buffer.addPacked(packed(4), 4, mark(4)), words[5]]).to.deep.equal([4, 4n]);
    expect([
      buffer.addPacked(packed(1), 1, mark(5)),
      words[5],
      buffer.ptr,
      limiter.inserts,
    ]).to.deep.equal([0, 4n, 4, 4]);
    limiter.countSamples(1);
    expect([buffer.addPacked(packed(1), 1, mark(5)), words[5], limiter.inserts]).to.deep.equal([
      1,
      5n,
      5,
    ]);
    expect([buffer.addPacked(new Uint8Array(), 0, mark(2 ** 52)), words[5]]).to.deep.equal([
      0,
      2n ** 52n,
    ]);
    expect(Array.from(words.slice(0, 5)).every((word) => word === 0n)).to.equal(true);
    expect(refusal(() => buffer.addPacked(packed(8), 8)).message).to.match(
      /errorBuffer 3 is too small/,
    );
  });

  it('throws for invalid rows or marks, and changes neither buffer nor mark', () => {
    const buffer = ReplayBuffer.create({ capacity: 4, fields });
    const words = marks();
    const give = (bytes: unknown, rows: unknown, mark?: unknown) => () =>
      buffer.addPacked(bytes as Uint8Array, rows as number, mark as undefined);
    const { rowBytes } = buffer;
    for (const [call, says] of [
      [give([1], 1), /^bytes must be a Uint8Array, got an array of 1$/],
      [
        give(packed(2), 1),
        new RegExp(
          `^bytes must hold 1 rows × ${rowBytes} bytes = ${rowBytes}, got ${2 * rowBytes}$`,
        ),
      ],
      [give(packed(1).subarray(1), 1), /^bytes must hold 1 rows/],
      [give(packed(1), 0.5), /^rows must be a whole number/],
      [give(packed(5), 5), /^rows must be at most the capacity 4, got 5$/],
      [give(packed(1), 1, { words }), /^mark.index must be a number/],
      [
        give(packed(1), 1, { words, index: 8, value: 1 }),
        /^mark.index must be a whole number of at least 0 and at most 7/,
      ],
      [give(packed(1), 1, { words, index: 0, value: -1 }), /^mark.value must be/],
      [
        give(packed(1), 1, { words: new BigUint64Array(1), index: 0, value: 1 }),
        /over a SharedArrayBuffer/,
      ],
      [
        give(packed(1), 1, { words: new Float64Array(1), index: 0, value: 1 }),
        /over a SharedArrayBuffer/,
      ],
      [give(packed(1), 1, { word: 1 }), /unknown option 'word'/],
    ] as const)
      expect(refusal(call).message).to.match(says);
    expect([buffer.ptr, words[0]]).to.deep.equal([0, 0n]);
    buffer.close();
    expect(refusal(give(packed(1), 1)).message).to.match(/closed/);
  });

  const ended = (times: number) => async () => {
    const words = marks();
    const buffer = ReplayBuffer.create({
      capacity: 64,
      fields: { number: { shape: [], dtype: 'int64' } },
    });
    for (let i = 0; i < times; i++) {
      const task: PackedTask = { shared: buffer.share(), words };
      const thread = new TestThread<PackedTask>(
        new URL('./packed-worker.js', import.meta.url),
        task,
      );
      await thread.next();
      const before = buffer.ptr;
      while (buffer.ptr === before) await new Promise(setImmediate);
      await thread.worker.terminate();
      // A thread that continues from the mark repeats no row and skips none.
      expect(Number(words[0])).to.equal(buffer.ptr);
      const rows = new BigInt64Array(1);
      buffer.gather(Uint32Array.of((buffer.ptr - 1) % buffer.capacity), rows);
      expect(Number(rows[0])).to.equal(buffer.ptr - 1);
    }
  };
  itLonger(
    'stores both rows and mark, or neither, when the thread is terminated',
    ended(setting({ short: 2, all: 12, long: 500 })),
  );
});
