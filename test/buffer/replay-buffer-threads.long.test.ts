/**
 * Tests a replay buffer with several writer threads and a reader, also while writers are
 * terminated. No row is torn or lost, and no thread hangs.
 */
import { once } from 'node:events';
import { expect } from 'chai';
import { internalsOfBuffer, ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { itAll } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { checkedRows, fault, fields, WORDS } from './checked-rows.ts';
import type { RowWork } from './row-worker.ts';

type Reading = { checked: number; wrong: string | null };

/** Threads that share one buffer and start together. */
class RowThreads {
  readonly control = new SharedArrayBuffer(12);
  readonly buffer: ReplayBuffer;
  readonly together: number;
  /**
   * turns that the reader must have before a writer ends. On a busy machine, a thread may otherwise
   * not run before the others are done
   */
  readonly turns: number;
  #writers = 0;

  constructor(buffer: ReplayBuffer, together: number, turns = 0) {
    this.buffer = buffer;
    this.together = together;
    this.turns = turns;
  }

  send(
    role: RowWork['role'],
    adds = 0,
    rowsPerAdd = 1,
    together = this.together,
  ): TestThread<RowWork> {
    if (role === 'write') Atomics.add(new Int32Array(this.control), 1, 1);
    if (role !== 'read') this.#writers++;
    const writer = this.#writers;
    return new TestThread<RowWork>(new URL('./row-worker.js', import.meta.url), {
      shared: this.buffer.share(),
      control: this.control,
      role,
      together,
      writer,
      adds,
      rowsPerAdd,
      turns: this.turns,
    });
  }
}

function checkAll(buffer: ReplayBuffer): void {
  const indices = Uint32Array.from({ length: buffer.size }, (_, i) => i);
  expect(fault(buffer.gather(indices, new Uint32Array(buffer.size * WORDS)))).to.equal(null);
}

describe('ReplayBuffer in several threads', () => {
  for (const [capacity, rowsPerAdd] of [
    [1, 1],
    [2, 1],
    [3, 2],
    [7, 3],
    [7, 7],
    [100, 40],
  ] as const) {
    ([1, 100].includes(capacity) ? it : itAll)(
      `keeps every row whole: 2 writers of ${rowsPerAdd}, 1 reader, capacity ${capacity}`,
      async () => {
        using buffer = ReplayBuffer.create({ capacity, fields });
        const threads = new RowThreads(buffer, 3, 20);
        const adds = Math.ceil(24_000 / rowsPerAdd);
        const writers = [
          threads.send('write', adds, rowsPerAdd),
          threads.send('write', adds, rowsPerAdd),
        ];
        const reader = threads.send('read');
        const [first, second, reading] = await Promise.all([
          writers[0]!.result<number>(),
          writers[1]!.result<number>(),
          reader.result<Reading>(),
        ]);
        expect(reading.wrong).to.equal(null);
        expect(reading.checked, 'the reader has checked rows').to.be.greaterThan(0);
        expect(Math.min(first, second)).to.be.at.least(adds * rowsPerAdd);
        expect(buffer.ptr).to.equal(first + second);
        checkAll(buffer);
      },
    );
  }

  it('gives readers only written rows below ptr before the first wrap: 3 writers, 1 reader', async () => {
    using buffer = ReplayBuffer.create({ capacity: 3 * 500 * 5, fields });
    const threads = new RowThreads(buffer, 4);
    const writers = [5, 5, 5].map((rows) => threads.send('write', 500, rows).result());
    const reading = await threads.send('read').result<Reading>();
    await Promise.all(writers);
    expect(reading.wrong).to.equal(null);
    expect(buffer.ptr).to.equal(buffer.capacity);
    checkAll(buffer);
  });

  itAll('keeps rows whole and other writers running when a writer is terminated', async () => {
    using buffer = ReplayBuffer.create({ capacity: 7, fields });
    const threads = new RowThreads(buffer, 2);
    const survivor = threads.send('write', 60_000, 1).result();
    const reading = threads.send('read').result<Reading>();
    const bell = internalsOfBuffer(buffer).bells.claim()!;
    const alive = setInterval(() => {}, 1000); // waitAsync alone does not keep the process alive
    for (let round = 0; round < 8; round++) {
      const victim = threads.send('write for ever', 0, 1 + (round % 3), 0);
      await once(victim.worker, 'online');
      // Terminates the victim after a few adds, when it probably writes. The adds may be the
      // survivor's.
      for (let rings = 0; rings < 5; rings++) {
        const seen = bell.read();
        if (Atomics.load(new Int32Array(threads.control), 1) === 0) break;
        await bell.parkAsync(seen, 100);
      }
      await victim.terminate();
    }
    clearInterval(alive);
    expect(await survivor).to.equal(60_000);
    expect((await reading).wrong).to.equal(null);
    const before = buffer.ptr;
    buffer.add(checkedRows(99, 1, 7));
    expect(buffer.ptr, 'no reservation was left open').to.equal(before + 7);
    checkAll(buffer);
  });
});
