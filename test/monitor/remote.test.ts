/**
 * Tests how the live page, /metrics and TensorBoard report a thousand remote hosts. Markup in the
 * hosts' names must have no effect.
 */
import { expect } from 'chai';
import { tensorBoard } from '../../src/entries/monitor.ts';
import { closeAll } from '../pipeline/fixture.ts';
import { until } from '../rig/until.ts';
import { distant, distantly, EVIL, thousand } from './distant.ts';
import { curve, readFolder } from './event-reader.ts';
import { readExposition } from './exposition.ts';
import { place, removeAll } from './folder.ts';
import { counting, endAll, listening, parsed, served } from './serving.ts';

describe('monitoring of remote collectors', () => {
  afterEach(async () => {
    await endAll();
    await closeAll();
    removeAll();
  });

  it('serveMonitor() sends fifty of a thousand hosts, failed and silent hosts first, and row rates', async () => {
    const collectors = distant(thousand());
    const { port, url } = await served({ pipeline: await counting(), collectors });
    const heard = listening(port);
    await until('the page is told', () => heard.events.length > 0);
    const [{ remote, collectors: sums, whoWaits }] = parsed(heard);
    expect(sums).to.include({ steps: 1000, episodes: 10, meanReturn: 7.5, failure: null });
    expect(sums.workers).to.deep.equal([]);
    expect(remote.hosts.map(({ state }: { state: string }) => state)).to.deep.equal([
      'failed',
      'silent',
      'silent',
      'silent',
      ...Array.from({ length: 46 }, () => 'live'),
    ]);
    expect(remote.more).to.equal(950);
    expect(remote.states).to.deep.equal({ failed: 1, refused: 0, silent: 3, live: 986, ended: 10 });
    expect(remote.hosts[0].host).to.equal(EVIL);
    expect(remote.hosts[1].host).to.have.length(200);
    expect(remote).to.deep.include({
      duplicates: 12,
      lost: 0,
      stale: 0,
      rowsPerSecond: 12_345.6,
      connected: true,
    });
    expect(remote.lag).to.deep.equal({ p50: 1.25, p99: 18 });
    expect(whoWaits).to.equal(
      'No tick has ended yet. On other machines: 1000 hosts, 3 silent for 14 s.',
    );
    expect(heard.events[0]?.data.length).to.be.below(60_000);
    collectors.failure = new Error('another learner has the run');
    collectors.now = distantly({ connected: false, waitingFor: null, hosts: [] });
    await until('the failure is told', () => parsed(heard).at(-1).collectors.failure !== null);
    const last = parsed(heard).at(-1);
    expect(last.collectors.failure).to.equal('another learner has the run');
    expect([last.remote.hosts, last.whoWaits]).to.deep.equal([[], 'No tick has ended yet.']);
    const metrics = readExposition(await (await fetch(`${url}metrics`)).text());
    expect(metrics.get('hotslot_remote_connected')?.samples).to.deep.equal([
      { labels: {}, value: 0 },
    ]);
  });

  it('/metrics has figures for Prometheus without any name that a host chose', async () => {
    const { url } = await served({ pipeline: await counting(), collectors: distant(thousand()) });
    const text = await (await fetch(`${url}metrics`)).text();
    const metrics = readExposition(text);
    const samples = (name: string) => metrics.get(`hotslot_remote_${name}`)?.samples;
    expect(samples('hosts')).to.deep.equal([
      { labels: { state: 'failed' }, value: 1 },
      { labels: { state: 'refused' }, value: 0 },
      { labels: { state: 'silent' }, value: 3 },
      { labels: { state: 'live' }, value: 986 },
      { labels: { state: 'ended' }, value: 10 },
    ]);
    expect(samples('lag_seconds')).to.deep.equal([
      { labels: { quantile: '0.5' }, value: 1.25e-3 },
      { labels: { quantile: '0.99' }, value: 0.018 },
    ]);
    const one = (name: string) => samples(name)?.[0]?.value;
    expect([one('rows_total'), one('steps_total'), one('episodes_total')]).to.deep.equal([
      5_600_000, 1000, 10,
    ]);
    expect([one('duplicates_total'), one('gaps_total'), one('refused_total')]).to.deep.equal([
      12, 3, 1,
    ]);
    expect([one('lost_rows_total'), one('stale_rows_total')]).to.deep.equal([0, 0]);
    expect([one('rows_per_second'), one('bytes_per_second'), one('connected')]).to.deep.equal([
      12_345.6, 2_123_443, 1,
    ]);
    expect([one('limiter_share'), one('window_full_share')]).to.deep.equal([0.12, 0.034]);
    for (const [name, { type, help }] of metrics) {
      expect([name, type]).to.deep.equal([name, name.endsWith('_total') ? 'counter' : 'gauge']);
      expect(help).to.match(/\.$/);
    }
    expect(text).to.not.include('worker-');
    expect(text).to.not.include('<img');
    // A lag that was not measured has no sample.
    const none = distant(distantly({ lag: { p50: null, p99: null } }));
    const other = await served({ pipeline: await counting(), collectors: none });
    expect(await (await fetch(`${other.url}metrics`)).text()).to.not.include(
      'hotslot_remote_lag_seconds',
    );
  });

  it('tensorBoard() writes the mean return of episodes and speeds', async () => {
    const folder = place();
    const board = tensorBoard(folder);
    const collectors = distant();
    const stop = board.listen({ collectors });
    collectors.steps = 3000;
    collectors.episodes = 30;
    collectors.now = distantly({ rows: collectors.now.rows + 500 });
    stop();
    await board.close();
    const scalars = readFolder(folder);
    expect(curve(scalars, 'episodes/return')).to.deep.equal([[3000, 7.5]]);
    for (const tag of ['speed/steps_per_second', 'speed/rows_per_second'])
      expect(curve(scalars, tag).map(([step, speed]) => [step, speed > 0])).to.deep.equal([
        [3000, true],
      ]);
    expect(new Set(scalars.map(({ tag }) => tag)).size).to.equal(3);
  });
});
