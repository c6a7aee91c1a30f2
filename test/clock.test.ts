/** Tests timers of any length. Node itself fires a timer of more than 2^31 − 1 ms after 1 ms. */
import { expect } from 'chai';
import { callAfter } from '../src/base/clock.ts';
import { LongTimers } from './rig/long-timers.ts';

const MAX_TIMER_MS = 2 ** 31 - 1;

describe('callAfter()', () => {
  it('calls the function once after several timers if the time exceeds 2³¹ − 1 ms', () => {
    using timers = new LongTimers();
    let calls = 0;
    callAfter(2.5 * MAX_TIMER_MS, () => calls++);
    for (const piece of [MAX_TIMER_MS, MAX_TIMER_MS, MAX_TIMER_MS / 2]) {
      expect([timers.delays.at(-1), calls]).to.deep.equal([piece, 0]);
      expect(timers.fire()).to.equal(1);
    }
    expect([calls, timers.fire(), timers.delays.length]).to.deep.equal([1, 0, 3]);
  });

  it('arms one timer for 2³¹ − 1 ms', () => {
    using timers = new LongTimers();
    let calls = 0;
    callAfter(MAX_TIMER_MS, () => calls++);
    timers.fire();
    expect([calls, timers.delays]).to.deep.equal([1, [MAX_TIMER_MS]]);
  });

  it('arms no timer for Infinity', () => {
    using timers = new LongTimers();
    const timer = callAfter(Number.POSITIVE_INFINITY, () => {});
    expect(timers.delays).to.deep.equal([]);
    timer.cancel();
  });

  it('never calls the function after cancel() or disposal', () => {
    using timers = new LongTimers();
    let calls = 0;
    const timer = callAfter(1.5 * MAX_TIMER_MS, () => calls++);
    timers.fire();
    timer.cancel();
    expect(timers.fire()).to.equal(0);
    {
      using _ = callAfter(MAX_TIMER_MS, () => calls++);
    }
    expect([timers.fire(), calls]).to.deep.equal([0, 0]);
  });

  it('calls the function after a short time', (done) => {
    callAfter(1, done);
  });
});
