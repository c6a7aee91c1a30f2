/** A journal that is read while another thread writes it, faster than anybody reads: what is given is whole, the rest is counted. */
import { expect } from 'chai';
import { Journal } from '../../src/engine/ring/journal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';

describe('ring/journal', () => {
  for (const capacity of [2, 4, 64])
    itLonger(`of ${capacity}, beside its writer: every entry is whole, or missed`, async () => {
      const entries = setting({ short: 50_000, all: 1_000_000 });
      const share = Journal.allocate(capacity);
      const journal = new Journal(share);
      const writer = new TestThread(new URL('./journal-writer.js', import.meta.url), { share, entries });
      await writer.next();
      let [from, seen, missing, last] = [0, 0, 0, -1];
      while (from < entries) {
        const { next, missed } = journal.read(from, ({ record, slot, scalars }) => {
          const torn = record.some((each) => each !== slot) || scalars.some((each) => each !== slot);
          if (torn || slot <= last) expect.fail(`behind ${last}: ${slot}, ${record.join()}, ${scalars.join()}`);
          last = slot;
          seen++;
        });
        [from, missing] = [next, missing + missed];
      }
      await writer.result();
      expect(seen + missing).to.equal(entries);
      expect(seen).to.be.above(0);
    });
});
