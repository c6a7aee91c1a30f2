/**
 * Tests the one capture stream and the one pool of each device. All threads get the same ones, one
 * thread captures at a time, and both are released after any failure.
 */
import { expect } from 'chai';
import { captureGraph, onCaptureStream } from '../../src/device/graph/shared.ts';
import {
  FullGraphWrapper,
  getGraphPool,
  getSharedCaptureStream,
  getSharedGraphPool,
} from '../../src/entries/graph.ts';
import { type Device, openDevice } from '../../src/index.ts';
import { errorScope } from '../rig/error-scope.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { TestThread } from '../rig/test-thread.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import type { Sharing } from './shared-worker.ts';

describe('graph/shared', () => {
  let device: Device;
  let words: Int32Array;
  beforeEach(() => {
    device = openDevice(TESTED);
    words = new Int32Array(new SharedArrayBuffer(4));
  });
  afterEach(() => device.close());

  const thread = (task: Sharing['task'], more: Partial<Sharing> = {}) =>
    new TestThread<Sharing>(new URL('./shared-worker.js', import.meta.url), {
      task,
      name: TESTED,
      words,
      ...more,
    });
  const go = () => {
    Atomics.store(words, 0, 1);
    Atomics.notify(words, 0);
  };

  it('every thread gets the same stream and pool, which close when no thread has the device open', async () => {
    // A device that no other test uses.
    const name = 'host:5';
    const mine = openDevice(name);
    const handles = [getSharedCaptureStream(mine).handle, getSharedGraphPool(mine).handle];
    const other = thread('handles', { name });
    expect(await other.next()).to.deep.equal(handles);
    mine.close();
    mine.close();
    const again = openDevice(name);
    const stream = getSharedCaptureStream(again);
    expect(stream.handle, 'the other thread keeps the stream open').to.equal(handles[0]);
    again.close();
    go();
    await other.result();
    expect(refusal(() => stream.query()).code).to.equal('ERR_HOTSLOT_STALE_HANDLE');
    using last = openDevice(name);
    expect(getSharedCaptureStream(last).handle).to.not.equal(handles[0]);
  });

  it('threads capture and launch concurrently with one temporary, and get their own results', async () => {
    const runs = 150;
    const values = [1, 10, 100];
    const threads = values.map((value) => thread('run', { value, runs }));
    const sums = await Promise.all(threads.map((each) => each.result()));
    expect(sums).to.deep.equal(values.map((value) => [4 * value * runs]));
  });

  it('onCaptureStream() throws in the main thread while another thread captures, and works afterwards', async () => {
    const other = thread('hold');
    await other.next();
    const begin = performance.now();
    const error = refusal(() => onCaptureStream(device, null, () => {}));
    expect([error.code, error.message]).to.deep.equal([
      'ERR_HOTSLOT_STATE_BUSY',
      `the shared capture stream of ${TESTED} is in use by another thread; try again later`,
    ]);
    expect(performance.now() - begin).to.be.at.least(40);
    using wrapper = new FullGraphWrapper(() => null, { device });
    const options = {
      model: null,
      dataIterator: null,
      numMicrobatches: 1,
      seqLength: 1,
      forwardOnly: false,
    };
    expect(refusal(() => wrapper.run(options)).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    expect([wrapper.currIter('training'), wrapper.reason.training]).to.deep.equal([0, null]);
    go();
    await other.result();
    expect(wrapper.run(options)).to.equal(null);
  });

  it('the capture stream is free after a thread is terminated during a capture', async () => {
    const other = thread('hold');
    await other.next();
    await other.terminate();
    using out = device.allocate({ shape: [4] });
    using exec = captureGraph(
      device,
      { what: 'the test', pool: getSharedGraphPool(device) },
      (stream) => stream.fill(out, 3),
    ).exec;
    device.currentStream.replay(exec);
    expect(await valuesOf(out)).to.deep.equal([3, 3, 3, 3]);
  });

  it('a graph that fails does not affect other graphs of its pool', async function () {
    if (!ON_HOST) this.skip(); // on a GPU, a failed stream loses the device
    using pool = getGraphPool(device, false);
    using out = device.allocate({ shape: [64] });
    const graph = (fails: boolean) =>
      captureGraph(device, { what: 'the test', pool }, (stream) => {
        using temporary = pool.allocate({ shape: [64] });
        stream.fill(temporary, 4);
        if (fails) stream.launch('fail');
        stream.copy(out, temporary);
      }).exec;
    using bad = graph(true);
    using good = graph(false);
    using first = device.createStream();
    using latch = new Latch(device).hold(first);
    first.replay(bad);
    for (let i = 0; i < 2; i++) {
      using next = device.createStream();
      next.replay(good);
      latch.open();
      expect(new Set(await valuesOf(out, next))).to.deep.equal(new Set([4]));
    }
  });

  it('a wrapper gets another capture stream after the shared one has failed', async function () {
    if (errorScope(TESTED) !== 'stream') this.skip(); // on a GPU, a failed stream loses the device
    using wrapper = new FullGraphWrapper<unknown, null>(
      (args, { stream }) => {
        if (args.model === 'bad') stream.launch('fail');
        else stream.launch('spin', { wholes: [1] });
        return null;
      },
      { device, warmupSteps: 10 },
    );
    const options = { dataIterator: null, numMicrobatches: 1, seqLength: 1, forwardOnly: false };
    const failed = getSharedCaptureStream(device);
    using stream = device.createStream();
    try {
      device.withStream(stream, () => wrapper.run({ ...options, model: 'bad' }));
    } catch {
      // the stream failed before run() had returned
    }
    await until('the stream has failed', () => {
      try {
        failed.query();
        return false;
      } catch {
        return true;
      }
    });
    using out = device.allocate({ shape: [1] });
    using fresh = new FullGraphWrapper(
      (_, context) => {
        context.stream.fill(out, 5);
        return null;
      },
      { device },
    );
    fresh.run({ ...options, model: null });
    expect(await valuesOf(out)).to.deep.equal([5]);
    expect(getSharedCaptureStream(device).handle).to.not.equal(failed.handle);
    // After resetGraph(), the wrapper of the failed stream uses another stream.
    wrapper.resetGraph();
    using other = device.createStream();
    device.withStream(other, () => wrapper.run({ ...options, model: 'good' }));
    await other.synchronize();
  });
});
