/**
 * Tests when hosts and learners send again and which replies they believe. These rules act at once,
 * where the heartbeat would repair the same only seconds later.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import {
  heartbeatField,
  writeAcknowledgement,
  writeHeartbeat,
} from '../../src/net/remote/acknowledgement.ts';
import { keysOf, LEASE_MS, sessionName } from '../../src/net/remote/keys.ts';
import { LearnerView } from '../../src/net/remote/learner-view.ts';
import { LinkError } from '../../src/net/remote/link.ts';
import { emptyHeader, type MessageHeader, readMessage } from '../../src/net/remote/message.ts';
import { RetransmitQueue } from '../../src/net/remote/retransmit-queue.ts';
import { until } from '../rig/until.ts';
import { MemoryLink, MemoryServer } from './memory-link.ts';
import { NumberedOutbox, numbersIn, wrongIn } from './numbered.ts';
import { MemoryHost, MemoryLearner } from './protocol.ts';

const keys = keysOf('ends');

/** Calls of append(), which a test completes in any order. */
class Appends {
  readonly sent: MessageHeader[] = [];
  readonly #ends: ((error: LinkError | null) => void)[] = [];

  append = (bytes: Uint8Array): Promise<void> => {
    const header = emptyHeader();
    expect(readMessage(bytes, header)).to.equal(null);
    this.sent.push(header);
    return new Promise((resolve, reject) =>
      this.#ends.push((error) => (error ? reject(error) : resolve())),
    );
  };
  /** Completes the call with number `at`. */
  async end(at: number, error: LinkError | null = null): Promise<void> {
    this.#ends[at]!(error);
    await turn();
  }
  get firsts(): number[] {
    return this.sent.map(({ first }) => first);
  }
}

function kept(): { kept: RetransmitQueue; appends: Appends; send: () => void } {
  const appends = new Appends();
  const outbox = new NumberedOutbox(0);
  const messages = new RetransmitQueue({
    rowBytes: 8,
    rowsPerMessage: 2,
    append: appends.append,
    settled: () => {},
    now: () => 1,
  });
  const send = () => {
    outbox.make(2);
    messages.send(outbox.take, 2, { ...emptyHeader(), session: 1, rowBytes: 8 });
  };
  return { kept: messages, appends, send };
}
const lost = new LinkError('lost', 'no reply');

