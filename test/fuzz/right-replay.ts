/** Right arguments of buffers, trajectories and pipelines. */
import { dims, dtype, type Rows, signal, stream, timeout } from './right-device.ts';
import {
  array,
  either,
  flag,
  form,
  type Gen,
  list,
  maybe,
  one,
  real,
  record,
  whole,
} from './values.ts';

const seed = either(whole(0, 9), one('7n', '2 ** 40'));
const limiter = one(
  'w.limiter',
  'w.gated',
  'hotslot.RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 9 })',
);
const fields = record(
  { a: record({ shape: dims }, { dtype }) },
  { b: record({ shape: dims }, { dtype }), 'c d': record({ shape: dims }) },
);
const stepFields = record(
  { obs: record({ shape: dims }, { dtype, observation: flag }) },
  {
    action: record({ shape: dims }, { dtype }),
    goal: record({ shape: dims, observation: flag }),
    rewards: record({ shape: dims }),
  },
);
const offPolicy = (n: number) =>
  record(
    {
      obs: array('Float32Array', 2 * n),
      nextObs: array('Float32Array', 2 * n),
      actions: array('Float32Array', n),
      rewards: array('Float32Array', n),
      dones: array('Float32Array', n),
      truncated: array('Float32Array', n),
    },
    { terminalMask: array('Uint8Array', n), terminalNextObs: array('Float32Array', 2 * n) },
  );
const columns = (n: number) =>
  record({ a: array('Float32Array', 2 * n), b: array('Uint8Array', n) });
const flags = (n: number) => either(array('Uint8Array', n), list(flag, n, n));
const steps = (n: number) =>
  record(
    {
      obs: array('Float32Array', 2 * n),
      goal: array('Float32Array', n),
      action: array('Uint8Array', n),
      rewards: array('Float32Array', n),
      terminated: flags(n),
      truncated: flags(n),
    },
    { skip: flags(n), finalObs: array('Float32Array', 2 * n), finalGoal: array('Float32Array', n) },
  );
