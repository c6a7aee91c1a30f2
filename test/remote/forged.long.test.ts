/**
 * Tests what a user who may add messages can do to the stream: forged ids, huge messages, and the
 * removal of all messages. The learner must store every row in the end.
 */
import { expect } from 'chai';
import { RateLimiter, type ReplayBuffer } from '../../src/index.ts';
import { keysOf } from '../../src/net/remote/keys.ts';
import { remoteThreadsOf } from '../../src/net/remote/remote-collectors.ts';
import { describeAll, itLonger, setting } from '../rig/setting.ts';
import {
  bufferOf,
  expectWhole,
  host,
  learn,
  leash,
  newRun,
  sharedServer,
  untilAsked,
} from './runs.ts';

const LAST = `${2n ** 64n - 1n}`;

describeAll('remote collectors with a manipulated stream', () => {
  const shared = sharedServer();

  /**
   * Calls `tamper` while a host of a run sends its rows. Checks the number of refused messages, and
   * that all rows arrive.
   */
  async function tampered(
    tamper: (stream: string) => Promise<unknown>,
    refused: number,
  ): Promise<void> {
    const rows = setting({ short: 6000, all: 6000, long: 20_000 });
    const run = newRun();
    const buffer = bufferOf('rows') as ReplayBuffer;
    const remote = await learn({ url: shared.url, run, buffer });
    const threads = [...remoteThreadsOf(remote)];
    const { entry, to } = leash();
    to(1000);
    const machine = await host({
      url: shared.url,
      run,
      entry,
      flushBytes: 1024,
      outboxBytes: 2 ** 14,
    });
    const reached = (row: number) =>
      untilAsked(`${row} rows are in`, () => machine.statistics().acknowledged >= row, {
        tell: () =>
          JSON.stringify({ ...machine.statistics(), refused: remote.statistics().refused }),
      });
    await reached(1000);
    to(rows);
    await reached(1100);
    await tamper(keysOf(run).stream(0));
    await reached(rows);
    expectWhole(buffer, rows, 1);
    await untilAsked('it is counted', () => remote.statistics().refused === refused);
    expect(remoteThreadsOf(remote), 'threads that were replaced').to.deep.equal(threads);
  }

  for (const id of [`${LAST}-${LAST}`, `${LAST}-${BigInt(LAST) - 1n}`])
    itLonger(`the learner continues after a message with the id ${id}`, () =>
      tampered((stream) => shared.client.xAdd(stream, id, { m: 'forged' }), 1),
    );

  itLonger('the learner refuses a message of 40 MB and continues', () =>
    tampered((stream) => shared.client.xAdd(stream, '*', { m: Buffer.alloc(40_000_000) }), 1),
  );

  itLonger(
    'a host sends rows again after another client deletes all messages of the stream',
    async () => {
      const run = newRun();
      const stream = keysOf(run).stream(0);
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 1,
        errorBuffer: 500,
        gateAdd: true,
      });
      const buffer = bufferOf('rows', 1, limiter) as ReplayBuffer;
      await learn({ url: shared.url, run, buffer });
      const { entry, to } = leash();
      to(2000);
      const machine = await host({ url: shared.url, run, entry, flushBytes: 1024 });
      await untilAsked(
        'the learner takes no more',
        () => buffer.ptr >= 400 && machine.statistics().sent === 2000,
        {
          tell: () => JSON.stringify({ rows: buffer.ptr, ...machine.statistics() }),
        },
      );
      expect(await shared.client.xLen(stream), 'messages in the stream').to.be.above(10);
      // The ACL rules of a collector allow this command.
      await shared.client.sendCommand(['XADD', stream, 'MAXLEN', '0', '*', 'm', 'forged']);
      expect(await shared.client.xLen(stream)).to.equal(0);
      limiter.countSamples(10_000);
      await untilAsked('all is in', () => machine.statistics().acknowledged === 2000);
      expectWhole(buffer, 2000, 1);
      expect(machine.statistics().repeated).to.be.above(0);
    },
  );
});
