/**
 * Measures how long a trace of about 500 ops takes to build and plan, and compares the launches of
 * an emitted plan with the same calls of stream.launch(). It also compares chains of elementwise ops
 * with separate launches, and with a memcpy of the bytes that a chain must read and write. Chains
 * of one op are compared with the op's own kernel.
 */
import type { LaunchArguments } from '../src/device/device.ts';
import type { KernelName } from '../src/device/kernels.ts';
import { type Expression, grad, trace } from '../src/entries/trace.ts';
import { type Device, openDevice, type Stream } from '../src/index.ts';
import { unaries } from '../src/learn/ops/elementwise.ts';
import { type InternalOptions, trace as traceWith } from '../src/learn/trace/trace.ts';
import { type Benchmark, beside, inTurn, middle, type Report, speedBeside } from './harness.ts';

/** The least speed of a chain of transcendental functions, compared with their own launches. */
const TRANSCENDENTAL = 0.9;
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

const cheap: readonly ((y: Expression) => Expression)[] = [
  (y) => y.add(0.1),
  (y) => y.mul(1.5),
  (y) => y.relu(),
  (y) => y.sub(0.2),
  (y) => y.mul(0.9),
  (y) => y.abs(),
  (y) => y.max(0.2) as Expression,
  (y) => y.add(0.3),
];
/** Chains that are compared with separate launches. */
const chains: readonly (readonly [name: string, ops: typeof cheap])[] = [
  ['8 cheap ops', cheap],
  ['2 cheap ops', cheap.slice(0, 2)],
  ['tanh, mul and exp', [(y) => y.tanh(), (y) => y.mul(0.5), (y) => y.exp()]],
];

/** Returns functions that register what a comparison makes, and close it. */
function registry(stream: Stream) {
  const made: { close(): void }[] = [];
  const keep = <T extends { close(): void }>(one: T): T => {
    made.push(one);
    return one;
  };
  /** Captures what `act` enqueues, and returns the executable graph. */
  const captured = (act: () => void) => {
    stream.beginCapture();
    act();
    const graph = stream.endCapture();
    const instance = keep(graph.instantiate());
    graph.close();
    return instance;
  };
  const clear = () => {
    for (const one of made.splice(0).reverse()) one.close();
  };
  return { keep, captured, clear };
}

/** Compares replays of chains with replays of separate launches, and with copies. */
async function compareChains(device: Device, report: Report, quick: boolean) {
  const stream = device.createStream();
  const { keep, captured, clear } = registry(stream);
  for (const [rows, columns] of [
    [1, 128],
    [256, 6],
    [1024, 1024],
  ] as const) {
    const size = rows * columns;
    // Each replay uses other memory, so that large tensors are not in a cache.
    const sets = size > 100_000 ? (quick ? 12 : 24) : 1;
    for (const [name, ops] of chains) {
      const plans = (options: InternalOptions) =>
        Array.from({ length: sets }, () => {
          const x = keep(device.allocate({ shape: [rows, columns] }));
          const traced = keep(
            traceWith(
              device,
              { x: { shape: [rows, columns], contiguous: true } },
              ({ x: given }) => ops.reduce((y, op) => op(y), given as Expression),
              options,
            ),
          );
          const run = () => traced.run(stream, { x });
          return { run, graph: captured(run) };
        });
      const copies = Array.from({ length: sets }, () => {
        const [to, from] = [size, size].map((n) => keep(device.allocate({ shape: [n] })));
        const run = () => stream.copy(to!, from!);
        return { run, graph: captured(run) };
      });
      await device.currentStream.synchronize();
      const [joined, single] = [plans({}), plans({ chains: false })];
      await device.currentStream.synchronize();
      const turns = { joined: 0, single: 0, copy: 0 };
      const each = (kind: keyof typeof turns, graphs: typeof joined) => () =>
        stream.replay(graphs[turns[kind]++ % sets]!.graph);
      const times = await inTurn(
        size > 100_000 ? (quick ? 20 : 100) : quick ? 50 : 400,
        {
          joined: each('joined', joined),
          single: each('single', single),
          copy: each('copy', copies),
        },
        () => stream.synchronize(),
        size > 100_000 ? 4 : 200,
      );
      const shape = `${rows}×${columns}`;
      report({
        case: `chain of ${name}, ${shape}; ${ops.length} launches`,
        metric: 'replay',
        unit: 'µs',
        ...beside(times.joined.done, times.single.done),
        ...(sets > 1 && { goal: { ratio: /tanh|exp/.test(name) ? TRANSCENDENTAL : 1 } }),
      });
      if (sets === 1) {
        const calls = await inTurn(
          quick ? 50 : 400,
          { joined: joined[0]!.run, single: single[0]!.run },
          () => stream.synchronize(),
          20,
        );
        report({
          case: `chain of ${name}, ${shape}; ${ops.length} launches`,
          metric: 'run without a capture',
          unit: 'µs',
          ...beside(calls.joined.done, calls.single.done),
          goal: { ratio: 1 },
        });
      } else
        report({
          case: `chain of ${name}, ${shape}; cold memcpy`,
          metric: 'bytes read and written',
          ...speedBeside(8 * size, times.joined.done, times.copy.done),
          ...(name === '8 cheap ops' && { goal: { ratio: 0.6 } }),
        });
      clear();
    }
  }
  stream.close();
}

/**
 * Compares chains of one op with the kernel `unary`. Each replay uses other memory, and the kernels
 * use the same input at different times. So no input is in a cache.
 */
async function compareKernels(device: Device, report: Report, quick: boolean) {
  const stream = device.createStream();
  const { keep, captured, clear } = registry(stream);
  const [rows, columns, sets] = [2048, 2048, 6];
  const values = new Float32Array(rows * columns).map((_, i) => (i % 1001) / 200 - 2.5);
  for (const name of ['exp', 'tanh'] as const) {
    const op = unaries[name];
    const sides = Array.from({ length: sets }, () => {
      const tensor = () => keep(device.allocate({ shape: [rows, columns] }));
      const [x, y, own] = [tensor().write(values), tensor(), tensor()];
      // One step reads input 0, whose number is 16, and writes y0. Number 32 is an unused constant.
      const words = new Float32Array(65);
      words.set([op, 16 + 64 * 32 + 4096 * 32, 1 + 8 * 32]);
      words[64] = 1;
      const program = keep(device.allocate({ shape: [words.length] })).write(words);
      const rest = [program, program, program, program, program] as const;
      return {
        chain: captured(() =>
          stream.launch('chain', {
            tensors: [y, y, y, y, x, ...rest, program],
            wholes: [rows, columns, columns, 0, 0, 0, columns, -1, -1, -1, -1, -1],
          }),
        ),
        unary: captured(() =>
          stream.launch('unary', {
            tensors: [own, x],
            wholes: [rows, columns, columns, columns, op],
          }),
        ),
      };
    });
    await device.currentStream.synchronize();
    const turns = { chain: 0, unary: sets / 2 };
    const each = (kind: keyof typeof turns) => () =>
      stream.replay(sides[turns[kind]++ % sets]![kind]);
    const times = await inTurn(
      quick ? 12 : 60,
      { chain: each('chain'), unary: each('unary') },
      () => stream.synchronize(),
      2,
    );
    report({
      case: `chain of ${name}, ${rows}×${columns}; kernel unary`,
      metric: 'replay, cold memory',
      unit: 'µs',
      ...beside(times.chain.done, times.unary.done),
      goal: { ratio: TRANSCENDENTAL },
    });
    clear();
  }
  stream.close();
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
  await compareChains(device, report, quick);
  await compareKernels(device, report, quick);
};
