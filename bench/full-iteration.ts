/**
 * Measures what FullGraphWrapper saves. Compares an eager iteration with a replayed one: the time
 * in the calling thread, and the time until the iteration is done.
 */

import { DeviceGenerator, FullGraphWrapper, type IterationFunction } from '../src/entries/graph.ts';
import { openDevice } from '../src/index.ts';
import { type Benchmark, beside, inTurn, middle } from './harness.ts';

const OPERATIONS = 100;

export const run: Benchmark = async (report, { device: name, quick }) => {
  using device = openDevice(name);
  using x = device.allocate({ shape: [64] });
  using y = device.allocate({ shape: [64] });
  const iteration: IterationFunction = (_, { stream }) => {
    for (let i = 0; i < OPERATIONS; i++)
      stream.launch('axpby', { tensors: [y, x], wholes: [64], reals: [0.5, 0.5] });
    return y;
  };
  // Every iteration of this wrapper is eager, because it never leaves its warm-up.
  using eager = new FullGraphWrapper(iteration, { device, warmupSteps: 1e9 });
  using replayed = new FullGraphWrapper(iteration, { device });
  const rounds = quick ? 30 : 200;
  const drain = () => device.currentStream.synchronize();
  const fresh = () => ({ obs: new Float32Array(256) });
  const args = (data: boolean) => ({
    model: null,
    dataIterator: data ? [fresh()].values() : null,
    numMicrobatches: 1,
    seqLength: data ? 2 : 1,
    forwardOnly: false,
  });
  for (const data of [false, true]) {
    const runs = { eager: () => eager.run(args(data)), replayed: () => replayed.run(args(data)) };
    for (const wrapper of [eager, replayed]) {
      wrapper.resetGraph();
      for (let i = 0; i < 3; i++) wrapper.run(args(data));
    }
    const times = await inTurn(rounds, runs, drain);
    const what = `an iteration of ${OPERATIONS} operations${data ? ' with a microbatch of 1 KiB from the cpu' : ''}`;
    for (const [metric, of] of [
      ['time in the caller', 'caller'],
      ['until it is done', 'done'],
    ] as const)
      report({
        case: `${what}; eager`,
        metric,
        ...beside(times.replayed[of], times.eager[of]),
        unit: 'µs',
      });
  }

  // Replays a burst, so that the calls alone are timed: nothing waits between them.
  const burst = device.family === 'host' ? 500 : 100;
  replayed.resetGraph();
  for (let i = 0; i < 3; i++) replayed.run(args(false));
  const { js } = await inTurn(rounds / 2, { js: () => replayed.run(args(false)) }, drain, burst);
  report({
    case: 'a replayed iteration without data',
    metric: 'JS cost of run()',
    ...middle(js.caller),
    unit: 'µs',
  });

  const n = 1 << 20;
  using generator = new DeviceGenerator(device, { seed: 1 });
  using out = device.allocate({ shape: [n] });
  for (const draw of ['uniform', 'normal'] as const) {
    const { times } = await inTurn(
      20,
      { times: () => generator[draw](device.currentStream, out) },
      drain,
    );
    report({
      case: `${n} ${draw} random numbers`,
      metric: 'rate',
      ...middle(times.done, (us) => n / us),
      unit: 'M/s',
    });
  }
};
