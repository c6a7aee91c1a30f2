/**
 * What a replay costs: JavaScript's share, the executor's share per node, and the same work issued
 * one by one.
 */
import { openDevice } from '../src/index.ts';
import { type Benchmark, beside, inTurn, middle } from './harness.ts';

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const stream = device.createStream();
  using x = device.allocate({ shape: [1] });
  using y = device.allocate({ shape: [1] });
  const issue = (nodes: number) => {
    for (let i = 0; i < nodes; i++)
      stream.launch('axpby', { tensors: [y, x], wholes: [1], reals: [1, 1] });
  };
  const capture = (nodes: number) => {
    stream.beginCapture();
    issue(nodes);
    using graph = stream.endCapture();
    return graph.instantiate();
  };
  const rounds = quick ? 20 : 100;

  // JavaScript's share: a burst of replays is enqueued faster than it runs, and the queue drained
  // between bursts.
  using small = capture(1);
  // A GPU's queue holds about a thousand; the processor's any number.
  const burst = device.family === 'host' ? 1000 : 200;
  const drain = () => stream.synchronize();
  const { js } = await inTurn(rounds, { js: () => stream.replay(small) }, drain, burst);
  report({
    case: 'a graph of 1 node',
    metric: 'JS cost of a replay',
    ...middle(js.caller),
    unit: 'µs',
  });

  // Issuing costs the calling thread something per operation, a replay once.
  const nodes = 100;
  using graph = capture(nodes);
  const calls = await inTurn(
    rounds,
    { replay: () => stream.replay(graph), issue: () => issue(nodes) },
    drain,
  );
  report({
    case: `an update of ${nodes} operations; issued one by one`,
    metric: 'time in the caller',
    ...beside(calls.replay.caller, calls.issue.caller),
    unit: 'µs',
  });

  // The executor's share: a long graph of almost nothing, waited for.
  const many = 10_000;
  using long = capture(many);
  const { whole } = await inTurn(rounds / 4, { whole: () => stream.replay(long) }, drain);
  report({
    case: `a graph of ${many} one-element kernels`,
    metric: 'time per node',
    ...middle(whole.done, (us) => (us / many) * 1000),
    unit: 'ns',
  });
  stream.close();
};
