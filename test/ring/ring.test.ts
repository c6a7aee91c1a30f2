/**
 * Tests the ring's control words: states, sequence numbers, journal and failure text, as read by
 * one thread and by the threads after it.
 */
import { expect } from 'chai';
import { PipelineError } from '../../src/base/errors.ts';
import { Ring } from '../../src/engine/ring/ring.ts';
import {
  Field,
  packWord,
  SEQUENCE_MASK,
  SlotState,
  sequenceDistance,
  sequenceOf,
  stateOf,
} from '../../src/engine/ring/slot.ts';

const hosts = [0, 1, 2, 3];
const make = (depth: number, firstSequence = 0) =>
  Ring.create({ depth, hosts, journalCapacity: 64, firstSequence });
/** Passes a slot through all its states, as the roles would. */
function live(ring: Ring, slot: number): void {
  ring.record(slot)[Field.sequence] = ring.sequence(slot);
  ring.handOver(slot, SlotState.Requested, 'pack');
  ring.handOver(slot, SlotState.Packed, 'submit');
  ring.handOver(slot, SlotState.Submitted, 'poll');
  ring.handOver(slot, SlotState.Ready, 'replay');
  ring.handOver(slot, SlotState.Replaying, 'poll');
  ring.handOver(slot, SlotState.Free, 'pack');
}

describe('the state word of a slot', () => {
  it('holds sequence and state, and sequences wrap after SEQUENCE_MASK', () => {
    for (const sequence of [0, 1, 2 ** 28, SEQUENCE_MASK]) {
      const word = packWord(sequence, SlotState.Ready);
      expect(word).to.equal(word | 0);
      expect([sequenceOf(word), stateOf(word)]).to.deep.equal([sequence, SlotState.Ready]);
    }
    expect(sequenceOf(packWord(SEQUENCE_MASK + 1, SlotState.Free))).to.equal(0);
    expect(sequenceDistance(2, SEQUENCE_MASK)).to.equal(3);
    expect(sequenceDistance(SEQUENCE_MASK, 2)).to.equal(-3);
  });
});

describe('Ring', () => {
  it('starts with every slot Free and slot = sequence mod depth', () => {
    const ring = make(3, 7);
    expect([0, 1, 2].map((slot) => ring.sequence(slot))).to.deep.equal([9, 7, 8]);
    expect([0, 1, 2].every((slot) => ring.state(slot) === SlotState.Free)).to.equal(true);
    expect(ring.finished).to.equal(7);
  });

  it('Slot-3: adds the depth to the sequence of a slot when the slot becomes Free', () => {
    const ring = make(3);
    live(ring, 0);
    expect(ring.sequence(0)).to.equal(3);
    expect(ring.finished).to.equal(1);
  });

  for (const depth of [2, 3, 5]) {
    it(`keeps full sequence numbers when the word wraps, depth ${depth}`, () => {
      const first = 3 * (SEQUENCE_MASK + 1) - 4;
      const ring = make(depth, first);
      for (let n = 0; n < 20; n++) {
        const slot = ring.nextSlotFor(SlotState.Free);
        expect(ring.sequence(slot)).to.equal(first + n);
        live(ring, slot);
      }
      expect(ring.finished).to.equal(first + 20);
    });
  }

  it('Slot-8: nextSlotFor() finds the slot of a role from the words alone', () => {
    const ring = make(3);
    live(ring, 0);
    ring.record(1)[Field.sequence] = 1;
    ring.handOver(1, SlotState.Requested, 'pack');
    ring.handOver(1, SlotState.Packed, 'submit');
    ring.record(2)[Field.sequence] = 2;
    ring.handOver(2, SlotState.Requested, 'pack');
    expect(ring.nextSlotFor(SlotState.Free)).to.equal(0);
    expect(ring.nextSlotFor(SlotState.Requested)).to.equal(2);
    expect(ring.nextSlotFor(SlotState.Packed)).to.equal(1);
    expect(ring.nextSlotFor(SlotState.Replaying)).to.equal(1);
  });

  it('Slot-4: handOver() rings only the bell of the next owner', () => {
    const ring = make(2);
    const before = hosts.map((thread) => ring.bells.ofThread(thread).read());
    ring.handOver(0, SlotState.Packed, 'submit');
    expect(hosts.map((thread) => ring.bells.ofThread(thread).read())).to.deep.equal(
      before.map((n, i) => n + (i === 1 ? 1 : 0)),
    );
  });

  it('Slot-6: stop() rings every bell, including the bell of the client', () => {
    const ring = make(2);
    const bells = [...hosts.map((thread) => ring.bells.ofThread(thread)), ring.bells.client];
    const before = bells.map((bell) => bell.read());
    ring.header.stop();
    expect(ring.header.stopping).to.equal(true);
    bells.forEach((bell, i) => {
      expect(bell.read()).to.be.greaterThan(before[i] as number);
    });
  });

  it('Slot-7: keeps the first failure, and read() returns its role, tick, slot, code and message', () => {
    const ring = make(2);
    expect(ring.failure.read()).to.equal(null);
    const error = Object.assign(new Error('the disk is on fire — 消防'), { code: 'EFIRE' });
    ring.fail({ role: 'submit', slot: 1, tick: 2 ** 40, error });
    ring.fail({ role: 'pack', slot: 0, tick: 1, error: new Error('late') });
    const failure = Ring.attach(ring.share()).failure.read() as PipelineError;
    expect(failure).to.be.instanceOf(PipelineError);
    expect(failure).to.include({
      actor: 'submit',
      tickId: 2 ** 40,
      slot: 1,
      code: 'ERR_HOTSLOT_PIPELINE',
    });
    expect(failure.cause).to.include({ message: error.message, code: 'EFIRE' });
  });

  it('reached() rings the client only when the goal is reached', () => {
    const ring = make(2);
    ring.header.setGoal(5);
    const seen = ring.bells.client.read();
    ring.header.reached(4);
    expect(ring.bells.client.read()).to.equal(seen);
    ring.header.reached(5);
    expect(ring.bells.client.read()).to.equal(seen + 1);
  });
});

describe('the journal of a ring', () => {
  const write = (ring: Ring, sequence: number) => {
    const record = ring.record(0);
    record[Field.sequence] = sequence;
    ring.journal.write(
      record,
      sequence % 7,
      Float32Array.from({ length: 48 }, (_, i) => sequence + i),
    );
  };

  it('read() gives every entry once and in order, with slot and scalars', () => {
    const ring = make(2);
    for (let n = 0; n < 10; n++) write(ring, n);
    const seen: number[][] = [];
    const first = ring.journal.read(0, ({ record, slot, scalars }) => {
      seen.push([record[Field.sequence] as number, slot, scalars[2] as number]);
    });
    expect(first).to.deep.equal({ next: 10, missed: 0 });
    expect(seen).to.deep.equal(Array.from({ length: 10 }, (_, n) => [n, n % 7, n + 2]));
    expect(ring.journal.read(first.next, () => expect.fail('nothing is new'))).to.deep.equal({
      next: 10,
      missed: 0,
    });
  });

  it('read() counts missed entries if the reader lags', () => {
    const ring = make(2);
    for (let n = 0; n < 200; n++) write(ring, n);
    const seen: number[] = [];
    const { missed } = ring.journal.read(0, ({ record }) =>
      seen.push(record[Field.sequence] as number),
    );
    expect(seen).to.not.be.empty;
    expect(missed + seen.length).to.equal(200);
    expect(seen).to.deep.equal(
      Array.from({ length: seen.length }, (_, i) => 200 - seen.length + i),
    );
  });
});
