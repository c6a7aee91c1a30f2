/**
 * Compares DQN updates captured in one graph of several minibatches with the same kernels issued
 * one by one.
 */

import { DqnLearner } from '../src/entries/learner.ts';
import { openDevice, Random } from '../src/index.ts';
import { type Benchmark, beside, inTurn } from './harness.ts';

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const stream = device.createStream();
  const batchSize = 128;
  for (const minibatches of [1, 4]) {
    const rows = batchSize * minibatches;
    using learner = new DqnLearner(device, {
      obsDim: 4,
      actions: 2,
      hidden: [120, 84],
      batchSize,
      seed: 1,
    });
    const numbers = new Random(1);
    const random = (width: number) =>
      device
        .allocate({ shape: [rows, width] })
        .write(Float32Array.from({ length: rows * width }, () => numbers.between(-0.5, 0.5)));
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
    // Updates once outside the capture, so that weights and workspaces are allocated before it.
    await learner.ready;
    learner.update(stream, batch, out);
    await stream.synchronize();
    stream.beginCapture();
    learner.update(stream, batch, out);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    const { captured, issued } = await inTurn(
      quick ? 30 : 300,
      { captured: () => stream.replay(exec), issued: () => learner.update(stream, batch, out) },
      () => stream.synchronize(),
    );
    const each = (times: number[]) => times.map((time) => time / minibatches);
    const figure = beside(each(captured.done), each(issued.done));
    const shape = `${minibatches} × ${batchSize} rows, 4-120-84-2, double DQN, ${graph.nodeCount} nodes`;
    report({
      case: `${shape}; issued one by one`,
      metric: 'time per update',
      ...figure,
      unit: 'µs',
    });
    report({ case: shape, metric: 'updates per second', value: 1e6 / figure.value, unit: '1/s' });
    for (const tensor of [...Object.values(batch), out]) tensor.close();
  }
  stream.close();
};
