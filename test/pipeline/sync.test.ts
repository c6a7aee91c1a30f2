import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { native } from '../../src/device/native.ts';
import { closeAll, filled, pipeline, SAMPLE, SPREAD } from './fixture.ts';

describe('the Sync forms', () => {
  afterEach(closeAll);

  it('refuse on the main thread when they would have to wait', async () => {
    const made = await pipeline({ buffer: filled(0) });
    made.startPrepare(0, SAMPLE, 10);
    expect(() => made.waitUntilReadySync(0, SAMPLE)).to.throw(/main thread never blocks/);
    expect(() => made.sampleLargeBatchSync(0, SAMPLE)).to.throw(/main thread never blocks/);
    expect(() => made.closeSync()).to.throw(/main thread never blocks/);
    expect(made.waitUntilReadySync(0, SAMPLE, { timeoutMs: 0 })).to.equal(false);
  });

  it('answer at once on the main thread when there is nothing to wait for', async () => {
    const made = await pipeline();
    await made.waitUntilReady(0, SAMPLE);
    expect(made.waitUntilReadySync(0, SAMPLE)).to.equal(true);
    expect(made.sampleLargeBatchSync(0, SAMPLE)).to.equal(await made.sampleLargeBatch(0, SAMPLE));
  });

  for (const [name, placement] of Object.entries({ inline: 'inline', auto: 'auto', 'a thread per role': SPREAD })) {
    it(`serve a learner in a worker, ${name}, which closes without its event loop`, async () => {
      const open = () => [1, 2, 3, 4, 5, 6].map((kind) => native().handleCount(kind));
      const made = await pipeline();
      const before = open();
      const workerData = { buffer: filled(100).share(), placement, ticks: 50, rows: SAMPLE };
      const worker = new Worker(new URL('./sync-worker.js', import.meta.url), { workerData });
      // Listened for at once: a worker that ends soon tells both in one turn.
      const exit = once(worker, 'exit');
      const [answer] = await once(worker, 'message');
      await exit;
      expect(answer).to.deep.equal({ ticks: 50, refused: 'ERR_HOTSLOT_STATE_CLOSED' });
      expect(open()).to.deep.equal(before);
      await made.close();
    });
  }
});
