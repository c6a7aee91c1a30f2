/**
 * Tests collectors in real threads. They add rows, read weights, wait for the limiter, fail and
 * stop, all through shared memory.
 */

import { once } from 'node:events';
import { expect } from 'chai';
import {
  CollectorPool,
  type CollectorPoolOptions,
  type Episode,
  RateLimiter,
  ReplayBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { threadsOf } from '../../src/run/collectors/collector-pool.ts';
import { StatisticsPages } from '../../src/run/collectors/statistics.ts';
import { watchedCollectors } from '../../src/run/collectors/watched.ts';
import { internalsOfLimiter } from '../../src/store/rate-limiter.ts';
import { ClockAhead } from '../rig/clock-ahead.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { until } from '../rig/until.ts';
import type { PlainOptions } from './plain-collector.ts';
import type promising from './promising-collector.ts';

const entry = new URL('./plain-collector.js', import.meta.url);
const fields = { value: { shape: [2] } } as const;

function makeBuffer(limiter?: RateLimiter): ReplayBuffer {
  return ReplayBuffer.create({ capacity: 4096, fields, ...(limiter ? { limiter } : {}) });
}

function newest(buffer: ReplayBuffer): [number, number] {
  const { ptr, size } = buffer;
  const row = buffer.gather(
    Uint32Array.of(size < buffer.capacity ? size - 1 : (ptr - 1) % buffer.capacity),
    new Float32Array(2),
  );
  return [row[0] as number, row[1] as number];
}

/**
 * Returns the error with which open() rejects. Fails if another promise rejects without a handler.
 */
async function refused(
  options: CollectorPoolOptions,
): Promise<Error & { code?: string; cause?: Error }> {
  let unhandled = 0;
  const count = () => {
    unhandled++;
  };
  process.on('unhandledRejection', count);
  try {
    const error = await rejection(async () => (await CollectorPool.open(options)).close());
    await new Promise(setImmediate);
    expect(unhandled, 'rejections that no caller could handle').to.equal(0);
    return error as Error & { cause?: Error };
  } finally {
    process.off('unhandledRejection', count);
  }
}

const all = async (episodes: AsyncIterable<Episode>) => {
  for await (const _ of episodes);
};
const withOptions = (buffer: ReplayBuffer, options: PlainOptions): CollectorPoolOptions => ({
  entry,
  buffer,
  options,
});

describe('CollectorPool', () => {
  it('two workers add to one buffer, and statistics() counts their steps and episodes', async () => {
    const buffer = makeBuffer();
    await using pool = await CollectorPool.open({ entry, buffer, workers: 2 });
    const workers = new Set<number>();
    await until('both have added', () => {
      if (buffer.ptr > 0) workers.add(newest(buffer)[1]);
      return buffer.ptr > 2000 && workers.size === 2;
    });
    await pool.close();
    const { steps, episodes, meanReturn, recent, version } = pool.statistics();
    expect(buffer.ptr).to.be.within(steps - 2, steps);
    expect(episodes).to.be.within(Math.floor(steps / 10) - 1, Math.floor(steps / 10));
    expect(recent).to.be.at.most(200);
    // Worker 0 reports returns of 10, worker 1 of 20.
    expect(meanReturn).to.be.within(10, 20);
    expect(version).to.equal(0);
  });

  it('collectors use the newest published weights', async () => {
    const buffer = makeBuffer();
    const mailbox = WeightMailbox.create({ length: 3 });
    mailbox.write(Float32Array.of(7, 0, 0));
    await using pool = await CollectorPool.open({ entry, buffer, mailbox });
    await until('the first weights act', () => buffer.ptr > 0 && newest(buffer)[0] === 7);
    expect(pool.statistics().version).to.equal(1);
    mailbox.write(Float32Array.of(9, 0, 0));
    await until('the second weights act', () => newest(buffer)[0] === 9);
    expect(pool.statistics().version).to.equal(2);
  });

  itAll(
    'a gated collector waits, continues after samples are taken, and is woken by close()',
    async () => {
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 1,
        errorBuffer: 8,
        gateAdd: true,
      });
      const buffer = makeBuffer(limiter);
      const pool = await CollectorPool.open({ entry, buffer });
      await until('the collector waits', () => pool.statistics().waits > 0);
      const full = buffer.ptr;
      expect(full).to.be.within(8, 10);
      expect(limiter.takeSamples(4)).to.equal(true);
      await until(
        'it has gone on and waits again',
        () => buffer.ptr === full + 4 && limiter.addWaitingFor(1) !== null,
      );
      await pool.close();
      // Rejects if close() had to terminate the thread because the collector ignored the stop.
      await pool.done;
      expect(buffer.ptr).to.equal(full + 4);
    },
  );

  itAll(
    'close() releases the claimed bells, and open() rejects when too few bells are free',
    async () => {
      const limiter = RateLimiter.create({
        samplesPerInsert: 1,
        minSize: 1,
        errorBuffer: 8,
        gateAdd: true,
      });
      const buffer = makeBuffer(limiter);
      const taken = Array.from({ length: 15 }, () => internalsOfLimiter(limiter).bells.claim());
      await (await CollectorPool.open({ entry, buffer })).close();
      const error = await refused({ entry, buffer, workers: 2 });
      expect(error.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
      for (const bell of taken) if (bell) internalsOfLimiter(limiter).bells.release(bell);
      await (await CollectorPool.open({ entry, buffer, workers: 2 })).close();
    },
  );

  it('open() rejects a missing module with the cause', async () => {
    const buffer = makeBuffer();
    const error = await refused({ entry: new URL('./not-there.js', import.meta.url), buffer });
    expect(error.code).to.equal('ERR_HOTSLOT_THREAD_LOST');
    expect(error.message).to.match(/collector 0 failed: .*not-there\.js/);
    expect(error.cause).to.be.an('error');
  });

  itAll('open() rejects with the error of a throwing factory and with its cause', async () => {
    const error = await refused({
      ...withOptions(makeBuffer(), { fault: 'factory', faulty: 1 }),
      workers: 2,
    });
    expect(error.message).to.match(
      /^collector 1 failed: no environment today \(plain-collector\.[jt]s:\d+:\d+\)$/,
    );
    expect((error.cause as Error).message).to.equal('no environment today');
    expect(((error.cause as Error).cause as Error).message).to.equal('it rains');
  });

  itAll('open() rejects a module without a factory, and a factory without collect()', async () => {
    const buffer = makeBuffer();
    const none = await refused({ entry: new URL('./no-collector.js', import.meta.url), buffer });
    expect(none.message).to.match(
      /no-collector\.js must export a function .* it exports undefined/,
    );
    const empty = await refused(withOptions(buffer, { fault: 'not a collector' }));
    expect(empty.message).to.match(/needs a collect\(\) function, but has undefined/);
  });

  itLonger('the heap grows by less than 20 bytes for each promise of collect()', async () => {
    const words = new Int32Array(new SharedArrayBuffer(8));
    const collects = setting({ short: 10_000, all: 150_000, long: 1_000_000 });
    const pool = await CollectorPool.open<typeof promising>({
      entry: new URL('./promising-collector.js', import.meta.url),
      buffer: makeBuffer(),
      options: { first: 20_000, last: 20_000 + collects, words },
    });
    await until('the heap was looked at twice', () => Atomics.load(words, 1) === 1);
    await pool.close();
    // Fewer than 20 bytes per promise.
    expect(Atomics.load(words, 0)).to.be.below(20 * collects);
  });

  it('done rejects when a collector throws, and close() closes all collectors', async () => {
    const words = new Int32Array(new SharedArrayBuffer(12));
    const buffer = makeBuffer();
    const pool = await CollectorPool.open({
      ...withOptions(buffer, { fault: 'collect', faulty: 0, words }),
      workers: 2,
    });
    Atomics.store(words, 2, 1);
    const error = await rejection(pool.done);
    expect(error.message).to.match(
      /^collector 0 failed: the environment broke \(plain-collector\.[jt]s:\d+:\d+\)$/,
    );
    await pool.close();
    await pool.close();
    expect(Atomics.load(words, 1), 'number of closed collectors').to.equal(2);
  });

  itAll('close() terminates a stuck collector after at least 4 seconds', async () => {
    const words = new Int32Array(new SharedArrayBuffer(12));
    const buffer = makeBuffer();
    const pool = await CollectorPool.open(withOptions(buffer, { fault: 'stuck', words }));
    const done = pool.done.catch((error) => error);
    await until('it is stuck', () => buffer.ptr === 3 && Atomics.load(words, 0) === 4);
    const begin = performance.now();
    await pool.close();
    expect(performance.now() - begin).to.be.at.least(4000);
    expect((await done).message).to.match(/collector 0 failed/);
  });

  it('collectors with an async collect() add rows, load weights, wait for the limiter and stop', async () => {
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 8,
      gateAdd: true,
    });
    const buffer = makeBuffer(limiter);
    const mailbox = WeightMailbox.create({ length: 3 });
    const pool = await CollectorPool.open({ ...withOptions(buffer, { later: true }), mailbox });
    await until('the collector waits', () => pool.statistics().waits > 0);
    mailbox.write(Float32Array.of(7, 0, 0));
    limiter.takeSamples(8);
    await until('it goes on by the new weights', () => newest(buffer)[0] === 7);
    await pool.close();
    // Rejects if close() had to terminate the thread because the collector ignored the stop.
    await pool.done;
  });

  it('close() resolves while a promise of collect() stays pending', async () => {
    const words = new Int32Array(new SharedArrayBuffer(12));
    const buffer = makeBuffer();
    const pool = await CollectorPool.open(withOptions(buffer, { fault: 'never', words }));
    await until(
      'it waits for its environment',
      () => buffer.ptr === 3 && Atomics.load(words, 0) === 4,
    );
    await pool.close();
    // Rejects if close() had to terminate the thread because the collector ignored the stop.
    await pool.done;
    expect(Atomics.load(words, 1), 'number of closed collectors').to.equal(1);
  });

  itAll('a failed collector is restarted `restart` times, and then done rejects', async () => {
    const words = new Int32Array(new SharedArrayBuffer(24));
    const buffer = makeBuffer();
    const warnings: string[] = [];
    const hear = ({ name, message }: Error) =>
      void (name === 'CollectorWarning' && warnings.push(message));
    process.on('warning', hear);
    const pool = await CollectorPool.open({
      ...withOptions(buffer, { fault: 'collect', faulty: 1, words }),
      workers: 2,
      restart: 2,
    });
    const failed = rejection(pool.done);
    for (let restart = 1; restart <= 2; restart++) {
      const reported = Atomics.load(words, 5);
      await until('it steps', () => Atomics.load(words, 5) > reported);
      Atomics.store(words, 2, 1);
      await until('it is made anew', () => warnings.length === restart);
      const before = buffer.ptr;
      await until(
        'rows come again',
        () => buffer.ptr > before && Atomics.load(words, 3) === restart,
      );
      // The new collector's `stepsBefore` has all steps that were reported before.
      expect(Atomics.load(words, 4)).to.be.within(reported + 1, Atomics.load(words, 5));
    }
    expect(warnings[0]).to.match(
      /^collector 1 failed: the environment broke \(plain-collector.*\); it is restarted$/,
    );
    Atomics.store(words, 2, 1);
    expect((await failed).message).to.match(/^collector 1 failed: the environment broke/);
    await pool.close();
    process.off('warning', hear);
  });

  itAll('a warning names a collector whose collect() has not returned for 10 s', async () => {
    const buffer = makeBuffer();
    const words = new Int32Array(new SharedArrayBuffer(12));
    const pool = await CollectorPool.open(withOptions(buffer, { fault: 'never', words }));
    await until(
      'it waits for its environment',
      () => buffer.ptr === 3 && Atomics.load(words, 0) === 4,
    );
    using clock = new ClockAhead();
    clock.ahead = 10_000;
    const [warning] = (await once(process, 'warning')) as [Error];
    expect(warning.message).to.match(
      /^collector 0 has not returned from a collect\(\) for 10 s \(file:.*plain-collector/,
    );
    await pool.close();
  });

  it('episodes() yields each episode with worker, return, length and weight version', async () => {
    const buffer = makeBuffer();
    const mailbox = WeightMailbox.create({ length: 3 });
    mailbox.write(Float32Array.of(7, 0, 0));
    const pool = await CollectorPool.open({
      ...withOptions(buffer, { calm: true }),
      mailbox,
      workers: 2,
    });
    const seen: Episode[] = [];
    for await (const episode of pool.episodes()) {
      seen.push(episode);
      if (seen.length === 40) break;
    }
    expect(new Set(seen.map(({ worker }) => worker))).to.deep.equal(new Set([0, 1]));
    for (const { worker, return: value, length, version } of seen)
      expect([value, length, version]).to.deep.equal([10 * (worker + 1), 10, 1]);
    expect(seen.every(({ missed }) => missed === 0)).to.equal(true);
    // The iterator ends when the pool closes.
    const rest = all(pool.episodes());
    await new Promise(setImmediate);
    await pool.close();
    await rest;
  });

  it('StatisticsPages.episodes() counts the episodes that a slow reader missed', async () => {
    const pages = StatisticsPages.create(1);
    const pen = pages.writer(0);
    const read = pages.episodes.bind(pages, 0);
    pen.acts(4);
    for (let n = 0; n < 300; n++) pen.episode(n, n);
    const { next, missed, episodes } = read(0);
    expect([next, missed, episodes.length]).to.deep.equal([300, 0, 255]);
    expect(episodes[0]).to.deep.equal({
      worker: 0,
      return: 45,
      length: 45,
      version: 4,
      missed: 45,
    });
    expect(episodes.at(-1)).to.deep.equal({
      worker: 0,
      return: 299,
      length: 299,
      version: 4,
      missed: 0,
    });
    pen.episode(1);
    expect(read(300).episodes).to.deep.equal([
      { worker: 0, return: 1, length: null, version: 4, missed: 0 },
    ]);
    expect(pages.read()).to.include({ episodes: 301, recent: 100 });
  });

  it('StatisticsPages continues a saved page when the episode number wraps', () => {
    const before = StatisticsPages.create(1);
    before.writer(0).episode(1, 2);
    const { page } = before.saved(0);
    // The layout that checkpoints store: eight values of the worker, then 256 episodes of three
    // values each.
    expect([page.length, ...page.subarray(8, 11)]).to.deep.equal([8 + 256 * 3, 1, 2, 0]);
    const ended = 2 ** 32 - 2;
    const after = StatisticsPages.create(2);
    after.restore(1, { page, ended });
    expect(after.saved(1)).to.deep.equal({ page, ended });
    for (let n = 0; n < 4; n++) after.writer(1).episode(n);
    const { next, missed, episodes } = after.episodes(1, ended, 3);
    expect([next, missed]).to.deep.equal([2, 0]);
    expect(episodes.map((each) => [each.return, each.missed])).to.deep.equal([
      [0, 3],
      [1, 0],
      [2, 0],
      [3, 0],
    ]);
    expect(after.ended(0)).to.equal(0);
  });

  it('episodes() rejects after an abort and after the failure of a collector', async () => {
    const words = new Int32Array(new SharedArrayBuffer(12));
    const pool = await CollectorPool.open(withOptions(makeBuffer(), { fault: 'collect', words }));
    const done = rejection(pool.done);
    const controller = new AbortController();
    const reading = (signal?: AbortSignal) =>
      rejection(async () => {
        for await (const _ of pool.episodes(signal ? { signal } : {}))
          controller.abort(new Error('enough'));
      });
    expect((await reading(controller.signal)).message).to.equal('enough');
    const failing = reading();
    // No code reads this iterator yet, so its rejection is not unhandled. It rejects when it is
    // read later.
    const unread = pool.episodes();
    Atomics.store(words, 2, 1);
    expect((await failing).message).to.match(/^collector 0 failed: the environment broke/);
    await done;
    await new Promise(setImmediate);
    expect((await rejection(() => all(unread))).message).to.match(/^collector 0 failed/);
    await pool.close();
  });

  it('a late error of a collector that has ended emits a warning, and close() resolves', async () => {
    const words = new Int32Array(new SharedArrayBuffer(12));
    const pool = await CollectorPool.open(
      withOptions(makeBuffer(), { fault: 'collect', leaves: true, words }),
    );
    const done = rejection(pool.done);
    const told = once(process, 'warning');
    Atomics.store(words, 2, 1);
    expect((await done).message).to.match(/the environment broke/);
    const [warning] = (await told) as [Error];
    expect(warning.message).to.equal(
      'the thread of a collector that has ended failed: a timer that was left',
    );
    await pool.close();
  });

  it('busyMs is 0 after the thread of a stuck collector has ended', async () => {
    const pool = await CollectorPool.open(withOptions(makeBuffer(), { fault: 'stuck' }));
    const busy = () => watchedCollectors.get(pool)!.workers()[0]!.busyMs;
    await until('it is stuck', () => busy() > 50);
    const done = rejection(pool.done);
    await threadsOf(pool)[0]!.terminate();
    await done;
    expect(busy()).to.equal(0);
    await pool.close();
  });

  itAll(
    'open() rejects when aborted during a slow factory, and rejects an invalid signal',
    async () => {
      const controller = new AbortController();
      const buffer = makeBuffer();
      const opening = rejection(
        CollectorPool.open({
          ...withOptions(buffer, { fault: 'slow' }),
          signal: controller.signal,
        }),
      );
      controller.abort(new Error('not today'));
      expect((await opening).message).to.equal('not today');
      const given = { entry, buffer, signal: {} } as never;
      expect((await refused(given)).message).to.include('signal must be an AbortSignal');
    },
  );

  itAll(
    'close() can be called repeatedly, done resolves, and collect() is not called again',
    async () => {
      const words = new Int32Array(new SharedArrayBuffer(12));
      const buffer = makeBuffer();
      const pool = await CollectorPool.open({ ...withOptions(buffer, { words }), workers: 2 });
      await Promise.all([pool.close(), pool.close()]);
      await pool.done;
      const calls = Atomics.load(words, 0);
      expect(Atomics.load(words, 1)).to.equal(2);
      await pool.close();
      expect(Atomics.load(words, 0)).to.equal(calls);
    },
  );

  it('CollectorPool.open() claims no bell of the limiter if the buffer is closed', async () => {
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 8,
      gateAdd: true,
    });
    const closed = makeBuffer(limiter);
    closed.close();
    const { bells } = internalsOfLimiter(limiter);
    for (let n = 0; n < 20; n++)
      expect(await refused({ entry, buffer: closed })).to.have.property(
        'code',
        'ERR_HOTSLOT_STATE_CLOSED',
      );
    const bell = bells.claim();
    expect(bell?.index).to.equal(0);
    if (bell) bells.release(bell);
  });

  const wrong: [string, object, RegExp][] = [
    ['an entry that is a path instead of a URL', { entry: './x.js' }, /entry must be the URL/],
    [
      '0 workers',
      { workers: 0 },
      /workers must be a whole number of at least 1 and at most 64, got 0/,
    ],
    ['a negative seed', { seed: -1 }, /seed must be a whole number of at least 0, got -1/],
    ['a buffer of null', { buffer: null }, /buffer must be a ReplayBuffer/],
    ['a mailbox that is no WeightMailbox', { mailbox: {} }, /mailbox must be a WeightMailbox/],
    ['options that cannot be cloned', { options: { act: () => 1 } }, /could not be cloned/],
  ];
  for (const [what, over, message] of wrong) {
    it(`open() rejects ${what}`, async () => {
      expect(
        (await refused({ entry, buffer: makeBuffer(), ...over } as CollectorPoolOptions)).message,
      ).to.match(message);
    });
  }
});
