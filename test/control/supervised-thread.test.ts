/**
 * Tests threads that end before they are ready, while they run, when they are told to, or too late.
 */
import { expect } from 'chai';
import { Control } from '../../src/shm/control.ts';
import { SupervisedThread, type Supervision } from '../../src/shm/supervised-thread.ts';
import { type MessageThread, startThread } from '../../src/shm/thread.ts';
import { rejection } from '../rig/refusal.ts';
import type { Answers } from './control-worker.ts';

const start = (module = './control-worker.js') =>
  startThread(new URL(module, import.meta.url), { name: 'answers' });
const call = (thread: MessageThread, method: 'hang' | 'exit' | 'fail') =>
  new Control<Answers>(thread).call(method);
const answers = (thread: MessageThread) =>
  new Control<Answers>(thread).call('add', new Int32Array(1), 1);

const supervised = (how: Partial<Supervision>) =>
  new SupervisedThread({
    start,
    ready: answers,
    lost: () => expect.fail('told to be lost'),
    ...how,
  });
/**
 * Starts a thread and waits until it is ready. `lost` resolves with the reason that lost() gets.
 */
async function ready() {
  let tell = (_: Error) => {};
  const lost = new Promise<Error>((resolve) => {
    tell = resolve;
  });
  const place = supervised({ lost: tell });
  await place.start();
  return { place, lost };
}

describe('SupervisedThread', () => {
  it('start() rejects without a call of lost() if the thread ends before ready() resolves', async () => {
    const exits = supervised({ ready: (thread) => call(thread, 'exit') });
    const ended = await rejection(exits.start());
    expect(ended).to.include({
      code: 'ERR_HOTSLOT_THREAD_LOST',
      message: 'the thread ended (exit code 3)',
    });
    expect(ended.cause).to.equal(undefined);
    const absent = supervised({ start: () => start('./nowhere.js') });
    const error = await rejection(absent.start());
    expect(error).to.include({ code: 'ERR_HOTSLOT_THREAD_LOST' });
    expect(error.message).to.match(/^the thread failed: .*nowhere\.js/);
    expect(error.cause).to.be.instanceOf(Error);
    const hangs = supervised({ ready: (thread) => call(thread, 'hang') });
    const starting = rejection(hangs.start());
    await hangs.running?.terminate();
    expect((await starting).message).to.match(/^the thread ended/);
    expect([exits, absent, hangs].map(({ running }) => running)).to.deep.equal([null, null, null]);
  });

  it('start() rejects and ends the thread if ready() rejects', async () => {
    const place = supervised({ ready: (thread) => call(thread, 'fail') });
    const starting = rejection(place.start());
    const thread = place.running;
    expect(await starting).to.include({ message: 'out of slots' });
    expect(place.running).to.equal(null);
    await thread?.ended;
  });

  it('calls lost() with the reason when a ready thread ends', async () => {
    const { place, lost } = await ready();
    expect(place.running).to.not.equal(null);
    void call(place.running!, 'exit');
    expect(await lost).to.include({ message: 'the thread ended (exit code 3)' });
    expect(place.running).to.equal(null);
  });

  it('replace() starts threads until a thread is ready, while `again` returns true', async () => {
    const modules = ['./nowhere.js', './nowhere.js', './control-worker.js', './nowhere.js'];
    const place = supervised({ start: () => start(modules.shift()) });
    const reasons: string[] = [];
    const again = ({ message }: Error) => reasons.push(/nowhere|first/.exec(message)![0]) < 5;
    expect(await place.replace(new Error('first'), again)).to.equal(true);
    expect(reasons).to.deep.equal(['first', 'nowhere', 'nowhere']);
    expect(await answers(place.running!)).to.equal(1);
    await place.running?.terminate();
  });

  it('replace() resolves to false when `again` returns false', async () => {
    const modules = ['./nowhere.js'];
    const place = supervised({ start: () => start(modules.shift()) });
    expect(await place.replace(new Error('first'), ({ message }) => message === 'first')).to.equal(
      false,
    );
    expect([modules.length, place.running]).to.deep.equal([0, null]);
  });

  it('stop() waits for a thread that exits when asked, and ignores an ended thread', async () => {
    const { place, lost } = await ready();
    await place.stop((thread) => void call(thread, 'exit'));
    expect((await lost).message).to.equal('the thread ended (exit code 3)');
    await place.stop(() => expect.fail('told to stop'));
  });

  it('stop() terminates a thread that does not stop within five seconds', async () => {
    const { place, lost } = await ready();
    const { setTimeout } = globalThis;
    const waits: unknown[] = [];
    globalThis.setTimeout = ((does: () => void, ms: number) => {
      waits.push(ms);
      return setTimeout(does, 0);
    }) as typeof setTimeout;
    try {
      await place.stop((thread) => void call(thread, 'hang'));
    } finally {
      globalThis.setTimeout = setTimeout;
    }
    expect(waits).to.deep.equal([5000]);
    expect((await lost).message).to.equal('the thread ended (exit code 1)');
  });
});
