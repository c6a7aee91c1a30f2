/** What is told of hosts while a thread of the learner's has another in its place: what only grows never falls. */
import { expect } from 'chai';
import type { RemoteReport } from '../../src/remote/remote-thread.ts';
import { Reports } from '../../src/remote/reports.ts';

const counts = { messages: 0, rows: 0, bytes: 0, duplicates: 0, gaps: 0, stale: 0, refused: 0 };

function report(steps: number, { looked = true, rows = 0, recent = 0 } = {}): RemoteReport {
  const none = { waits: 0, version: 3, full: 0, underWay: 0 };
  return {
    ...{ counts: { ...counts, rows }, gatedMs: 0, connected: true, hosts: [] },
    ...{ lags: new Float64Array(), behind: new Float64Array() },
    sums: { ...none, looked, steps, episodes: steps / 10, recent, returns: 5 * recent },
  };
}

describe('remote/reports', () => {
  it('go on from what the thread before knew of hosts that have gone', () => {
    const reports = new Reports(2, () => 0);
    const told = () => {
      const { steps, episodes, rows, meanReturn } = reports.statistics();
      return { steps, episodes, rows, meanReturn };
    };
    reports.take(1, report(1000, { rows: 7, recent: 1 }));
    reports.take(0, report(500, { rows: 5, recent: 1 }));
    expect(told()).to.deep.equal({ steps: 1500, episodes: 150, rows: 12, meanReturn: 5 });
    // 300 of the 500 are of hosts that have gone. Between the threads, and until the next one has asked all hosts, that holds.
    for (let replaced = 1; replaced <= 2; replaced++) {
      const before = told();
      reports.ended(0);
      expect(told()).to.deep.equal(before);
      reports.take(0, report(0, { looked: false }));
      expect(told()).to.deep.equal(before);
      reports.ended(0);
      expect(told()).to.deep.equal(before);
      reports.take(0, report(200, { rows: 0, recent: 1 }));
      expect(told()).to.deep.equal(before);
    }
    reports.take(0, report(260, { rows: 3, recent: 1 }));
    expect(told()).to.deep.equal({ steps: 1560, episodes: 156, rows: 15, meanReturn: 5 });
    reports.close();
  });
});
