/** Tests errors of expressions: each says what is wrong, and names the line of the program. */
import { expect } from 'chai';
import {
  add,
  bootstrap,
  categorical,
  categoricalLoss,
  checkGradients,
  concat,
  constant,
  type Expression,
  grad,
  huber,
  matmul,
  max,
  mse,
  normal,
  squashedGaussian,
  stack,
  trace,
  uniform,
  where,
} from '../../src/entries/trace.ts';
import { type Device, openDevice } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';

type Given = Readonly<Record<'x' | 'y' | 'v' | 's' | 'z', Expression>>;
const shapes = { x: [3, 4], y: [5], v: [4], s: [], z: [2, 3, 4] };

describe('errors of expressions', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });
  const error = (fn: (given: Given) => unknown) =>
    refusal(() =>
      trace(device, shapes, (given) => fn(given as unknown as Given) as Expression).close(),
    );

  /** Each wrong program, and the start of its error. */
  const wrong: readonly (readonly [what: string, fn: (given: Given) => unknown, says: RegExp])[] = [
    [
      'shapes that do not broadcast',
      ({ x, y }) => x.add(y),
      /^add: \[3, 4\] and \[5\] do not broadcast: 4 and 5 meet, and neither is 1/,
    ],
    [
      'three shapes that do not broadcast',
      ({ x, y, v }) => where(v, x, y),
      /^where: \[4\] and \[3, 4\] and \[5\] do not broadcast: 4 and 5/,
    ],
    [
      'an operand that is no expression',
      ({ x }) => x.add('1' as never),
      /^add: operand 1 must be an expression or a number, got '1'/,
    ],
    [
      'no expression among the operands',
      () => add(1, 2),
      /^add: at least one operand must be an expression/,
    ],
    [
      'a number beyond float32',
      ({ x }) => x.mul(1e39),
      /^mul: operand 1 is 1e\+39, which float32 does not hold/,
    ],
    [
      'an axis without its name',
      ({ x }) => x.sum(1 as never),
      /^sum: name the axis, as in sum\(\{ axis: 0 \}\), got 1/,
    ],
    [
      'an unknown option',
      ({ x }) => x.mean({ dim: 1 } as never),
      /^mean: unknown option 'dim'; it takes axis and keep/,
    ],
    [
      'an axis that is not there',
      ({ x }) => x.sum({ axis: 2 }),
      /^sum: there is no axis 2 in an expression of 2 dimensions/,
    ],
    [
      'an axis twice',
      ({ x }) => x.sum({ axis: [0, -2] }),
      /^sum: an axis is named twice in \[0,-2\]/,
    ],
    [
      'a fraction as an axis',
      ({ x }) => x.max({ axis: 0.5 }),
      /^max: an axis is a whole number, got 0\.5/,
    ],
    [
      'an axis of a single number',
      ({ s }) => s.softmax(),
      /^softmax: there is no axis -1 in an expression of 0 dimensions/,
    ],
    [
      'a reshape to another size',
      ({ x }) => x.reshape([5, 2]),
      /^reshape: \[3, 4\] has 12 elements, and \[5, 2\] has not/,
    ],
    [
      'a reshape to five dimensions',
      ({ x }) => x.reshape([1, 1, 1, 3, 4]),
      /^reshape: expressions have at most 4 dimensions, got 5/,
    ],
    [
      'a dimension of no length',
      ({ x }) => x.broadcast([0, 3, 4]),
      /^broadcast: the length of dimension 0 must be a whole number of at least 1, got 0/,
    ],
    [
      'a broadcast to fewer elements',
      ({ x }) => x.broadcast([1, 4]),
      /^broadcast: \[3, 4\] does not broadcast to \[1, 4\]/,
    ],
    [
      'a permutation that leaves an axis out',
      ({ z }) => z.transpose([0, 1]),
      /^transpose: name each of the 3 axes once, got \[0,1\]/,
    ],
    [
      'a slice of nothing',
      ({ x }) => x.slice(1, 2, 2),
      /^slice: from 2 to 2 along axis 1 of \[3, 4\] has no elements/,
    ],
    [
      'parts that differ',
      ({ x, z }) => concat(0, x, z),
      /^concat: \[3, 4\] and \[2, 3, 4\] differ in another axis than 0/,
    ],
    ['no parts', () => concat(0), /^concat\(axis, \.\.\.parts\) takes one part or more/],
    [
      'parts in a list',
      ({ x }) => concat([x, x] as never, 1 as never),
      /^concat\(axis, \.\.\.parts\): the axis comes first, as in concat\(1, x, y\)/,
    ],
    [
      'stacked parts that differ',
      ({ x, v }) => stack(0, x, v),
      /^stack: the parts have one shape, got \[3, 4\] and \[4\]/,
    ],
    [
      'a product of other lengths',
      ({ x }) => matmul(x, x),
      /^matmul: \[3, 4\] by \[3, 4\] is no product; it takes \[m, k\]·\[k, n\]/,
    ],
    [
      'a product of a vector',
      ({ x, v }) => x.matmul(v),
      /^matmul: \[3, 4\] by \[4\] is no product/,
    ],
    [
      'an index of another length',
      ({ x, v }) => x.pick(v),
      /^pick: index must be \[3\] for \[3, 4\], got \[4\]/,
    ],
    [
      'a table that is no matrix',
      ({ v, s }) => v.take(s),
      /^take: the table must have shape \[n, d\], got \[4\]/,
    ],
    [
      'a table of more rows than float32 counts',
      ({ s }) => s.broadcast([2 ** 24 + 1, 1]).take(s),
      /^take: indices are floats, which are exact up to 2\^24, and there are 16777217 elements/,
    ],
    [
      'a power that is an expression',
      ({ x, s }) => x.pow(s as never),
      /^pow: the exponent must be a number; b\.mul\(a\.log\(\)\)\.exp\(\)/,
    ],
    [
      'limits in the wrong order',
      ({ x }) => x.clamp(1, 0),
      /^clamp: low must be at most high, got 1 and 0/,
    ],
    ['a threshold of 0', ({ x }) => huber(x, 0), /^huber: delta must be above 0 and finite, got 0/],
    [
      'long rows to sort',
      ({ v }) => v.broadcast([300, 4]).flatten().sort(),
      /^sort: the last axis has at most 1024 elements, got 1200/,
    ],
    [
      'a constant of another size',
      () => constant([1, 2, 3], [2]),
      /^constant: \[2\] has 2 elements, got 3/,
    ],
    [
      'a constant that is no number',
      () => constant(['1'] as never),
      /^constant: element 0 must be a number, got '1'/,
    ],
    [
      'an empty interval',
      () => uniform([2], { low: 1, high: 1 }),
      /^uniform: low must be below high by a number that float32 holds, got 1 and 1/,
    ],
    [
      'an infinite end of an interval',
      () => uniform([2], { low: -Infinity }),
      /^uniform: low must be finite, got -Infinity/,
    ],
    [
      'an interval beyond float32',
      () => uniform([2], { low: -3e38, high: 3e38 }),
      /^uniform: low must be below high by a number that float32 holds/,
    ],
    [
      'an option of torch',
      () => normal([2], { std: 1 } as never),
      /^normal: unknown option 'std'; it takes mean and deviation/,
    ],
    [
      'a mean of torch',
      () => normal([2], 1 as never),
      /^normal: pass options as in normal\(…, \{ mean: … \}\), got 1/,
    ],
    [
      'a prediction and a target',
      ({ x }) => (mse as (...all: unknown[]) => unknown)(x, x),
      /^mse\(error\) takes one expression: mse\(prediction\.sub\(target\)\)/,
    ],
    [
      'a target as a threshold',
      ({ x }) => huber(x, x as never),
      /^huber\(error, delta\) takes one expression: huber\(prediction\.sub\(target\)\)/,
    ],
    [
      'a negative deviation',
      () => normal([2], { deviation: -1 }),
      /^normal: deviation must be from 0 to 1e30, got -1/,
    ],
    [
      'logits without rows',
      ({ s }) => categorical(s as never),
      /^categorical: logits must have a last axis, got a single number/,
    ],
    [
      'targets of no expression',
      ({ s }) => bootstrap(s, 'd' as never, s),
      /^bootstrap: operand 1 must be an expression or a number, got 'd'/,
    ],
    [
      'a loss of many numbers',
      ({ x }) => grad(x.square(), [x]),
      /^grad: the loss must have shape \[\] or \[1\], got \[3, 4\]; take its mean\(\)/,
    ],
    [
      'a loss that does not depend on an input',
      ({ x, y }) => grad(x.sum(), [x, y]),
      /^grad: the loss does not depend on wrt\[1\], made at \S+errors\.test\.[jt]s:\d+:\d+, or only through detach/,
    ],
    [
      'a loss that depends only through detach()',
      ({ x }) => grad(x.detach().sum(), [x]),
      /^grad: the loss does not depend on wrt\[0\]/,
    ],
    [
      'a loss that depends only through an index',
      ({ x }) => grad(x.argmax().sum(), [x]),
      /^grad: the loss does not depend on wrt\[0\]/,
    ],
    [
      'a second derivative',
      ({ x }) => grad(grad(x.tanh().sum(), [x]).gradients[0].square().sum(), [x]),
      /^grad: the loss depends on a gradient, which grad\(\) derived at \S+errors\.test\.[jt]s:\d+:\d+; second derivatives are not available, so detach\(\) the gradient/,
    ],
    [
      'a gradient of a gradient among those that are wanted',
      ({ x }) => {
        const [g] = grad(x.tanh().sum(), [x]).gradients;
        return grad(g.square().sum(), [g, x]);
      },
      /^grad: the loss depends on a gradient, which grad\(\) derived at/,
    ],
    [
      'a hole in a list',
      // biome-ignore lint/suspicious/noSparseArray: the hole is what the test passes
      ({ x }) => grad(x.sum(), [x, , x] as never),
      /^grad: wrt\[1\] must be an expression, got undefined/,
    ],
    [
      'a distribution without its range',
      ({ x }) => (categoricalLoss as (...all: unknown[]) => unknown)(x, x),
      /^categoricalLoss: pass options as in categoricalLoss\(…, \{ min: … \}\), got undefined/,
    ],
    [
      'a distribution of one atom',
      ({ x }) => categoricalLoss(x.slice(1, 0, 1), x.slice(1, 0, 1), { min: 0, max: 1 }),
      /^categoricalLoss: a distribution has at least 2 atoms, got \[3, 1\]/,
    ],
    [
      'values that are no array',
      ({ x }) => checkGradients(x.sum(), [x], { values: { x: null as never } }),
      /^checkGradients: values of input 'x' must be an array of numbers, got null/,
    ],
    [
      'an axis for an op without one',
      ({ x }) => (x.sort as (...all: unknown[]) => unknown)({ axis: 0 }),
      /^sort\(\) takes no arguments, got an object/,
    ],
    [
      'a form of gelu as in torch',
      ({ x }) => (x.gelu as (...all: unknown[]) => unknown)('tanh'),
      /^gelu\(\) takes no arguments, got 'tanh'/,
    ],
    [
      'three operands',
      ({ x }) => (max as (...all: unknown[]) => unknown)(x, x, x),
      /^max\(a, b\) takes two operands, got 3/,
    ],
    [
      'null as an operand',
      ({ x }) => x.max(null as never),
      /^max: name the axis, as in max\(\{ axis: 0 \}\), got null/,
    ],
    ['no axis in a list', ({ x }) => x.sum({ axis: [] }), /^sum: axis names no axis; leave it out/],
    [
      'null as an axis',
      ({ x }) => x.softmax({ axis: null as never }),
      /^softmax: an axis is a whole number, got null/,
    ],
    [
      'a shape that is no array',
      ({ x }) => x.reshape(new Int32Array([12]) as never),
      /^reshape takes a shape such as \[128, 4\], got a Int32Array/,
    ],
    [
      'axes with a hole',
      // biome-ignore lint/suspicious/noSparseArray: the hole is what the test passes
      ({ x }) => x.transpose([, 1] as never),
      /^transpose: an axis is a whole number, got undefined/,
    ],
    [
      'stacks of five dimensions',
      ({ z }) => stack(0, z.reshape([2, 3, 2, 2]), z.reshape([2, 3, 2, 2])),
      /^stack: expressions have at most 4 dimensions, got 5/,
    ],
    [
      'an option of a Gaussian',
      ({ x }) =>
        squashedGaussian(x.slice(1, 0, 2) as never, x.slice(1, 0, 1) as never, {
          correction: 'none' as never,
        }),
      /^squashedGaussian: correction must be one of scaled, unscaled, split, exact, got 'none'/,
    ],
    [
      'an async function',
      async ({ x }) => x,
      /^trace: the function must return expressions at once, so it cannot be async/,
    ],
    [
      'results that contain themselves',
      () => {
        const list: unknown[] = [];
        list.push(list);
        return list;
      },
      /^trace: results are nested more than 8 deep/,
    ],
    [
      'gradients of nothing',
      ({ x }) => grad(x.sum(), []),
      /^grad\(loss, wrt\): wrt is an array of one expression or more/,
    ],
    [
      'a result that is no expression',
      () => 5,
      /^the function of trace\(\) returned 5, which must be an expression, got 5/,
    ],
    ['no result', () => ({}), /^trace: the function returned no expression/],
    [
      'unknown options of the check',
      ({ x }) => checkGradients(x.sum(), [x], { eps: 1 } as never),
      /^checkGradients: unknown option 'eps'/,
    ],
    [
      'values of an unknown input',
      ({ x }) => checkGradients(x.sum(), [x], { values: { q: [] } }),
      /^checkGradients: there is no input 'q'; the inputs are x, y, v, s, z/,
    ],
    [
      'values of another size',
      ({ x }) => checkGradients(x.sum(), [x], { values: { x: [1] } }),
      /^checkGradients: input 'x' \[3, 4\] has 12 values, got 1/,
    ],
  ];

  for (const [what, fn, says] of wrong)
    it(`${what}: the error says so, and names the line`, () => {
      const { message, code } = error(fn);
      expect(message).to.match(says);
      expect(message).to.match(/\(\S*errors\.test\.[jt]s:\d+:\d+\)$/);
      expect(code).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE)$/);
    });

  it('a trace may return a detached gradient of a gradient', () => {
    trace(device, { x: [3] }, ({ x }) => {
      const { gradients } = grad(x.square().sum(), [x]);
      return grad(gradients[0].detach().mul(x).sum(), [x]).gradients[0];
    }).close();
  });

  it('an expression of another trace is refused, with the line that made it', () => {
    let other: Expression | undefined;
    trace(device, { x: [3] }, ({ x }) => {
      other = x;
      return x.exp();
    }).close();
    const text = error(({ s }) => s.add(other! as never)).message;
    expect(text).to.match(
      /^add: an expression of another trace, made at \S*errors\.test\.[jt]s:\d+:\d+; an expression is valid only in the trace that made it/,
    );
    expect(error(() => other).message).to.match(
      /^the function of trace\(\) returned an expression of another trace/,
    );
  });

  it('draws and constants outside of a trace are refused', () => {
    for (const call of [() => normal([2]), () => uniform([2]), () => constant([1])]) {
      const { message, code } = refusal(call);
      expect(message).to.match(
        /^(normal|uniform|constant): call it in the function that trace\(\) runs; there is no trace here \(/,
      );
      expect(code).to.equal('ERR_HOTSLOT_STATE_EMPTY');
    }
  });

  it('a trace inside of a trace is refused, and the outer one stays usable', () => {
    const inner = () => trace(device, { x: [1] }, ({ x }) => x);
    trace(device, { x: [3] }, ({ x }) => {
      expect(refusal(inner).message).to.match(
        /^trace: the function of a trace runs now, and traces cannot be nested/,
      );
      return x.add(normal([3]));
    }).close();
    inner().close();
  });

  it('a trace inside of a capture is refused', () => {
    const make = () => trace(device, { x: [1] }, ({ x }) => x);
    const stream = device.createStream();
    stream.beginCapture();
    try {
      const { code, message } = refusal(() => device.withStream(stream, make));
      expect(code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
      expect(message).to.match(
        /^trace: a capture runs now, and it records only launches; make the trace before/,
      );
    } finally {
      stream.endCapture().close();
      stream.close();
    }
  });

  it('a trace of more than 20,000 ops is refused', () => {
    const endless = error(({ s }) => {
      let sum = s;
      for (;;) sum = sum.add(1) as Expression;
    });
    expect(endless.message).to.match(
      /^a trace has at most 20000 ops; does a loop add ops to it without an end\?/,
    );
  });

  it('inputs of a trace are checked', () => {
    const make = (inputs: unknown) =>
      refusal(() => trace(device, inputs as never, () => normal([1]))).message;
    expect(make(null)).to.match(/^trace takes its inputs as an object by name, got null/);
    expect(make({ x: 3 })).to.match(/^trace: input 'x' takes a shape such as \[128, 4\], got 3/);
    expect(make({ x: [2.5] })).to.match(
      /^trace: input 'x': the length of dimension 0 must be a whole number of at least 1, got 2\.5/,
    );
    expect(make({ x: [2 ** 16, 2 ** 16] })).to.match(
      /^trace: input 'x': \[65536, 65536\] has 2\^31 elements or more/,
    );
    expect(make({ x: [2 ** 20 + 1, 2] })).to.match(
      /^trace: input 'x' has 1048577 rows, and strided inputs have at most 1048576; declare it contiguous if it is/,
    );
    expect(make({ x: { shape: [2], dtype: 'float' } })).to.match(
      /^trace: input 'x' has an unknown dtype 'float'; known: float32, /,
    );
    expect(make({ x: { shape: [2], type: 'int32' } })).to.match(
      /^trace: input 'x' has an unknown field 'type'; it takes shape, dtype and contiguous/,
    );
    expect(refusal(() => trace(device, {}, 5 as never)).message).to.match(
      /^trace takes a function, got 5/,
    );
    expect(
      refusal(() => trace(device, {}, () => normal([1]), { sed: 1 } as never)).message,
    ).to.match(/^trace: unknown option 'sed'; it takes seed/);
  });
});
