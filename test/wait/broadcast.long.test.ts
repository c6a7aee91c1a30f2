/**
 * Tests a broadcast ring that a thread writes faster than another one reads. The reader gets whole
 * entries, and learns how many it missed.
 */
import { expect } from 'chai';
import { itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { NumbersRing } from './numbers-ring.ts';

function ringFrom(head: number, capacity: number): NumbersRing {
  const ring = new NumbersRing(NumbersRing.allocate(capacity), capacity);
  ring.restore(head);
  return ring;
}

describe('BroadcastRing.read()', () => {
  for (const capacity of [2, 4, 64])
    itLonger(
      `gives whole entries and counts missed entries during concurrent writes, capacity ${capacity}`,
      async () => {
        const entries = setting({ short: 50_000, all: 1_000_000 });
        const place = NumbersRing.allocate(capacity);
        const ring = new NumbersRing(place, capacity);
        // The ring's head wraps after half of the entries.
        const first = 2 ** 32 - entries / 2;
        ring.restore(first);
        const writer = new TestThread(new URL('./broadcast-writer.js', import.meta.url), {
          place,
          capacity,
          entries,
        });
        await writer.next();
        let [from, seen, missing] = [first, 0, 0];
        while (from !== entries / 2) {
          const already = seen + missing;
          let given = 0;
          const { next, missed } = ring.read(from, ([n, ...torn], before) => {
            if (torn.length > 0) expect.fail(`entry ${n} has ${torn.join()} in it`);
            if (n !== already + before + given++)
              expect.fail(`entry ${n} comes behind ${given - 1} given, ${before} missed`);
          });
          [from, seen, missing] = [next, seen + given, missing + missed];
        }
        await writer.result();
        expect(seen + missing).to.equal(entries);
        expect(seen).to.be.above(0);
      },
    );

  for (const head of [0, 2 ** 32 - 5, 2 ** 32 - 17])
    it(`gives each entry once with the number of missed entries before, from head ${head}`, () => {
      const ring = ringFrom(head, 8);
      let from = head;
      const read = (most?: number) => {
        const entries: number[][] = [];
        const { next, missed } = ring.read(
          from,
          (entry, before) => entries.push([...entry, before]),
          most,
        );
        from = next;
        return { missed, entries };
      };
      for (let n = 0; n < 7; n++) ring.write(n);
      expect(ring.head).to.equal((head + 7) % 2 ** 32);
      expect(read()).to.deep.equal({
        missed: 0,
        entries: [0, 1, 2, 3, 4, 5, 6].map((n) => [n, 0]),
      });
      expect(read()).to.deep.equal({ missed: 0, entries: [] });
      // The writer may already write over the oldest of eight entries.
      for (let n = 0; n < 8; n++) ring.write(n);
      expect(read()).to.deep.equal({
        missed: 1,
        entries: [1, 2, 3, 4, 5, 6, 7].map((n) => [n, 1]),
      });
      for (let n = 0; n < 5; n++) ring.write(n);
      expect(read(2)).to.deep.equal({ missed: 3, entries: [3, 4].map((n) => [n, 3]) });
    });

  it('counts an entry as missed when the writer reaches the slot of the entry during the read', () => {
    const ring = ringFrom(0, 4);
    for (let n = 0; n < 3; n++) ring.write(n);
    const given: number[][] = [];
    const { next, missed } = ring.read(0, ([n], before) => {
      given.push([n as number, before]);
      // The writer writes two entries while the first entry is read.
      if (given.length === 1) for (let m = 3; m < 5; m++) ring.write(m);
    });
    expect([next, missed]).to.deep.equal([3, 1]);
    // The number of each entry, and how many entries were missed before it.
    expect(given).to.deep.equal([
      [0, 0],
      [2, 1],
    ]);
  });

  it('gives the next written entry in place of an entry that was begun but not published', () => {
    const ring = ringFrom(0, 4);
    ring.write(0);
    ring.values[ring.begin()] = 7;
    ring.write(1);
    const given: number[] = [];
    ring.read(0, ([n]) => given.push(n as number));
    expect(given).to.deep.equal([0, 1]);
  });
});
