/**
 * Tests a backend that another thread attaches. It has the same slots and flags by handle, and owns
 * nothing.
 */
import { expect } from 'chai';
import { AttachedTransferBackend } from '../../src/device/transfer/attached.ts';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { Submitting } from './attached-worker.ts';
import { Bench, BYTES, FLOATS, transfers } from './rig.ts';

describe('attached backend', () => {
  for (const transfer of transfers) {
    it(`${transfer}: another thread submits a slot, and this thread consumes the slot`, async () => {
      using bench = new Bench(transfer);
      bench.pack(1, 6);
      const submitter = new TestThread<Submitting>(
        new URL('./attached-worker.js', import.meta.url),
        {
          shared: bench.backend.share(),
          slot: 1,
          bytes: BYTES,
        },
      );
      expect(await submitter.result()).to.be.at.least(0);
      expect(pinnedHandles(), 'no handle is left pinned').to.equal(0);
      await bench.backend.synchronizeReady(1);
      expect([bench.backend.readyQuery(1), bench.backend.readyQuery(0)]).to.deep.equal([
        true,
        false,
      ]);
      bench.backend.waitCurrentStreamForReady(1, bench.stream);
      expect(await valuesOf(bench.slots[1]!, bench.stream)).to.deep.equal(Array(FLOATS).fill(6));
    });
  }

  it('submits after the backend is closed, whose memory is freed when the attached backend closes', () => {
    const before = openHandles();
    const bench = new Bench();
    const attached = new AttachedTransferBackend(bench.backend.share());
    bench.backend.close();
    expect(attached.submitSlot(0, BYTES)).to.be.at.least(0);
    expect(pinnedHandles(), 'the attached backend pins handles').to.be.greaterThan(0);
    attached.close();
    attached.close();
    expect(pinnedHandles()).to.equal(0);
    expect(refusal(() => attached.submitSlot(0, BYTES)).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    expect(refusal(() => bench.backend.share()).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    bench[Symbol.dispose]();
    expect(openHandles()).to.deep.equal(before);
  });
});
