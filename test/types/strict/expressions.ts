/** Shapes of expressions as types, and programs that must not compile. Only compiled, never run. */
import type { Device, Tensor } from 'hotslot';
import {
  type Broadcast,
  concat,
  type Expression,
  grad,
  type huber,
  matmul,
  squashedGaussian,
  trace,
  where,
} from 'hotslot/trace';

type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const is = <T extends true>(_?: T): void => {};
declare const device: Device;
trace(device, { x: [128, 4], w: [4], i: { shape: [128], dtype: 'int32' } }, ({ x, w, i }) => {
  is<Equal<typeof x, Expression<readonly [128, 4]>>>();
  const y = x.mul(w);
  is<Equal<typeof y, Expression<readonly [128, 4]>>>();
  const s = y.sum({ axis: 1 });
  is<Equal<typeof s, Expression<readonly [128]>>>();
  const t = y.sum({ axis: -1, keep: true });
  is<Equal<typeof t, Expression<readonly [128, 1]>>>();
  const u = y.mean();
  is<Equal<typeof u, Expression<readonly []>>>();
  const p = x.pick(i);
  is<Equal<typeof p, Expression<readonly [128]>>>();
  const a = x.argmax();
  is<Equal<typeof a, Expression<readonly [128]>>>();
  const m = x.matmul(x.transpose([1, 0]));
  is<Equal<typeof m, Expression<readonly [128, 128]>>>();
  const o = i.oneHot(4);
  is<Equal<typeof o, Expression<readonly [128, 4]>>>();
  const q = where(x.gt(0), x, -Infinity);
  is<Equal<typeof q, Expression<readonly [128, 4]>>>();
  const r = x.reshape([2, 64, 4]).max({ axis: [0, 2] });
  is<Equal<typeof r, Expression<readonly [64]>>>();
  const z = x.add(1).sub(w).max(0);
  is<Equal<typeof z, Expression<readonly [128, 4]>>>();
  concat(1, x, y);
  // Parts may differ in length, and in how much the compiler knows of their shapes.
  const joined = concat(1, x, x.slice(1, 2), x.sum({ axis: 1, keep: true }), t.reshape([128, 1]));
  is<Equal<typeof joined, Expression<readonly [number, number]>>>();
  concat(1, x, t as Expression, t);
  // @ts-expect-error: ranks that differ
  concat(0, x, s);
  // @ts-expect-error: shapes that do not broadcast
  x.add(i);
  // @ts-expect-error: matrices that do not multiply
  x.matmul(w.reshape([2, 2]));
  // @ts-expect-error: an axis without its name
  x.sum(1);
  // @ts-expect-error: an op that does not exist
  x.foo();
  // An unknown length or rank fits any operand.
  const unknown = x as unknown as Expression<readonly [number, number]>;
  const anyRank: Expression = x;
  is<Equal<Broadcast<readonly [number, 4], readonly [5, 1]>, readonly [5, 4]>>();
  unknown
    .add(i.reshape([128, 1]))
    .add(anyRank)
    .mul(w);
  const total = anyRank.sum();
  is<Equal<typeof total, Expression<readonly []>>>();
  const product = matmul(x, x.transpose([1, 0]));
  is<Equal<typeof product, Expression<readonly [128, 128]>>>();
  // @ts-expect-error: matrices that do not multiply
  matmul(x, x);
  is<Equal<ReturnType<typeof huber<readonly [128]>>, Expression<readonly [128]>>>();
  const taken = x.take(i);
  is<Equal<typeof taken, Expression<readonly [128, 4]>>>();
  const { action, logProb } = squashedGaussian(x, x.reshape([128, 2, 2]).sum({ axis: 2 }));
  is<Equal<typeof action, Expression<readonly [128, 2]>>>();
  is<Equal<typeof logProb, Expression<readonly [128]>>>();
  // @ts-expect-error: the ranks differ
  x.take(i, 1);
  // @ts-expect-error: an exponent is a number
  x.pow(w);
  // @ts-expect-error: a number has no ops
  x.mul(w.relu);
  // @ts-expect-error: an option that does not exist
  x.softmax({ dim: 1 });
  // @ts-expect-error: shapes that do not broadcast
  where(x.gt(0), x, i);
  const { gradients } = grad(u, [w, x]);
  is<Equal<(typeof gradients)[0], Expression<readonly [4]>>>();
  return { u, gradients };
});
const outputs = trace(device, { x: [2] }, ({ x }) => ({ x, list: [x, x.sum()] as const })).outputs;
is<Equal<typeof outputs.list, readonly [Tensor<'float32'>, Tensor<'float32'>]>>();
const run = trace(device, { x: [2] }, ({ x }) => x).run;
declare const tensor: Tensor;
// @ts-expect-error: the trace has no such input
run(device.currentStream, { x: tensor, y: tensor });
// @ts-expect-error: an input is missing
run(device.currentStream, {});
// @ts-expect-error: the function must return expressions
trace(device, { x: [2] }, () => 5);
