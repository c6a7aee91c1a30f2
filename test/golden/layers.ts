/**
 * Cases of `learners_torch.json` for layers, losses and shared parts of optimizers, computed by
 * layers and ops on the CPU device.
 */

import { Adam, type Layer, layerNorm, linear, Network, ops } from '../../src/entries/learner.ts';
import { openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { Difference, same, sameList } from './differences.ts';

export interface Numbers {
  shape: number[];
  data: number[];
}
export interface LayerCase {
  id: string;
  config: Readonly<Record<string, number>>;
  inputs: Readonly<Record<string, Numbers>>;
  outputs: Readonly<Record<string, Numbers | number>>;
}
type Floats = Tensor<'float32'>;

const elements = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1);

/**
 * Tolerance relative to a tensor's largest number: three times the error of torch's own float32.
 */
const PART = 2e-6;

/** Compares with a number or a tensor. The tolerance is relative to its largest number. */
export async function compare(
  what: string,
  got: Floats,
  wanted: Numbers | number | undefined,
  part = PART,
): Promise<void> {
  const found = await got.toArray();
  if (wanted === undefined) throw new Difference(`${what} is missing in the file`);
  const list = typeof wanted === 'number' ? [wanted] : wanted.data;
  if (typeof wanted !== 'number' && elements(wanted.shape) !== list.length)
    throw new Difference(`${what} is [${wanted.shape}] in the file, of ${list.length} numbers`);
  const most = Math.max(1e-30, ...list.map(Math.abs));
  sameList(what, found, list, { tolerance: () => part * most });
}

/**
 * Returns the numbers 0, 1, … of the inputs `name_0`, `name_1`, …. Throws if there is none, or if
 * one is missing.
 */
export function counted(inputs: LayerCase['inputs'], name: string): number[] {
  const all = Object.keys(inputs).filter((key) => new RegExp(`^${name}_\\d+$`).test(key));
  if (all.length === 0) throw new Difference(`the file has no ${name}_0`);
  all.forEach((_, k) => {
    if (!inputs[`${name}_${k}`]) throw new Difference(`the file lacks ${name}_${k}`);
  });
  return all.map((_, k) => k);
}

/** The CPU device, with memory that is freed at the end of the case. */
export class Bench implements Disposable {
  readonly device = openDevice('host:0');
  readonly stream: Stream = this.device.currentStream;
  readonly #open: { close(): void }[] = [];

