/** The four actors in one thread, stepped in whatever order a test wants, checked after every step. */
import { expect } from 'chai';
import type { Actor } from '../../actors/actor.ts';
import { makeActors } from '../../actors/make.ts';
import { loadAddon, ThreadEnding } from '../../src/addon.ts';
import { native } from '../../src/device/native.ts';
import { openDevice } from '../../src/index.ts';
import { captureSlots, learnerOf } from '../../src/pipeline/capture.ts';
import { Slots } from '../../src/pipeline/slots.ts';
import { BatchSource } from '../../src/pipeline/source.ts';
import { Ring } from '../../src/ring/ring.ts';
import { CLIENT } from '../../src/ring/role-bells.ts';
import { Field, roles, SlotState } from '../../src/ring/slot.ts';
import { filled, SAMPLE } from '../pipeline/fixture.ts';
import { TESTED } from '../rig/tested-device.ts';

/** The real actors on the real host device, stepped by hand in whatever order a test wants. */
class Bench {
  readonly source = new BatchSource({ buffer: filled(), sampleCount: SAMPLE });
  readonly slots: Slots;
  readonly ring: Ring;
  actors: Actor[] = [];
  readonly #graphs;
  readonly #count = openDevice(TESTED).allocate({ shape: [1] });
  readonly #one = openDevice(TESTED)
    .allocate({ shape: [1] })
    .write(Float32Array.of(1));
  #seen = 0;
  journal: { sequence: number; count: number }[] = [];

  constructor(depth: number, ticks: number) {
    this.slots = new Slots({
      source: this.source,
      device: TESTED,
      depth,
      transfer: 'immediate',
      timed: true,
    });
    this.ring = Ring.create({ depth, hosts: [CLIENT, CLIENT, CLIENT, CLIENT], journalCapacity: 1024 });
    this.#graphs = captureSlots(this.slots, (_, { stream, out }) => {
      stream.launch('axpby', { tensors: [this.#count, this.#one], wholes: [1], reals: [1, 1] });
      stream.copy(out.view({ shape: [1] }), this.#count);
    });
    this.ring.run.setLearner(learnerOf(this.#graphs, {}, null));
    this.ring.startRun({ firstSequence: 0, firstTick: 0, ticks, rows: SAMPLE, publishEvery: 0 });
    for (const role of roles) this.actors.push(this.make(role));
  }

  /** A fresh actor of a role, as a successor would start. */
  make(role: (typeof roles)[number]): Actor {
    const [actor] = makeActors(
      {
        ring: this.ring.share(),
        source: this.source.share(),
        packBell: -1,
        mailbox: null,
        slots: this.slots.share(),
        spins: 0,
        coresFree: false,
        mailboxHome: 0,
      },
      [role],
      this.ring,
      null,
    );
    return actor as Actor;
  }

  /** Steps a role and checks what must hold after every step. */
  step(role: number): number {
    const done = (this.actors[role] as Actor).work();
    this.#check();
    return done;
  }

  #check(): void {
    const { ring } = this;
    const { next } = ring.journal.read(this.#seen, ({ record, scalars }) => {
      this.journal.push({ sequence: record[Field.sequence] as number, count: scalars[0] as number });
    });
    this.#seen = next;
    // I3: in sequence order, states never rise: a later slot is never ahead of an earlier one.
    const lives = Array.from({ length: ring.depth }, (_, slot) => ({
      sequence: ring.sequence(slot),
      state: ring.state(slot),
    }));
    const active = lives.filter(({ state }) => state !== SlotState.Free).sort((a, b) => a.sequence - b.sequence);
    for (let i = 1; i < active.length; i++) {
      expect(active[i]?.sequence).to.equal((active[i - 1]?.sequence as number) + 1);
      expect(active[i]?.state).to.be.at.most(active[i - 1]?.state as number);
    }
    // I5: whatever is Free has been journalled, each sequence once.
    expect(this.journal.map(({ sequence }) => sequence)).to.deep.equal(
      Array.from({ length: ring.finished }, (_, i) => i),
    );
    expect(this.journal.map(({ count }) => count)).to.deep.equal(
      Array.from({ length: ring.finished }, (_, i) => i + 1),
    );
  }

  close(): void {
    for (const actor of this.actors) actor.close();
    native().waitEvent(this.slots.device.handle, (this.slots.spent[0] as { handle: number }).handle, 1000);
    for (const graph of this.#graphs) graph.close();
    this.slots.close();
    this.#count.close();
    this.#one.close();
  }
}

describe('the actors, stepped', () => {
  for (const depth of [2, 3]) {
    it(`keep every invariant through every order of six steps, depth ${depth}`, () => {
      const bench = new Bench(depth, Number.POSITIVE_INFINITY);
      for (let order = 0; order < 4 ** 6; order++) {
        for (let step = 0, rest = order; step < 6; step++, rest >>= 2) bench.step(rest & 3);
        // Short histories keep the checks quick; sequences go on.
        if (bench.journal.length > 400) break;
      }
      bench.close();
    });
  }

  it('a run is paused when requester and replay both said so, and replay only when nothing is under way', () => {
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

  it('I8: any role can be replaced between any two steps', () => {
    const bench = new Bench(3, 60);
    // A fixed walk through roles, with a successor for each of them in turn before every step.
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
  // What a thread sees while it is being terminated: native calls that do nothing, and JavaScript that runs on.
  const silent = {
    pack: ['pack', 'Packer', 'pack', SlotState.Requested],
    submit: ['submit', 'Submitter', 'submit', SlotState.Packed],
    'replay’s wait': ['replay', 'Submitter', 'waitReady', SlotState.Ready],
    'replay’s launch': ['replay', 'Replayer', 'launch', SlotState.Ready],
  } as const;
  for (const [what, [role, addon, method, state]] of Object.entries(silent)) {
    it(`I2: nothing is handed on behind ${what}, when its native call did not answer`, () => {
      const bench = new Bench(2, 4);
      const which = roles.indexOf(role);
      for (let n = 0; n < 100; n++) for (let each = 0; each < which; each++) bench.step(each);
      if (role === 'replay') for (let n = 0; bench.ring.state(0) !== state && n < 1000; n++) bench.step(2);
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
      for (let n = 0; bench.journal.length < 4 && n < 5000; n++) for (let each = 0; each < 4; each++) bench.step(each);
      expect(bench.journal.map(({ count }) => count)).to.deep.equal([1, 2, 3, 4]);
      bench.close();
    });
  }

  it('I8: an update that was launched before its actor died is not launched again', () => {
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
    // The launch without the hand-over: what an actor that dies between the two leaves behind.
    bench.slots.compute.replay(captured(bench));
    bench.actors[replay]?.close();
    bench.actors[replay] = bench.make('replay');
    stepTo(replay, SlotState.Replaying);
    stepTo(poll, SlotState.Free);
    expect(bench.journal).to.deep.equal([{ sequence: 0, count: 1 }]);
    bench.close();
  });
});

function captured(bench: Bench) {
  const handle = bench.ring.run.learner.graphs[0] as number;
  return { handle, update: () => false, close() {}, [Symbol.dispose]() {} };
}
