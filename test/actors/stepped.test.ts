/**
 * Tests the four actors in every order of six steps, with a successor of any actor between any two
 * steps. The bench checks the rules of slots after every step.
 */
import { expect } from 'chai';
import { loadAddon, ThreadEnding } from '../../src/base/addon.ts';
import type { Actor } from '../../src/engine/pipeline/actors.ts';
import { BatchSource } from '../../src/engine/pipeline/source.ts';
import { roles, SlotState } from '../../src/engine/ring/slot.ts';
import { RateLimiter, ReplayBuffer } from '../../src/index.ts';
import { internalsOfLimiter } from '../../src/store/rate-limiter.ts';
import { rows, SAMPLE } from '../pipeline/fixture.ts';
import { Latch } from '../rig/latch.ts';
import { until } from '../rig/until.ts';
import { Bench } from './bench.ts';

describe('stepped actors', () => {
  for (const depth of [2, 3]) {
    it(`keep every invariant in orders of six steps, until 400 ticks are done, depth ${depth}`, () => {
      const bench = new Bench(depth, Number.POSITIVE_INFINITY);
      for (let order = 0; order < 4 ** 6; order++) {
        for (let step = 0, rest = order; step < 6; step++, rest >>= 2) bench.step(rest & 3);
        // The checks take longer the longer the journal is. The sequence numbers continue.
        if (bench.journal.length > 400) break;
      }
      bench.close();
    });
  }

  it('pause a run after pack and replay answer, and replay answers only in an idle ring', () => {
    const bench = new Bench(2, 100);
    const [pack, submit, poll, replay] = [0, 1, 2, 3];
    bench.step(pack);
    bench.ring.header.pause();
    for (const role of [pack, replay]) bench.step(role);
    expect([bench.ring.header.paused, bench.ring.idle]).to.deep.equal([false, false]);
    for (let n = 0; !bench.ring.idle; n++) {
      expect(n).to.be.lessThan(1000);
      for (const role of [pack, submit, poll, replay]) bench.step(role);
    }
    bench.step(replay);
    expect(bench.ring.header.paused).to.equal(true);
    bench.ring.header.pause();
    expect(bench.ring.header.paused).to.equal(false);
    bench.step(replay);
    expect(bench.ring.header.paused).to.equal(false);
    bench.step(pack);
    expect(bench.ring.header.paused).to.equal(true);
    bench.close();
  });

  describe('Limiter-6: samples counted by a requester that died before its request', () => {
    const pack = 0;
    /**
     * Creates a bench whose pack actor ended after it had counted the samples of the first
     * sequence.
     */
    function died(): { bench: Bench; limiter: RateLimiter } {
      const limiter = RateLimiter.create({ samplesPerInsert: 8, minSize: 4, errorBuffer: 1000 });
      const buffer = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1, limiter });
      buffer.add(rows(32));
      const bench = new Bench(2, 100, new BatchSource({ buffer, sampleCount: SAMPLE }));
      expect(internalsOfLimiter(limiter).take(SAMPLE, bench.ring.header.counted, 1)).to.equal(true);
      (bench.actors[pack] as Actor).close();
      bench.actors[pack] = bench.make('pack');
      return { bench, limiter };
    }

    it('are counted once', () => {
      const { bench, limiter } = died();
      expect(limiter.samples).to.equal(SAMPLE);
      bench.step(pack);
      expect([limiter.samples, bench.ring.next]).to.deep.equal([2 * SAMPLE, 2]);
      bench.close();
    });

    it('are returned when requests are paused, and counted when requests resume', () => {
      const { bench, limiter } = died();
      bench.ring.header.pause();
      bench.step(pack);
      expect([limiter.samples, bench.ring.next]).to.deep.equal([0, 0]);
      bench.ring.endRun();
      bench.ring.startRun({
        firstSequence: 0,
        firstTick: 0,
        ticks: 100,
        rows: SAMPLE,
        publishEvery: 0,
      });
      bench.step(pack);
      expect([limiter.samples, bench.ring.next]).to.deep.equal([2 * SAMPLE, 2]);
      bench.close();
    });
  });

  it('Slot-8: any role can be replaced between any two steps', () => {
    const bench = new Bench(3, 60);
    // A fixed order of roles. Before every step a successor replaces the actor of one role, each
    // role in turn.
    for (let n = 0; bench.journal.length < 60; n++) {
      expect(n, 'the walk goes on for ever').to.be.lessThan(5000);
      const replaced = (n * 7 + 3) % 4;
      (bench.actors[replaced] as Actor).close();
      bench.actors[replaced] = bench.make(roles[replaced] as (typeof roles)[number]);
      bench.step((n * 5 + (n >> 2)) % 4);
    }
    bench.close();
  });

  const files = { Packer: 'pack', Submitter: 'submit', Replayer: 'replay' } as const;
  // A thread that is being terminated may still run JavaScript, but its native calls do nothing.
  const silent = {
    pack: ['pack', 'Packer', 'pack', SlotState.Requested],
    submit: ['submit', 'Submitter', 'submit', SlotState.Packed],
    'replay’s wait': ['replay', 'Submitter', 'waitReady', SlotState.Ready],
    'replay’s launch': ['replay', 'Replayer', 'launch', SlotState.Ready],
  } as const;
  for (const [what, [role, addon, method, state]] of Object.entries(silent)) {
    it(`Slot-2: the slot keeps its state if the native call of ${what} returns undefined`, () => {
      const bench = new Bench(2, 4);
      const which = roles.indexOf(role);
      for (let n = 0; n < 100; n++) for (let each = 0; each < which; each++) bench.step(each);
      if (role === 'replay')
        for (let n = 0; bench.ring.state(0) !== state && n < 1000; n++) bench.step(2);
      const file = loadAddon<Record<string, new (...how: unknown[]) => object>>(files[addon]);
      const Whole = file[addon] as new (...how: unknown[]) => object;
      file[addon] = class extends Whole {
        [method](): undefined {
          return undefined;
        }
      };
      try {
        bench.actors[which]?.close();
        bench.actors[which] = bench.make(role);
        expect(() => bench.step(which)).to.throw(ThreadEnding);
        expect(bench.ring.state(0)).to.equal(state);
      } finally {
        file[addon] = Whole;
      }
      bench.actors[which]?.close();
      bench.actors[which] = bench.make(role);
      for (let n = 0; bench.journal.length < 4 && n < 5000; n++)
        for (let each = 0; each < 4; each++) bench.step(each);
      expect(bench.journal.map(({ count }) => count)).to.deep.equal([1, 2, 3, 4]);
      bench.close();
    });
  }

  it('Slot-8: an update that was launched before its actor died is not launched again', () => {
    const bench = new Bench(2, 10);
    const [pack, submit, poll, replay] = [0, 1, 2, 3];
    const stepTo = (role: number, state: SlotState) => {
      for (let n = 0; bench.ring.state(0) !== state; n++) {
        expect(n).to.be.lessThan(1000);
        bench.step(role);
      }
    };
    bench.step(pack);
    bench.step(submit);
    stepTo(poll, SlotState.Ready);
    // Launches without passing the slot on, as an actor does that dies between the two.
    bench.launch(0);
    bench.actors[replay]?.close();
    bench.actors[replay] = bench.make('replay');
    stepTo(replay, SlotState.Replaying);
    stepTo(poll, SlotState.Free);
    expect(bench.journal).to.deep.equal([{ sequence: 0, count: 1 }]);
    bench.close();
  });

  it('replay sets waitsUnrung while the compute stream drains, which rings no bell', async () => {
    const bench = new Bench(2, 100);
    const { compute, device } = bench.slots;
    using latch = new Latch(device).hold(compute);
    const [, , , replay] = bench.actors as [Actor, Actor, Actor, Actor];
    for (let i = 0; bench.ring.state(0) !== SlotState.Ready; i = (i + 1) % 3) bench.step(i);
    expect(bench.step(3)).to.equal(0);
    expect(replay.waitsUnrung).to.equal(true);
    latch.open();
    await until('the stream is drained', () => bench.step(3) > 0);
    expect(replay.waitsUnrung).to.equal(false);
    bench.ring.header.pause();
    while (!bench.ring.idle) for (const role of [0, 1, 2, 3]) bench.step(role);
    bench.close();
  });
});
