/**
 * Tests that each bell of a board belongs to one thread at a time, and that a terminated thread
 * releases its bell.
 */
import { expect } from 'chai';
import { BELL_WORDS, type Bell, BellBoard } from '../../src/shm/bell.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { Seat } from './seat-worker.ts';

const deaths = setting({ short: 3, all: 20, long: 1000 });

describe('BellBoard.claim() across threads', () => {
  const seated = (board: BellBoard, giveBack = false) =>
    new TestThread<Seat>(new URL('./seat-worker.js', import.meta.url), {
      words: board.words,
      count: board.count,
      giveBack,
    });
  const boardOf = (count: number) =>
    new BellBoard(new Int32Array(new SharedArrayBuffer(count * BELL_WORDS * 4)), count);

  itLonger('gives the bell of a terminated thread to the next thread', async () => {
    const board = boardOf(1);
    for (let death = 0; death < deaths; death++) {
      const thread = seated(board);
      expect(await thread.next()).to.equal(0);
      expect(board.claim()).to.equal(null);
      await thread.terminate();
    }
    expect((board.claim() as Bell).index).to.equal(0);
  }).timeout(300_000);

  it('keeps a claim when an earlier owner of the bell ends or releases the bell again', async () => {
    const board = boardOf(1);
    const first = seated(board, true);
    expect(await first.next()).to.equal(0);
    const mine = board.claim() as Bell;
    expect(mine.index).to.equal(0);
    await first.terminate();
    expect(board.claim()).to.equal(null);
    board.release(mine);
    const next = seated(board);
    expect(await next.next()).to.equal(0);
    // `mine` was already released, and the bell now belongs to another thread.
    board.release(mine);
    expect(board.claim()).to.equal(null);
    await next.terminate();
  });

  it('gives each bell to one thread when five threads claim two bells at once', async () => {
    const board = boardOf(2);
    const threads = Array.from({ length: 5 }, () => seated(board));
    const places = await Promise.all(threads.map((thread) => thread.next<number | null>()));
    expect(places.filter((place) => place !== null).sort()).to.deep.equal([0, 1]);
    await Promise.all(threads.map((thread) => thread.terminate()));
    expect([board.claim(), board.claim()]).to.not.include(null);
  });
});