const mark = form(
  '{ words: $, index: $, value: $ }',
  array('BigUint64Array', 1, 2),
  whole(0, 2),
  whole(0, 9),
);
const indices = either(
  array('Uint32Array', 0, 1, 3),
  array('BigInt64Array', 2),
  one('Uint32Array.of(0, 7)', 'BigInt64Array.of(-1n, 5n)'),
);
const out = either(array('Float32Array', 4, 6, 8, 20), array('Uint8Array', 9, 18, 27, 64));
const view = one(
  'w.transitions',
  'w.windows',
  'w.trajectories.transitions()',
  'w.trajectories.windows({ length: 3 })',
);
const ids = either(
  one('w.trajectories.drawableIds(w.transitions)', '[0]', 'Float64Array.of(0, 1)', '[]'),
  list(whole(0, 40), 0, 4),
);
export const path = one(
  "'file'",
  "'file.npz'",
  "'nowhere/file'",
  "'checkpoint'",
  "'.'",
  "''",
  "new URL('file:///nowhere/x')",
  "'a\\0b'",
);
export const named = either(
  record(
    { a: record({ dtype, shape: dims, data: array('Float32Array', 0, 1, 2, 4, 6) }) },
    {
      b: form(
        '{ dtype: $, shape: [$], data: $ }',
        one("'uint8'"),
        whole(0, 3),
        array('Uint8Array', 0, 1, 2, 3),
      ),
    },
  ),
  one(
    "{ a: { dtype: 'float32', shape: [3, 2], data: new Float32Array(6) }, b: { dtype: 'uint8', shape: [3], data: new Uint8Array(3) } }",
    "{ obs: { dtype: 'float32', shape: [2, 2], data: new Float32Array(4) } }",
  ),
);
const load = [
  either(named, path),
  record(
    {},
    { columns: one("{ a: 'b' }", '{}'), rows: record({}, { from: whole(0, 3), to: whole(0, 4) }) },
  ),
];
const stack = record({}, { obs: whole(1, 3), goal: whole(1, 2) });
const pad = one("'repeat'", "'zero'");
const transitions = record(
  {},
  { nStep: whole(1, 3), gamma: real(0, 1), stack, pad, relabel: one('w.relabel') },
);
const windows = record(
  { length: whole(1, 4) },
  { burnIn: whole(0, 2), edges: one("'full'", "'tail'", "'anchor'"), stack, pad },
);
const prioritizedOptions = record(
  {},
  { alpha: real(0, 1), epsilon: real(0, 0.1), normalize: one("'tree'", "'batch'", "'none'") },
);
const rows = record(
  { sampleCount: whole(1, 4), device: one("'host:0'", 'w.device.name') },
  {
    depth: whole(1, 4),
    baseSeed: whole(0, 9),
    restart: whole(0, 2),
    journal: whole(1, 99),
    signal,
    mailbox: one('w.mailbox'),
    transfer: one("'auto'", "'immediate'", "'deferred'", "'direct'"),
    rows: one("'host'", "'device'", "'auto'"),
    trace: one('false', "{ file: 'trace' }"),
    deviceRing: record(
      {},
      {
        capacity: whole(1, 8),
        guard: whole(0, 4),
        chunkBytes: whole(1, 64),
        headroom: whole(0, 9),
      },
    ),
    group: one('w.group'),
  },
);
/** Most placements are inline, so that few of the many calls start threads. */
const pipeline: Gen = (random) => {
  const { object } = rows(random) as { object: readonly (readonly [string, { code: string }])[] };
  const of = either(
    record({ buffer: one('w.filled', 'w.buffer', 'w.limited', 'w.closedBuffer') }),
    record(
      { buffer: one('w.trajectories'), view },
      { sampler: one('w.sampler', 'hotslot.prioritized()'), beta: real(0, 1) },
    ),
  )(random) as { object: readonly (readonly [string, { code: string }])[] };
  const placement = one(
    ...Array.from({ length: 12 }, () => "'inline'"),
    "'auto'",
    "[['pack', 'submit', 'poll', 'replay']]",
  )(random);
  return { object: [...of.object, ...object, ['placement', placement]] };
};
const tick = [whole(0, 6), either(one('2', '2', '2'), whole(0, 3))];
export const replayRows: Rows = {
  'new Random': [whole(0, 9), maybe(whole(0, 9))],
  'Random.loadState': [either(one('w.random.state()'), list(whole(-5, 5), 4, 4))],
  'Random.between': [real(-2, 0), real(0, 2)],
  'Random.below': [whole(1, 9)],
  'RateLimiter.create': [
    record(
      { samplesPerInsert: real(0.1, 4), minSize: whole(1, 4), errorBuffer: real(1, 99) },
      { gateAdd: flag },
    ),
  ],
  'RateLimiter.attach': [
    one('w.sharedLimiter', '{ ...w.sharedLimiter }', '{ ...w.sharedLimiter, offset: 64 }'),
  ],
  ...Object.fromEntries(
    [
      'admitSample',
      'countSamples',
      'takeSamples',
      'admitInsert',
      'waitingFor',
      'addWaitingFor',
    ].map((each) => [`RateLimiter.${each}`, [whole(0, 4)]]),
  ),
  'RateLimiter.checkBand': [record({ sampleCount: whole(1, 9) }, { addCount: whole(1, 9) })],
  'ReplayBuffer.create': [record({ capacity: whole(1, 99), fields }, { limiter })],
  'ReplayBuffer.offPolicy': [
    record(
      { capacity: whole(1, 99), obsDim: whole(1, 4), actionDim: whole(1, 4) },
      { criticDim: whole(0, 4), limiter },
    ),
  ],
  'ReplayBuffer.attach': [
    one(
      'w.shared',
      '{ ...w.shared }',
      '{ ...w.shared, capacity: 4 }',
      '{ ...w.shared, layout: {} }',
    ),
  ],
  'ReplayBuffer.add': [either(offPolicy(1), offPolicy(3), columns(1), columns(2), columns(9))],
  'ReplayBuffer.addPacked': [array('Uint8Array', 12, 24, 32, 64), whole(0, 3), maybe(mark)],
  'ReplayBuffer.gather': [indices, out],
  'ReplayBuffer.sample': [
    record({ seed, count: whole(1, 3) }, { indices: array('Uint32Array', 1, 2, 3) }),
    maybe(out),
  ],
  'ReplayBuffer.load': load,
  'ReplayBuffer.dump': [path],
  'TrajectoryBuffer.load': load,
  'TrajectoryBuffer.dump': [path],
  'TrajectoryBuffer.create': [
    record({ capacity: whole(4, 99), lanes: whole(1, 4), fields: stepFields }, { limiter }),
  ],
  'TrajectoryBuffer.attach': [
    one('w.sharedSteps', '{ ...w.sharedSteps }', '{ ...w.sharedSteps, lanes: 2 }'),
  ],
  'TrajectoryBuffer.writer': [
    record({}, { firstLane: whole(0, 3), lanes: whole(1, 2), resume: flag }),
  ],
  'TrajectoryBuffer.transitions': [transitions],
  'TrajectoryBuffer.windows': [windows],
  'TrajectoryBuffer.drawable': [view],
  'TrajectoryBuffer.drawableIds': [view],
  'TrajectoryBuffer.read': [ids],
  'TrajectoryBuffer.sample': [
    record({ view, seed, count: whole(1, 4) }, { sampler: one('w.sampler'), beta: real(0, 1) }),
  ],
  'TrajectoryBuffer.transitionsAt': [record({ view, ids }, { goalIds: ids })],
  'TrajectoryBuffer.updatePriorities': [
    ids,
    either(list(real(0, 2), 0, 4), array('Float32Array', 1, 2, 4)),
  ],
  'TrajectoryWriter.add': [steps(2)],
  'TrajectoryWriter.addPacked': [array('Uint8Array', 20, 40, 80, 96), whole(0, 3), maybe(mark)],
  hindsight: [
    record(
      { goal: one("'goal'"), achieved: one("'obs'", "'goal'") },
      { strategy: one("'future'", "'final'", "'episode'"), ratio: real(0, 1) },
    ),
  ],
  prioritized: [prioritizedOptions],
  prioritizedIndices: [
    record(
      { leaves: array('Float64Array', 1, 4, 9) },
      {
        seed,
        count: whole(1, 4),
        beta: real(0, 1),
        normalize: one("'tree'", "'batch'", "'none'"),
        masses: array('Float64Array', 1, 2),
      },
    ),
  ],
  uniformIndices: [record({ seed, size: whole(1, 9), count: whole(1, 9) })],
  philoxIndices: [
    record({
      seed: whole(0, 9),
      tick: whole(0, 9),
      low: whole(0, 9),
      span: whole(1, 9),
      capacity: whole(1, 9),
      count: whole(1, 9),
    }),
  ],
  goalReward: [
    record({
      achieved: array('Float32Array', 4),
      goal: array('Float32Array', 2),
      steps: array('Int32Array', 2),
      n: whole(1, 2),
      dims: whole(1, 2),
      gamma: real(0, 1),
      threshold: real(0, 1),
    }),
  ],
  ...Object.fromEntries(
    ['fromFloat16', 'fromBfloat16'].map((each) => [each, [array('Uint16Array', 0, 3)]]),
  ),
  ...Object.fromEntries(
    ['toFloat16', 'toBfloat16'].map((each) => [each, [array('Float32Array', 0, 3)]]),
  ),
  'WeightMailbox.create': [record({ length: whole(1, 99) })],
  'WeightMailbox.attach': [
    one('w.sharedMailbox', '{ ...w.sharedMailbox }', '{ ...w.sharedMailbox, length: 8 }'),
  ],
  'WeightMailbox.write': [array('Float32Array', 4), record({}, { nonFinite: flag })],
  'WeightMailbox.read': [array('Float32Array', 4), maybe(whole(0, 3))],
  'ReplayPipeline.open': [pipeline],
  'ReplayPipeline.startPrepare': [...tick, maybe(whole(0, 4))],
  'ReplayPipeline.batchReady': tick,
  'ReplayPipeline.waitUntilReady': [...tick, record({ timeoutMs: whole(0, 3) }, { signal })],
  'ReplayPipeline.waitUntilReadySync': [...tick, timeout],
  'ReplayPipeline.sampleLargeBatch': [...tick, record({ timeoutMs: whole(0, 3) }, { signal })],
  'ReplayPipeline.sampleLargeBatchSync': tick,
  'ReplayPipeline.afterTick': [record({}, { stream })],
  'ReplayPipeline.capture': [
    one('() => {}', '(b, { stream, out }) => stream.fill(out, 1)', '(b) => b.nope'),
    record(
      {},
      {
        scalars: one("['loss']", '[]'),
        weights: one('w.tensor', 'w.big'),
        publishNonFinite: flag,
        sync: one("'parameters'", "'none'"),
      },
    ),
  ],
  'ReplayPipeline.run': [
    record({ ticks: whole(0, 3), signal: one('odd.soon()') }, { publishEvery: whole(0, 2) }),
  ],
  'ReplayPipeline.ticks': [record({}, { signal })],
  'ReplayPipeline.setBeta': [real(0, 1)],
};
