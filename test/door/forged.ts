/**
 * A process that attaches forged objects and reads words that no writer wrote. It prints the name
 * of each case, then runs it.
 */
import { failHaloExchange, periodicTopology, shareHaloExchange } from '../../src/entries/halo.ts';
import { LearnerGroup, shareLearnerGroup } from '../../src/entries/ranks.ts';
import { RateLimiter, ReplayBuffer, TrajectoryBuffer, WeightMailbox } from '../../src/index.ts';
import { internalsOfSampler, prioritized } from '../../src/store/prioritized.ts';
import { packers } from './forged-packers.ts';
import { type Case, clone, fillSteps, laneWords, rowsOf, steps, withField } from './forged-rig.ts';

const shareRows = () => rowsOf(8, 1).share();
const shareSteps = () => steps(16).share();
const attachRows = (change: object) => ReplayBuffer.attach({ ...clone(shareRows()), ...change });
const attachSteps = (change: object) =>
  TrajectoryBuffer.attach({ ...clone(shareSteps()), ...change });

/** Returns the object after changing a 32-bit word of its header. */
function headed<S extends { memory: SharedArrayBuffer; offset: number }>(
  shared: S,
  word: number,
  value: number,
): S {
  new Uint32Array(shared.memory, shared.offset, 8)[word] = value;
  return shared;
}

/** Creates a mailbox with forged versions. */
function mailbox(begun: number, published: number, length = 2 ** 20): WeightMailbox {
  const box = WeightMailbox.create({ length });
  const { memory, offset } = box.share();
  const words = new Int32Array(memory, offset, 32);
  [words[0], words[16]] = [begun, published];
  return box;
}

/** Creates a function that draws by priority, and then changes the memory of the sampler's tree. */
function drawn(capacity: number, change: (tree: Float64Array) => void) {
  const buffer = steps(capacity);
  fillSteps(buffer, 16);
  const [view, sampler] = [buffer.transitions(), prioritized()];
  const draw = () => buffer.sample({ view, seed: 1, count: 64, sampler });
  draw();
  change(
    (internalsOfSampler(sampler) as unknown as { binding: { tree: Float64Array } }).binding.tree,
  );
  return { draw, sampler };
}

const plain = (place: { memory: SharedArrayBuffer; offset: number }) =>
  ({ memory: new ArrayBuffer(place.memory.byteLength), offset: 0 }) as unknown as typeof place;
const disguised = (bytes: number) =>
  Object.setPrototypeOf(new ArrayBuffer(bytes), SharedArrayBuffer.prototype) as SharedArrayBuffer;
const halo = () =>
  shareHaloExchange({
    topology: periodicTopology({ layout: [2, 1] }),
    x: [
      {
        nPoints: 1,
        shape: [4, 4],
        origin: [1, 1],
        extent: [2, 2],
        dims: ['j', 'i'],
        dtype: 'float64',
      },
    ],
  });

