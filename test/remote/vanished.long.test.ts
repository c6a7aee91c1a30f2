/**
 * Tests that rows which vanish from the server are sent again, even if a limiter holds the learner
 * back and the stream is never empty.
 */
import { expect } from 'chai';
import { RateLimiter } from '../../src/index.ts';
import { itAll } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import { MemoryServer } from './memory-link.ts';
import { numbersIn, wrongIn } from './numbered.ts';
import { MemoryHost, MemoryLearner } from './protocol.ts';

const HOSTS = 8;
const BATCH = 2;

describe('remote rows that vanish from the server', () => {
  itAll('are sent again under a gating limiter while every host still has rows', async () => {
    const server = new MemoryServer();
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: BATCH,
      gateAdd: true,
    });
    const learner = new MemoryLearner(server, {
      epoch: 1,
      capacity: 100_000,
      limiter,
      transitBytes: 2 ** 12,
    });
    const hosts = Array.from({ length: HOSTS }, (_, host) => new MemoryHost(server, host));
    const kept = () => hosts.map(({ uplink }) => uplink.queued);
    const acknowledged = () => kept().map((each) => each.acknowledged);
    try {
      // Every host keeps its window full, so the stream is never empty.
      const slowly = setInterval(() => {
        for (const { outbox } of hosts) if (outbox.waiting() < 20) outbox.make(20);
        limiter.countSamples(BATCH);
      }, 1);
      try {
        await until('all have begun', () => acknowledged().every((each) => each > 0));
        server.flush();
        const [before, repeated] = [acknowledged(), kept().map((each) => each.repeated)];
        await until(
          'every host has sent again, and goes on',
          () =>
            acknowledged().every((row, host) => row > before[host]! + 8) &&
            kept().every((each, host) => each.repeated > repeated[host]!),
        );
      } finally {
        clearInterval(slowly);
      }
      await until('all is in', () => {
        limiter.countSamples(100);
        return hosts.every(({ done }) => done);
      });
      const wrong = numbersIn(learner.buffer, HOSTS).map((numbers, host) =>
        wrongIn(numbers, hosts[host]!.outbox.made),
      );
      expect(wrong).to.deep.equal(hosts.map(() => null));
    } finally {
      await Promise.all(hosts.map((host) => host.close()));
      await learner.end();
    }
  });
});
