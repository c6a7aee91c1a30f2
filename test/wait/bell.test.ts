/**
 * Tests bells. If a bell rings between a waiter's read() and its park(), the waiter wakes, in one
 * thread and between two.
 */
import { expect } from 'chai';
import { newPoller } from '../../src/device/transfer/native.ts';
import { openDevice } from '../../src/index.ts';
import { BELL_WORDS, Bell, BellBoard } from '../../src/shm/bell.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { Answering } from './bell-worker.ts';

function board(count: number): BellBoard {
  return new BellBoard(new Int32Array(new SharedArrayBuffer(count * BELL_WORDS * 4)), count);
}

describe('Bell and BellBoard', () => {
  it('park() returns true when the bell rang after read()', () => {
    const bell = board(1).at(0);
    const seen = bell.read();
    bell.ring();
    expect(bell.park(seen, 10_000)).to.equal(true);
  });

  it('park() returns false after its timeout', () => {
    const bell = board(1).at(0);
    expect(bell.park(bell.read(), 1)).to.equal(false);
  });

  it('spin() returns true if the bell has rung, and false after its time', () => {
    const bell = board(1).at(0);
    const seen = bell.read();
    const begin = performance.now();
    expect(bell.spin(seen, 2)).to.equal(false);
    expect(performance.now() - begin).to.be.at.least(2);
    expect(bell.spin(seen, 0)).to.equal(false);
    bell.ring();
    expect(bell.spin(seen, 0)).to.equal(true);
    expect(bell.spin(seen, 1e9)).to.equal(true);
  });

  it('at() returns bells that are 64 bytes apart', () => {
    const bells = board(2);
    expect(bells.at(1).words.byteOffset - bells.at(0).words.byteOffset).to.equal(64);
  });

  it('ring() wakes several asynchronous waiters of one thread', async () => {
    const bell = board(1).at(0);
    const seen = bell.read();
    const hold = setInterval(() => {}, 1000);
    const waiting = Promise.all([bell.parkAsync(seen, 10_000), bell.parkAsync(seen, 10_000)]);
    bell.ring();
    expect(await waiting).to.deep.equal([true, true]);
    clearInterval(hold);
  });

  for (const [sleeper, sleeps] of [
    [
      'poller.wait()',
      (bell: Bell, seen: number) => {
        using device = openDevice('host:0');
        const [watch, times] = [new Int32Array(1), new Float64Array(1)];
        const options = {
          device: device.handle,
          events: [],
          watch,
          times,
          bell: bell.words,
          spinNs: 0,
        };
        const poller = newPoller({ ...options, sleepNs: 1_000_000 });
        poller.wait(seen, 1);
        poller.close();
      },
    ],
    ['parkNative()', (bell: Bell, seen: number) => bell.parkNative(seen, 1)],
  ] as const) {
    it(`ring() wakes an asynchronous waiter after its thread slept in ${sleeper}`, async () => {
      const bell = board(1).at(0);
      const seen = bell.read();
      const hold = setInterval(() => {}, 1000);
      const waiting = bell.parkAsync(seen, 600_000);
      sleeps(bell, seen);
      bell.ring();
      expect(await waiting).to.equal(true);
      clearInterval(hold);
    });
  }

  it('claim() returns free bells, null when all are taken, and a released bell again', () => {
    const bells = board(2);
    const first = bells.claim() as Bell;
    expect((bells.claim() as Bell).index).to.equal(1);
    expect(bells.claim()).to.equal(null);
    bells.release(first);
    expect((bells.claim() as Bell).index).to.equal(0);
  });

  for (const [sleeper, looks] of [
    ['javascript', false],
    ['native', false],
    ['javascript', true],
  ] as const) {
    const title = looks ? 'spin() sees each ring' : 'parkAsync() loses no wake';
    it(`${title} when the other thread sleeps in ${sleeper} code`, async () => {
      const rounds = 3000;
      const words = new Int32Array(new SharedArrayBuffer((2 * BELL_WORDS + 16) * 4));
      const other = new TestThread<Answering>(new URL('./bell-worker.js', import.meta.url), {
        words,
        rounds,
        sleeper,
      });
      const [mine, theirs, turn] = [new Bell(words, 0), new Bell(words, 1), 2 * BELL_WORDS];
      const hold = setInterval(() => {}, 1000);
      for (let round = 1; round <= rounds; round++) {
        Atomics.store(words, turn, 2 * round - 1);
        theirs.ring();
        for (;;) {
          const seen = mine.read();
          if (Atomics.load(words, turn) === 2 * round) break;
          // After a lost wake, parkAsync() takes 15 s and fails the assertion. spin() takes 1 s, so
          // lost wakes exceed the test's time limit.
          if (looks) mine.spin(seen, 1000);
          else expect(await mine.parkAsync(seen, 15_000)).to.equal(true);
        }
      }
      clearInterval(hold);
      await other.result();
      expect(Atomics.load(words, turn)).to.equal(2 * rounds);
    });
  }
});
