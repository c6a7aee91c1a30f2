/**
 * Tests that a worker ends after terminate() while it waits in native code for an event that does
 * not happen.
 */
import { expect } from 'chai';
import { nativeGraphs } from '../../src/device/native.ts';
import { OpenedStream } from '../../src/device/stream.ts';
import { openDevice } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { itAll } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import type { Waiter, Way } from './native-waiter.ts';

const ENTRY = new URL('./native-waiter.js', import.meta.url);

describe(`native waits of workers on ${TESTED}`, () => {
  for (const way of [
    'synchronizeSync',
    'forwardSync',
    'onCaptureStream',
    'closeSync',
  ] satisfies Way[]) {
    (way === 'forwardSync' ? it : itAll)(
      `a worker in ${way} ends after terminate() although its wait is not over`,
      async () => {
        const device = openDevice(TESTED);
        const latch = new Latch(device);
        const opened = device.createEvent();
        const words = new Int32Array(new SharedArrayBuffer(64));
        nativeGraphs().enterCapture(device.handle, 0, 0);
        const thread = new TestThread<Waiter>(ENTRY, { way, words });
        try {
          const stream = new OpenedStream(device, await thread.next<number>(), 0, 'device');
          latch.hold(stream);
          stream.record(opened);
          await until('the stream is held', () => latch.reached);
          Atomics.store(words, 0, 1);
          Atomics.notify(words, 0);
          await until('the worker sleeps', () => Atomics.load(words, 1) === 1);
          await thread.terminate();
          // The event that the worker waited for has not happened.
          expect(opened.query()).to.equal(false);
        } finally {
          latch.open();
          nativeGraphs().leaveCapture(device.handle);
          await thread.terminate();
          await device.currentStream.synchronize();
          latch[Symbol.dispose]();
          opened.close();
          device.close();
        }
      },
    );
  }
});
