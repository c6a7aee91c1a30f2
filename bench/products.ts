/**
 * Compares Hotslot's own products with those of a GPU's library, each with what surrounds it in a
 * linear layer, and finds the sizes up to which the own ones are as fast. `--write` puts these limits
 * into native/device/core/product_limits.hpp.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { listDevices, openDevice, type Stream, type Tensor } from '../src/index.ts';
import { type Benchmark, beside, inTurn, median } from './harness.ts';

const file = fileURLToPath(new URL('../../native/device/core/product_limits.hpp', import.meta.url));

/** Times of a layer's passes in microseconds. */
export interface Measured {
  readonly multiplyAdds: number;
  readonly terms: number;
  readonly own: number;
  readonly library: number;
}

/**
 * Returns the limits with which the layers take the least time. Each layer counts alike: its time is
 * divided by that of the faster side. Of equally good limits, the smallest ones are returned.
 */
export function limitsOf(measured: readonly Measured[]): { multiplyAdds: number; terms: number } {
  const sizesOf = (of: 'multiplyAdds' | 'terms'): number[] =>
    [...new Set([0, ...measured.map((each) => each[of])])].sort((a, b) => a - b);
  let best = { multiplyAdds: 0, terms: 0, time: Number.POSITIVE_INFINITY };
  for (const multiplyAdds of sizesOf('multiplyAdds'))
    for (const terms of sizesOf('terms')) {
      const time = measured.reduce((sum, each) => {
        const isOwn = each.multiplyAdds <= multiplyAdds && each.terms <= terms;
        return sum + (isOwn ? each.own : each.library) / Math.min(each.own, each.library);
      }, 0);
      if (time < best.time) best = { multiplyAdds, terms, time };
    }
  return { multiplyAdds: best.multiplyAdds, terms: best.terms };
}

/** Returns the text of product_limits.hpp with other limits, and their source in the comment. */
export function written(
  text: string,
  { multiplyAdds, terms }: { multiplyAdds: number; terms: number },
  source: string,
): string {
  const old = /\/\/ [^\n]*\nconstexpr ProductLimits measured_limits\{[^}]*\};/;
  if (!old.test(text)) throw new Error('product_limits.hpp has no measured_limits');
  return text.replace(
    old,
    () => `// ${source}\nconstexpr ProductLimits measured_limits{${multiplyAdds}, ${terms}};`,
  );
}

/** Rows, inputs and outputs of the layers. */
const layers: readonly (readonly [number, number, number])[] = [
  ...[
    [128, 4, 120],
    [128, 120, 84],
    [128, 84, 2],
    [256, 17, 256],
    [256, 98, 256],
  ],
  ...[
    [256, 256, 256],
    [256, 256, 29],
    [512, 256, 256],
    [1024, 256, 256],
    [2048, 128, 101],
  ],
  ...[
    [2048, 98, 512],
    [2048, 256, 128],
    [2048, 512, 256],
    [256, 512, 512],
    [256, 1024, 1024],
  ],
  ...[
    [4096, 64, 64],
    [8192, 32, 32],
  ],
] as never;

/** Products of a graph. */
const NODES = 20;

export const run: Benchmark = async (report, { device: name, quick, writes }) => {
  // The library computes all products of `gemm`, whatever the limits are now.
  process.env.HOTSLOT_OWN_PRODUCTS = 'none';
  using device = openDevice(name);
  const { matrixProducts } = device.traits;
  if (!matrixProducts.startsWith('cuBLAS'))
    throw new Error(`'products' needs a GPU with cuBLAS; ${name} has: ${matrixProducts}`);
  using stream = device.createStream();
  const rounds = quick ? 5 : 31;
  const measured: Measured[] = [];
  const zeros = (...shape: number[]) => device.allocate({ shape });
  /** Returns the medians of two ways to compute the same, as graphs, and reports them. */
  async function compared(
    label: string,
    sizes: readonly [number, number, number],
    own: (s: Stream) => void,
    library: (s: Stream) => void,
  ): Promise<void> {
    const capture = (enqueue: (s: Stream) => void) => {
      enqueue(stream);
      stream.beginCapture();
      for (let i = 0; i < NODES; i++) enqueue(stream);
      using graph = stream.endCapture();
      return graph.instantiate();
    };
    using one = capture(own);
    using other = capture(library);
    const times = await inTurn(
      rounds,
      { own: () => stream.replay(one), library: () => stream.replay(other) },
      () => stream.synchronize(),
      5,
    );
    const each = (us: number) => us / NODES;
    report({
      case: `${label}; by ${matrixProducts.split(' (')[0]}`,
      metric: 'time in a graph',
      unit: 'µs',
      ...beside(times.own.done, times.library.done, each),
    });
    const [m, n, k] = sizes;
    measured.push({
      ...{ multiplyAdds: m * n * k, terms: k },
      ...{ own: median(times.own.done) / NODES, library: median(times.library.done) / NODES },
    });
  }
  for (const [rows, inputs, outputs] of quick ? layers.slice(0, 6) : layers) {
    const tensors: Tensor<'float32'>[] = [
      ...[zeros(rows, outputs), zeros(rows, inputs), zeros(outputs, inputs), zeros(outputs)],
      ...[zeros(outputs, inputs), zeros(outputs)],
    ];
    const [y, x, weight, bias, dw, db] = tensors as [Tensor<'float32'>, ...Tensor<'float32'>[]];
    const relu = 12;
    await compared(
      `${rows} rows by linear(${inputs}, ${outputs}) with ReLU`,
      [rows, outputs, inputs],
      (s) =>
        s.launch('linear_act', {
          tensors: [y, y, x!, x!, weight!, bias!],
          wholes: [1, rows, outputs, inputs, inputs, outputs, inputs, inputs, 0, 0, 0, relu],
        }),
      (s) => {
        s.launch('gemm', {
          tensors: [y, x!, weight!],
          wholes: [0, 1, rows, outputs, inputs, inputs, inputs, outputs],
          reals: [1, 0],
        });
        s.launch('bias_act_batched', {
          tensors: [y, y, y, bias!],
          wholes: [1, rows, outputs, outputs, outputs, 0, 0, 0, relu],
        });
      },
    );
    await compared(
      `${rows} rows, gradients of linear(${inputs}, ${outputs})`,
      [outputs, inputs, rows],
      (s) =>
        s.launch('linear_gradients', {
          tensors: [dw!, db!, y, x!, x!],
          wholes: [1, outputs, inputs, rows, inputs, outputs, inputs, inputs, 0, 0, 0],
        }),
      (s) => {
        s.launch('column_sums', {
          tensors: [db!, y],
          wholes: [rows, outputs, outputs],
          reals: [1, 0],
        });
        s.launch('gemm', {
          tensors: [dw!, y, x!],
          wholes: [1, 0, outputs, inputs, rows, outputs, inputs, inputs],
          reals: [1, 0],
        });
      },
    );
    for (const tensor of tensors) tensor.close();
  }
  const limits = limitsOf(measured);
  for (const [metric, value] of Object.entries(limits))
    report({ case: 'limits of own products', metric, value, unit: '' });
  if (!writes) return;
  const day = new Date().toISOString().slice(0, 10);
  const { description } = listDevices().find((each) => each.name === device.name)!;
  const source = `${description}, ${day}: npm run bench -- products`;
  writeFileSync(file, written(readFileSync(file, 'utf8'), limits, source));
};