const cases: Record<string, Case> = {
  'rows: memory that is not shared': {
    refused: () => attachRows({ memory: new ArrayBuffer(4096) }),
  },
  'rows: memory that says it is shared': { refused: () => attachRows({ memory: disguised(8192) }) },
  'rows: less memory than it says': {
    refused: () => attachRows({ memory: new SharedArrayBuffer(128), offset: 0 }),
  },
  'rows: 2³² − 1 of them': {
    refused: () =>
      ReplayBuffer.attach(headed({ ...shareRows(), capacity: 2 ** 32 - 1 }, 2, 2 ** 32 - 1)),
  },
  'rows: an offset of NaN': { refused: () => attachRows({ offset: Number.NaN }) },
  'rows: a field of no bytes': {
    refused: () => ReplayBuffer.attach(withField(shareRows(), 'x', { shape: [0], bytes: 0 })),
  },
  'rows: a field behind its row': {
    refused: () => ReplayBuffer.attach(withField(shareRows(), 'x', { offset: 2 ** 32 })),
  },
  'rows: a field with more bytes than its shape': {
    refused: () => ReplayBuffer.attach(withField(shareRows(), 'x', { bytes: 8 })),
  },
  'rows: a field of no dtype': {
    refused: () => ReplayBuffer.attach(withField(shareRows(), 'x', { dtype: '__proto__' })),
  },
  'steps: memory that says it is shared': {
    refused: () => attachSteps({ memory: disguised(8192) }),
  },
  'steps: 2⁶⁰ places in a lane': {
    refused: () => TrajectoryBuffer.attach(headed(shareSteps(), 5, 2 ** 28)),
  },
  'steps: places of 2³¹ bytes': {
    refused: () => TrajectoryBuffer.attach(headed(shareSteps(), 3, 2 ** 31)),
  },
  'steps: a field far behind its place': {
    refused: () => TrajectoryBuffer.attach(withField(shareSteps(), 0, { offset: 2 ** 40 })),
  },
  'steps: a field behind its place': {
    refused: () => TrajectoryBuffer.attach(withField(shareSteps(), 0, { offset: 4096 * 3 })),
  },
  'steps: a field of no bytes': {
    refused: () => TrajectoryBuffer.attach(withField(shareSteps(), 0, { shape: [0], bytes: 0 })),
  },
  'steps: a floor above everything': {
    harmless: () => {
      const buffer = steps(16);
      laneWords(buffer).set([100n, 100n, 0n, 2n ** 64n - 5n]);
      return [buffer.size, buffer.ptr, buffer.drawable(buffer.transitions())];
    },
  },
  'steps: counts of any size': {
    harmless: () => {
      const buffer = steps(16);
      fillSteps(buffer, 20);
      const [view, words] = [buffer.transitions(), laneWords(buffer)];
      for (const committed of [2n ** 63n, 3n, 2n ** 40n, 0n, 2n ** 64n - 1n, 17n]) {
        words.fill(committed, 0, 2);
        buffer.drawable(view);
        if (committed < 2n ** 40n && buffer.drawable(view) > 0)
          buffer.sample({ view, seed: 1, count: 4 });
      }
    },
  },
  'weights: versions below zero': {
    harmless: () => mailbox(-2, -2).write(new Float32Array(2 ** 20)),
  },
  'weights: a read below zero': {
    refused: () => mailbox(-1, -1).read(new Float32Array(2 ** 20), -5),
  },
  'weights: more published than begun': {
    harmless: () => mailbox(1, 2 ** 31 - 1).write(new Float32Array(2 ** 20)),
  },
  'weights: memory that says it is shared': {
    refused: () =>
      WeightMailbox.attach({
        ...clone(WeightMailbox.create({ length: 4 }).share()),
        memory: disguised(8192),
      }),
  },
  'a limiter: memory that says it is shared': {
    refused: () => {
      const limiter = RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 8 });
      return RateLimiter.attach({ ...clone(limiter.share()), memory: disguised(8192) });
    },
  },
  'priorities: sums that lead behind the leaves': {
    harmless: () => {
      const pad = (count: number) => Math.ceil(count / 8) * 8;
      const leaves = 8 ** 6 + 1;
      const { draw } = drawn(leaves, (tree) => {
        let [at, nodes] = [24 + pad(leaves), leaves];
        const sums: number[] = [];
        do {
          nodes = Math.ceil(nodes / 8);
          sums.push(at);
          at += 2 * pad(nodes);
        } while (nodes > 1);
        const [second, root] = sums.slice(-2) as [number, number];
        tree.set([0, 0, 0, 0, 0, 0, 0, 1], second);
        tree[root] = 1;
      });
      draw();
    },
  },
  'priorities: 2⁶¹ leaves': {
    harmless: () => {
      const { sampler } = drawn(16, (tree) => {
        new BigUint64Array(tree.buffer, tree.byteOffset, 4)[3] = 2n ** 61n;
      });
      sampler.inspect();
    },
  },
  'a halo: words that are not shared': {
    refused: () => {
      const shared = halo();
      failHaloExchange({ ...shared, words: plain(shared.words) }, new Error('forged'));
    },
  },
  'a group: words that are not shared': {
    refused: () => {
      const shared = shareLearnerGroup({ ranks: 2, parameters: 4 });
      return LearnerGroup.join({
        shared: { ...shared, words: plain(shared.words) },
        rank: 0,
      } as never);
    },
  },
  ...packers,
};

for (const [name, each] of Object.entries(cases)) {
  console.log(name);
  if ('harmless' in each) {
    await each.harmless();
    continue;
  }
  const thrown = await Promise.resolve()
    .then(each.refused)
    .then(
      () => null,
      (error: unknown) => error,
    );
  const code = (thrown as { code?: unknown } | null)?.code;
  if (typeof code !== 'string' || !code.startsWith('ERR_HOTSLOT_'))
    throw thrown ?? new Error('it was taken');
}
console.log(`${Object.keys(cases).length} cases`);
