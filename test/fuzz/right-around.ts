/**
 * Right arguments of the parts around a pipeline: checkpoints, collectors, files, monitors, other
 * machines and ranks.
 */
import { dims, dtype, type Rows, signal } from './right-device.ts';
import { named, path } from './right-replay.ts';
import { array, flag, form, list, maybe, one, real, record, whole } from './values.ts';

const parts = record(
  {},
  {
    buffer: one('w.filled', 'w.trajectories', 'w.buffer'),
    limiter: one('w.limiter'),
    mailbox: one('w.mailbox'),
    pipeline: one('w.pipeline'),
    learner: one('w.dqn', 'w.sac', 'w.td3'),
    extra: one('() => 1', '() => ({})'),
    every: one("'1 min'", "'30 s'", "'1h'", "'x'"),
    sampler: one('w.sampler'),
  },
);
const environment = one(
  '{ observationSpace: { shape: [1] }, actionSpace: { n: 2 }, reset: () => new Float32Array(1), step: () => ({ observation: new Float32Array(1), reward: 1, terminated: true, truncated: false }) }',
);
const nowhere = {
  url: one(
    "'redis://127.0.0.1:1'",
    "'rediss://127.0.0.1:1'",
    "'http://x'",
    "'redis://example.org'",
  ),
  run: one("'r'", "'a b'", "''"),
};
const server = {
  insecure: flag,
  password: one("'x'"),
  ca: one("'nowhere'"),
  signal: one('AbortSignal.abort(told)'),
  onWait: one('() => {}'),
};

