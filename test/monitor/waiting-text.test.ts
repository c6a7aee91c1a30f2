/**
 * Tests that a Curve keeps few points, and that whoWaits() says in one sentence which part waits
 * for which.
 */
import { expect } from 'chai';
import { Curve, MAX_POINTS } from '../../src/net/monitor/curve.ts';
import { duration, whoWaits } from '../../src/net/monitor/waiting-text.ts';

const times = (given: Record<string, number>) =>
  Object.fromEntries(
    ['queued', 'pack', 'submit', 'copy', 'hot', 'launch', 'learn', 'total'].map((name) => {
      const p50 = given[name] ?? 1e-6;
      return [name, { p50, p90: 2 * p50 }];
    }),
  );
const said = (given: Record<string, number>, more: object = {}) =>
  whoWaits({ stages: times(given), waitingFor: 'nothing', free: 0, heldBack: 0, ...more });

describe('Curve and whoWaits()', () => {
  it('Curve keeps its first point and means of later values in fewer than MAX_POINTS points', () => {
    const curve = new Curve();
    const n = 100_000;
    for (let i = 0; i < n; i++) {
      curve.add(i, i, i);
      expect(curve.points.length).to.be.below(MAX_POINTS);
    }
    const { points } = curve;
    expect(points[0]).to.deep.equal([0, 0, 0]);
    expect(points.length).to.be.at.least(MAX_POINTS / 4);
    expect(points.at(-1)?.[1]).to.be.within(n - 1024, n - 1);
    for (const [i, [seconds, step, value]] of points.entries()) {
      expect(seconds).to.be.closeTo(step, 1e-5 * n);
      expect(value).to.be.within(step - 1024, step);
      if (i > 0) expect(step).to.be.above(points[i - 1]?.[1] as number);
    }
    expect([curve.latest, curve.thinned > 5]).to.deep.equal([n - 1, true]);
  });

  it('Curve stores a non-finite value as null', () => {
    const curve = new Curve();
    for (const value of [1, Number.NaN, 2, Number.POSITIVE_INFINITY, 3]) curve.add(0, 0, value);
    expect(curve.points.map(([, , value]) => value)).to.deep.equal([1, null, 2, null, 3]);
  });

  it('whoWaits() states who waits for whom by the longest stage', () => {
    expect(whoWaits({ stages: null, waitingFor: 'nothing', free: 1, heldBack: 0 })).to.equal(
      'No tick has ended yet.',
    );
    expect(said({ hot: 3e-3, learn: 1e-3, total: 5e-3 })).to.equal(
      'Batches wait for the learner: of the 5.0 ms from request to end, 4.0 ms are its queue and its update.',
    );
    expect(said({ pack: 2e-3, total: 2.5e-3 })).to.match(
      /^The learner waits for batches: .* packing the rows takes 2\.0 ms\.$/,
    );
    expect(said({ copy: 2, total: 3 })).to.match(
      /^The learner waits for batches: .* the copy to the device takes 2\.0 s\.$/,
    );
    expect(said({ learn: 1e-3, total: 2e-3 }, { waitingFor: '12 more rows', free: 0.75 })).to.equal(
      'The learner waits: 75 % of the slots are free, since batches wait for 12 more rows.',
    );
    expect(said({ learn: 1e-3 }, { heldBack: 3 })).to.match(
      /Collectors wait too: the limiter holds them back\.$/,
    );
    expect([3e-7, 1.5e-4, 0.25, 12].map(duration)).to.deep.equal([
      '0.30 µs',
      '150 µs',
      '250 ms',
      '12 s',
    ]);
  });
});
