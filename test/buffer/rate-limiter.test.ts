/**
 * Tests the rate limiter: the samples per insert stay in their band, waitingFor() names what is
 * missing, and no two threads wait for each other.
 */
import { expect } from 'chai';
import {
  internalsOfLimiter,
  RateLimiter,
  type RateLimiterOptions,
} from '../../src/store/rate-limiter.ts';
import { internalsOfBuffer, ReplayBuffer } from '../../src/store/rows/replay-buffer.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { LimiterWork } from './limiter-worker.ts';

const fields = { x: { shape: [] } };
const rows = (n: number) => ({ x: new Float32Array(n) });

function limited(options: Partial<RateLimiterOptions> = {}, capacity = 1000) {
  const limiter = RateLimiter.create({
    samplesPerInsert: 2,
    minSize: 10,
    errorBuffer: 20,
    ...options,
  });
  return { limiter, buffer: ReplayBuffer.create({ capacity, fields, limiter }) };
}

describe('RateLimiter', () => {
  it('admits no sample before minSize rows are inserted', () => {
    const { limiter, buffer } = limited();
    expect(limiter.admitSample(1)).to.equal(false);
    buffer.add(rows(9));
    expect(limiter.waitingFor(8)).to.equal('samples: needs 10 rows, has 9');
    buffer.add(rows(1));
    expect(limiter.waitingFor(8)).to.equal(null);
    expect(limiter.admitSample(8)).to.equal(true);
  });

  it('admits samples up to errorBuffer ahead of the inserts', () => {
    const { limiter, buffer } = limited();
    buffer.add(rows(10));
    limiter.countSamples(16);
    expect([limiter.admitSample(4), limiter.admitSample(5)]).to.deep.equal([true, false]);
    expect(limiter.waitingFor(8)).to.equal(
      'samples: a batch of 8 needs 12 rows inserted, has 10 (16 sampled)',
    );
    buffer.add(rows(2));
    expect(limiter.admitSample(8)).to.equal(true);
  });

  it('sets errorBuffer to minSize × max(1, samplesPerInsert) by default', () => {
    for (const [samplesPerInsert, errorBuffer] of [
      [8, 800],
      [0.25, 100],
    ] as const) {
      const limiter = RateLimiter.create({ samplesPerInsert, minSize: 100 });
      expect(limiter.errorBuffer).to.equal(errorBuffer);
      const buffer = ReplayBuffer.create({ capacity: 1000, fields, limiter });
      buffer.add(rows(100));
      expect([
        limiter.admitSample(errorBuffer),
        limiter.admitSample(errorBuffer + 1),
      ]).to.deep.equal([true, false]);
    }
  });

  it('admits every add() by default', () => {
    const { buffer } = limited();
    for (let i = 0; i < 50; i++) expect(buffer.add(rows(20))).to.equal(20);
  });

  it('gates add() while inserts lead, and admits the same rows after samples are counted', () => {
    const { limiter, buffer } = limited({ gateAdd: true });
    expect(buffer.add(rows(10)), 'the limiter admits rows up to minSize').to.equal(10);
    expect(buffer.add(rows(10))).to.equal(10);
    expect(buffer.add(rows(1)), 'the row must wait for samples').to.equal(0);
    expect([buffer.ptr, limiter.inserts, limiter.samples]).to.deep.equal([20, 20, 0]);
    expect(limiter.addWaitingFor(1)).to.equal(
      'inserts: an add of 1 needs 2 rows sampled, has 0 (20 inserted)',
    );
    limiter.countSamples(2);
    expect(limiter.addWaitingFor(1)).to.equal(null);
    expect(buffer.add(rows(1))).to.equal(1);
    expect(buffer.ptr).to.equal(21);
  });

  it('takeSamples() counts admitted samples, and returns false without counting otherwise', () => {
    const { limiter, buffer } = limited();
    buffer.add(rows(10));
    expect([limiter.takeSamples(16), limiter.takeSamples(16), limiter.samples]).to.deep.equal([
      true,
      false,
      16,
    ]);
  });

  it('is shared with the buffer through share() and attach()', () => {
    const { limiter, buffer } = limited({ gateAdd: true });
    const other = ReplayBuffer.attach(structuredClone(buffer.share()));
    other.add(rows(20));
    expect(limiter.inserts).to.equal(20);
    expect(other.add(rows(1))).to.equal(0);
    other.limiter!.countSamples(5);
    expect([limiter.samples, limiter.gateAdd, other.limiter!.gateAdd]).to.deep.equal([
      5,
      true,
      true,
    ]);
    expect(other.add(rows(1))).to.equal(1);
  });

  it('rings the limiter bell after samples are counted, and the buffer bell after rows are added', () => {
    const { limiter, buffer } = limited();
    const collector = internalsOfLimiter(limiter).bells.claim()!;
    const sampler = internalsOfBuffer(buffer).bells.claim()!;
    limiter.countSamples(1);
    expect([collector.read(), sampler.read()]).to.deep.equal([1, 0]);
    buffer.add(rows(10));
    expect([collector.read(), sampler.read()]).to.deep.equal([1, 1]);
    limiter.takeSamples(1);
    expect(collector.read()).to.equal(2);
  });

  it('counts samples exactly beyond 2^32', () => {
    const { limiter } = limited();
    limiter.countSamples(2 ** 40);
    limiter.countSamples(3);
    expect(limiter.samples).to.equal(2 ** 40 + 3);
  });

  it('always admits a batch or an add if errorBuffer holds a batch plus an add', () => {
    for (const [samplesPerInsert, batch, add] of [
      [1, 8, 3],
      [4, 32, 5],
      [0.5, 7, 20],
      [1.7, 1, 1],
      [3, 5, 11],
    ] as const) {
      const errorBuffer = batch + samplesPerInsert * add;
      const { limiter, buffer } = limited({
        samplesPerInsert,
        minSize: 4,
        errorBuffer,
        gateAdd: true,
      });
      limiter.checkBand({ sampleCount: batch, addCount: add });
      let turns = 0;
      for (let i = 0; i < 4000; i++) {
        // Samples as often as possible, then adds as often as possible, so that the walk reaches
        // both ends of the band.
        const sampleFirst = Math.floor(i / 97) % 2 === 0;
        const sampled = sampleFirst && limiter.takeSamples(batch);
        const added = !sampled && buffer.add(rows(add)) > 0;
        const moved = sampled || added || limiter.takeSamples(batch);
        if (!moved)
          expect.fail(`turn ${i}: ${limiter.waitingFor(batch)}; ${limiter.addWaitingFor(add)}`);
        turns += added ? 1 : 0;
        const lead = limiter.samples - samplesPerInsert * (limiter.inserts - 4);
        if (limiter.inserts > 4 && Math.abs(lead) > errorBuffer + 1e-9)
          expect.fail(`turn ${i}: samples lead by ${lead}`);
      }
      expect(turns).to.be.greaterThan(10);
    }
  });

  it('checkBand() throws if errorBuffer cannot hold one batch plus one add', () => {
    const { limiter } = limited({ errorBuffer: 40, gateAdd: true });
    limiter.checkBand({ sampleCount: 30, addCount: 5 });
    expect(() => limiter.checkBand({ sampleCount: 30, addCount: 6 }))
      .to.throw(
        RangeError,
        'errorBuffer 40 is too small: a batch of 30 rows plus an add of 6 rows × samplesPerInsert 2 needs at least 42',
      )
      .with.property('code', 'ERR_HOTSLOT_RANGE');
    expect(() => limiter.checkBand({ sampleCount: 0 })).to.throw(RangeError, 'sampleCount');
  });

  it('makes add() throw instead of returning 0 for rows that could block a known batch forever', () => {
    const { limiter, buffer } = limited({ errorBuffer: 40, gateAdd: true });
    limiter.checkBand({ sampleCount: 30 });
    expect(buffer.add(rows(30)), 'the rows fit into the band').to.equal(30);
    expect(buffer.add(rows(5)), 'the rows must wait for samples').to.equal(0);
    expect(() => buffer.add(rows(6))).to.throw(
      RangeError,
      'a batch of 30 rows plus an add of 6 rows',
    );
    expect(buffer.ptr).to.equal(30);
  });

  it('throws for invalid options and arguments', () => {
    for (const bad of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => limited({ samplesPerInsert: bad })).to.throw(
        RangeError,
        `samplesPerInsert must be a finite number above 0, got ${bad}`,
      );
      expect(() => limited({ errorBuffer: bad })).to.throw(RangeError, 'errorBuffer');
    }
    for (const bad of [0, 1.5, -1, Number.NaN])
      expect(() => limited({ minSize: bad })).to.throw(RangeError, 'minSize');
    expect(() => limited({ gateAdd: 1 as unknown as boolean })).to.throw(
      TypeError,
      'gateAdd must be a boolean, got 1',
    );
    expect(() => limited({ samplesPerInsert: '2' as unknown as number })).to.throw(
      TypeError,
      'samplesPerInsert',
    );
    expect(() => RateLimiter.attach({} as never)).to.throw(TypeError, 'share()');
    expect(() => ReplayBuffer.create({ capacity: 1, fields, limiter: {} as RateLimiter })).to.throw(
      TypeError,
      'limiter',
    );
    expect(() => limited().limiter.countSamples(-1)).to.throw(RangeError, 'rows');
  });

  it('keeps samples within errorBuffer while parking threads add and sample, without deadlock', async () => {
    const { limiter, buffer } = limited({
      samplesPerInsert: 4,
      minSize: 30,
      errorBuffer: 40,
      gateAdd: true,
    });
    limiter.checkBand({ sampleCount: 16, addCount: 3 });
    const stop = new SharedArrayBuffer(4);
    const start = (work: Omit<LimiterWork, 'shared' | 'stop'>) =>
      new TestThread<LimiterWork>(new URL('./limiter-worker.js', import.meta.url), {
        shared: buffer.share(),
        stop,
        ...work,
      });
    const adders = [
      start({ role: 'add', rows: 3, times: 2000 }),
      start({ role: 'add', rows: 2, times: 3000 }),
    ];
    const sampler = start({ role: 'sample', rows: 16, times: 0 });
    const answers = await Promise.all(adders.map((thread) => thread.result()));
    expect(answers).to.deep.equal(['done', 'done']);
    Atomics.store(new Int32Array(stop), 0, 1);
    internalsOfBuffer(buffer).bells.ringAll();
    expect(await sampler.result()).to.equal('done');
    expect([limiter.inserts, buffer.ptr]).to.deep.equal([12_000, 12_000]);
    expect(Math.abs(limiter.samples - 4 * (12_000 - 30))).to.be.at.most(40);
  });
});
