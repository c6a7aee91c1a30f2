/**
 * Tests a host that cannot deliver its rows: how much it queues, how often it repeats HELLO, and
 * which weights version it sends after a change of the learner.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { emptyHeader, HEADER_BYTES, readMessage } from '../../src/net/remote/message.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { MemoryServer } from './memory-link.ts';
import { numbersIn, wrongIn } from './numbered.ts';
import { keys, MemoryHost, MemoryLearner } from './protocol.ts';

describe('Uplink', () => {
  it('bounds its queued messages and their memory while the learner takes no rows', async () => {
    const server = new MemoryServer();
    const learner = new MemoryLearner(server, {
      epoch: 1,
      capacity: 10_000,
      transitBytes: 2 ** 24,
    });
    const host = new MemoryHost(server, 0, { flushBytes: 255 * 1024, flushMs: 0 });
    const { queued } = host.uplink;
    try {
      host.outbox.make(1);
      await until('the host knows its window', () => host.done);
      learner.receiver.share(1);
      for (let i = 0; i < 20; i++) await turn();
      learner.receiver.hold();
      const before = process.memoryUsage().arrayBuffers;
      for (let row = 0; row < 3000; row++) {
        host.outbox.make(1);
        await turn();
        await turn();
      }
      expect(queued.count).to.be.within(500, 1024);
      expect(host.outbox.waiting()).to.be.above(0);
      expect(host.uplink.waits).to.equal('window');
      // If each message of one row kept the memory of a full message, this would be 255 MiB.
      expect(process.memoryUsage().arrayBuffers - before).to.be.below(2 ** 25);
      learner.receiver.release();
      await until('all is in', () => host.done);
      expect(wrongIn(numbersIn(learner.buffer, 1)[0]!, 3001)).to.equal(null);
    } finally {
      await host.close();
      await learner.end();
    }
  });

  itAll('repeats HELLO to a full server with growing delays', async () => {
    const server = new MemoryServer();
    const at: number[] = [];
    const put = server.put.bind(server);
    server.put = (stream, message) => {
      at.push(performance.now());
      put(stream, message);
    };
    server.full = true;
    const host = new MemoryHost(server, 0);
    let learner: MemoryLearner | null = null;
    try {
      await until('it has tried four times', () => at.length >= 4);
      // The delays are 100, 200 and 400 ms. Timers may be slightly short.
      expect(at[3]! - at[0]!).to.be.above(690);
      server.full = false;
      learner = new MemoryLearner(server, { epoch: 1, capacity: 100 });
      await until('it is heard', () => host.uplink.epoch === 1);
    } finally {
      await host.close();
      await learner?.end();
    }
  });

  itAll('sends version 0 for rows whose weights came from an earlier learner', async () => {
    const server = new MemoryServer();
    let first: MemoryLearner | null = new MemoryLearner(server, { epoch: 1, capacity: 100 });
    let second: MemoryLearner | null = null;
    const known = new Map([[1, 50]]);
    const host = new MemoryHost(server, 0, {
      flushBytes: 8,
      version: (epoch) => known.get(epoch) ?? 0,
    });
    /** Returns the first row and the version of each message in the stream. */
    const lying = () =>
      server
        .messages(keys.stream(0), '0-0', 100)
        .map(({ bytes }) => {
          const header = emptyHeader();
          expect(readMessage(bytes, header)).to.equal(null);
          return bytes.length > HEADER_BYTES ? [header.first, header.version] : null;
        })
        .filter((each) => each !== null);
    try {
      host.outbox.make(1);
      await until('the first is in', () => host.done);
      first.receiver.hold();
      for (let i = 0; i < 20; i++) await turn();
      host.outbox.make(2);
      await until('two lie there', () => lying().length === 2);
      expect(lying()).to.deep.equal([
        [1, 50],
        [2, 50],
      ]);
      await first.end();
      first = null;
      server.free(keys.learner);
      server.free(keys.stream(0));
      known.set(2, 3);
      second = new MemoryLearner(server, { epoch: 2, capacity: 100 });
      second.receiver.hold();
      await until('both lie there again', () => lying().length === 2);
      host.outbox.make(1);
      await until('and another one', () => lying().length === 3);
      expect(lying()).to.deep.equal([
        [1, 0],
        [2, 0],
        [3, 3],
      ]);
    } finally {
      await host.close();
      await first?.end();
      await second?.end();
    }
  });
});
