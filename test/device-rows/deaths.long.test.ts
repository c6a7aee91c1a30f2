/**
 * Kills an actor before or after each of its stores, in turn, while rows and steps are copied to
 * the device. Tests that no update is lost, repeated or made from wrong rows.
 */
import { expect } from 'chai';
import { checkRing, checkSteps } from '../../src/engine/device-rows/options.ts';
import { BatchSource } from '../../src/engine/pipeline/source.ts';
import { Field, Param, roles, SlotState } from '../../src/engine/ring/slot.ts';
import { prioritized, ReplayBuffer, type Tensor } from '../../src/index.ts';
import { Bench } from '../actors/bench.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Mortals } from './mortal.ts';
import { FIELDS, numbered } from './numbered.ts';
import { addNumbered, LANES, numberedBuffer } from './numbered-steps.ts';

const ROWS = 6;
const TICKS = 6;

interface Scene {
  bench: Bench;
  /** adds rows, as collectors do */
  add(): void;
  /** throws unless the slot's batch contains the expected rows */
  check(slot: number): Promise<void>;
}

/** A scene with rows of a ReplayBuffer. Each add() adds `atOnce` rows. */
const rows = (atOnce: number) => (): Scene => {
  const places = 12;
  const buffer = ReplayBuffer.create({ capacity: 16, fields: FIELDS });
  buffer.add(numbered(0, 10));
  const ring = checkRing(buffer, ROWS, { capacity: places, guard: 4, chunkBytes: 64 });
  const bench = new Bench(2, TICKS, new BatchSource({ buffer, sampleCount: ROWS }), () => {}, ring);
  return {
    bench,
    add: () => buffer.add(numbered(buffer.ptr, atOnce)),
    check: async (slot) => {
      const { slots } = bench;
      const { x, more } = slots.batches[slot] as Record<string, Tensor>;
      const low = slots.host.params(slot)[Param.low] as number;
      const index = (await (slots.index as Tensor).toArray(slots.compute)) as Int32Array;
      const want = [...index].map((place) => low + ((place - (low % places) + places) % places));
      expect([...((await x!.toArray(slots.compute)) as Float32Array)]).to.deep.equal(want);
      const words = (await more!.toArray(slots.compute)) as Float32Array;
      expect([...words]).to.deep.equal(want.flatMap((row) => Array(14).fill(row)));
    },
  };
};

function steps(): Scene {
  const buffer = numberedBuffer(24);
  const writer = buffer.writer();
  let added = 15;
  addNumbered(writer, 0, added);
  const view = buffer.transitions({ nStep: 2, stack: { obs: 2 } });
  const source = new BatchSource({ buffer, view, sampler: prioritized(), sampleCount: ROWS });
  const kept = checkSteps({ ...source.steps!, ...source.steps!.layout });
  const update = ({ rewards }: object & { rewards?: Tensor }, { stream, priorities }: never) =>
    (stream as { copy(to: unknown, from: unknown): void }).copy(priorities, rewards);
  const bench = new Bench(2, TICKS, source, update as never, kept);
  return {
    bench,
    add: () => addNumbered(writer, added++, 1),
    check: async (slot) => {
      const { slots } = bench;
      const batch = slots.batches[slot] as Record<string, Tensor>;
      const of = async (key: string) => [
        ...((await batch[key]!.toArray(slots.compute)) as Float32Array),
      ];
      const [ids, length] = [await of('ids'), await of('steps')];
      expect(await of('action')).to.deep.equal(ids);
      const last = (values: number[]) => ids.map((_, i) => values[4 * i + 2]);
      expect(last(await of('obs'))).to.deep.equal(ids);
      expect(last(await of('nextObs'))).to.deep.equal(ids.map((id, i) => id + LANES * length[i]!));
    },
  };
}

/**
 * Runs all ticks of a scene. The actor that reaches store number `dies` dies there, and a new actor
 * replaces it. Returns the number of stores.
 */
async function live(make: () => Scene, mortals: Mortals, dies: number | null): Promise<number> {
  const { bench, add, check } = make();
  const { ring } = bench;
  mortals.dieAt(dies);
  const seen = new Set<number>();
  let checked = 0;
  for (let round = 0; ring.finished < TICKS; round++) {
    expect(
      round,
      `${ring.finished} of ${TICKS} ticks have finished, and no more do`,
    ).to.be.lessThan(20_000);
    for (const [at, role] of roles.entries()) {
      const actor = bench.actors[at]!;
      const alive = mortals.survives(() => actor.work());
      if (!alive) {
        actor.close();
        bench.actors[at] = bench.make(role);
      }
      // All slots share one batch. It contains the rows of the last launched tick.
      const launched = [...Array(ring.depth).keys()].filter(
        (slot) => ring.state(slot) === SlotState.Replaying,
      );
      const last = launched.sort((a, b) => ring.sequence(a) - ring.sequence(b)).pop();
      if (last === undefined || seen.has(ring.sequence(last))) continue;
      seen.add(ring.sequence(last));
      // An actor that died may have launched a tick that its record does not show.
      if (!alive) continue;
      await check(last);
      checked++;
    }
    if (round % 2 === 0 && round < 40) add();
  }
  const counts = new Map<number, number>();
  ring.journal.read(0, ({ record, scalars }) =>
    counts.set(record[Field.sequence] as number, scalars[0] as number),
  );
  expect([...counts]).to.deep.equal(Array.from({ length: TICKS }, (_, i) => [i, i + 1]));
  expect(checked).to.be.at.least(TICKS / 2);
  const { stores } = mortals;
  bench.close();
  return stores;
}

describe('device-rows/deaths', function () {
  this.timeout(setting({ short: 120_000, all: 300_000 }));
  before(function () {
    // The stores are the same on every device, so one device is enough.
    if (!TESTED.startsWith('host')) this.skip();
  });

  for (const [what, make] of Object.entries({
    rows: rows(1),
    'rows of a writer that laps': rows(7),
    steps,
  }))
    (what === 'rows' ? itLonger : itAll)(
      `${what}: every update is applied once, to whole ${what}, when an actor dies at any store`,
      async () => {
        using mortals = new Mortals();
        const stores = await live(make, mortals, null);
        expect(stores).to.be.above(100);
        const every = setting({ short: 39, all: 3, long: 1 });
        for (let dies = 1 + (stores % every); dies <= stores; dies += every)
          await live(make, mortals, dies).catch((error: Error) => {
            error.message = `dead at store ${dies} of ${stores}: ${error.message}`;
            throw error;
          });
      },
    );
});
