/**
 * Tests that stepped actors apply priority updates at a fixed lag. Each update must be applied once
 * and in order, whatever the order of steps and whichever actor dies.
 */
import { expect } from 'chai';
import { checkSteps } from '../../src/engine/device-rows/options.ts';
import type { Actor } from '../../src/engine/pipeline/actors.ts';
import { BatchSource, type SharedView } from '../../src/engine/pipeline/source.ts';
import { roles, SlotState } from '../../src/engine/ring/slot.ts';
import { prioritized, RateLimiter, type Tensor, type TransitionSample } from '../../src/index.ts';
import { internalsOfTrajectories } from '../../src/store/lanes/trajectory-buffer.ts';
import { addSteps, replica, stepsBuffer, VIEW } from '../pipeline/steps.ts';
import { Bench } from './bench.ts';

const ROWS = 8;
const TICKS = 60;

/**
 * A bench whose update sets the priority of each row to its reward. After each step it compares the
 * drawn ids with those of the replica.
 */
class Priorities {
  readonly sampler = prioritized();
  readonly bench: Bench;
  readonly #source: BatchSource;
  readonly #want;
  #drawn = 0;

  /**
   * @param kept whether the device keeps the steps. If so, priorities are computed from the
   *   gathered observations.
   */
  constructor(depth: number, kept = false) {
    const { buffer } = stepsBuffer();
    const priorities = ({ obs }: TransitionSample) =>
      Float32Array.from({ length: ROWS }, (_, i) => (obs as Float32Array)[3 * i]!);
    this.#want = replica({
      ticks: TICKS,
      depth,
      rows: ROWS,
      seed: 0,
      ...(kept ? { priorities } : {}),
    });
    this.#source = new BatchSource({
      buffer,
      view: buffer.transitions(VIEW),
      sampler: this.sampler,
      sampleCount: ROWS,
    });
    const steps = this.#source.steps!;
    this.bench = new Bench(
      ...([depth, TICKS, this.#source] as const),
      ({ obs, rewards }, { stream, priorities }) => {
        if (!kept) stream.copy(priorities!, rewards!);
        else
          stream.launch('copy2d', {
            tensors: [priorities!, obs as Tensor<'float32'>],
            wholes: [ROWS, 1, 1, 3],
          });
      },
      kept ? checkSteps({ ...steps, ...steps.layout }) : null,
    );
  }

  step(role: number): void {
    this.bench.step(role);
    const { ring, slots } = this.bench;
    const { idsAt } = slots.plan.share as SharedView;
    for (let slot = 0; slot < ring.depth; slot++) {
      if (ring.state(slot) < SlotState.Packed || ring.sequence(slot) < this.#drawn) continue;
      const ids = slots.host.ids(slot, idsAt, ROWS);
      expect([...ids], `draw ${ring.sequence(slot)}`).to.deep.equal([
        ...this.#want.draws[ring.sequence(slot)]!.ids,
      ]);
      this.#drawn = ring.sequence(slot) + 1;
    }
  }

  replace(role: number): void {
    (this.bench.actors[role] as Actor).close();
    this.bench.actors[role] = this.bench.make(roles[role]!);
  }

  /**
   * Closes the bench, which applies the pending updates. Then checks that every update was applied
   * once.
   */
  end(): void {
    this.bench.close();
    expect(this.sampler.inspect()).to.deep.equal(this.#want.leaves);
  }
}

describe('priority updates of stepped actors', () => {
  for (const depth of [2, 3]) {
    it(`draw n sees exactly the updates up to n − ${depth} in any order of steps`, () => {
      const priorities = new Priorities(depth);
      for (let order = 0; priorities.bench.journal.length < TICKS; order = (order + 1) % 4 ** 6)
        for (let step = 0, rest = order; step < 6; step++, rest >>= 2) priorities.step(rest & 3);
      priorities.end();
    });
  }

  for (const kept of [false, true])
    it(`Slot-8: no update is lost or repeated when any role is replaced between any two steps${kept ? ', on the device' : ''}`, () => {
      const priorities = new Priorities(3, kept);
      for (let n = 0; priorities.bench.journal.length < TICKS; n++) {
        expect(n, 'the walk goes on for ever').to.be.lessThan(5000);
        priorities.replace((n * 7 + 3) % 4);
        priorities.step((n * 5 + (n >> 2)) % 4);
      }
      priorities.end();
    });

  it('closing applies the update of a launch whose actor died before the hand-over', () => {
    const priorities = new Priorities(2);
    const { bench } = priorities;
    const [pack, submit, poll] = [0, 1, 2];
    while (bench.ring.state(0) !== SlotState.Ready)
      for (const role of [pack, submit, poll]) bench.step(role);
    bench.launch(0);
    bench.slots.compute.record(bench.slots.spent[0]!);
    while (!bench.slots.spent[0]!.query());
    bench.close();
    const { leaves } = priorities.sampler.inspect();
    const one = replica({ ticks: 1, depth: 2, rows: ROWS, seed: 0 });
    expect(leaves).to.deep.equal(one.leaves.leaves);
  });

  it('a pause withdraws requests that wait for steps, and returns their samples to the limiter', () => {
    const limiter = RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 1000 });
    const { buffer, writer } = stepsBuffer(0, 400, limiter);
    const other = internalsOfTrajectories(buffer).bells.claim()!;
    const source = new BatchSource({ buffer, view: buffer.transitions(VIEW), sampleCount: ROWS });
    const bench = new Bench(3, 10, source);
    const [pack] = [0];
    bench.step(pack);
    expect(bench.ring.idle, 'no request while the buffer has no steps').to.equal(true);
    addSteps(writer, 20);
    bench.step(pack);
    for (let n = 0; bench.ring.finished < 10 && n < 1000; n++)
      for (let role = 0; role < 4; role++) bench.step(role);
    expect(bench.ring.finished).to.equal(10);
    bench.ring.endRun();
    bench.ring.startRun({
      firstSequence: 10,
      firstTick: 10,
      ticks: 10,
      rows: ROWS,
      publishEvery: 0,
    });
    // The actor requests three ticks. After that the buffer is cleared.
    const packer = bench.actors[pack] as Actor;
    buffer.clear();
    writer.close();
    const begun = bench.ring.next;
    addSteps(buffer.writer(), 20);
    packer.work();
    buffer.clear();
    packer.work();
    const asked = [0, 1, 2].map((slot) => bench.ring.state(slot));
    expect(
      asked.filter((state) => state === SlotState.Requested).length,
      String(asked),
    ).to.be.at.least(1);
    const kept = asked.filter((state) => state > SlotState.Requested).length;
    bench.ring.header.pause();
    const [sampled, rung] = [limiter.samples, other.read()];
    packer.work();
    const back = asked.filter((state) => state === SlotState.Requested).length;
    expect(limiter.samples, 'samples of the withdrawn requests are returned').to.equal(
      sampled - back * ROWS,
    );
    expect(other.read(), 'the bell of another pipeline is rung').to.be.above(rung);
    expect(
      [0, 1, 2].filter((slot) => bench.ring.state(slot) === SlotState.Requested),
    ).to.deep.equal([]);
    expect(bench.ring.next).to.equal(begun + kept);
    for (let n = 0; !bench.ring.idle && n < 1000; n++)
      for (let role = 0; role < 4; role++) bench.step(role);
    bench.close();
  });
});
