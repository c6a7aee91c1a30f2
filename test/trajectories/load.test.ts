/**
 * Tests TrajectoryBuffer.load() and dump(): episodes and lanes must be restored, D4RL and Minari
 * files can be read, and invalid files are rejected before a step is added.
 */
import { join } from 'node:path';
import { expect } from 'chai';
import { type NamedTensors, readNpz, type TensorData } from '../../src/entries/formats.ts';
import { RateLimiter, TrajectoryBuffer } from '../../src/index.ts';
import { lanesAddon, spanOf } from '../../src/store/lanes/lanes-addon.ts';
import { internalsOfTrajectories } from '../../src/store/lanes/trajectory-buffer.ts';
import { inFolder } from '../formats/tensors.ts';
import { rejection } from '../rig/refusal.ts';
import { Dice } from './history.ts';

const fields = {
  obs: { shape: [2], observation: true },
  frame: { shape: [3], dtype: 'uint8', observation: true },
  actions: { shape: [], dtype: 'int64' },
  half: { shape: [], dtype: 'float16' },
} as const;
const LANES = 3;
const make = (capacity = 60) => TrajectoryBuffer.create({ capacity, lanes: LANES, fields });
type Buffer = ReturnType<typeof make>;

interface Episode {
  lane: number;
  steps: unknown[][];
  /** final observation, or null if the episode has not ended */
  final: unknown[] | null;
}

/** Returns the stored episodes, read place by place. */
function episodesOf(buffer: Buffer): Episode[] {
  const found: Episode[] = [];
  const handle = lanesAddon().openLanes(internalsOfTrajectories(buffer as never).memory);
  for (let lane = 0; lane < LANES; lane++) {
    const { from, to } = spanOf(handle, lane);
    let open: Episode | null = null;
    let next = -1;
    for (let place = from; place < to; place++) {
      const read = buffer.read([place * LANES + lane]);
      const seen = [...read.obs, ...read.frame];
      if (read.final[0]) {
        // If the steps of the episode are overwritten, its final observation is ignored.
        if (open) open.final = seen;
        open = null;
        continue;
      }
      if (!open || read.episodeStep[0] !== next) {
        open = { lane, steps: [], final: null };
        found.push(open);
      }
      next = (read.episodeStep[0] as number) + 1;
      open.steps.push([
        ...seen,
        ...read.actions,
        ...read.half,
        ...read.rewards,
        ...read.terminated,
        ...read.truncated,
      ]);
    }
  }
  return found;
}

/** Writes random episodes into every lane. Some writers close in mid-episode. */
function fill(buffer: Buffer, steps: number, seed = 1): void {
  const dice = new Dice(seed);
  let writer = buffer.writer();
  const some = (n: number) => Float32Array.from({ length: n }, () => dice.below(1000) / 8);
  const bytes = () => Uint8Array.from({ length: 3 * LANES }, () => dice.below(256));
  for (let i = 0; i < steps; i++) {
    if (dice.chance(0.1)) {
      writer.close();
      writer = buffer.writer();
    }
    const flags = (p: number) => Array.from({ length: LANES }, () => dice.chance(p));
    writer.add({
      obs: some(2 * LANES),
      frame: bytes(),
      half: some(LANES),
      rewards: some(LANES),
      actions: BigInt64Array.from({ length: LANES }, () => BigInt(dice.below(9))),
      terminated: flags(0.15),
      truncated: flags(0.15),
      skip: flags(0.2),
      finalObs: some(2 * LANES),
      finalFrame: bytes(),
    });
  }
  writer.close();
}

const floats = (shape: number[], values: number[]): TensorData => ({
  dtype: 'float32',
  shape,
  data: Float32Array.from(values),
});
const bools = (...values: number[]): TensorData => ({
  dtype: 'bool',
  shape: [values.length],
  data: Uint8Array.from(values),
});
const d4rl: NamedTensors = {
  observations: floats([6, 1], [1, 2, 3, 4, 5, 6]),
  actions: floats([6, 1], [10, 20, 30, 40, 50, 60]),
  rewards: floats([6], [1, 2, 3, 4, 5, 6]),
  terminals: bools(0, 1, 0, 0, 0, 0),
  timeouts: bools(0, 1, 0, 0, 1, 0),
};
const plain = { obs: { shape: [1], observation: true }, actions: { shape: [1] } } as const;
const small = (capacity = 20, lanes = 1) =>
  TrajectoryBuffer.create({ capacity, lanes, fields: plain });

