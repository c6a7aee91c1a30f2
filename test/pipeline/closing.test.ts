/** Tests that a pipeline can be closed while an actor elsewhere has its events pinned. */

import { expect } from 'chai';
import { newPoller } from '../../src/device/transfer/native.ts';
import { openDevice } from '../../src/index.ts';
import { internalsOfBuffer } from '../../src/store/rows/replay-buffer.ts';
import { openHandles } from '../rig/handles.ts';
import { rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';
import { filled, pipeline, SAMPLE } from './fixture.ts';
import { slotsOf } from './inside.ts';

describe('ReplayPipeline.close()', () => {
  for (const placement of ['inline', 'auto'] as const) {
    it(`resolves while events are pinned, and the last unpin frees the events, ${placement}`, async () => {
      using _ = openDevice(TESTED);
      const before = openHandles();
      const buffer = filled();
      const made = await pipeline({ buffer, placement });
      await made.sampleLargeBatch(0, SAMPLE);
      made.afterTick();
      let closed = 0;
      made.on('close', () => {
        closed++;
      });
      const { device, spent } = slotsOf(made);
      const pinning = newPoller({
        device: device.handle,
        events: spent.map((event) => event.handle),
        watch: new Int32Array(spent.length),
        times: new Float64Array(spent.length),
        sleepNs: 0,
        spinNs: 0,
      });
      await made.close();
      expect(openHandles()).to.deep.equal({
        ...before,
        event: (before.event as number) + spent.length,
      });
      // Claims the freed bell, as another pipeline would. The closed pipeline must not ring or
      // release it.
      const bell = internalsOfBuffer(buffer).bells.claim();
      expect((await rejection(made.waitUntilReady(1, SAMPLE))).code).to.equal(
        'ERR_HOTSLOT_STATE_CLOSED',
      );
      await made.close();
      pinning.close();
      expect(internalsOfBuffer(buffer).bells.claim()?.index).to.not.equal(bell?.index);
      expect([closed, openHandles()]).to.deep.equal([1, before]);
    });
  }
});
