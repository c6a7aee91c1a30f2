/**
 * Tests the live page's server: what it sends, which requests it rejects, and that no client can
 * disturb the run.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { EventEmitter } from 'eventemitter3';
import { serveMonitor, type WatchedSave } from '../../src/entries/monitor.ts';
import { CollectorPool, openDevice, ReplayBuffer } from '../../src/index.ts';
import { closeAll } from '../pipeline/fixture.ts';
import { workersOf } from '../pipeline/inside.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { readExposition } from './exposition.ts';
import { warningsOf } from './folder.ts';
import { atEnd, counting, endAll, listening, parsed, raw, running, served } from './serving.ts';

const get = (port: number, path: string, host = `127.0.0.1:${port}`) =>
  raw(port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
const status = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);

const entry = new URL('../collectors/plain-collector.js', import.meta.url);
async function pool(): Promise<CollectorPool> {
  const buffer = ReplayBuffer.create({ capacity: 4096, fields: { value: { shape: [2] } } });
  const made = await CollectorPool.open({ entry, buffer, options: { calm: true }, workers: 2 });
  atEnd(() => made.close());
  return made;
}

describe('serveMonitor()', () => {
  afterEach(async () => {
    await endAll();
    await closeAll();
  });

  it('sends state, slots, stages, curves, collectors and devices of a run as server-sent events', async () => {
    const made = await counting();
    const collectors = await pool();
    const monitor = await served({ pipeline: made, collectors, title: 'A run' });
    expect(monitor.url).to.equal(`http://127.0.0.1:${monitor.port}/`);
    const stop = running(made);
    const heard = listening(monitor.port);
    const grown = () => {
      const all = parsed(heard).map(({ curves }) => curves['train/count']);
      return all.filter((part) => part !== undefined).length >= 2;
    };
    await until('the curve of the count has grown twice', grown);
    // On a busy machine, a collector's thread may start late.
    const stepped = () =>
      parsed(heard)
        .at(-1)
        .collectors.workers.map((each: { steps: number }) => each.steps);
    await until('both collectors have stepped', () => Math.min(...stepped()) > 0);
    await until('the run moves', () => parsed(heard).at(-1).updatesPerSecond > 0);
    expect(monitor.clients).to.equal(1);
    expect(heard.head)
      .to.match(/^HTTP\/1\.1 200 OK\r\n/)
      .and.match(/content-type: text\/event-stream; charset=utf-8/i);
    const [first, ...rest] = parsed(heard);
    expect(first.facts).to.include({
      title: 'A run',
      ringDepth: 4,
      device: made.transferManifest.device,
    });
    expect(rest.some(({ facts }) => facts !== undefined)).to.equal(false);
    const last = rest.at(-1);
    expect(last.state).to.equal('running');
    expect(last.finished).to.be.above(0);
    expect(last.updatesPerSecond).to.be.above(0);
    expect(last.whoWaits).to.match(/wait/);
    expect(last.slots).to.have.length(4);
    expect(last.stages.total.p50).to.be.within(1e-9, last.stages.total.p90);
    expect(last.collectors.workers.map(({ steps }: { steps: number }) => steps > 0)).to.deep.equal([
      true,
      true,
    ]);
    expect(last.devices[0].memory.total).to.be.above(last.devices[0].memory.free);
    // Each tick's count is its number, so the points show that curves contain the run's ticks in
    // their order.
    const points: number[][] = [];
    for (const { curves } of parsed(heard)) {
      const part = curves['train/count'];
      if (part) points.splice(part.from, points.length, ...part.points);
    }
    const steps = points.map(([, step]) => step as number);
    expect(steps).to.deep.equal([...steps].sort((a, b) => a - b));
    // A point is the mean of the ticks since the point before it.
    for (const [i, [, step = 0, value = 0]] of points.entries())
      expect(value).to.be.within((steps[i - 1] ?? 0) - 64, step + 1);
    await stop();
    await until('the page says that nothing runs', () => parsed(heard).at(-1).state === 'idle');
    await until(
      'its words are the pipeline’s',
      () => parsed(heard).at(-1).waitingFor === made.waitingFor(),
    );
    await made.close();
    await until('the page says that it is closed', () => parsed(heard).at(-1).state === 'closed');
    heard.socket.destroy();
    await until('the client is gone', () => monitor.clients === 0);
  });

  it('serves the page, which requests nothing from other servers', async () => {
    const { port } = await served({ pipeline: await counting() });
    const page = await fetch(`http://127.0.0.1:${port}/`);
    expect(page.headers.get('content-security-policy')).to.match(
      /^default-src 'none'; script-src 'self';/,
    );
    const texts = [await page.text()];
    for (const [, path = ''] of (texts[0] as string).matchAll(/(?:href|src)="(\/[^"]+)"/g)) {
      const part = await fetch(`http://127.0.0.1:${port}${path}`);
      expect([part.status, path]).to.deep.equal([200, path]);
      texts.push(await part.text());
    }
    for (const text of texts)
      expect(text.replaceAll('http://www.w3.org/2000/svg', '')).to.not.match(/\bhttps?:|["'(]\/\//);
    const folder = fileURLToPath(new URL('../../../src/net/monitor/page', import.meta.url));
    for (const name of readdirSync(folder).filter((each) => /\.(html|css|mjs|svg)$/.test(each))) {
      const found = await fetch(`http://127.0.0.1:${port}/${name === 'page.html' ? '' : name}`);
      expect(await found.text(), name).to.equal(readFileSync(join(folder, name), 'utf8'));
    }
    const head = await fetch(`http://127.0.0.1:${port}/`, { method: 'HEAD' });
    expect([head.status, await head.text()]).to.deep.equal([200, '']);
  });

  it('rejects other Host headers, origins, methods, paths and malformed requests', async () => {
    const { port } = await served({ pipeline: await counting() });
    for (const host of ['127.0.0.1', 'localhost', '[::1]', `LOCALHOST:${port}`, '127.0.0.1:1'])
      expect(status(await get(port, '/metrics', host)), host).to.equal(200);
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1.evil.example',
      'localhost@evil',
      '',
      '[::2]',
      '127.0.0.2',
    ])
      expect(status(await get(port, '/metrics', host)), host).to.equal(403);
    expect(status(await raw(port, 'GET /metrics HTTP/1.0\r\n\r\n'))).to.equal(403);
    const local = `Host: localhost:${port}\r\n`;
    expect(
      status(
        await raw(port, `GET /events HTTP/1.1\r\n${local}Origin: http://evil.example\r\n\r\n`),
      ),
    ).to.equal(403);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
      const answer = await raw(port, `${method} / HTTP/1.1\r\n${local}Content-Length: 0\r\n\r\n`);
      expect([status(answer), /allow: GET, HEAD/i.test(answer)], method).to.deep.equal([405, true]);
    }
    for (const path of [
      '/nothing',
      '/page.html',
      '/../package.json',
      '/%2e%2e/package.json',
      '/toString',
      '//evil.example',
    ])
      expect(status(await get(port, path)), path).to.equal(404);
    for (const wrong of ['0', '61', 'x', '', '-1', '1e9']) {
      const answer = await get(port, `/trace?seconds=${wrong}`);
      expect([status(answer), answer.includes('a number from 1 to 60')], wrong).to.deep.equal([
        400,
        true,
      ]);
    }
    expect(
      status(await raw(port, `GET / HTTP/1.1\r\n${local}X: ${'x'.repeat(20_000)}\r\n\r\n`)),
    ).to.equal(431);
    for (const garbage of ['nonsense\r\n\r\n', '\0\x01\x02\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n'])
      expect(status(await raw(port, garbage)), garbage).to.equal(400);
  });

  it('rejects the 33rd page with status 503, and accepts one after another page has left', async () => {
    const monitor = await served({ pipeline: await counting() });
    const pages = Array.from({ length: 32 }, () => listening(monitor.port));
    await until('32 look', () => pages.every(({ events }) => events.length > 0));
    expect(monitor.clients).to.equal(32);
    const refused = await get(monitor.port, '/events');
    expect(status(refused)).to.equal(503);
    expect(refused)
      .to.match(/retry-after: 5/i)
      .and.include('32 pages are connected');
    pages[0]?.socket.destroy();
    await until('one has gone', () => monitor.clients === 31);
    const next = listening(monitor.port);
    await until('it is told', () => next.events.length > 0);
    // The server sends `bye` to all clients when it closes.
    await monitor.close();
    await until('all have ended', () => [...pages.slice(1), next].every(({ closed }) => closed));
    expect(next.events.at(-1)?.event).to.equal('bye');
    expect((await rejection(fetch(monitor.url))).message).to.include('fetch failed');
    await monitor.close();
  });

  itAll(
    'does not disturb a run when a thousand connections and malformed requests arrive',
    async () => {
      const made = await counting();
      const monitor = await served({ pipeline: made });
      const ticks = 20_000;
      const counts: number[] = [];
      made.on('tick', ({ scalars }) => void counts.push(scalars.count as number));
      const run = made.run({ ticks });
      const sockets = Array.from({ length: 1000 }, (_, i) => {
        const socket = connect(monitor.port, '127.0.0.1');
        socket.on('error', () => {});
        // Half of the connections send something: half a request, a malformed request, bytes, or a
        // complete request.
        if (i % 2)
          socket.write(
            [
              'GET /ev',
              'POST / HTTP/1.1\r\n\r\n',
              '\0\0\0\0',
              'GET /events HTTP/1.1\r\nHost: x\r\n\r\n',
            ][(i >> 1) % 4] ?? '',
          );
        return socket;
      });
      await Promise.all(
        sockets.map(
          (socket) =>
            new Promise((resolve) => socket.once('connect', resolve).once('close', resolve)),
        ),
      );
      const summary = await run;
      expect(summary).to.include({ ticks, aborted: false });
      for (const socket of sockets) socket.destroy();
      // Every update was applied exactly once.
      await made.close();
      expect(counts.at(-1)).to.equal(ticks);
      await until('it answers again', () => monitor.clients === 0);
      const answer = await fetch(`${monitor.url}metrics`);
      expect(answer.status).to.equal(200);
      expect(await answer.text()).to.include(`hotslot_ticks_total ${ticks}\n`);
    },
  );

  it('reports the failure of a pipeline, and run() still rejects', async () => {
    const made = await counting({ placement: 'auto' });
    const monitor = await served({ pipeline: made });
    const heard = listening(monitor.port);
    await until('somebody looks', () => heard.events.length > 0);
    const run = rejection(made.run());
    await until('it runs', () => parsed(heard).at(-1).state === 'running');
    await workersOf(made)[0]?.terminate();
    const error = await run;
    expect(error.code).to.equal('ERR_HOTSLOT_PIPELINE');
    await until('the page says so', () => parsed(heard).at(-1).state === 'failed');
    expect(parsed(heard).at(-1).failure).to.equal(error.message);
    expect(
      readExposition(await (await fetch(`${monitor.url}metrics`)).text()).get('hotslot_failed')
        ?.samples,
    ).to.deep.equal([{ labels: {}, value: 1 }]);
    expect(made.listenerCount('error')).to.equal(0);
    expect(status(await get(monitor.port, '/trace'))).to.equal(409);
    // Closing the pipeline changes nothing for connected pages.
    await made.close();
    const before = heard.events.length;
    await until('the page is told on', () => heard.events.length > before);
    expect(parsed(heard).at(-1).state).to.equal('failed');
  });

  it('serves metrics of the pipeline in the exposition format of Prometheus', async () => {
    const made = await counting({ placement: 'auto' });
    const collectors = await pool();
    const checkpoint = Object.assign(new EventEmitter<{ saved: [WatchedSave]; error: [Error] }>(), {
      folder: 'runs/a "b"\\c',
    });
    const monitor = await served({ pipeline: made, checkpoint });
    monitor.watch({ collectors });
    await made.run({ ticks: 100 });
    // waitingFor() changes shortly after the run has ended.
    await until('nothing is asked', () => made.waitingFor() === 'a request for a tick');
    monitor.scalar('own\n"number"', Number.NaN, 3);
    checkpoint.emit('saved', { save: 1, tick: 50, bytes: 1234, seconds: 0.5 });
    await until('steps are there', () => collectors.statistics().steps > 0);
    const heard = listening(monitor.port);
    await until('the checkpoint is told', () => heard.events.length > 0);
    expect(parsed(heard)[0].checkpoint).to.deep.include({
      folder: 'runs/a "b"\\c',
      count: 1,
      error: null,
    });
    const answer = await fetch(`${monitor.url}metrics`);
    expect(answer.headers.get('content-type')).to.equal('text/plain; version=0.0.4; charset=utf-8');
    const metrics = readExposition(await answer.text());
    const one = (name: string) => metrics.get(`hotslot_${name}`)?.samples[0]?.value;
    expect(one('ticks_total')).to.equal(100);
    expect([one('running'), one('failed'), one('monitor_clients')]).to.deep.equal([0, 0, 1]);
    expect([
      one('checkpoints_total'),
      one('checkpoint_bytes'),
      one('checkpoint_seconds'),
    ]).to.deep.equal([1, 1234, 0.5]);
    expect(
      metrics.get('hotslot_slots')?.samples.reduce((sum, { value }) => sum + value, 0),
    ).to.equal(4);
    expect(made.waitingFor()).to.equal('a request for a tick');
    const gates = { open: 0, limiter: 0, slots: 0, nothingAsked: 1, rows: 0, paused: 0 };
    const waiting = metrics
      .get('hotslot_waiting')
      ?.samples.map(({ labels, value }) => [labels.for, value]);
    expect(waiting).to.deep.equal(Object.entries(gates));
    expect(
      metrics.get('hotslot_collector_steps_total')?.samples.map(({ labels }) => labels),
    ).to.deep.equal([{ worker: '0' }, { worker: '1' }]);
    expect(metrics.get('hotslot_scalar')?.samples).to.deep.include({
      labels: { tag: 'own\n"number"' },
      value: Number.NaN,
    });
    expect(one('device_memory_bytes')).to.be.above(0);
    for (const [name, { type, help }] of metrics) {
      expect([name, type]).to.deep.equal([name, name.endsWith('_total') ? 'counter' : 'gauge']);
      expect(help).to.match(/\.$/);
    }
    const warnings = await warningsOf(
      async () => void checkpoint.emit('error', new Error('the disk is full')),
    );
    expect(warnings).to.deep.equal(['a checkpoint failed: the disk is full']);
    await until('it is told', () => parsed(heard).at(-1).checkpoint.error === 'the disk is full');
    await monitor.close();
    expect(
      ['saved', 'error'].map((event) => checkpoint.listenerCount(event as 'saved')),
    ).to.deep.equal([0, 0]);
  });

  itAll(
    'serves a complete trace of one second, and rejects a concurrent trace with status 409',
    async () => {
      const made = await counting({ placement: 'auto' });
      const { url, port } = await served({ pipeline: made });
      const stop = running(made);
      const asked = fetch(`${url}trace?seconds=1`);
      const answer = await asked;
      expect(answer.headers.get('content-disposition')).to.equal(
        'attachment; filename="hotslot.trace.json"',
      );
      const second = await get(port, '/trace');
      expect([status(second), second.includes('a trace is under way')]).to.deep.equal([409, true]);
      interface Span {
        name: string;
        ph: string;
        ts: number;
        args: { name?: string; tick: number };
      }
      const { traceEvents } = (await answer.json()) as { traceEvents: Span[] };
      const lanes = traceEvents
        .filter(({ name }) => name === 'thread_name')
        .map(({ args }) => args.name);
      expect(lanes).to.include.members(['requester', 'pack', 'submit', 'poll', 'replay']);
      const ticks = new Map<number, string[]>();
      for (const { name, ph, args } of traceEvents)
        if (ph !== 'M') ticks.set(args.tick, [...(ticks.get(args.tick) ?? []), name]);
      expect(ticks.size).to.be.above(10);
      const order = [
        'request',
        'pack',
        'replay_pipeline_batch_h2d',
        'ready',
        'launch',
        'spent seen',
      ];
      for (const names of ticks.values()) expect(names).to.deep.equal(order);
      await stop();
      await made.close();
      expect(await get(port, '/trace')).to.match(/^HTTP\/1\.1 409 .*the pipeline has been closed/s);
    },
  );

  it('warns when other machines can reach its host, and accepts the Host header of its address', async () => {
    const made = await counting();
    const warnings = await warningsOf(async () => {
      const monitor = await served({ pipeline: made }, { host: '0.0.0.0' });
      expect(status(await get(monitor.port, '/metrics'))).to.equal(200);
      expect(status(await get(monitor.port, '/metrics', new URL(monitor.url).host))).to.equal(200);
      expect(status(await get(monitor.port, '/metrics', 'evil.example'))).to.equal(403);
    });
    expect(warnings).to.have.length(1);
    expect(warnings[0]).to.match(/is open to anybody who reaches it/);
    const v6 = await serveMonitor({ pipeline: made }, { host: '::1' }).catch(() => null);
    if (v6 === null) return;
    atEnd(() => v6.close());
    expect(v6.url).to.equal(`http://[::1]:${v6.port}/`);
    expect((await fetch(v6.url)).status).to.equal(200);
  });

  it('rejects invalid parts and options, and a port in use', async () => {
    const made = await counting();
    const { port } = await served({ pipeline: made });
    const taken = await rejection(serveMonitor({ pipeline: made }, { port }));
    expect([taken.code, taken.message]).to.satisfy(([code, text]: [string, string]) => {
      return (
        code === 'ERR_HOTSLOT_UNAVAILABLE' &&
        text.includes(`port ${port} of '127.0.0.1'; the port is in use`)
      );
    });
    const cases: [object, object, RegExp][] = [
      [{}, {}, /pipeline must be a ReplayPipeline, got undefined/],
      [{ pipeline: {} }, {}, /pipeline must be a ReplayPipeline, got an object/],
      [
        { pipeline: made, collectors: made },
        {},
        /collectors must be a CollectorPool or RemoteCollectors, got a ReplayPipeline/,
      ],
      [{ pipeline: made, devices: ['host:0'] }, {}, /devices are of openDevice\(\), got 'host:0'/],
      [
        { pipeline: made, checkpoint: { folder: 'x' } },
        {},
        /checkpoint must have on\(\), off\(\) and a folder/,
      ],
      [{ pipeline: made, titel: 'x' }, {}, /unknown option 'titel'/],
      [
        { pipeline: made },
        { port: 70_000 },
        /port must be a whole number of at least 0 and at most 65535/,
      ],
      [{ pipeline: made }, { host: 'http://x/' }, /host must be an address or a name/],
      [{ pipeline: made }, { adress: 'x' }, /unknown option 'adress'/],
    ];
    for (const [parts, options, text] of cases) {
      const error = await rejection(serveMonitor(parts as never, options));
      expect([error.code, error.message]).to.satisfy(
        ([code, message]: [string, string]) =>
          /^ERR_HOTSLOT_(ARGUMENT|RANGE)$/.test(code) && text.test(message),
        `${error.message}`,
      );
    }
    const device = openDevice('host:0');
    const closed = await served({ pipeline: made, devices: [device] });
    device.close();
    expect((await (await fetch(`${closed.url}metrics`)).text()).includes('device_memory')).to.equal(
      false,
    );
    await closed.close();
    expect(() => closed.scalar('x', 1, 1)).to.throw(
      'this monitor is closed; make another with serveMonitor()',
    );
  });
});