describe('TrajectoryBuffer.load() and dump()', () => {
  for (const steps of [5, 15, 40, 200])
    it(`load() restores the episodes of dump(): ${steps} steps in each lane of 20 places`, () =>
      inFolder(async (folder) => {
        for (const seed of [1, 2, 3]) {
          const [first, second] = [make(), make()];
          fill(first, steps, seed);
          const path = join(folder, 'steps.npz');
          expect(await first.dump(path)).to.equal(first.size);
          expect(await second.load(path)).to.equal(first.size);
          const wanted = episodesOf(first);
          expect(episodesOf(second)).to.deep.equal(wanted);
          expect(wanted.some(({ final }) => final !== null)).to.equal(true);
          expect(new Set(wanted.map(({ lane }) => lane)).size).to.equal(LANES);
          // A second dump must equal the first one. Only the step numbers of episodes whose
          // beginning was overwritten may differ.
          const again = join(folder, 'again.npz');
          await second.dump(again);
          const [{ episodeStep, ...one }, { episodeStep: counted, ...other }] = [
            await readNpz(path),
            await readNpz(again),
          ];
          expect(other).to.deep.equal(one);
          expect(counted!.data.length).to.equal(episodeStep!.data.length);
          expect(second.drawable(second.transitions({ nStep: 2 }))).to.equal(
            first.drawable(first.transitions({ nStep: 2 })),
          );
        }
      }));

  it('load() uses the last observation of a truncated D4RL episode as its final observation', async () => {
    const buffer = small();
    expect(await buffer.load(d4rl)).to.equal(5);
    const view = buffer.transitions();
    const ids = buffer.drawableIds(view);
    const { obs, nextObs, actions, terminated, truncated, discounts } = buffer.transitionsAt({
      view,
      ids,
    });
    expect([...obs]).to.deep.equal([1, 2, 3, 4]);
    expect([...nextObs]).to.deep.equal([2, 2, 4, 5]);
    expect([...actions]).to.deep.equal([10, 20, 30, 40]);
    expect([[...terminated], [...truncated]]).to.deep.equal([
      [0, 1, 0, 0],
      [0, 0, 0, 1],
    ]);
    expect(discounts[1]).to.equal(0);
    const whole = small();
    expect(
      await whole.load({ ...d4rl, next_observations: floats([6, 1], [2, 8, 4, 5, 9, 0]) }),
    ).to.equal(6);
    const all = whole.transitionsAt({
      view: whole.transitions(),
      ids: whole.drawableIds(whole.transitions()),
    });
    expect([...all.nextObs]).to.deep.equal([2, 8, 4, 5, 9]);
  });

  it('load() uses the extra observation of each Minari episode as the final observation', async () => {
    const { terminals, timeouts, observations, ...rest } = d4rl;
    // Episodes of 2, 3 and 1 steps. The last one does not end.
    const minari = {
      ...rest,
      terminations: terminals as TensorData,
      truncations: timeouts as TensorData,
      observations: floats([9, 1], [1, 2, 20, 3, 4, 5, 50, 6, 60]),
    };
    const buffer = small();
    expect(await buffer.load(minari)).to.equal(6);
    const view = buffer.transitions();
    const found = buffer.transitionsAt({ view, ids: buffer.drawableIds(view) });
    expect([...found.obs]).to.deep.equal([1, 2, 3, 4, 5]);
    expect([...found.nextObs]).to.deep.equal([2, 20, 4, 5, 50]);
    expect([...found.actions]).to.deep.equal([10, 20, 30, 40, 50]);
    expect([...found.terminated]).to.deep.equal([0, 1, 0, 0, 0]);
    expect([...found.truncated]).to.deep.equal([0, 0, 0, 0, 1]);
  });

  it('load() rejects non-finite numbers and actions outside of `actionSpace` before any step', async () => {
    const buffer = small();
    const [rewards, actions] = [d4rl.rewards!, d4rl.actions!];
    const odd = (tensor: TensorData) => ({
      ...tensor,
      data: (tensor.data as Float32Array).map((value, i) => (i === 1 ? Number.NaN : value)),
    });
    expect((await rejection(buffer.load({ ...d4rl, rewards: odd(rewards) }))).message).to.include(
      "rewards of row 1 of 'rewards' holds NaN as number 0",
    );
    expect((await rejection(buffer.load({ ...d4rl, actions: odd(actions) }))).message).to.include(
      "row 1 of 'actions'",
    );
    const refused = await rejection(buffer.load(d4rl, { actionSpace: { low: 0, high: 15 } }));
    expect(refused.message).to.include(
      'load: actions of row 1 holds 20 as number 0: the box is 0 to 15',
    );
    expect(buffer.ptr).to.equal(0);
  });

  it('load() reads a range of rows, and spreads episodes over the lanes of the buffer', async () => {
    const buffer = small(8, 2);
    expect(await buffer.load(d4rl, { rows: { from: 1 } })).to.equal(4);
    const { obs, ids } = buffer.transitionsAt({
      view: buffer.transitions(),
      ids: buffer.drawableIds(buffer.transitions()),
    });
    expect(Array.from(ids, (id, i) => [id % 2, obs[i]])).to.deep.equal([
      [0, 2],
      [1, 3],
      [1, 4],
    ]);
    expect(buffer.size).to.equal(4);
  });

  it('dump() rejects and writes no file if steps are added or overwritten during the dump', () =>
    inFolder(async (folder) => {
      for (const more of [1, 30]) {
        const buffer = make();
        fill(buffer, 100);
        const before = buffer.ptr;
        const read = buffer.read.bind(buffer);
        buffer.read = (ids) => {
          if (buffer.ptr === before) fill(buffer, more, 2);
          return read(ids);
        };
        const error = await rejection(buffer.dump(join(folder, 'x.npz')));
        expect([error.code, error.message]).to.deep.equal([
          'ERR_HOTSLOT_STATE_BUSY',
          `dump: ${buffer.ptr - before} rows were added while it read, so nothing was written; pause the writers first`,
        ]);
      }
    }, []));

  it('load() and dump() reject invalid input with the reason, and load() adds no step', async () => {
    const buffer = small(20, 2);
    const { rewards, timeouts, ...without } = d4rl;
    const lanes = (...data: number[]): TensorData => ({
      dtype: 'uint32',
      shape: [6],
      data: Uint32Array.from(data),
    });
    const cases: [string, NamedTensors, object?][] = [
      ["column 'rewards' is missing; the columns are observations", without],
      ["column 'timeouts' is missing", { ...without, rewards: rewards as TensorData }],
      [
        "column 'finalObs' must have a row for each of the 2 episodes that end, but it has 3",
        { ...d4rl, finalObs: floats([3, 1], [1, 2, 3]) },
      ],
      [
        'row 2 is of lane 2, and the buffer has 2 lanes',
        { ...d4rl, lane: lanes(0, 0, 2, 2, 2, 1) },
      ],
      ["columns: unknown option 'observation'", d4rl, { columns: { observation: 'obs' } }],
      [
        "column 'nextObs' is [6,2]; for the field 'nextObs' it must be [rows, 1]",
        { ...d4rl, nextObs: floats([6, 2], Array(12).fill(0)) },
      ],
      [
        "'rewards' is float64, the field 'rewards' float32, which cannot hold the 1e+300 in row 3",
        {
          ...d4rl,
          rewards: { dtype: 'float64', shape: [6], data: Float64Array.of(1, 2, 3, 1e300, 5, 6) },
        },
      ],
    ];
    for (const [says, from, options] of cases)
      expect((await rejection(buffer.load(from, options))).message, says).to.include(says);
    expect((await rejection(small(4, 2).load(d4rl))).message).to.equal(
      'load: steps and final observations need 4 places of lane 0, and a lane has 2: pick some with rows: { from, to }, or make the buffer larger: a capacity of 8 is enough',
    );
    const writer = buffer.writer({ firstLane: 1 });
    expect((await rejection(buffer.load(d4rl))).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    writer.close();
    expect(buffer.ptr).to.equal(0);
    expect((await rejection(buffer.dump('x.npz'))).code).to.equal('ERR_HOTSLOT_STATE_EMPTY');
    const limiter = RateLimiter.create({
      samplesPerInsert: 1,
      minSize: 1,
      errorBuffer: 2,
      gateAdd: true,
    });
    const gated = TrajectoryBuffer.create({ capacity: 20, lanes: 1, fields: plain, limiter });
    expect((await rejection(gated.load(d4rl))).message).to.include(
      "the buffer's limiter gates add()",
    );
    expect(gated.ptr).to.equal(0);
  });
});
