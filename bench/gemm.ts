/**
 * Measures matrix products of networks. Compares Hotslot's own products with OpenBLAS on one
 * thread, and products that idle cores share with those of one core.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { type Benchmark, beside, middle } from './harness.ts';
import { buildProgram } from './native.ts';

type Shape = readonly [m: number, n: number, k: number, transposed: number];

/**
 * The products of a linear layer: forward x · weightᵀ, the weight's gradient dyᵀ · x, the input's
 * gradient dy · weight.
 */
const layer = (rows: number, inputs: number, outputs: number): Shape[] => [
  [rows, outputs, inputs, 2],
  [outputs, inputs, rows, 1],
  [rows, inputs, outputs, 0],
];
const network = (rows: number, ...sizes: number[]): Shape[] =>
  sizes.slice(1).flatMap((outputs, i) => layer(rows, sizes[i] as number, outputs));

const shapes: readonly Shape[] = [
  ...[64, 128, 256, 512].map((size): Shape => [size, size, size, 0]),
  ...network(128, 4, 120, 84, 2),
  ...network(256, 98, 256, 256, 29),
  ...network(256, 23, 256, 256, 1),
  ...network(2048, 127, 512, 256, 128, 101),
];

/**
 * Returns the core type to set for OpenBLAS. Version 0.3.21 does not recognize newer CPUs and would
 * choose code for an old one.
 */
export function coreOf(): string {
  const flags = readFileSync('/proc/cpuinfo', 'utf8');
  return /\bavx512f\b/.test(flags) ? 'SkylakeX' : 'Haswell';
}

export const run: Benchmark = async (report, { quick }) => {
  const sources = ['bench/native/gemm.cpp', 'native/kernels/gemm_builtin.cpp'];
  const headers = [
    'native/kernels/gemm.hpp',
    'native/kernels/gemm_micro.hpp',
    'native/wait/core_pool.hpp',
    'native/wait/idle_cores.hpp',
    'native/wait/process_cores.hpp',
    'native/kernels/kernel.hpp',
  ];
  const program = buildProgram('gemm', sources, headers, '-O2');
  const env = { ...process.env, OPENBLAS_CORETYPE: process.env.OPENBLAS_CORETYPE ?? coreOf() };
  const listed = shapes.flat().map(String);
  const { status, stdout, stderr } = spawnSync(program, [quick ? '7' : '31', ...listed], {
    encoding: 'utf8',
    env,
  });
  if (status !== 0) throw new Error(`the program of products failed: ${stderr}`);
  const [head, ...lines] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const core = head.core ? `; OpenBLAS for ${head.core}` : '; no OpenBLAS here';
  for (const [i, [m, n, k, transposed]] of shapes.entries()) {
    const { ours, shared, theirs } = lines[i] as Record<'ours' | 'shared' | 'theirs', number[]>;
    const gigaflops = (us: number) => (2 * m * n * k) / us / 1e3;
    const stored = ['', ', A transposed', ', B transposed'][transposed];
    report({
      case: `${m} × ${n} × ${k}${stored}${core}`,
      metric: head.own || 'four lanes',
      unit: 'GFLOP/s',
      ...(theirs.length > 0 ? beside(ours, theirs, gigaflops) : middle(ours, gigaflops)),
    });
    if (m * n * k >= 2 ** 19)
      report({
        case: `${m} × ${n} × ${k}${stored}, shared with idle cores beside one core`,
        metric: head.own || 'four lanes',
        unit: 'GFLOP/s',
        ...beside(shared, ours, gigaflops),
      });
  }
};
