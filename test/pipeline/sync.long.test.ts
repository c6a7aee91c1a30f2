/**
 * Tests the Sync methods: they throw on the main thread if they would block, and a learner in a
 * worker needs no others.
 */
import { expect } from 'chai';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { itLonger } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { closeAll, filled, pipeline, SAMPLE } from './fixture.ts';
import { onlyOn, placements } from './placements.ts';
import type { SyncLearning } from './sync-worker.ts';

describe('Sync methods of ReplayPipeline', () => {
  afterEach(closeAll);

  itLonger('throw on the main thread if the call would have to wait', async () => {
    const made = await pipeline({ buffer: filled(0) });
    made.startPrepare(0, SAMPLE, 10);
    expect(() => made.waitUntilReadySync(0, SAMPLE)).to.throw(/main thread never blocks/);
    expect(() => made.sampleLargeBatchSync(0, SAMPLE)).to.throw(/main thread never blocks/);
    expect(() => made.closeSync()).to.throw(/main thread never blocks/);
    expect(made.waitUntilReadySync(0, SAMPLE, { timeoutMs: 0 })).to.equal(false);
  });

  itLonger('return at once on the main thread if the batch is ready', async () => {
    const made = await pipeline();
    await made.waitUntilReady(0, SAMPLE);
    expect(made.waitUntilReadySync(0, SAMPLE)).to.equal(true);
    expect(made.sampleLargeBatchSync(0, SAMPLE)).to.equal(await made.sampleLargeBatch(0, SAMPLE));
  });

  for (const [name, placement] of Object.entries(placements)) {
    onlyOn('auto', placement)(
      `serve a learner in a worker, ${name}, until closeSync()`,
      async () => {
        const open = () => [openHandles(), pinnedHandles()];
        const made = await pipeline();
        const before = open();
        const learner = new TestThread<SyncLearning>(new URL('./sync-worker.js', import.meta.url), {
          buffer: filled(100).share(),
          placement,
          ticks: 50,
          rows: SAMPLE,
        });
        const answer = await learner.result();
        expect(answer).to.deep.equal({ ticks: 50, refused: 'ERR_HOTSLOT_STATE_CLOSED' });
        expect(open()).to.deep.equal(before);
        await made.close();
      },
    );
  }
});
