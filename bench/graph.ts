/**
 * Measures what a replay costs: in JavaScript, and per node in the executor. Compares a replay with
 * the same operations issued one by one.
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

  // JavaScript's share. Replays are enqueued faster than they run, and the queue is drained between
  // bursts.
  using small = capture(1);
  // A burst fits the queue: a GPU's has about a thousand entries, the CPU device's is unlimited.
  const burst = device.family === 'host' ? 1000 : 200;
  const drain = () => stream.synchronize();
  const { js } = await inTurn(rounds, { js: () => stream.replay(small) }, drain, burst);
  report({
    case: 'a graph of 1 node',
    metric: 'JS cost of a replay',
    ...middle(js.caller),
    unit: 'µs',
  });

  // Issuing costs the calling thread time for every operation, and a replay only once.
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

  // The executor's share. The time of a long graph of tiny kernels, until it is done.
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
