/** Tests method calls from one thread to another. */
import { expect } from 'chai';
import { ActorThreads } from '../../src/engine/pipeline/actor-threads.ts';
import { Ring } from '../../src/engine/ring/ring.ts';
import { Control } from '../../src/shm/control.ts';
import { startThread } from '../../src/shm/thread.ts';
import { rejection } from '../rig/refusal.ts';
import type { Answers } from './control-worker.ts';

const start = () =>
  startThread(new URL('./control-worker.js', import.meta.url), { name: 'answers' });

describe('Control and ActorThreads', () => {
  it('call() runs a method on shared memory in another thread, and resolves to its result', async () => {
    const thread = start();
    const word = new Int32Array(new SharedArrayBuffer(4));
    expect(await new Control<Answers>(thread).call('add', word, 5)).to.equal(5);
    expect(word[0]).to.equal(5);
    await thread.terminate();
  });

  it('call() rejects with the class, code and cause of an error thrown in the thread', async () => {
    const thread = start();
    const error = await rejection(new Control<Answers>(thread).call('fail'));
    expect(error).to.be.instanceOf(RangeError);
    expect(error).to.include({ message: 'out of slots', code: 'ERR_OUTER' });
    expect(error.cause).to.include({ message: 'the disk', code: 'ENOSPC' });
    expect(error.stack).to.match(/control-worker/);
    await thread.terminate();
  });

  it('ActorThreads.start() rejects if the module does not exist, and leaves no thread running', async () => {
    const ring = Ring.create({ depth: 2, hosts: [0, 0, 0, 0], journalCapacity: 64 });
    const events = { failed() {}, restarted() {} };
    const threads = new ActorThreads({
      ring,
      threads: [['pack', 'submit', 'poll', 'replay']],
      setup: {} as never,
      restart: 0,
      events,
    });
    expect(
      (await rejection(threads.start(new URL('./nowhere.js', import.meta.url)))).message,
    ).to.match(/nowhere\.js/);
    expect(threads.supervised.map(({ running }) => running)).to.deep.equal([null]);
    await threads.stop();
  });
});
