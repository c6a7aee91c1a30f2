/**
 * Tests the monitor's streamed responses: one stream per connection, at most one unread message in
 * memory, and that a stream's end affects no other stream.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { expect } from 'chai';
import { PipelineWatch } from '../../src/engine/pipeline/watch.ts';
import { LiveTraces } from '../../src/net/monitor/live-trace.ts';
import { listen, shut } from '../../src/net/monitor/server.ts';
import { closeAll } from '../pipeline/fixture.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { warningsOf } from './folder.ts';
import { atEnd, counting, endAll, listening, raw, served } from './serving.ts';

const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

/** Collects the monitor's responses, the newest last. */
function answers(): ServerResponse[] {
  const found: ServerResponse[] = [];
  const hear = (told: unknown) => void found.push((told as { response: ServerResponse }).response);
  subscribe('http.server.request.start', hear);
  atEnd(() => unsubscribe('http.server.request.start', hear));
  return found;
}

describe('streamed responses of the monitor', () => {
  afterEach(async () => {
    await endAll();
    await closeAll();
  });

  it('requests after a stream on the same connection are rejected and occupy no place', async () => {
    const monitor = await served({ pipeline: await counting() });
    const found = answers();
    for (const path of ['/events', '/trace?seconds=60']) {
      const socket = connect(monitor.port, '127.0.0.1').on('error', () => {});
      found.splice(0);
      socket.write(`${ask('/events')}${ask(path).repeat(40)}`);
      await until('all are looked at', () => found.length === 41);
      expect(monitor.clients, path).to.equal(1);
      expect(found.slice(1).every(({ statusCode }) => statusCode === 400)).to.equal(true);
      socket.destroy();
      await until('the client is gone', () => monitor.clients === 0);
    }
    // All streams are gone: 32 pages can connect, and no trace is running.
    const pages = Array.from({ length: 32 }, () => listening(monitor.port));
    await until('32 look', () => pages.every(({ events }) => events.length > 0));
    const trace = connect(monitor.port, '127.0.0.1').on('error', () => {});
    const first = new Promise<string>((resolve) =>
      trace.once('data', (bytes) => resolve(`${bytes}`)),
    );
    trace.write(ask('/trace?seconds=1'));
    expect(await first).to.match(/^HTTP\/1\.1 200 /);
    trace.destroy();
  });

  it('/events is rejected when it follows another request on the same connection', async () => {
    const monitor = await served({ pipeline: await counting() });
    const heard = await raw(monitor.port, `${ask('/metrics')}${ask('/events')}`);
    expect(heard).to.match(/^HTTP\/1\.1 200 /);
    expect(heard).to.match(/HTTP\/1\.1 400 .*request it on a separate connection\n$/s);
    expect(monitor.clients).to.equal(0);
  });

  it('a trace whose reader closes late does not end the next trace', async () => {
    const made = await counting();
    const traces = new LiveTraces(new PipelineWatch(made));
    /** Makes a response whose reader is slow. */
    const reader = () => {
      const told = { status: 0, over: false, text: '' };
      const response = Object.assign(new EventEmitter(), {
        socket: {},
        req: { method: 'GET' },
        writableNeedDrain: false,
        destroy: () => {},
        writeHead: (status: number) =>
          Object.assign(response, { told: Object.assign(told, { status }) }),
        write: (text: string) => (told.text += text),
        end: (text = '') => Object.assign(told, { over: true, text: told.text + text }),
      });
      traces.answer(response as unknown as ServerResponse, '60');
      return { told, close: () => response.emit('close') };
    };
    const first = reader();
    traces.close();
    expect(first.told).to.include({ status: 200, over: true });
    const second = reader();
    expect(second.told).to.include({ status: 200, over: false });
    first.close();
    const third = reader();
    expect([third.told.status, third.told.text]).to.deep.equal([
      409,
      'a trace is under way; request another one after it\n',
    ]);
    traces.close();
    expect(second.told.over).to.equal(true);
    expect(() => JSON.parse(second.told.text)).to.not.throw();
    second.close();
  });

  it('connections that cannot be accepted cause one warning, and the server continues', async () => {
    const { server, port } = await listen(
      { host: '127.0.0.1', port: 0 },
      { '/': (_, response) => void response.end('here') },
    );
    atEnd(() => shut(server));
    const warnings = await warningsOf(async () => {
      for (let i = 0; i < 3; i++) server.emit('error', new Error('accept EMFILE'));
    });
    expect(warnings).to.deep.equal(['the monitor could not take a connection: accept EMFILE']);
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).to.equal('here');
  });

  itAll('a client that does not read is dropped, and its buffered bytes stay limited', async () => {
    const monitor = await served({ pipeline: await counting() });
    const found = answers();
    const slow = listening(monitor.port);
    await until('it is told', () => slow.events.length > 0);
    const quick = listening(monitor.port);
    await until('both are told', () => quick.events.length > 0);
    const [toSlow] = found as [ServerResponse];
    slow.socket.pause();
    // Sends more than the system's buffers hold. The curves become coarser, and the monitor sends
    // each again and again.
    let [step, most] = [0, 0];
    const more = () => {
      for (let i = 0; i < 50; i++, step++)
        for (let tag = 0; tag < 200; tag++)
          monitor.scalar(`many/${tag}`, Math.sin(step + tag), step);
      most = Math.max(most, toSlow.writableLength);
      return monitor.clients === 1;
    };
    await until('the slow one is dropped', more);
    const before = quick.events.length;
    await until('the quick one is told on', () => quick.events.length > before);
    expect(quick.closed).to.equal(false);
    slow.socket.resume();
    await until('it has noticed', () => slow.closed);
    // One message with all curves at their longest is the largest. Chunks add a few bytes.
    const longest = Math.max(...quick.events.map(({ data }) => Buffer.byteLength(data)));
    expect(most).to.be.within(1, 2 * longest);
  });
});
