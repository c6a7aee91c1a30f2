/**
 * Tests waitFor() and waitForSync(): the order of checks and parks, and how a wait ends. test/halo
 * tests the parks of the blocking form, in a worker.
 */
import { expect } from 'chai';
import { BELL_WORDS, Bell } from '../../src/shm/bell.ts';
import { Deadline, waitFor, waitForSync } from '../../src/shm/wait.ts';
import { refusal, rejection } from '../rig/refusal.ts';

const newBell = () => new Bell(new Int32Array(new SharedArrayBuffer(BELL_WORDS * 4)));
/** Returns a park() that never sleeps, and a list of whether the bell had rung at each call. */
function noted(bell: Bell) {
  const rung: boolean[] = [];
  return { rung, park: async (seen: number) => void rung.push(bell.read() !== seen) };
}

describe('waitFor() and waitForSync()', () => {
  it('waitFor() passes the count from before the check to park(), and checks again afterwards', async () => {
    const bell = newBell();
    const { rung, park } = noted(bell);
    let looks = 0;
    const look = () => {
      if (++looks === 1) bell.ring();
      return looks === 2;
    };
    expect(await waitFor(bell, look, { park })).to.equal(true);
    expect([looks, rung]).to.deep.equal([2, [true]]);
  });

  it('waitFor() checks once more after the last park, and resolves to false at the timeout', async () => {
    const bell = newBell();
    let so = false;
    const park = async (_: number, left: number) => {
      for (const end = new Deadline(left); end.left > 0; );
      so = true;
    };
    // Long enough even if the system interrupts this thread before the park.
    expect(await waitFor(bell, () => so, { timeoutMs: 100, park })).to.equal(true);
    expect(await waitFor(bell, () => false, { timeoutMs: 2 })).to.equal(false);
    expect(await waitFor(bell, () => false, { timeoutMs: 0 })).to.equal(false);
    expect(await waitFor(bell, () => true, { timeoutMs: 0 })).to.equal(true);
  });

  it("waitFor() checks again without a park after 'again', and the event loop still turns", async () => {
    const bell = newBell();
    const { rung, park } = noted(bell);
    let turned = false;
    setImmediate(() => {
      turned = true;
    });
    expect(await waitFor(bell, () => turned || 'again', { park })).to.equal(true);
    expect(rung).to.deep.equal([]);
  });

  it('waitFor() rejects with the reason of an abort that comes during a check or a park', async () => {
    const bell = newBell();
    const reason = new Error('enough');
    for (const during of [true, false]) {
      const aborter = new AbortController();
      const look = () => {
        if (during) aborter.abort(reason);
        else setImmediate(() => aborter.abort(reason));
        return false;
      };
      expect(
        await rejection(waitFor(bell, look, { signal: aborter.signal, longestMs: 60_000 })),
      ).to.equal(reason);
    }
  });

  it('waitForSync() on the main thread throws with the alternative if a wait is needed', () => {
    const bell = newBell();
    expect(waitForSync(bell, () => true, { instead: 'it()' })).to.equal(true);
    expect(waitForSync(bell, () => false, { instead: 'it()', timeoutMs: 0 })).to.equal(false);
    const { code, message } = refusal(() => waitForSync(bell, () => false, { instead: 'it()' }));
    expect([code, message]).to.deep.equal([
      'ERR_HOTSLOT_STATE_MAIN_THREAD',
      'the main thread never blocks: await it() instead',
    ]);
  });
});
