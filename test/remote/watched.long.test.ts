/**
 * Tests how remote collectors appear in a pipeline's texts, on the monitor's page and in traces,
 * and that no secret appears there.
 */
import { expect } from 'chai';
import { CollectorHost, RemoteCollectors } from '../../src/entries/remote.ts';
import { RateLimiter, ReplayBuffer } from '../../src/index.ts';
import { listening, parsed, served, endAll as unlook } from '../monitor/serving.ts';
import { closeAll, pipeline } from '../pipeline/fixture.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { needServer, startServer, type TestServer } from './server.ts';

const entry = new URL('../collectors/plain-collector.js', import.meta.url);
const SECRET = 'nobody-may-read-this';

interface Event {
  name: string;
  tid: number;
  ts: number;
  dur: number;
  args: { name?: string; rows?: number; messages: number; bytes: number };
}

describe('remote collectors in a pipeline and on the monitor', () => {
  let server: TestServer;
  const closers: (() => Promise<unknown>)[] = [];
  before(async function () {
    needServer(this);
    server = await startServer({ acl: ['default off', `ann on >${SECRET} ~* &* +@all`] });
  });
  afterEach(async () => {
    await unlook();
    for (const close of closers.splice(0).reverse()) await close();
    await closeAll();
  });
  after(() => server?.stop());

  itAll(
    'waitingFor(), the live page and the trace show hosts and rows without the password',
    async () => {
      const limiter = RateLimiter.create({ samplesPerInsert: 1, minSize: 64, errorBuffer: 5000 });
      const buffer = ReplayBuffer.create({
        capacity: 4096,
        fields: { value: { shape: [2] } },
        limiter,
      });
      const reach = {
        url: `${server.url.replace('://', '://ann@')}`,
        password: SECRET,
        run: 'watched',
      };
      const remote = await RemoteCollectors.open({ ...reach, buffer });
      closers.push(() => remote.close());
      const made = await pipeline({ buffer, sampleCount: 8 });
      made.capture(() => {});
      const { port, url } = await served({ pipeline: made, collectors: remote });
      const stop = new AbortController();
      const running = made.run({ signal: stop.signal });
      closers.push(() => running.catch(() => {}));
      closers.push(async () => stop.abort());
      const nobody = 'rows: 0 were added so far; rows: no collector host has connected yet';
      await until('the pipeline says that nobody has come', () => made.waitingFor() === nobody);
      const heard = listening(port);
      await until('so does the page', () => parsed(heard).at(-1)?.waitingFor === nobody);
      expect(parsed(heard).at(-1).remote).to.deep.include({
        hosts: [],
        more: 0,
        connected: true,
        rows: 0,
      });
      const asked = fetch(`${url}trace?seconds=2`).then((answer) => answer.text());
      const host = await CollectorHost.open({ ...reach, entry, name: 'box' });
      closers.push(() => host.close());
      await until(
        'the host is on the page',
        () => parsed(heard).at(-1).remote.hosts[0]?.host === 'box',
      );
      await until('its rows too', () => parsed(heard).at(-1).remote.hosts[0].rows >= 64);
      const [now] = parsed(heard).at(-1).remote.hosts;
      expect(now).to.include({ state: 'live', why: '', workers: 1 });
      expect(parsed(heard).at(-1).collectors.workers).to.deep.equal([]);
      await host.close();
      await until('it has left', () => parsed(heard).at(-1).remote.states.ended === 1);
      const text = await asked;
      const { traceEvents } = JSON.parse(text) as { traceEvents: Event[] };
      const track = traceEvents.find(
        ({ name, args }) => name === 'thread_name' && args.name === 'remote 0',
      );
      const named = (wanted: string) => traceEvents.filter(({ name }) => name === wanted);
      const [reads, commits] = [named('remote/read'), named('remote/commit')];
      for (const { tid, dur } of [...reads, ...commits])
        expect([tid, dur >= 0]).to.deep.equal([track?.tid, true]);
      const rows = commits.reduce((sum, { args }) => sum + (args.rows as number), 0);
      expect(rows).to.be.within(64, remote.statistics().rows);
      expect(commits.reduce((sum, { args }) => sum + args.bytes, 0)).to.equal(8 * rows);
      expect(reads.some(({ args }) => args.messages > 0 && args.bytes > 0)).to.equal(true);
      // By the clock of the ticks, rows were read before they were committed, and no batch was
      // packed before that.
      const first = Math.min(...commits.filter(({ args }) => args.rows! > 0).map(({ ts }) => ts));
      expect(Math.min(...reads.map(({ ts }) => ts))).to.be.below(first);
      expect(Math.min(...named('pack').map(({ ts }) => ts))).to.be.above(first);
      const all = [
        text,
        await (await fetch(`${url}metrics`)).text(),
        ...heard.events.map(({ data }) => data),
      ];
      for (const each of all) expect(each).to.not.include(SECRET);
      await remote.close();
      expect(made.waitingFor()).to.not.include('rows:');
    },
  );
});
