/** Calls across threads, and how they end when a thread does. */
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { ActorThreads } from '../../src/engine/pipeline/actor-threads.ts';
import { Ring } from '../../src/engine/ring/ring.ts';
import { Control } from '../../src/shm/control.ts';
import { rejection } from '../rig/refusal.ts';
import type { Answers } from './control-worker.ts';

const start = () => new Control<Answers>(new Worker(new URL('./control-worker.js', import.meta.url)));

describe('the control plane', () => {
  it('calls across threads, shared memory and all', async () => {
    const control = start();
    const word = new Int32Array(new SharedArrayBuffer(4));
    expect(await control.call('add', word, 5)).to.equal(5);
    expect(word[0]).to.equal(5);
    await control.worker.terminate();
  });

  it('keeps an error’s class, code and cause, and the cause’s code', async () => {
    const control = start();
    const error = await rejection(control.call('fail'));
    expect(error).to.be.instanceOf(RangeError);
    expect(error).to.include({ message: 'out of slots', code: 'ERR_OUTER' });
    expect(error.cause).to.include({ message: 'the disk', code: 'ENOSPC' });
    expect(error.stack).to.match(/control-worker/);
    await control.worker.terminate();
  });

  it('settles a call whose worker ends before it answers', async () => {
    for (const how of ['hang', 'exit'] as const) {
      const control = start();
      expect(await control.call('add', new Int32Array(1), 1)).to.equal(1);
      const pending = rejection(control.call(how));
      if (how === 'hang') await control.worker.terminate();
      expect(await pending).to.include({ code: 'ERR_HOTSLOT_THREAD_LOST' });
    }
  });

  it('settles a call to a worker whose file does not exist, with the reason', async () => {
    const control = new Control<Answers>(new Worker(new URL('./nowhere.js', import.meta.url)));
    const error = await rejection(control.call('fail'));
    expect(error).to.include({ code: 'ERR_HOTSLOT_THREAD_LOST' });
    expect(error.message).to.match(/nowhere\.js/);
  });

  it('actor threads whose entry does not exist fail to start and leave nothing behind', async () => {
    const ring = Ring.create({ depth: 2, hosts: [0, 0, 0, 0], journalCapacity: 64 });
    const events = { failed() {}, restarted() {} };
    const threads = new ActorThreads({
      ring,
      threads: [['pack', 'submit', 'poll', 'replay']],
      setup: {} as never,
      restart: 0,
      events,
    });
    expect((await rejection(threads.start(new URL('./nowhere.js', import.meta.url)))).message).to.match(/nowhere\.js/);
    await threads.stop();
  });
});
