/** Tests the windows that a receiver gives to 16 sessions that connect at the same time. */
import { expect } from 'chai';
import { readAcknowledgement } from '../../src/net/remote/acknowledgement.ts';
import { Ingest } from '../../src/net/remote/ingest.ts';
import { keysOf, sessionName } from '../../src/net/remote/keys.ts';
import { emptyHeader, HEADER_BYTES, HELLO, sealMessage } from '../../src/net/remote/message.ts';
import { Receiver } from '../../src/net/remote/receiver.ts';
import type { OpenSink } from '../../src/net/remote/row-sink.ts';
import { SessionOffsets } from '../../src/net/remote/session-offsets.ts';
import { until } from '../rig/until.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';

const ROW_BYTES = 64;
const TRANSIT = 2 ** 25;
const SESSIONS = Array.from({ length: 16 }, (_, i) => i + 1);

/** A sink that stores nothing. */
const sink: OpenSink = {
  rowBytes: ROW_BYTES,
  bell: null,
  reserve: () => {},
  admit: () => ({ firstLane: 0 }),
  open: () => null,
  add: () => 0,
  skip: () => {},
  goesOn: () => true,
  end: () => {},
  close: () => {},
};

describe('Receiver windows of 16 simultaneous sessions', () => {
  it('sum to at most `transitBytes`, and become equal after share()', async () => {
    const server = new MemoryServer();
    const link = new MemoryLink(server);
    const keys = keysOf('windows');
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
      transitBytes: TRANSIT,
      held: false,
    });
    for (const session of SESSIONS) {
      const message = new Uint8Array(HEADER_BYTES);
      sealMessage(message, {
        ...emptyHeader(),
        flags: HELLO,
        session,
        rowBytes: ROW_BYTES,
        layout: 7,
      });
      server.put(keys.stream(0), message);
    }
    await link.connect({
      connected: (facts) => receiver.onConnected(facts),
      lost: () => receiver.onLost(),
    });
    const running = receiver.run();
    const windows = () =>
      server
        .fields(keys.acks, SESSIONS.map(sessionName))
        .map((text) => readAcknowledgement(text ?? '')?.window ?? 0);
    const sum = () => windows().reduce((all, window) => all + window, 0);
    await until('all are told', () => windows().every((window) => window > 0));
    expect(sum()).to.be.at.most(TRANSIT);
    // As the learner's thread does after it has counted its live hosts.
    receiver.share(SESSIONS.length);
    await until('all have their share', () =>
      windows().every((window) => window === TRANSIT / SESSIONS.length),
    );
    receiver.stop();
    await running;
    await link.close();
  });
});