describe('retransmission between host and learner', () => {
  it('RetransmitQueue resends in order the messages whose replies were lost', async () => {
    const { kept: messages, appends, send } = kept();
    for (let i = 0; i < 3; i++) send();
    await appends.end(0);
    await appends.end(1, lost);
    // The third call is still pending.
    messages.resend();
    expect([appends.firsts, messages.inOrder]).to.deep.equal([[0, 2, 4, 2], true]);
    await appends.end(2, lost);
    messages.resend();
    expect(appends.firsts).to.deep.equal([0, 2, 4, 2, 4]);
    expect([messages.repeated, messages.count, messages.allReplied]).to.deep.equal([2, 3, false]);
    await appends.end(3);
    await appends.end(4);
    expect(messages.allReplied).to.equal(true);
  });

  it('RetransmitQueue.again() resends all messages in order after the pending call has ended', async () => {
    const { kept: messages, appends, send } = kept();
    for (let i = 0; i < 3; i++) send();
    await appends.end(1);
    await appends.end(2);
    messages.again();
    messages.resend();
    // The first call still reads the bytes of its message, so no message may be sent before it.
    expect(appends.firsts).to.deep.equal([0, 2, 4]);
    await appends.end(0);
    messages.resend();
    expect(appends.firsts).to.deep.equal([0, 2, 4, 0, 2, 4]);
  });

  it('RetransmitQueue.acknowledge() drops acknowledged messages and never lowers the watermark', async () => {
    const { kept: messages, appends, send } = kept();
    for (let i = 0; i < 3; i++) send();
    messages.acknowledge(5);
    expect([messages.count, messages.acknowledged]).to.deep.equal([1, 5]);
    messages.again();
    await appends.end(2);
    messages.resend();
    // Only half of this message is acknowledged. It is sent as a whole, because it keeps only its
    // full content.
    expect(appends.sent.at(-1)).to.deep.include({ first: 4, rows: 2, base: 4 });
    messages.acknowledge(3);
    expect(messages.acknowledged).to.equal(5);
    send();
    expect(appends.sent.at(-1)).to.deep.include({ first: 6, base: 5 });
  });

  /**
   * Creates a LearnerView of the learner with epoch 7, with a message of two rows sent. `meets`
   * decides about new epochs.
   */
  async function heard(meets = async (_epoch: number) => true) {
    const server = new MemoryServer();
    const link = new MemoryLink(server);
    await link.connect({});
    const { kept: messages, appends, send } = kept();
    const failures: Error[] = [];
    const listening = new LearnerView({
      link,
      keys,
      session: 1,
      shard: 0,
      queue: messages,
      meets,
      ring: () => {},
      failed: (error) => void failures.push(error as Error),
    });
    const said = { row: 0, window: 100, nak: 0, refused: '' };
    const hear = async (epoch: number, more: Partial<typeof said> = {}) => {
      listening.onAcknowledgement(writeAcknowledgement({ epoch, ...said, ...more }));
      for (let i = 0; i < 6; i++) await turn();
    };
    const lease = (epoch: number) => server.set(keys.learner, Buffer.from(`${epoch}`), undefined);
    lease(7);
    await hear(7);
    send();
    await appends.end(0);
    return { server, listening, messages, appends, hear, lease, failures, send };
  }

  it('LearnerView accepts only the epoch that holds the lease, and no smaller epoch', async () => {
    const { listening, messages, hear, lease } = await heard();
    expect([listening.epoch, listening.window]).to.deep.equal([7, 100]);
    await hear(8, { row: 2 });
    expect([listening.epoch, messages.count]).to.deep.equal([7, 1]);
    lease(6);
    await hear(6, { row: 2 });
    expect([listening.epoch, messages.count]).to.deep.equal([7, 1]);
    lease(8);
    await hear(8);
    messages.resend();
    expect([listening.epoch, messages.count, messages.repeated]).to.deep.equal([8, 1, 1]);
    await hear(7, { row: 2 });
    expect(messages.count).to.equal(1);
    await hear(8, { row: 2 });
    expect(messages.count).to.equal(0);
  });

  it('LearnerView accepts a smaller epoch if its heartbeat advances for over 2 × LEASE_MS', async () => {
    const { server, listening, messages, appends, lease } = await heard();
    const { now } = performance;
    let later = 0;
    performance.now = () => now.call(performance) + later;
    try {
      const beat = async (count: number) => {
        server.set(
          keys.acks,
          { '*0': writeHeartbeat({ epoch: 6, beat: count, count: 0 }) },
          undefined,
        );
        listening.hurry();
        listening.poll();
        for (let i = 0; i < 8; i++) await turn();
        return listening.epoch;
      };
      lease(6);
      expect([await beat(1), await beat(2)]).to.deep.equal([7, 7]);
      // A restarted server may show the values of a learner that has ended. Its heartbeat does not
      // advance.
      later = 2 * LEASE_MS + 1;
      expect(await beat(1)).to.equal(7);
      later = 2 * LEASE_MS - 1000;
      expect(await beat(3)).to.equal(7);
      later = 2 * LEASE_MS + 1;
      expect(await beat(4)).to.equal(6);
      messages.resend();
      expect(appends.firsts).to.deep.equal([0, 0]);
    } finally {
      performance.now = now;
    }
  });

  it('LearnerView accepts a new epoch after `meets` returns true, and fails if `meets` rejects', async () => {
    let told: Error | boolean = false;
    const { listening, messages, hear, lease, failures } = await heard(async (epoch) => {
      if (told instanceof Error) throw told;
      return epoch === 7 || told;
    });
    lease(8);
    await hear(8, { row: 2 });
    expect([listening.epoch, messages.count]).to.deep.equal([7, 1]);
    told = true;
    await hear(8);
    expect([listening.epoch, messages.count]).to.deep.equal([8, 1]);
    told = new Error('it has other weights');
    lease(9);
    await hear(9, { row: 2 });
    expect([listening.epoch, messages.count]).to.deep.equal([8, 1]);
    expect(failures).to.deep.equal([told]);
  });

  it('LearnerView resends once for a `nak` that arrives twice', async () => {
    const { messages, appends, hear } = await heard();
    await hear(7, { nak: 1 });
    messages.resend();
    expect(appends.firsts).to.deep.equal([0, 0]);
    await appends.end(1);
    await hear(7, { nak: 1 });
    await hear(7);
    messages.resend();
    expect(appends.firsts).to.deep.equal([0, 0]);
  });

  it('LearnerView ignores an acknowledgement of unsent rows, and reports a refusal', async () => {
    const { messages, hear, failures } = await heard();
    await hear(7, { row: 3 });
    expect([messages.count, messages.acknowledged]).to.deep.equal([1, 0]);
    await hear(7, { refused: 'another layout: so' });
    expect(failures.map(({ message }) => message)).to.deep.equal([
      'the learner rejects this host: another layout: so',
    ]);
  });

  it('LearnerView resends after the second heartbeat that advances since the last reply', async () => {
    const { server, listening, messages, appends } = await heard();
    const beat = async (count: number) => {
      server.set(keys.acks, { '*0': writeHeartbeat({ epoch: 7, beat: count, count }) }, undefined);
      listening.hurry();
      listening.poll();
      for (let i = 0; i < 8; i++) await turn();
      messages.resend();
      return appends.sent.length;
    };
    expect([await beat(5), await beat(5), await beat(6), await beat(7)]).to.deep.equal([
      1, 1, 1, 2,
    ]);
    // The message was sent again, so heartbeats before its reply say nothing about it.
    expect([await beat(9)]).to.deep.equal([2]);
    await appends.end(1);
    listening.moved();
    expect([await beat(9), await beat(10), await beat(11)]).to.deep.equal([2, 2, 3]);
  });

  it('rows that a restarted server lost arrive again without any heartbeat', async () => {
    const server = new MemoryServer();
    const learner = new MemoryLearner(server, { epoch: 3, capacity: 100 });
    const host = new MemoryHost(server, 0);
    try {
      host.outbox.make(10);
      await until('the first rows are there', () => host.done);
      learner.receiver.hold();
      host.outbox.make(20);
      await until(
        'all is replied to',
        () => host.outbox.waiting() === 0 && host.uplink.queued.allReplied,
      );
      // The server drops every heartbeat from here on, so a host cannot learn from a heartbeat that
      // its rows are lost.
      const { set } = server;
      server.set = (key, value, lifeMs) => {
        if (!(heartbeatField(0) in value)) set.call(server, key, value, lifeMs);
      };
      server.restart();
      learner.receiver.release();
      await until('all rows are there', () => host.done);
      expect(wrongIn(numbersIn(learner.buffer, 1)[0]!, 30)).to.equal(null);
    } finally {
      await host.close();
      await learner.end();
    }
  });

  it('the learner repeats an acknowledgement that a full server rejected', async () => {
    const server = new MemoryServer();
    const learner = new MemoryLearner(server, { epoch: 3, capacity: 100 });
    const host = new MemoryHost(server, 0);
    try {
      host.outbox.make(4);
      await until('the first rows are there', () => host.done);
      learner.receiver.hold();
      host.outbox.make(4);
      await until(
        'all is replied to',
        () => host.outbox.waiting() === 0 && host.uplink.queued.allReplied,
      );
      server.full = true;
      learner.receiver.release();
      await until('they are in the buffer', () => learner.buffer.ptr === 8);
      for (let i = 0; i < 20; i++) await turn();
      server.full = false;
      const told = () => server.fields(keysOf('memory').acks, [sessionName(host.session)])[0] ?? '';
      await until('it is stored', () => told().startsWith('3:8:'));
      await until('the host has heard it', () => host.done);
    } finally {
      await host.close();
      await learner.end();
    }
  });
});