  keep<T extends { close(): void }>(made: T): T {
    this.#open.push(made);
    return made;
  }
  floats(shape: number[], data?: ArrayLike<number>): Floats {
    const made = this.keep(this.device.allocate({ shape }));
    return data === undefined ? made : made.write(Float32Array.from(data));
  }
  of(numbers: Numbers | undefined): Floats {
    if (numbers === undefined) throw new Difference('the file lacks an input');
    return this.floats(numbers.shape, numbers.data);
  }
  [Symbol.dispose](): void {
    for (const made of this.#open.reverse()) made.close();
  }
}

/** Checks a layer as a network of its own, with the file's parameters. */
export async function checkLayer({ inputs, outputs }: LayerCase, layer: Layer): Promise<void> {
  using bench = new Bench();
  const { device, stream } = bench;
  const net = new Network([layer]);
  const x = bench.of(inputs.x);
  const [rows] = x.shape as [number, number];
  const flat = bench.floats(
    [net.parameterCount],
    net.parameters.flatMap(({ name }) => inputs[name.slice(2)]?.data ?? []),
  );
  const gradient = bench.floats([net.parameterCount]);
  const of = bench.floats(x.shape as number[]);
  const pass = bench.keep(net.workspace(device, rows, { backward: true }));
  await compare('output', net.forward(stream, net.over(flat), x, pass), outputs.output);
  stream.copy(pass.outputGradient, bench.of(inputs.upstream));
  net.backward(stream, net.over(flat), x, pass, net.over(gradient), of);
  await compare('grad_x', of, outputs.grad_x);
  for (const { name, shape, offset } of net.parameters)
    await compare(
      `grad_${name.slice(2)}`,
      gradient.view({ shape: [...shape], offset }),
      outputs[`grad_${name.slice(2)}`],
    );
}

export const checkLinear = (golden: LayerCase): Promise<void> => {
  const [out, into] = golden.inputs.weight!.shape as [number, number];
  return checkLayer(golden, linear(into, out));
};
export const checkLayerNorm = (golden: LayerCase): Promise<void> =>
  checkLayer(golden, layerNorm(golden.inputs.x!.shape[1]!, { epsilon: golden.config.eps ?? 1e-5 }));

type Act = 'relu' | 'silu' | 'tanh' | 'elu' | 'gelu' | 'geluTanh';
export const checkActivation =
  (name: Act) =>
  async ({ inputs, outputs }: LayerCase): Promise<void> => {
    using bench = new Bench();
    const [x, dy] = [bench.of(inputs.x), bench.of(inputs.upstream)];
    const y = bench.floats(x.shape as number[]);
    ops[name](bench.stream, y, x);
    await compare('output', y, outputs.output);
    ops.backward[name](bench.stream, y, dy, x);
    await compare('grad_x', y, outputs.grad_x);
  };

/** dx = y (dy − Σ dy y) for softmax, and dy − y Σ dy for its logarithm. */
export const checkSoftmax =
  (logarithm: boolean) =>
  async ({ inputs, outputs }: LayerCase): Promise<void> => {
    using bench = new Bench();
    const { stream } = bench;
    const [x, dy] = [bench.of(inputs.x), bench.of(inputs.upstream)];
    const [rows, columns] = x.shape as [number, number];
    const [y, dx, sums] = [
      bench.floats([rows, columns]),
      bench.floats([rows, columns]),
      bench.floats([rows, 1]),
    ];
    if (logarithm) ops.logSoftmax(stream, y, x);
    else ops.softmax(stream, y, x);
    await compare('output', y, outputs.output);
    if (logarithm) {
      ops.softmax(stream, y, x);
      ops.sum(stream, sums, dy);
      ops.mul(stream, dx, y, sums);
      ops.sub(stream, dx, dy, dx);
    } else {
      ops.mul(stream, dx, dy, y);
      ops.sum(stream, sums, dx);
      ops.sub(stream, dx, dy, sums);
      ops.mul(stream, dx, dx, y);
    }
    await compare('grad_x', dx, outputs.grad_x);
  };

/** Checks the mean over rows of −Σ target · log softmax. */
export async function checkCrossEntropy({ inputs, outputs }: LayerCase): Promise<void> {
  using bench = new Bench();
  const { stream } = bench;
  const [x, target] = [bench.of(inputs.x), bench.of(inputs.target)];
  const [rows, columns] = x.shape as [number, number];
  const [logs, terms, loss] = [
    bench.floats([rows, columns]),
    bench.floats([rows, 1]),
    bench.floats([]),
  ];
  const factor = bench.floats([], [-1 / rows]);
  ops.logSoftmax(stream, logs, x);
  ops.mul(stream, logs, logs, target);
  ops.sum(stream, terms, logs);
  ops.mul(stream, terms, terms, factor);
  ops.sum(stream, loss.view({ shape: [1] }), terms.view({ shape: [rows] }));
  await compare('output', loss, outputs.output);
  // Its gradient is softmax · Σ target − target, divided by the number of rows.
  const dx = bench.floats([rows, columns]);
  ops.softmax(stream, dx, x);
  ops.sum(stream, terms, target);
  ops.mul(stream, dx, dx, terms);
  ops.sub(stream, dx, target, dx);
  ops.mul(stream, dx, dx, factor);
  await compare('grad_x', dx, outputs.grad_x);
}

/** Checks the mean of f(d), d = x − target. `value` computes f(d) by ops, and `slope` f′(d). */
const meanLoss =
  (
    value: (bench: Bench, out: Floats, d: Floats, config: LayerCase['config']) => void,
    slope: typeof value,
  ) =>
  async ({ config, inputs, outputs }: LayerCase): Promise<void> => {
    using bench = new Bench();
    const { stream } = bench;
    const [x, target] = [bench.of(inputs.x), bench.of(inputs.target)];
    const shape = x.shape as number[];
    const [d, terms, loss] = [bench.floats(shape), bench.floats(shape), bench.floats([1])];
    const part = bench.floats([], [1 / x.size]);
    ops.sub(stream, d, x, target);
    value(bench, terms, d, config);
    ops.mean(stream, loss, terms.view({ shape: [x.size] }));
    await compare('output', loss, outputs.output);
    slope(bench, terms, d, config);
    ops.mul(stream, terms, terms, part);
    await compare('grad_x', terms, outputs.grad_x);
  };

export const checkMse = meanLoss(
  ({ stream }, out, d) => ops.square(stream, out, d),
  ({ stream }, out, d) => ops.add(stream, out, d, d),
);
/**
 * delta · (|d| − delta / 2) if |d| > delta, else d² / 2. Both are (|d| − ½ min(|d|, delta)) ·
 * min(|d|, delta).
 */
const huber = (
  delta: (config: LayerCase['config']) => number,
  scale: (config: LayerCase['config']) => number,
) =>
  meanLoss(
    (bench, out, d, config) => {
      const { stream } = bench;
      const near = bench.floats(d.shape as number[]);
      ops.abs(stream, out, d);
      ops.clamp(stream, near, out, 0, delta(config));
      ops.mul(stream, out, out, near);
      ops.square(stream, near, near);
      ops.mul(stream, near, near, bench.floats([], [0.5]));
      ops.sub(stream, out, out, near);
      ops.mul(stream, out, out, bench.floats([], [scale(config)]));
    },
    (bench, out, d, config) => {
      ops.clamp(bench.stream, out, d, -delta(config), delta(config));
      ops.mul(bench.stream, out, out, bench.floats([], [scale(config)]));
    },
  );
export const checkHuber = huber(
  ({ delta }) => delta as number,
  () => 1,
);
export const checkSmoothL1 = huber(
  ({ beta }) => beta as number,
  ({ beta }) => 1 / (beta as number),
);

/** Checks target ← (1 − tau) target + tau source, once for each source. */
export async function checkPolyak({ config, inputs, outputs }: LayerCase): Promise<void> {
  using bench = new Bench();
  const target = bench.of(inputs.target);
  const tau = config.tau as number;
  for (const k of counted(inputs, 'source')) {
    const reals = [tau, 1 - tau] as const;
    bench.stream.launch('axpby', {
      tensors: [target, bench.of(inputs[`source_${k}`])],
      wholes: [target.size],
      reals,
    });
    await compare(`target_${k}`, target, outputs[`target_${k}`]);
  }
}

/**
 * Checks the norm and the factor that Adam applies to the gradient, with all tensors as one vector.
 */
export async function checkClip({ config, inputs, outputs }: LayerCase): Promise<void> {
  using bench = new Bench();
  const names = Object.keys(inputs);
  const all = names.flatMap((name) => inputs[name]!.data);
  const gradient = bench.floats([all.length], all);
  const maxGradNorm = config.max_norm as number;
  const adam = bench.keep(new Adam(bench.device, bench.floats([all.length]), { maxGradNorm }));
  adam.step(bench.stream, gradient);
  await compare('total_norm', adam.gradientNorm, outputs.total_norm as number);
  ops.mul(bench.stream, gradient, gradient, adam.clip);
  let at = 0;
  for (const name of names) {
    const { shape, data } = inputs[name]!;
    await compare(
      `clipped_${name.slice(5)}`,
      gradient.view({ shape, offset: at }),
      outputs[`clipped_${name.slice(5)}`],
    );
    at += data.length;
  }
  same('the number of elements', at, all.length);
}
