/**
 * Measures how long a trace of about 500 ops takes to build and plan, and compares the launches of
 * an emitted plan with the same calls of stream.launch().
 */
import type { LaunchArguments } from '../src/device/device.ts';
import type { KernelName } from '../src/device/kernels.ts';
import { type Expression, grad, trace } from '../src/entries/trace.ts';
import { openDevice, type Stream } from '../src/index.ts';
import { type Benchmark, beside, middle } from './harness.ts';

const [rows, width] = [128, 16];
const inputs = { x: [rows, width], w: { shape: [width, width], contiguous: true } };

/** Adds `steps` ops and their gradients to a trace. */
function program(x: Expression, w: Expression, steps: number) {
  let y = x;
  const ops: readonly (() => Expression)[] = [
    () => y.tanh(),
    () => y.mul(w.mean({ axis: 0 })),
    () => y.matmul(w),
    () => y.add(x),
    () => y.softmax(),
    () => y.sub(y.mean({ axis: 1, keep: true })),
  ];
  for (let i = 0; i < steps; i++) y = ops[i % ops.length]!();
  const { value, gradients } = grad(y.square().mean(), [w]);
  return { value, dw: gradients[0] };
}

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const make = () =>
    trace(device, inputs, ({ x, w }) => program(x as Expression, w as Expression, 96));
  const built: number[] = [];
  for (let i = 0; i < (quick ? 10 : 50); i++) {
    const start = performance.now();
    const traced = make();
    built.push(performance.now() - start);
    traced.close();
  }
  using traced = make();
  const ops = /for (\d+) ops/.exec(String(traced.plan))![1];
  report({
    case: `${ops} ops with gradients`,
    metric: 'built and planned',
    unit: 'ms',
    ...middle(built),
    goal: { most: 100 },
  });

  await device.currentStream.synchronize();
  using stream = device.createStream();
  using x = device.allocate({ shape: [rows, width] });
  using w = device.allocate({ shape: [width, width] });
  const calls: [KernelName, LaunchArguments][] = [];
  const launch = stream.launch.bind(stream) as Stream['launch'];
  stream.launch = ((kernel: KernelName, args: { tensors: []; wholes: []; reals: [] }) => {
    const { tensors, wholes, reals } = args;
    const copy = { tensors: [...tensors], wholes: [...wholes], reals } as unknown;
    calls.push([kernel, [copy] as unknown as LaunchArguments]);
    launch(kernel as 'unary', args as never);
  }) as Stream['launch'];
  traced.run(stream, { x, w });
  stream.launch = launch;
  const times: Record<'emitted' | 'direct', number[]> = { emitted: [], direct: [] };
  const acts = {
    emitted: () => traced.run(stream, { x, w }),
    direct: () => {
      for (const [kernel, args] of calls) stream.launch(kernel, ...(args as [never]));
    },
  };
  for (let round = 0; round < (quick ? 60 : 400); round++)
    for (const kind of round % 2
      ? (['emitted', 'direct'] as const)
      : (['direct', 'emitted'] as const)) {
      stream.beginCapture();
      const start = performance.now();
      acts[kind]();
      times[kind].push(((performance.now() - start) * 1e3) / calls.length);
      stream.endCapture().close();
    }
  const { emitted, direct } = times;
  report({
    case: `${calls.length} launches of a plan; stream.launch()`,
    metric: 'launch',
    unit: 'µs',
    ...beside(emitted, direct),
    goal: { ratio: 0.9 },
  });
};
