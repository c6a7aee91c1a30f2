/** What a replay costs: JavaScript's share of one, the executor's share of a node, and the same work issued one by one. */
import { openDevice } from '../src/index.ts';
import { type Benchmark, median } from './harness.ts';

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const stream = device.createStream();
  using x = device.allocate({ shape: [1] });
  using y = device.allocate({ shape: [1] });
  const issue = (nodes: number) => {
    for (let i = 0; i < nodes; i++) stream.launch('axpby', { tensors: [y, x], wholes: [1], reals: [1, 1] });
  };
  const capture = (nodes: number) => {
    stream.beginCapture();
    issue(nodes);
    using graph = stream.endCapture();
    return graph.instantiate();
  };
  const rounds = quick ? 20 : 100;

  // JavaScript's share: a burst of replays is enqueued faster than it runs, and the queue drained between bursts.
  using small = capture(1);
  // A GPU's queue holds about a thousand; the processor's any number.
  const burst = device.family === 'host' ? 1000 : 200;
  const js: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const begin = performance.now();
    for (let i = 0; i < burst; i++) stream.replay(small);
    js.push(((performance.now() - begin) / burst) * 1000);
    await stream.synchronize();
  }
  report({ case: 'a graph of 1 node', metric: 'JS cost of a replay', value: median(js), unit: 'µs' });

  // Issuing costs JavaScript per operation, a replay once: what the calling thread is kept busy for.
  const nodes = 100;
  using graph = capture(nodes);
  const calls = { replay: [] as number[], issue: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    for (const [how, act] of [
      ['replay', () => stream.replay(graph)],
      ['issue', () => issue(nodes)],
    ] as const) {
      const begin = performance.now();
      act();
      calls[how].push((performance.now() - begin) * 1000);
      await stream.synchronize();
    }
  }
  report({
    case: `an update of ${nodes} operations; issued one by one`,
    metric: 'time in the caller',
    value: median(calls.replay),
    unit: 'µs',
    baseline: median(calls.issue),
    ratio: median(calls.issue) / median(calls.replay),
  });

  // The executor's share: a long graph of almost nothing, waited for.
  const many = 10_000;
  using long = capture(many);
  const times: number[] = [];
  for (let round = 0; round < rounds / 4; round++) {
    const begin = performance.now();
    stream.replay(long);
    await stream.synchronize();
    times.push(((performance.now() - begin) / many) * 1e6);
  }
  report({ case: `a graph of ${many} one-element kernels`, metric: 'time per node', value: median(times), unit: 'ns' });
  stream.close();
};
