/**
 * Tests pipelines with listeners that throw, threads that die, and callers who close what they do
 * not own.
 */

import { once } from 'node:events';
import { expect } from 'chai';
import { DqnLearner } from '../../src/entries/learner.ts';
import { buildReplayTransferBackend } from '../../src/entries/transfer.ts';
import {
  DeviceError,
  openDevice,
  type PipelineError,
  RateLimiter,
  ReplayBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { versionsOf } from '../../src/store/weights/weight-mailbox.ts';
import { itAlone } from '../rig/error-scope.ts';
import { Latch } from '../rig/latch.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { closeAll, counter, failingActors, filled, pipeline, SAMPLE, SPREAD } from './fixture.ts';
import { workersOf } from './inside.ts';
import type { LostLearning } from './lost-worker.ts';
import { onlyOn } from './placements.ts';

const deaths = setting({ short: 0, all: 4, long: 1000 });

describe('ReplayPipeline under failures', () => {
  afterEach(closeAll);

  for (const placement of ['inline', 'auto'] as const) {
    onlyOn('inline', placement)(
      `run() rejects with the error of a throwing listener, and the next run works (${placement})`,
      async () => {
        const made = await pipeline({ placement });
        const update = counter(made);
        const seen: number[] = [];
        const listener = ({ tickId }: { tickId: number }) => {
          seen.push(tickId);
          if (tickId === 3) throw new Error('a bug in a listener');
        };
        made.on('tick', listener);
        expect((await rejection(() => made.run({ ticks: 5000 }))).message).to.equal(
          'a bug in a listener',
        );
        made.off('tick', listener);
        const [before] = await update.count.toArray();
        expect(await made.run({ ticks: 10 })).to.include({ ticks: 10 });
        expect((await update.count.toArray())[0]).to.equal((before as number) + 10);
        await made.close();
        update.close();
      },
    );

    onlyOn('inline', placement)(
      `publishes the last tick of a run after another pipeline left unpublished versions (${placement})`,
      async () => {
        const mailbox = WeightMailbox.create({ length: 1 });
        const device = openDevice(TESTED);
        const [weights, one] = [device.allocate({ shape: [1] }), device.allocate({ shape: [1] })];
        one.write(Float32Array.of(1));
        // Begins two versions, as a pipeline leaves them that is closed during a run.
        versionsOf(mailbox).begin();
        versionsOf(mailbox).begin();
        const made = await pipeline({ placement, mailbox });
        made.capture(
          (_, { stream }) =>
            stream.launch('axpby', { tensors: [weights, one], wholes: [1], reals: [1, 1] }),
          {
            weights,
          },
        );
        const into = new Float32Array(1);
        for (const ticks of [1, 4, 30]) {
          await made.run({ ticks, publishEvery: 1 });
          expect(mailbox.read(into)).to.be.greaterThan(0);
          expect(into[0]).to.equal((await weights.toArray())[0]);
        }
        await made.close();
      },
    );

    onlyOn('inline', placement)(
      `close() releases begun versions, so that write() works again (${placement})`,
      async () => {
        const mailbox = WeightMailbox.create({ length: 1 });
        const made = await pipeline({ placement, mailbox });
        // Begins two versions, as an actor leaves them that died or was stopped during a run.
        versionsOf(mailbox).begin();
        versionsOf(mailbox).begin();
        expect(
          mailbox.write(Float32Array.of(7)),
          'no version while copies may be in flight',
        ).to.equal(0);
        await made.close();
        const into = new Float32Array(1);
        for (const version of [1, 2, 3]) {
          expect(mailbox.write(Float32Array.of(version))).to.equal(version);
          expect([mailbox.read(into), into[0]]).to.deep.equal([version, version]);
        }
      },
    );
  }

  itLonger(
    'orders the batch on the stream that is current at the call, also with deferred copies',
    async () => {
      const made = await pipeline(ON_HOST ? { transfer: 'deferred' } : {});
      const device = openDevice(made.transferManifest.device);
      using stream = device.createStream();
      // The default stream is held. If the copy were ordered there, it would not run before the
      // read.
      using latch = new Latch(device).hold(device.currentStream);
      const batch = await device.withStream(stream, () => made.sampleLargeBatch(1, SAMPLE));
      const rewards = await batch.rewards?.toArray(stream);
      expect(rewards?.some((value) => value !== 0)).to.equal(true);
      made.afterTick({ stream });
      latch.open();
      await device.currentStream.synchronize();
    },
  );

  itLonger('closes its tensors even if the caller has closed the device', async () => {
    const made = await pipeline();
    const batch = await made.sampleLargeBatch(0, SAMPLE);
    expect(() => batch.obs?.close()).to.throw(/belongs to the pipeline/);
    batch.obs?.device.close();
    made.on('close', () => {});
    await made.close();
    expect(() => batch.obs?.checkOpen()).to.throw(/closed/);
  });

  itAlone(
    TESTED,
    'emits `error` once, and run() rejects with the actor and the DeviceError',
    async () => {
      const made = await pipeline({ placement: SPREAD });
      made.capture((_, { stream }) => stream.launch('fail'));
      const heard: PipelineError[] = [];
      made.on('error', (error) => heard.push(error));
      const error = (await rejection(() => made.run({ ticks: 10 }))) as PipelineError;
      await Promise.all(workersOf(made).map((thread) => thread?.ended));
      expect(heard.length).to.equal(1);
      expect(error.actor).to.be.oneOf(failingActors);
      expect(error.cause).to.be.instanceOf(DeviceError);
      const { family, statusName } = error.cause as DeviceError;
      expect(family).to.equal(TESTED.split(':')[0]);
      // Drivers report a trap under different names.
      expect(statusName).to.match(/^(LAUNCH_FAILED|ILLEGAL_INSTRUCTION|DEVICE_LOST)$/);
    },
  );

  itAll(
    'fails the synchronous wait of a learner in a worker if an actor thread is lost',
    async () => {
      const buffer = filled(0).share();
      for (const restart of [0, 3]) {
        const learner = new TestThread<LostLearning>(new URL('./lost-worker.js', import.meta.url), {
          buffer,
          rows: SAMPLE,
          restart,
        });
        expect(await learner.result()).to.deep.equal({
          code: 'ERR_HOTSLOT_PIPELINE',
          cause: 'ERR_HOTSLOT_THREAD_LOST',
        });
      }
    },
  );

  itAll(
    'frees its waiting place in the buffer when its thread crashes or is terminated',
    async () => {
      const buffer = filled();
      for (let death = 0; death < deaths; death++) {
        const learner = new TestThread(
          new URL('./crashing-worker.js', import.meta.url),
          buffer.share(),
        );
        expect(await learner.next()).to.equal('open');
        if (death % 2 === 0) await learner.terminate();
        else {
          learner.worker.postMessage('crash');
          expect((await rejection(learner.next())).message).to.equal('a bug in a learner');
          await learner.ended;
        }
      }
      // All eight of the buffer's places for pipelines must be free.
      for (let i = 0; i < 8; i++) await pipeline({ buffer, placement: 'inline' });
      await closeAll();
    },
  ).timeout(600_000);

  itAll('restarts a thread again if the new thread is terminated before attaching', async () => {
    const made = await pipeline({ placement: SPREAD, restart: 5 });
    const restarted = once(made as never, 'restart');
    await workersOf(made)[2]?.terminate();
    // The new thread exists before it has attached to the pipeline.
    for (let n = 0; n < 3; n++) {
      while (!workersOf(made)[2]) await new Promise(setImmediate);
      await workersOf(made)[2]?.terminate();
    }
    await restarted;
    await made.sampleLargeBatch(0, SAMPLE);
    made.afterTick();
    const update = counter(made);
    expect(await made.run({ ticks: 50 })).to.include({ ticks: 50 });
    await made.close();
    update.close();
  });

  it('throws or rejects with a code for unknown options and invalid arguments', async () => {
    const made = await pipeline();
    const update = counter(made);
    const wrong: (() => unknown)[] = [
      () => made.run({ tick: 5 } as never),
      () => made.run({ signal: {} } as never),
      () => made.run(null as never),
      () => made.run({ ticks: 1, publishEvery: 1 }),
      () => made.capture(() => {}, { scalar: [] } as never),
      () => made.capture(() => {}, { scalars: [3] } as never),
      () => made.capture(5 as never),
      () => made.waitUntilReady(0, SAMPLE, { timeout: 5 } as never),
      () => made.waitUntilReady(0, SAMPLE, { signal: {} } as never),
      () => pipeline({ trace: true } as never),
      () => pipeline({ trace: { files: 'x' } } as never),
      () => pipeline({ trace: null } as never),
      () => pipeline({ placement: ['pack', 'submit', 'poll', 'replay'] } as never),
      () => pipeline({ placement: 'inline', restart: 1 }),
      () => ReplayBuffer.create({ capacity: 4, fields: { x: { shape: [1] } }, limit: 3 } as never),
      () => ReplayBuffer.offPolicy({ capacity: 4, obsDim: 1, actionDim: 1, critic: 3 } as never),
      () =>
        RateLimiter.create({
          samplesPerInsert: 1,
          minSize: 1,
          errorBuffer: 9,
          gate: true,
        } as never),
      () => WeightMailbox.create({ length: 4, buffers: 2 } as never),
      () => buildReplayTransferBackend({ device: 'cpu', ringDepth: 2, mode: 1 } as never),
      () =>
        new DqnLearner(openDevice(TESTED), {
          obsDim: 1,
          actions: 2,
          hidden: [2],
          batchSize: 1,
          lr: 1,
        } as never),
    ];
    for (const act of wrong)
      expect((await rejection(act)).code, String(act)).to.match(/^ERR_HOTSLOT_/);
    await made.sampleLargeBatch(0, SAMPLE);
    expect(refusal(() => made.afterTick({ stream: 3 } as never)).code).to.equal(
      'ERR_HOTSLOT_ARGUMENT',
    );
    made.afterTick();
    expect(await made.sampleLargeBatch(1, SAMPLE, { timeoutMs: 60_000 })).to.have.property('obs');
    await made.close();
    update.close();
  });
});
