/**
 * Compares ops over a million floats, and over rows, with a copy of as many bytes on the same
 * stream.
 */

import { ops } from '../src/entries/learner.ts';
import { openDevice } from '../src/index.ts';
import { type Benchmark, inTurn, percentile } from './harness.ts';

const n = 2 ** 20;
const light = ['abs', 'relu', 'square', 'sqrt'] as const;
const heavy = ['exp', 'log', 'tanh', 'sigmoid', 'silu', 'gelu', 'softplus', 'elu'] as const;

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  using stream = device.createStream();
  const made = (values: (i: number) => number) =>
    device.allocate({ shape: [n] }).write(
      Float32Array.from({ length: n }, (_, i) => values(i)),
      stream,
    );
  using x = made((i) => 3 * Math.sin(i) + 3.5);
  using y = made(Math.cos);
  using out = made(() => 0);
  const shape = [4096, 256];
  const [rows, wide] = [x.view({ shape }), out.view({ shape })];
  const each = out.view({ shape: [4096] });
  const one = (op: (typeof light | typeof heavy)[number]) => () => ops[op](stream, out, x);
  // For each op: the floats that it reads and writes per element, the least speed relative to
  // `copy`, and the call.
  const acts: Record<string, [numbers: number, goal: number | null, act: () => void]> = {
    copy: [2, null, () => stream.copy(out, x)],
    add: [3, 0.8, () => ops.add(stream, out, x, y)],
    mul: [3, 0.8, () => ops.mul(stream, out, x, y)],
    clamp: [2, 0.8, () => ops.clamp(stream, out, x, 1, 5)],
    ...Object.fromEntries(light.map((op) => [op, [2, 0.8, one(op)] as const])),
    ...Object.fromEntries(heavy.map((op) => [op, [2, 0.4, one(op)] as const])),
    'sum of 4096 × 256': [1, null, () => ops.sum(stream, each, rows)],
    'softmax of 4096 × 256': [2, null, () => ops.softmax(stream, wide, rows)],
  };
  const contenders = Object.fromEntries(Object.entries(acts).map(([op, [, , act]]) => [op, act]));
  const times = await inTurn(quick ? 15 : 101, contenders, () => stream.synchronize(), 4);
  const speeds = (op: string) => times[op]!.done.map((us) => (acts[op]![0] * 4 * n) / us / 1e3);
  const told = (op: string) => ({
    value: percentile(speeds(op), 0.5),
    quartiles: [percentile(speeds(op), 0.25), percentile(speeds(op), 0.75)] as const,
  });
  const { value: baseline, quartiles: baselineQuartiles } = told('copy');
  for (const [op, [, goal]] of Object.entries(acts)) {
    if (op === 'copy') continue;
    const { value, quartiles } = told(op);
    report({
      case: `${op}; copy`,
      metric: 'read and written',
      unit: 'GB/s',
      value,
      quartiles,
      baseline,
      baselineQuartiles,
      ratio: value / baseline,
      ...(goal !== null && { goal: { ratio: goal } }),
    });
  }
};
