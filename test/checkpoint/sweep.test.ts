/** Tests that a sweep uses at most 56 MiB, for any size of ring and any speed of its writers. */
import { expect } from 'chai';
import { Sweeper } from '../../src/run/checkpoint/sweep.ts';

const MIB = 1 << 20;

/**
 * Simulates a ring whose writers advance by `byCopy` places during each copy. `bytes()` returns the
 * size of the memory that is copied to.
 */
function ring(perLane: number, placeBytes: number, byCopy: number) {
  let newest = 10 * perLane;
  const memory = new Set<ArrayBufferLike>();
  const read = (_: number, from: number, count: number, out: Uint8Array) => {
    expect(out.length).to.equal(count * placeBytes);
    memory.add(out.buffer);
    newest += byCopy;
    const lowest = newest - perLane;
    for (let i = 0; i < count; i++) if (from + i >= lowest) out[i * placeBytes] = (from + i) % 251;
    return lowest;
  };
  const ledger = {
    perLane,
    placeBytes,
    states: () => Float64Array.of(newest - perLane, newest),
    read,
  };
  const bytes = () => [...memory].reduce((sum, { byteLength }) => sum + byteLength, 0);
  return { sweeper: new Sweeper(ledger), bytes, newest: () => newest };
}

describe('Sweeper', () => {
  it('sweep() returns the newest full ring in order during writes, and reuses its memory', () => {
    const { sweeper, bytes, newest } = ring(1000, 64, 7);
    for (let i = 0; i < 5; i++) {
      const { lowest, from, to, parts } = sweeper.sweep(newest() - 1500)!;
      expect([lowest, to - lowest, from]).to.deep.equal([newest() - 1000 - 7, 1000, lowest]);
      const all = Buffer.concat(parts);
      expect(all.length).to.equal((to - from) * 64);
      for (let at = 0; at < to - from; at++) expect(all[at * 64]).to.equal((from + at) % 251);
    }
    expect(bytes()).to.equal(2 * 1000 * 64);
  });

  it('sweep() uses at most 56 MiB, and returns null if a ring of 60 MiB does not fit', () => {
    const { sweeper, bytes, newest } = ring(60 * 1024, 1024, 20 * 1024);
    const at = newest();
    // The first sweep needs the whole ring. The others also need the places that are written
    // meanwhile, or are overwritten during the copy.
    expect(sweeper.fits(at - 60 * 1024, at)).to.equal(false);
    expect(sweeper.sweep(at - 60 * 1024)).to.equal(null);
    expect(sweeper.fits(at - 29 * 1024, at - 20 * 1024)).to.equal(false);
    expect([
      sweeper.fits(at - 20 * 1024, at),
      sweeper.fits(at - 20 * 1024, at + 9 * 1024),
    ]).to.deep.equal([true, false]);
    const { from, to, parts } = sweeper.sweep(at - 20 * 1024)!;
    expect([from, to - from]).to.deep.equal([at - 20 * 1024, 40 * 1024]);
    expect(parts.reduce((sum, { length }) => sum + length, 0)).to.equal(40 * MIB);
    expect(bytes()).to.be.at.most(56 * MIB);
    const fast = ring(40 * 1024, 1024, 39 * 1024);
    expect(fast.sweeper.sweep(fast.newest() - 20 * 1024)).to.equal(null);
    expect(fast.bytes()).to.be.at.most(56 * MIB);
  });
});
