/**
 * A rig for tests of the four actors. It hosts them in one thread, lets a test step them in any
 * order, and checks the rules of slots after every step.
 */
import { expect } from 'chai';
import { makeActors } from '../../actors/make.ts';
import { nativeEvents } from '../../src/device/native.ts';
import type { CheckedRing } from '../../src/engine/device-rows/options.ts';
import type { Actor } from '../../src/engine/pipeline/actors.ts';
import { captureSlots, learnerOf } from '../../src/engine/pipeline/capture.ts';
import { Slots } from '../../src/engine/pipeline/slots.ts';
import { BatchSource } from '../../src/engine/pipeline/source.ts';
import { Ring } from '../../src/engine/ring/ring.ts';
import { CLIENT } from '../../src/engine/ring/role-bells.ts';
import { Field, roles, SlotState } from '../../src/engine/ring/slot.ts';
import { type CaptureFunction, openDevice } from '../../src/index.ts';
import { filled, SAMPLE } from '../pipeline/fixture.ts';
import { TESTED } from '../rig/tested-device.ts';

/** The real actors on the real CPU device. A test steps them in any order. */
export class Bench {
  readonly source: BatchSource;
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

  /**
   * @param update is captured in the same graph as the kernel that counts updates.
   * @param kept describes the ring in which the device keeps rows or steps. null: the device keeps
   *   none.
   */
  constructor(
    depth: number,
    ticks: number,
    source = new BatchSource({ buffer: filled(), sampleCount: SAMPLE }),
    update: CaptureFunction = () => {},
    kept: CheckedRing | null = null,
  ) {
    this.source = source;
    source.take();
    this.slots = new Slots({
      source: this.source,
      device: TESTED,
      depth,
      transfer: 'immediate',
      rows: kept ? 'device' : 'host',
      ring: kept,
      noRing: '',
      baseSeed: 0,
      timed: true,
    });
    this.ring = Ring.create({
      depth,
      hosts: [CLIENT, CLIENT, CLIENT, CLIENT],
      journalCapacity: 1024,
    });
    this.#graphs = captureSlots(this.slots, (batch, context) => {
      const { stream, out } = context;
      update(batch, context);
      stream.launch('axpby', { tensors: [this.#count, this.#one], wholes: [1], reals: [1, 1] });
      stream.copy(out.view({ shape: [1] }), this.#count);
    });
    // As in a run, the compute stream waits for the writes of the current stream, here of `#count`
    // and `#one`.
    this.slots.device.currentStream.record(this.slots.last);
    this.slots.compute.wait(this.slots.last);
    this.ring.setBeta(source.beta);
    this.ring.run.setLearner(learnerOf(this.#graphs, {}, null));
    this.ring.startRun({
      firstSequence: 0,
      firstTick: 0,
      ticks,
      rows: source.rows,
      publishEvery: 0,
    });
    for (const role of roles) this.actors.push(this.make(role));
  }

  /** Creates a new actor of the role, as the successor of an actor that died is created. */
  make(role: (typeof roles)[number]): Actor {
    const [actor] = makeActors(
      {
        ring: this.ring.share(),
        source: this.slots.plan.share,
        packBell: -1,
        mailbox: null,
        slots: this.slots.share(),
        deviceRows: this.slots.deviceRows?.share() ?? null,
        pollMs: 0,
        coresFree: false,
        mailboxReadback: 0,
        averaging: null,
      },
      [role],
      this.ring,
      null,
    );
    return actor as Actor;
  }

  /** Steps the actor of a role, then checks the rules that must hold after every step. */
  step(role: number): number {
    const done = (this.actors[role] as Actor).work();
    this.#check();
    return done;
  }

  #check(): void {
    const { ring } = this;
    const { next } = ring.journal.read(this.#seen, ({ record, scalars }) => {
      this.journal.push({
        sequence: record[Field.sequence] as number,
        count: scalars[0] as number,
      });
    });
    this.#seen = next;
    // Slot-3: in sequence order, states never increase. A later sequence is never in a later state
    // than an earlier one.
    const lives = Array.from({ length: ring.depth }, (_, slot) => ({
      sequence: ring.sequence(slot),
      state: ring.state(slot),
    }));
    const active = lives
      .filter(({ state }) => state !== SlotState.Free)
      .sort((a, b) => a.sequence - b.sequence);
    for (let i = 1; i < active.length; i++) {
      expect(active[i]?.sequence).to.equal((active[i - 1]?.sequence as number) + 1);
      expect(active[i]?.state).to.be.at.most(active[i - 1]?.state as number);
    }
    // Slot-5: each sequence whose slot is Free is in the journal once.
    expect(this.journal.map(({ sequence }) => sequence)).to.deep.equal(
      Array.from({ length: ring.finished }, (_, i) => i),
    );
    expect(this.journal.map(({ count }) => count)).to.deep.equal(
      Array.from({ length: ring.finished }, (_, i) => i + 1),
    );
  }

  /**
   * Launches a slot's graph without its replay actor. Like every launch it waits for the copy,
   * because a slot may become Ready before its copy is done.
   */
  launch(slot: number): void {
    const handle = this.ring.run.learner.graphs[slot] as number;
    this.slots.backend.waitCurrentStreamForReady(slot, this.slots.compute);
    this.slots.compute.replay({ handle, update: () => false, close() {}, [Symbol.dispose]() {} });
  }

  close(): void {
    for (const actor of this.actors) actor.close();
    nativeEvents().waitEvent(
      this.slots.device.handle,
      (this.slots.spent[0] as { handle: number }).handle,
      1000,
    );
    this.slots.updates?.applyPending(this.slots.host, this.slots.readBack(this.ring));
    this.source.release();
    for (const graph of this.#graphs) graph.close();
    this.slots.close();
    this.#count.close();
    this.#one.close();
  }
}