export const aroundRows: Rows = {
  'Checkpoint.open': [path, parts],
  'Checkpoint.restore': [path, parts],
  'Checkpoint.inspect': [path],
  defineCollector: [one('() => ({})')],
  'CollectorPool.open': [
    record(
      {
        entry: one(
          "new URL('file:///nowhere.js')",
          "new URL('data:text/javascript,export default 1')",
        ),
        buffer: one('w.filled', 'w.trajectories', 'w.buffer'),
      },
      {
        workers: whole(1, 2),
        seed: whole(0, 9),
        restart: whole(0, 2),
        options: one('1', '{}'),
        mailbox: one('w.mailbox'),
        resume: one('1', '{}'),
        signal,
      },
    ),
  ],
  'new DeviceError': [
    one("'x'"),
    one("{ family: 'host', call: 'c', status: 1, statusName: 's', advice: 'a' }"),
    maybe(one('{ cause: 1 }')),
  ],
  'new PipelineError': [
    one("'x'"),
    one("{ actor: 'pack', tickId: 1, slot: 0 }", '{ actor: 1, cause: told }'),
  ],
  'new UnifiedMemoryUnsupportedError': [one("'x'"), maybe(one('{ cause: 1 }'))],
  'new UnifiedMemoryCompileTimeoutError': [one("'x'"), maybe(one('{ cause: 1 }'))],
  encodeNpy: [form('{ dtype: $, shape: $, data: $ }', dtype, dims, array('Float32Array', 1, 4, 6))],
  decodeNpy: [array('Uint8Array', 0, 10, 128)],
  encodeSafetensors: [named, maybe(one("{ a: 'b' }"))],
  decodeSafetensors: [array('Uint8Array', 0, 8, 100)],
  readNpz: [path],
  readSafetensors: [path],
  writeNpz: [path, named],
  writeSafetensors: [path, named, maybe(one("{ a: 'b' }"))],
  encodeOnnx: [
    one('w.policy', 'w.sacPolicy', 'w.td3Policy', 'w.mlp'),
    record({}, { parameters: array('Float32Array', 6, 13), mask: one('true', 'false') }),
  ],
  tensorBoard: [path, record({}, { flushMs: whole(1, 99), maxBytes: whole(1, 999) })],
  'TensorBoardWriter.scalar': [one("'a/b'"), real(-1, 1), whole(0, 9), maybe(real(0, 1))],
  'TensorBoardWriter.listen': [
    record({}, { pipeline: one('w.pipeline', 'w.stepped'), every: whole(1, 9) }),
  ],
  serveMonitor: [
    record(
      { pipeline: one('w.pipeline', 'w.stepped', 'w.closedPipeline') },
      { devices: one('[w.device]', '[]'), title: one("'t'"), checkpoint: one('w.checkpoint') },
    ),
    record({}, { port: one('0', '1', '65536'), host: one("'127.0.0.1'", "'::1'", "'256.0.0.1'") }),
  ],
  'Monitor.scalar': [one("'a'"), real(-1, 1), whole(0, 9)],
  'Monitor.watch': [record({}, { checkpoint: one('w.checkpoint') })],
  evaluate: [
    record(
      {
        environments: list(environment, 1, 2),
        policy: one('{ act: (o, n) => new Int32Array(n) }', '() => new Int32Array(1)'),
      },
      { stack: whole(1, 2), episodes: whole(1, 2), seed: whole(0, 9), signal },
    ),
  ],
  gymnasium: [
    record(
      { id: one("'CartPole-v1'") },
      {
        python: one("'python3'", "'nowhere'"),
        kwargs: one('{}'),
        timeout: whole(1, 9),
        path: one("'.'"),
        output: one("'kept'", "'shown'"),
        vectorization: one("'sync'"),
      },
    ),
  ],
  showProgress: [
    one('Promise.resolve(1)'),
    one('{}', "{ line: () => 'x' }"),
    one('{ write: () => true }'),
  ],
  train: [
    record(
      {
        environment: one(
          "new URL('file:///nowhere.js')",
          "new URL('data:text/javascript,export default 1')",
        ),
        learner: one("{ algorithm: 'dqn', hidden: [2] }", "{ algorithm: 'sac' }"),
      },
      {
        device: one("'host:0'"),
        seed: whole(0, 9),
        workers: whole(1, 2),
        environments: whole(1, 2),
        steps: whole(1, 20),
        capacity: whole(1, 99),
        warmUp: whole(0, 9),
        nStep: whole(1, 3),
        stack: whole(1, 2),
        prioritized: flag,
        noise: real(0, 1),
        display: flag,
        signal: one('AbortSignal.abort(told)'),
        updatesPerStep: real(0, 1),
        explore: one('0.1', '() => 0'),
      },
    ),
  ],
  vectorCollector: [
    record(
      { make: form('() => ($)', environment) },
      {
        environments: whole(1, 2),
        stack: whole(1, 2),
        policy: one('() => ({ act: () => 0 })'),
        explore: one('{ epsilon: 0.1 }'),
      },
    ),
  ],
  'CollectorHost.open': [
    record(
      {
        ...nowhere,
        entry: one("new URL('file:///nowhere.js')"),
        signal: one('AbortSignal.abort(told)'),
      },
      {
        ...server,
        workers: whole(1, 2),
        lanes: whole(1, 2),
        outbox: one('4096'),
        name: one("'n'"),
      },
    ),
  ],
  'RemoteCollectors.open': [
    record(
      {
        ...nowhere,
        buffer: one('w.buffer', 'w.trajectories'),
        signal: one('AbortSignal.abort(told)'),
      },
      {
        ...server,
        mailbox: one('w.mailbox'),
        options: one('{}'),
        seed: whole(0, 9),
        shards: whole(1, 2),
        transitBytes: one('65536'),
        weightsEveryMs: whole(1, 99),
        maxVersionLag: whole(0, 9),
        resume: one('{}'),
      },
    ),
  ],
  shareLearnerGroup: [record({ ranks: whole(1, 3), parameters: whole(1, 9) })],
  'LearnerGroup.join': [
    record({
      shared: one('ranks.shareLearnerGroup({ ranks: 1, parameters: 3 })', 'w.sharedGroup'),
      rank: whole(0, 1),
    }),
  ],
  'LearnerGroup.average': [array('Float32Array', 1, 4), maybe(record({}, { signal }))],
  'LearnerGroup.broadcast': [
    one("{ w: { dtype: 'float32', shape: [2], data: new Float32Array(2) } }", '{}'),
    maybe(record({}, { signal })),
  ],
  'LearnerGroup.fail': [one('told')],
};
