/** DQN updates: a captured tick of several minibatches against the same kernels issued one by one. */
import { DqnLearner, openDevice } from '../src/index.ts';
import { type Benchmark, median } from './harness.ts';

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const stream = device.createStream();
  const batchSize = 128;
  for (const minibatches of [1, 4]) {
    const rows = batchSize * minibatches;
    using learner = new DqnLearner(device, { obsDim: 4, actions: 2, hidden: [120, 84], batchSize, seed: 1 });
    const random = (width: number, scale = 1) =>
      device
        .allocate({ shape: [rows, width] })
        .write(Float32Array.from({ length: rows * width }, () => (Math.random() - 0.5) * scale));
    const zero = () => device.allocate({ shape: [rows] });
    const batch = {
      obs: random(4),
      nextObs: random(4),
      actions: zero(),
      rewards: random(1),
      dones: zero(),
      truncated: zero(),
    };
    const out = device.allocate({ shape: [8] });
    // Once outside: weights and workspaces are there before anything is captured.
    learner.update(stream, batch, out);
    await stream.synchronize();
    stream.beginCapture();
    learner.update(stream, batch, out);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    const times = { captured: [] as number[], issued: [] as number[] };
    for (let round = 0; round < (quick ? 30 : 300); round++) {
      for (const [how, act] of [
        ['captured', () => stream.replay(exec)],
        ['issued', () => learner.update(stream, batch, out)],
      ] as const) {
        const begin = performance.now();
        act();
        await stream.synchronize();
        times[how].push((performance.now() - begin) * 1000);
      }
    }
    const shape = `${minibatches} × ${batchSize} rows, 4-120-84-2, double DQN, ${graph.nodeCount} nodes`;
    const each = median(times.captured) / minibatches;
    report({
      case: `${shape}; issued one by one`,
      metric: 'time per update',
      value: each,
      unit: 'µs',
      baseline: median(times.issued) / minibatches,
      ratio: median(times.issued) / median(times.captured),
    });
    report({ case: shape, metric: 'updates per second', value: 1e6 / each, unit: '1/s' });
    for (const tensor of [...Object.values(batch), out]) tensor.close();
  }
  stream.close();
};
