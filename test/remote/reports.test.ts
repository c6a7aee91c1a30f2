/**
 * Tests the statistics of hosts while a thread of the learner is replaced. Counts that only grow
 * must not fall.
 */
import { expect } from 'chai';
import type { RemoteReport } from '../../src/net/remote/remote-thread.ts';
import { Reports } from '../../src/net/remote/reports.ts';

const counts = { messages: 0, rows: 0, bytes: 0, duplicates: 0, gaps: 0, stale: 0, refused: 0 };

/** Creates a report. `steps` are the steps by session. */
function report(
  steps: Record<number, number>,
  { looked = true, rows = 0, recent = 0 } = {},
): RemoteReport {
  const none = { version: 3, full: 0, underWay: 0 };
  const counted = Object.entries(steps).flatMap(([session, some]) => [
    Number(session),
    some,
    some / 10,
    2 * some,
  ]);
  return {
    counts: { ...counts, rows },
    gatedMs: 0,
    connected: true,
    hosts: [],
    lags: new Float64Array(),
    behind: new Float64Array(),
    sums: { ...none, looked, counted: Float64Array.from(counted), recent, returns: 5 * recent },
  };
}

describe('Reports', () => {
  const watched = (shards: number) => {
    const reports = new Reports(shards, () => 0);
    const told = () => {
      const { steps, episodes, waits, rows, meanReturn } = reports.statistics();
      expect([episodes, waits]).to.deep.equal([steps / 10, 2 * steps]);
      return { steps, rows, meanReturn };
    };
    return { reports, told };
  };

  it('keeps the counts of hosts that have left when a thread is replaced', () => {
    const { reports, told } = watched(2);
    reports.take(1, report({ 7: 1000 }, { rows: 7, recent: 1 }));
    reports.take(0, report({ 1: 300, 2: 200 }, { rows: 5, recent: 1 }));
    expect(told()).to.deep.equal({ steps: 1500, rows: 12, meanReturn: 5 });
    // Session 1 with 300 steps has left. The counts must stay between the threads, and until the
    // next thread has asked all hosts.
    for (let replaced = 1; replaced <= 2; replaced++) {
      const before = told();
      reports.ended(0);
      expect(told()).to.deep.equal(before);
      reports.take(0, report({}, { looked: false }));
      expect(told()).to.deep.equal(before);
      reports.ended(0);
      expect(told()).to.deep.equal(before);
      reports.take(0, report({ 2: 200 }, { rows: 0, recent: 1 }));
      expect(told()).to.deep.equal(before);
    }
    reports.take(0, report({ 2: 260 }, { rows: 3, recent: 1 }));
    expect(told()).to.deep.equal({ steps: 1560, rows: 15, meanReturn: 5 });
    reports.close();
  });

  it('counts each host once when the next thread cannot read a host at first', () => {
    const { reports, told } = watched(1);
    // Session 1 has left, session 2 continues, and session 3 cannot be reached.
    reports.take(0, report({ 1: 300, 2: 1000, 3: 500 }, { recent: 1 }));
    reports.ended(0);
    reports.take(0, report({ 2: 1500 }, { recent: 1 }));
    expect(told().steps).to.equal(2300);
    reports.take(0, report({ 2: 1500, 3: 520 }, { recent: 1 }));
    expect(told().steps).to.equal(2320);
    reports.ended(0);
    expect(told().steps).to.equal(2320);
    reports.close();
  });
});
