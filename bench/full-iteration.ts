/** What FullGraphWrapper saves: the calling thread's share of an iteration, issued and replayed, and the whole iteration. */
import { DeviceGenerator, FullGraphWrapper, type IterationFunction, openDevice } from '../src/index.ts';
import { type Benchmark, median } from './harness.ts';

const OPERATIONS = 100;

export const run: Benchmark = async (report, { device: name, quick }) => {
  using device = openDevice(name);
  using x = device.allocate({ shape: [64] });
  using y = device.allocate({ shape: [64] });
  const iteration: IterationFunction = (_, { stream }) => {
    for (let i = 0; i < OPERATIONS; i++) stream.launch('axpby', { tensors: [y, x], wholes: [64], reals: [0.5, 0.5] });
    return y;
  };
  // No end of warming up is eager for ever.
  using eager = new FullGraphWrapper(iteration, { device, warmupSteps: 1e9 });
  using replayed = new FullGraphWrapper(iteration, { device });
  const rounds = quick ? 30 : 200;
  const fresh = () => ({ obs: new Float32Array(256) });
  const args = (data: boolean) => ({
    model: null,
    dataIterator: data ? [fresh()].values() : null,
    numMicrobatches: 1,
    seqLength: 1,
    forwardOnly: false,
  });
  for (const data of [false, true]) {
    const caller = { eager: [] as number[], replayed: [] as number[] };
    const whole = { eager: [] as number[], replayed: [] as number[] };
    for (const wrapper of [eager, replayed]) {
      wrapper.resetGraph();
      for (let i = 0; i < 3; i++) wrapper.run({ ...args(data), seqLength: data ? 2 : 1 });
    }
    for (let round = 0; round < rounds; round++)
      for (const [how, wrapper] of [
        ['eager', eager],
        ['replayed', replayed],
      ] as const) {
        const options = { ...args(data), seqLength: data ? 2 : 1 };
        const begin = performance.now();
        wrapper.run(options);
        caller[how].push((performance.now() - begin) * 1000);
        await device.currentStream.synchronize();
        whole[how].push((performance.now() - begin) * 1000);
      }
    const what = `an iteration of ${OPERATIONS} operations${data ? ' with a microbatch of 1 KiB from the cpu' : ''}`;
    for (const [metric, times] of [
      ['time in the caller', caller],
      ['until it is done', whole],
    ] as const)
      report({
        case: `${what}; eager`,
        metric,
        value: median(times.replayed),
        unit: 'µs',
        baseline: median(times.eager),
        ratio: median(times.eager) / median(times.replayed),
      });
  }

  // A burst: what a replay costs when nothing waits for it.
  const burst = device.family === 'host' ? 500 : 100;
  replayed.resetGraph();
  for (let i = 0; i < 3; i++) replayed.run(args(false));
  const js: number[] = [];
  for (let round = 0; round < rounds / 2; round++) {
    const begin = performance.now();
    for (let i = 0; i < burst; i++) replayed.run(args(false));
    js.push(((performance.now() - begin) / burst) * 1000);
    await device.currentStream.synchronize();
  }
  report({ case: 'a replayed iteration without data', metric: 'JS cost of run()', value: median(js), unit: 'µs' });

  const n = 1 << 20;
  using generator = new DeviceGenerator(device, { seed: 1 });
  using out = device.allocate({ shape: [n] });
  for (const draw of ['uniform', 'normal'] as const) {
    const times: number[] = [];
    for (let round = 0; round < 20; round++) {
      const begin = performance.now();
      generator[draw](device.currentStream, out);
      await device.currentStream.synchronize();
      times.push(performance.now() - begin);
    }
    report({ case: `${n} ${draw} random numbers`, metric: 'rate', value: n / median(times) / 1e3, unit: 'M/s' });
  }
};
