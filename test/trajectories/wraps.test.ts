/**
 * Tests lanes whose numbers of places and steps exceed the widths in which they are stored. Results
 * must equal those from place 0 on.
 */
import { expect } from 'chai';
import { prioritized, TrajectoryBuffer } from '../../src/index.ts';
import { internalsOfTrajectories } from '../../src/store/lanes/trajectory-buffer.ts';
import { Dice } from './history.ts';

const [LANES, PER_LANE] = [2, 24];
const make = () =>
  TrajectoryBuffer.create({
    capacity: LANES * PER_LANE,
    lanes: LANES,
    fields: { obs: { shape: [2], observation: true }, act: { shape: [], dtype: 'int32' } },
  });
type Made = ReturnType<typeof make>;

/**
 * Sets every lane as if `places` places and as many steps had been written and cleared. The last
 * step ended its episode.
 */
function skipTo(buffer: Made, places: number): void {
  const inside = internalsOfTrajectories(buffer as unknown as TrajectoryBuffer);
  const states = new Float64Array(5 * LANES);
  for (let lane = 0; lane < LANES; lane++) {
    states.fill(places, 5 * lane, 5 * lane + 3);
    // Two words that hold bits and not a number. As float64 they may be NaN.
    const note = new DataView(states.buffer, 8 * (5 * lane + 3), 16);
    note.setUint8(8, 1);
    note.setUint32(12, (places - 1) % 2 ** 32, true);
  }
  inside.ledger.restore(states);
}

function add(
  buffers: readonly Made[],
  writers: readonly ReturnType<Made['writer']>[],
  dice: Dice,
  step: number,
): void {
  const ends = Array.from({ length: LANES }, () => dice.below(7) === 0);
  const steps = {
    obs: Float32Array.from({ length: 2 * LANES }, (_, i) => 10 * step + i),
    act: Int32Array.from({ length: LANES }, () => dice.below(100)),
    rewards: Float32Array.from({ length: LANES }, () => dice.below(9)),
    terminated: Uint8Array.from(ends, Number),
    truncated: new Uint8Array(LANES),
    finalObs: Float32Array.from({ length: 2 * LANES }, (_, i) => -step - i),
  };
  for (const writer of writers) writer.add(steps);
  const [far, near] = buffers as [Made, Made];
  expect(far.size, `stored steps after ${step}`).to.equal(near.size);
}

/** Returns a sample with ids relative to place `from`. */
function counted(sample: object, from: number): object {
  const { ids, ...rest } = sample as { ids: Float64Array };
  return { ...rest, ids: ids.map((id) => id - from * LANES) };
}

describe('TrajectoryBuffer with large place numbers', () => {
  for (const [name, places] of [
    ['2^31', 2 ** 31],
    ['2^32', 2 ** 32],
    ['2^33', 2 ** 33],
    ['ids of 2^53', 2 ** 52],
  ] as const)
    it(`gives the same samples and priorities across ${name} as from place 0`, () => {
      // A multiple of the ring's length, so that leaves have the same positions.
      const from = Math.floor((places - (places === 2 ** 52 ? 200 : 17)) / PER_LANE) * PER_LANE;
      const [far, near] = [make(), make()];
      skipTo(far, from);
      expect([far.ptr, far.size]).to.deep.equal([LANES * from, 0]);
      const writers = [far, near].map((each) => each.writer());
      const [dice, samplers] = [new Dice(7), [prioritized(), prioritized()] as const];
      const views = [far, near].map((each) => [
        each.transitions({ nStep: 3, stack: { obs: 2 } }),
        each.windows({ length: 4, burnIn: 1, edges: 'tail' }),
      ]);
      for (let step = 0; step < 60; step++) {
        add([far, near], writers, dice, step);
        if (step < 8 || step % 3 > 0) continue;
        for (const kind of [0, 1] as const) {
          const [there, here] = [far, near].map((each, i) =>
            each.sample({ view: views[i]![kind]! as never, seed: step, count: 16 }),
          );
          expect(counted(there!, from), `${step}`).to.deep.equal(counted(here!, 0));
        }
        const drawn = [far, near].map((each, i) =>
          each.sample({
            view: views[i]![0] as never,
            seed: step,
            count: 16,
            sampler: samplers[i]!,
          }),
        );
        expect(counted(drawn[0]!, from), `${step}`).to.deep.equal(counted(drawn[1]!, 0));
        const priorities = Float64Array.from({ length: 16 }, () => dice.below(50));
        for (const [i, each] of [far, near].entries())
          each.updatePriorities((drawn[i] as unknown as { ids: Float64Array }).ids, priorities);
      }
      expect(samplers[0].inspect().total).to.equal(samplers[1].inspect().total);
      expect(far.ptr).to.equal(near.ptr + LANES * from);
      far.close();
      near.close();
    });
});
