/**
 * Tests hosts that a learner refuses. They receive the refusal as long as the learner lives, and
 * the learner lists them with the reason.
 */
import { expect } from 'chai';
import type { TrajectoryBuffer } from '../../src/index.ts';
import { readAcknowledgement } from '../../src/net/remote/acknowledgement.ts';
import { Ingest } from '../../src/net/remote/ingest.ts';
import { keysOf, sessionName } from '../../src/net/remote/keys.ts';
import {
  emptyHeader,
  HEADER_BYTES,
  type MessageHeader,
  sealMessage,
} from '../../src/net/remote/message.ts';
import { Receiver } from '../../src/net/remote/receiver.ts';
import { sinkOf } from '../../src/net/remote/row-sink.ts';
import { SessionOffsets } from '../../src/net/remote/session-offsets.ts';
import { readStatus } from '../../src/net/remote/status.ts';
import { rowBytesOf } from '../../src/store/lanes/packed-rows.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';
import { bufferOf, closeAll, host, learn, leash, newRun, untilAsked } from './runs.ts';
import { needServer, startServer, type TestServer } from './server.ts';

describe('refused remote hosts', () => {
  it('keep their refusals after a reconnect and on a server that restarts empty', async () => {
    const server = new MemoryServer();
    const link = new MemoryLink(server);
    const keys = keysOf('refused');
    const buffer = bufferOf('steps', 2) as TrajectoryBuffer;
    const sink = sinkOf(buffer.share() as never);
    const rowBytes = rowBytesOf(buffer.layout);
    const ingest = new Ingest({
      marks: SessionOffsets.create(),
      sink,
      layout: 7,
      maxVersionLag: Number.POSITIVE_INFINITY,
      version: () => 0,
      now: Date.now,
    });
    const receiver = new Receiver({
      link,
      keys,
      shard: 0,
      epoch: 1,
      ingest,
      sink,
      transitBytes: 2 ** 20,
      held: false,
    });
    const put = (session: number, header: Partial<MessageHeader> = {}, kind = 0) => {
      const message = new Uint8Array(HEADER_BYTES + rowBytes);
      new DataView(message.buffer).setUint16(HEADER_BYTES + 2, kind, true);
      sealMessage(message, {
        ...emptyHeader(),
        session,
        rows: 1,
        rowBytes,
        layout: 7,
        lanes: 1,
        ...header,
      });
      server.put(keys.stream(0), message);
    };
    const told = () =>
      server
        .fields(keys.acks, [1, 2, 3].map(sessionName))
        .map((text) => (text === null ? null : (readAcknowledgement(text)?.refused ?? 'odd')));
    const isTold = () => {
      const [good, layout, kind] = told();
      return good === '' && /another layout/.test(layout ?? '') && /of kind 16/.test(kind ?? '');
    };
    await link.connect({
      connected: (facts) => receiver.onConnected(facts),
      lost: () => receiver.onLost(),
    });
    const running = receiver.run();
    put(1);
    put(2, { layout: 8 });
    put(3, {}, 16);
    await until('all are told', isTold);
    server.drop({ effect: true });
    server.restore();
    put(1, { first: 1 });
    await until('what came behind it is acknowledged', () =>
      server.fields(keys.acks, [sessionName(1)])[0]!.startsWith('1:2:'),
    );
    await until('the same is told', isTold);
    server.restart();
    await until('so it is by another run of the server', isTold);
    receiver.stop();
    await running;
    sink.close();
    await link.close();
  });

  describe('on a real server', () => {
    let server: TestServer;
    before(async function () {
      needServer(this);
      server = await startServer();
    });
    afterEach(closeAll);
    after(() => server?.stop());

    itAll(
      'are in the status with name and reason, and statistics() keeps its counts after close()',
      async () => {
        const { url } = server;
        const run = newRun();
        const remote = await learn({ url, run, buffer: bufferOf('steps', 2) });
        const { entry, to } = leash();
        to(40);
        const good = await host({ url, run, entry, name: 'good', lanes: 1 });
        const odd = await host({ url, run, entry, name: 'odd', lanes: 2 });
        const reason = /^it requests 2 adjacent lanes, and 1 of the learner’s 2 lanes are free$/;
        expect((await rejection(odd.done)).message).to.match(
          /and 1 of the learner’s 2 lanes are free$/,
        );
        const client = await server.client();
        const { status } = keysOf(run);
        const hosts = async () => {
          const said = await client.get(status);
          return said === null ? [] : readStatus(Buffer.from(said)).hosts;
        };
        await untilAsked('both are listed', async () =>
          (await hosts()).some(({ host, state }) => host === 'odd' && state === 'refused'),
        );
        const listed = await hosts();
        expect(listed.map(({ host, state }) => [host, state])).to.deep.equal([
          ['good', 'live'],
          ['odd', 'refused'],
        ]);
        expect(listed[1]!.why).to.match(reason);
        await untilAsked(
          'all is told',
          () => good.statistics().steps === 40 && remote.statistics().steps === 40,
        );
        const { hosts: many, steps, episodes, meanReturn, rows } = remote.statistics();
        await remote.close();
        expect(remote.statistics()).to.include({
          hosts: many,
          steps,
          episodes,
          rows,
          connected: false,
        });
        expect(remote.statistics().meanReturn).to.deep.equal(meanReturn);
        expect([many, steps]).to.deep.equal([1, 40]);
      },
    );
  });
});
