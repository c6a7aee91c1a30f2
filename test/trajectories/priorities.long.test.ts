/**
 * Tests prioritized sampling: sums that depend only on the leaves, which leaf belongs to which
 * step, and how often each step is drawn.
 */
import { expect } from 'chai';
import {
  type PrioritizedSampler,
  prioritized,
  prioritizedIndices,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { Dice } from './history.ts';

/** Returns the sum of a plain binary tree that is built from scratch. */
function pairwise(leaves: Float64Array): number {
  let level = leaves;
  while (level.length > 1)
    level = Float64Array.from(
      { length: Math.ceil(level.length / 2) },
      (_, i) => level[2 * i]! + (level[2 * i + 1] ?? 0),
    );
  return level[0]!;
}

/** Lanes with one long episode each. All steps are drawable except the last one of each lane. */
class Steps implements Disposable {
  readonly buffer;
  readonly view;
  readonly lanes: number;
  readonly #writer;
  written = 0;
  constructor(lanes: number, perLane: number) {
    this.lanes = lanes;
    const fields = { obs: { shape: [], observation: true } } as const;
    this.buffer = TrajectoryBuffer.create({ capacity: lanes * perLane, lanes, fields });
    this.view = this.buffer.transitions();
    this.#writer = this.buffer.writer();
  }
  add(times = 1): void {
    const obs = new Float32Array(this.lanes);
    const none = new Uint8Array(this.lanes);
    for (let i = 0; i < times; i++)
      this.#writer.add({ obs, rewards: obs, terminated: none, truncated: none });
    this.written += times;
  }
  sample(sampler: PrioritizedSampler, seed = 1, count = 1, beta = 0.5) {
    return this.buffer.sample({ view: this.view, seed, count, sampler, beta });
  }
  get firstPlace(): number {
    return Math.max(0, this.written - this.buffer.laneCapacity);
  }
  leafOf(id: number): number {
    return (
      (id % this.lanes) * this.buffer.laneCapacity +
      (Math.floor(id / this.lanes) % this.buffer.laneCapacity)
    );
  }
  [Symbol.dispose](): void {
    this.#writer.close();
    this.buffer.close();
  }
}

/** Returns a limit that a chi-squared value exceeds by chance only once in millions. */
const tooFar = (df: number): number => df + 6 * Math.sqrt(2 * df);

describe('prioritized sampling of trajectories', function () {
  this.timeout(setting({ short: 120_000, all: 600_000 }));

  itLonger('random updates make the same tree as building the tree from scratch', () => {
    using steps = new Steps(3, 501);
    const dice = new Dice(1);
    const sampler = prioritized({ alpha: 1, epsilon: 0.3 });
    const byId = new Map<number, number>();
    let largest = 1;
    // Priorities whose sums are not exact.
    const leaf = (priority: number) => priority + 0.3;
    const follow = () => {
      for (const id of steps.buffer.drawableIds(steps.view))
        if (!byId.has(id)) byId.set(id, leaf(largest));
    };
    steps.add(400);
    steps.sample(sampler);
    follow();
    const updates = setting({ short: 20_000, all: 300_000, long: 1_000_000 });
    for (let done = 0; done < updates; ) {
      // Up to a tenth of the ids are overwritten steps, and some occur twice.
      const [from, to] = [Math.max(0, steps.firstPlace - 40), steps.written - 1];
      const ids = Array.from(
        { length: 1 + dice.below(300) },
        () => (from + dice.below(to - from)) * 3 + dice.below(3),
      );
      for (let i = 0; i < ids.length / 10; i++) ids[dice.below(ids.length)] = dice.of(ids);
      const priorities = ids.map(() => dice.below(1 << 16) / 7);
      steps.buffer.updatePriorities(ids, priorities);
      ids.forEach((id, i) => {
        if (Math.floor(id / 3) < steps.firstPlace) return;
        byId.set(id, leaf(priorities[i]!));
        largest = Math.max(largest, priorities[i]!);
      });
      done += ids.length;
      if (dice.chance(0.3)) {
        steps.add(dice.below(30));
        if (dice.chance(0.01)) steps.add(600);
        steps.sample(sampler);
        follow();
      }
      if (!dice.chance(0.2) && done < updates) continue;
      const { leaves, total, maxPriority } = sampler.inspect();
      const want = new Float64Array(leaves.length);
      follow();
      for (const id of steps.buffer.drawableIds(steps.view)) want[steps.leafOf(id)] = byId.get(id)!;
      expect(Buffer.from(leaves.buffer).equals(Buffer.from(want.buffer)), 'leaves').to.equal(true);
      expect([total, maxPriority]).to.deep.equal([pairwise(want), largest]);
      // The weights depend on the smallest leaf. The ids must equal those of a tree that is built
      // from scratch.
      const [seed, count] = [done, 20];
      const { ids: drawn, weights, probabilities } = steps.sample(sampler, seed, count);
      const scratch = prioritizedIndices({ seed, count, leaves: want, beta: 0.5 });
      expect([...drawn].map((id) => steps.leafOf(id))).to.deep.equal([...scratch.indices]);
      expect([weights, probabilities]).to.deep.equal([scratch.weights, scratch.probabilities]);
    }
  });

  itLonger('updates in different orders give the same total', () => {
    const totals = [1, 2, 3].map((seed) => {
      using steps = new Steps(2, 300);
      const sampler = prioritized({ alpha: 0.6 });
      steps.add(290);
      steps.sample(sampler);
      const dice = new Dice(seed);
      const ids = [...steps.buffer.drawableIds(steps.view)];
      for (let i = ids.length - 1; i > 0; i--) {
        const j = dice.below(i + 1);
        [ids[i], ids[j]] = [ids[j]!, ids[i]!];
      }
      const priority = (id: number) => ((id * 7919) % 1009) / 3;
      for (let first = 0; first < ids.length; first += 1 + seed * 3) {
        const some = ids.slice(first, first + 1 + seed * 3);
        steps.buffer.updatePriorities(
          some,
          some.map((id) => priority(id) + 1e9),
        );
        steps.buffer.updatePriorities(some, some.map(priority));
      }
      return sampler.inspect().total;
    });
    expect(new Set(totals).size).to.equal(1);
  });

  it('a new step gets the largest priority so far, and 1 at first', () => {
    using steps = new Steps(1, 8);
    const sampler = prioritized({ alpha: 1, epsilon: 0 });
    const leaves = () => [...sampler.inspect().leaves];
    steps.add(3);
    steps.sample(sampler);
    expect(leaves()).to.deep.equal([1, 1, 0, 0, 0, 0, 0, 0]);
    // Of two updates of a step the last one counts, but the larger one stays the largest priority
    // so far.
    steps.buffer.updatePriorities([0, 0, 1], [9, 0.5, 2]);
    steps.add();
    expect(leaves()).to.deep.equal([0.5, 2, 9, 0, 0, 0, 0, 0]);
    // Smaller priorities do not change the largest priority so far.
    steps.buffer.updatePriorities([0, 1, 2], [0.25, 0.25, 0.25]);
    steps.add();
    expect([...leaves(), sampler.inspect().maxPriority]).to.deep.equal([
      0.25, 0.25, 0.25, 9, 0, 0, 0, 0, 9,
    ]);
    // An overwritten place belongs to a new step. Late updates of the old step do not raise the
    // largest priority.
    steps.add(8);
    steps.buffer.updatePriorities([0, 4, 7], [1000, 1000, 3]);
    expect([...leaves(), sampler.inspect().maxPriority]).to.deep.equal([9, 9, 9, 9, 0, 9, 9, 3, 9]);
    expect(sampler.inspect().stale).to.equal(2);
  });

  it('updatePriorities() throws and changes nothing for invalid updates or before any sample', () => {
    using steps = new Steps(1, 8);
    const sampler = prioritized({ alpha: 1, epsilon: 0 });
    steps.add(4);
    expect(refusal(() => steps.buffer.updatePriorities([0], [1])).code).to.equal(
      'ERR_HOTSLOT_STATE_EMPTY',
    );
    expect(refusal(() => sampler.inspect()).code).to.equal('ERR_HOTSLOT_STATE_EMPTY');
    steps.sample(sampler);
    const before = sampler.inspect();
    for (const [ids, priorities] of [
      [
        [0, 1],
        [7, Number.NaN],
      ],
      [
        [0, 1],
        [7, -1],
      ],
      [
        [0, 1],
        [Number.POSITIVE_INFINITY, 7],
      ],
      [[0, 1], [7]],
      [
        [0, 4],
        [7, 7],
      ],
      [
        [0, 2 ** 52],
        [7, 7],
      ],
      [
        [0, -1],
        [7, 7],
      ],
      [
        [0, 0.5],
        [7, 7],
      ],
    ] as const)
      expect(refusal(() => steps.buffer.updatePriorities([...ids], [...priorities])).code).to.equal(
        'ERR_HOTSLOT_RANGE',
      );
    expect(sampler.inspect()).to.deep.equal(before);
  });

  itLonger(
    'sample() draws no step of priority 0 until an update, and throws if all priorities are 0',
    () => {
      using steps = new Steps(2, 8);
      const sampler = prioritized({ alpha: 0.6, epsilon: 0, normalize: 'none' });
      steps.add(6);
      steps.sample(sampler);
      const ids = [...steps.buffer.drawableIds(steps.view)];
      for (const only of ids) {
        steps.buffer.updatePriorities(
          ids,
          ids.map((id) => (id === only ? 4 : 0)),
        );
        const { ids: drawn, weights, probabilities } = steps.sample(sampler, only, 50);
        expect([...new Set(drawn)]).to.deep.equal([only]);
        // Only one leaf is not zero, so its probability is 1.
        expect([...new Set([...weights!, ...probabilities!])]).to.deep.equal([1]);
      }
      steps.buffer.updatePriorities(
        ids,
        ids.map(() => 0),
      );
      const error = refusal(() => steps.sample(sampler));
      expect([error.code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_STATE_EMPTY',
        'the priorities of all 10 drawable steps are zero; update the priorities before sampling',
      ]);
      expect([steps.buffer.drawable(steps.view), sampler.inspect().total]).to.deep.equal([10, 0]);
      steps.buffer.updatePriorities([ids[3]!], [1]);
      expect([...steps.sample(sampler).ids]).to.deep.equal([ids[3]]);
    },
  );

  it('sample() gives all steps the same weight if alpha is 0', () => {
    using steps = new Steps(2, 8);
    const sampler = prioritized({ alpha: 0, epsilon: 0 });
    steps.add(6);
    steps.sample(sampler);
    steps.buffer.updatePriorities([0, 1, 2, 3], [0, 5, 1e300, 1e-300]);
    const { leaves, total } = sampler.inspect();
    expect([[...leaves].filter((each) => each === 1).length, total]).to.deep.equal([10, 10]);
    expect([...new Set(steps.sample(sampler, 1, 30).weights)]).to.deep.equal([1]);
  });

  itLonger(
    'the total stays finite for the largest priorities, and leaves of −0 accept updates',
    () => {
      using steps = new Steps(2, 8);
      const sampler = prioritized({ alpha: 2, epsilon: 0 });
      steps.add(6);
      steps.sample(sampler);
      steps.buffer.updatePriorities([0, 1, 2], [1e200, 1.7e308, Number.MAX_VALUE]);
      expect(Number.isFinite(sampler.inspect().total)).to.equal(true);
      const { weights, probabilities } = steps.sample(sampler, 1, 30);
      for (const each of [...(weights as Float64Array), ...(probabilities as Float64Array)])
        expect(each > 0 && each <= 1, `${each}`).to.equal(true);
      using other = new Steps(2, 8);
      const nought = prioritized({ alpha: 1, epsilon: -0 });
      other.add(6);
      other.sample(nought);
      other.buffer.updatePriorities([0, 1], [-0, 0]);
      other.buffer.updatePriorities([0, 1], [2, 3]);
      expect([...nought.inspect().leaves].filter((leaf) => leaf > 1)).to.deep.equal([2, 3]);
      const leaves = Float64Array.of(Number.MAX_VALUE, Number.MAX_VALUE);
      const error = refusal(() => prioritizedIndices({ leaves, seed: 1, count: 1 }));
      expect([error.code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_RANGE',
        'the 2 leaves add up to more than a float64 holds',
      ]);
    },
  );

  itLonger('prioritizedIndices() never draws a leaf of 0', () => {
    for (const size of [1, 2, 7, 8, 9, 63, 64, 65, 513]) {
      const dice = new Dice(size);
      for (let only = 0; only < size; only += 1 + dice.below(size)) {
        const leaves = new Float64Array(size);
        leaves[only] = 1e-300;
        const masses = Float64Array.of(0, 1e-301, 1e-300, 1, Number.MAX_VALUE);
        expect([...prioritizedIndices({ leaves, masses }).indices]).to.deep.equal(
          new Array(5).fill(only),
        );
      }
      const holes = Float64Array.from({ length: size }, (_, i) =>
        i === 0 || i === size - 1 || dice.chance(0.6) ? 0 : 0.1,
      );
      if (!holes.some((leaf) => leaf > 0)) continue;
      for (const leaf of prioritizedIndices({ leaves: holes, seed: size, count: 20_000 }).indices)
        if (!(holes[leaf]! > 0)) throw new Error(`leaf ${leaf} of ${size} is zero and was drawn`);
      const { total } = { total: pairwise(holes) };
      const edges = Float64Array.from({ length: size + 1 }, (_, i) =>
        holes.slice(0, i).reduce((a, b) => a + b, 0),
      );
      for (const masses of [
        edges,
        edges.map((mass) => mass * (1 + 1e-15)),
        Float64Array.of(total, total * 2),
      ])
        for (const leaf of prioritizedIndices({ leaves: holes, masses }).indices)
          expect(holes[leaf]).to.be.greaterThan(0);
    }
  });

  itLonger('prioritizedIndices() draws leaves in proportion to their values', () => {
    const dice = new Dice(3);
    const count = setting({ short: 200_000, all: 4_000_000, long: 10_000_000 });
    for (const size of [10, 1000]) {
      const leaves = Float64Array.from({ length: size }, () =>
        dice.chance(0.2) ? 0 : 0.5 + dice.below(100) / 50,
      );
      const total = pairwise(leaves);
      const drawn = new Float64Array(size);
      for (const leaf of prioritizedIndices({ leaves, seed: size, count }).indices) drawn[leaf]!++;
      let chi = 0;
      leaves.forEach((leaf, i) => {
        const want = (leaf / total) * count;
        if (leaf > 0) chi += (drawn[i]! - want) ** 2 / want;
        else expect(drawn[i]).to.equal(0);
      });
      expect(chi).to.be.lessThan(tooFar(leaves.filter((leaf) => leaf > 0).length - 1));
    }
  });

  itLonger('sample() draws all drawable steps equally often if the sampler is omitted', () => {
    using steps = new Steps(5, 40);
    steps.add(70);
    const count = setting({ short: 200_000, all: 4_000_000, long: 10_000_000 });
    const ids = [...steps.buffer.drawableIds(steps.view)];
    const drawn = new Map(ids.map((id) => [id, 0]));
    for (let seed = 0; seed < count / 20_000; seed++)
      for (const id of steps.buffer.sample({ view: steps.view, seed, count: 20_000 }).ids)
        drawn.set(id, drawn.get(id)! + 1);
    expect(drawn.size).to.equal(ids.length);
    const want = count / ids.length;
    const chi = [...drawn.values()].reduce((sum, each) => sum + (each - want) ** 2 / want, 0);
    expect(chi).to.be.lessThan(tooFar(ids.length - 1));
  });
});
