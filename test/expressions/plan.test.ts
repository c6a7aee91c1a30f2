/** Tests plans: captures, inputs, memory, merged ops, sums of gradients, and the table for people. */
import { expect } from 'chai';
import { firstNonFinite } from '../../src/entries/learner.ts';
import {
  categorical,
  categoricalLoss,
  categoricalProject,
  concat,
  constant,
  type Expression,
  grad,
  normal,
  squashedGaussian,
  type Traced,
  tdLoss,
  trace,
  uniform,
  where,
} from '../../src/entries/trace.ts';
import { type Device, openDevice, type Stream, type Tensor } from '../../src/index.ts';
import type { InternalOptions } from '../../src/learn/trace/trace.ts';
import { openHandles } from '../rig/handles.ts';
import { refusal } from '../rig/refusal.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';
import { bits, Choices, difference, type Inputs, ran, written } from './rig.ts';

describe('plans of expressions', () => {
  let device: Device;
  let stream: Stream;
  const open: { close(): void }[] = [];
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };
  before(() => {
    device = openDevice(TESTED);
    // trace() writes its constants in the order of this stream.
    stream = device.currentStream;
  });
  afterEach(() => {
    for (const made of open.splice(0).reverse()) made.close();
  });

  const choices = new Choices(7);
  const floats = (shape: readonly number[]) => ({
    shape,
    values: choices.numbers(shape.reduce((n, length) => n * length, 1)),
  });
  /** A network of two layers on two inputs, its loss, and its gradients. */
  const network: Inputs = {
    x: floats([6, 5]),
    y: floats([6, 5]),
    w: floats([5, 8]),
    b: floats([1, 8]),
    v: floats([8, 3]),
    action: { shape: [6], values: choices.indices(6, 3), dtype: 'int32' },
  };
  const described = Object.fromEntries(
    Object.entries(network).map(([name, { shape, dtype = 'float32' }]) => [name, { shape, dtype }]),
  );
  function makeNetwork() {
    return keep(
      trace(device, described, (inputs) => {
        const { x, y, w, b, v, action } = inputs as Record<string, Expression>;
        const q = (input: Expression) => input.matmul(w!).add(b!).relu().matmul(v!);
        const target = q(y!).max({ axis: 1 }).detach();
        const noise = normal([6]);
        const loss = q(x!).pick(action!).sub(target).add(noise.mul(0.1)).square().mean();
        const { gradients } = grad(loss, [w!, b!, v!]);
        return { loss, noise, gradients };
      }),
    );
  }
  const tensorsOf = (gap = 0) => {
    const tensors = written(stream, network, gap);
    for (const tensor of Object.values(tensors)) keep(tensor);
    return tensors;
  };
  const flat = (traced: ReturnType<typeof makeNetwork>): Tensor<'float32'>[] => [
    traced.outputs.loss,
    traced.outputs.noise,
    ...(traced.outputs.gradients as unknown as Tensor<'float32'>[]),
  ];
  const values = async (traced: ReturnType<typeof makeNetwork>): Promise<string[]> =>
    Promise.all(flat(traced).map(async (tensor) => bits(await tensor.toArray(stream))));

  it('a captured run equals issued runs to the bit, and draws new numbers at every replay', async () => {
    const [issued, captured] = [makeNetwork(), makeNetwork()];
    const tensors = tensorsOf(3);
    await stream.synchronize();
    stream.beginCapture();
    captured.run(stream, tensors);
    const exec = keep(keep(stream.endCapture()).instantiate());
    const seen: string[] = [];
    for (let i = 0; i < 3; i++) {
      issued.run(stream, tensors);
      stream.replay(exec);
      const [wanted, got] = [await values(issued), await values(captured)];
      expect(got).to.deep.equal(wanted);
      seen.push(got[0]!);
    }
    expect(new Set(seen).size).to.equal(3);
  });

  it('captures of other slots have the same operations', async () => {
    const traced = makeNetwork();
    const counts: number[] = [];
    for (const gap of [0, 1, 4, 9]) {
      const tensors = tensorsOf(gap);
      await stream.synchronize();
      stream.beginCapture();
      traced.run(stream, tensors);
      counts.push(keep(stream.endCapture()).nodeCount);
    }
    expect(new Set(counts).size).to.equal(1);
  });

  it('row strides of inputs change no bit', async () => {
    const results: string[][] = [];
    for (const gap of [0, 1, 7]) {
      const traced = makeNetwork();
      traced.run(stream, tensorsOf(gap));
      results.push(await values(traced));
    }
    expect(results[1]).to.deep.equal(results[0]);
    expect(results[2]).to.deep.equal(results[0]);
  });

  it('a seed gives the same numbers again, and another seed gives others', async () => {
    const drawn = async (seed: number) => {
      using traced = trace(
        device,
        {},
        () => ({ a: normal([5]), b: uniform([3], { low: 2, high: 3 }), c: normal([5]) }),
        { seed },
      );
      traced.run(stream, {});
      const { a, b, c } = traced.outputs;
      return [
        bits(await a.toArray(stream)),
        bits(await b.toArray(stream)),
        bits(await c.toArray(stream)),
      ];
    };
    const [first, again, other] = [await drawn(1), await drawn(1), await drawn(2)];
    expect(again).to.deep.equal(first);
    expect(other[0]).to.not.equal(first[0]);
    expect(first[0]).to.not.equal(first[2]);
  });

  it('a draw that nothing reads still advances the generator', async () => {
    const last = async (read: boolean) => {
      using traced = trace(device, {}, () => {
        const unread = normal([4]);
        const b = normal([4]);
        return read ? { unread, b } : { b };
      });
      traced.run(stream, {});
      return bits(await (traced.outputs as { b: Tensor<'float32'> }).b.toArray(stream));
    };
    expect(await last(false)).to.equal(await last(true));
  });

  it('categorical() draws as often as the softmax says, and never an illegal action', async () => {
    const rows = 4096;
    using traced = trace(device, { logits: [4] }, ({ logits }) => ({
      index: categorical(logits.broadcast([rows, 4])),
      none: categorical(constant([-Infinity, -Infinity], [1, 2])),
    }));
    const logits = keep(
      device
        .allocate({ shape: [4] })
        .write(Float32Array.of(0, Math.log(2), -Infinity, Math.log(5)), stream),
    );
    traced.run(stream, { logits });
    const counts = [0, 0, 0, 0];
    for (const index of await traced.outputs.index.toArray(stream)) counts[index]!++;
    expect(counts[2]).to.equal(0);
    for (const [i, share] of [1 / 8, 2 / 8, 0, 5 / 8].entries())
      expect(counts[i]! / rows).to.be.closeTo(share, 0.03);
    expect([...(await traced.outputs.none.toArray(stream))]).to.deep.equal([0]);
  });

  it('merges equal ops, and leaves out ops that no result needs', () => {
    const options: InternalOptions = { chains: false };
    const inputs = { x: { shape: [4], contiguous: true } } as const;
    using traced = trace(
      device,
      inputs,
      ({ x }) => {
        x.sin();
        const unequal = x.mul(2).add(x.mul(-0)).add(x.mul(0));
        return x.exp().mul(x.exp()).add(unequal);
      },
      options,
    );
    expect(traced.plan.launches).to.equal(8);
    expect(String(traced.plan)).to.match(/^8 launches for 12 ops \(1 merged\), 8 nodes, depth 7$/m);
  });

  it('reuses memory: a chain of ops needs the memory of one value', () => {
    const chain = (length: number) => {
      using traced = trace(device, { x: [64, 32] }, ({ x }) => {
        let y: Expression<readonly [64, 32]> = x;
        for (let i = 0; i < length; i++) y = y.tanh();
        return y;
      });
      return /^.* of memory/m.exec(String(traced.plan))![0];
    };
    expect(chain(40)).to.equal(chain(1));
  });

  it('a contiguous input needs no copy where a strided one needs one', () => {
    const launches = (contiguous: boolean) => {
      using traced = trace(device, { x: [8, 4], b: { shape: [4], contiguous } }, ({ x, b }) =>
        x.add(b),
      );
      return traced.plan.launches;
    };
    expect([launches(true), launches(false)]).to.deep.equal([1, 2]);
  });

  it('ops that need the same copy of an input share it', () => {
    using traced = trace(device, { x: [8, 4], b: [4] }, ({ x, b }) => x.add(b).mul(b).sub(b.exp()));
    expect(String(traced.plan).match(/copy4d/g)).to.have.length(1);
  });

  it('a sum of a long row takes two launches above 16,384 elements and equals the interpreter', async () => {
    for (const n of [1024, 1025, 4096, 10_007, 100_000]) {
      const { results, exact } = await ran(
        { x: { shape: [n], values: choices.numbers(n) } },
        ({ x }) => ({ sum: x!.sum(), most: x!.max(), mean: x!.reshape([1, n]).mean({ axis: 1 }) }),
      );
      for (const [name, [value]] of Object.entries(exact))
        expect(results[name]![0], `${name} of ${n}`).to.be.closeTo(value!, 1e-5 * n ** 0.5);
      using sum = trace(device, { x: { shape: [n], contiguous: true } }, ({ x }) => x.sum());
      expect(sum.plan.launches, `${n}`).to.equal(n === 100_000 ? 2 : 1);
    }
  });

  it('adds the gradients of two uses without another kernel or copy', () => {
    using traced = trace(
      device,
      { x: [8, 4], y: [8, 4], w: { shape: [4, 4], contiguous: true } },
      ({ x, y, w }) => {
        const loss = x.matmul(w).add(y.matmul(w)).tanh().sum();
        return grad(loss, [w]).gradients;
      },
    );
    const table = String(traced.plan);
    expect(table.match(/\bgemm\b/g)).to.have.length(4);
    expect(table).to.not.match(/accumulate/);
  });

  it('a constant that repeats inside of rows is written out once, and runs do not copy it', async () => {
    const column = [0.25, -0.5, 3];
    const x = { shape: [6, 3, 5], values: choices.numbers(90) };
    const program = ({ x }: Record<string, Expression>) => ({
      y: x!.sub(constant(column, [3, 1])),
      z: constant(column, [3, 1]).mul(x!),
    });
    const { results, exact } = await ran({ x }, program as never);
    for (const [name, values] of Object.entries(exact))
      for (const [i, value] of values.entries())
        expect(results[name]![i], `${name}[${i}]`).to.be.closeTo(value, 1e-6);
    const single: InternalOptions = { chains: false };
    const inputs = { x: { shape: [6, 3, 5], contiguous: true } } as const;
    using traced = trace(device, inputs, program as never, single);
    expect(traced.plan.launches).to.equal(2);
  });

  it('a constant with zeros around it is written out, and runs neither fill nor copy it', async () => {
    const shape = [4, 1, 3] as const;
    const x = { shape: [...shape], values: choices.numbers(12) };
    const program = ({ x }: { x: Expression<readonly [4, 1, 3]> }) => {
      const part = x.slice(0, 1, 3);
      const [one] = grad(part.mean(), [x]).gradients;
      const scaled = part.slice(2, 2).mul(constant([2, -3], [2, 1, 1]));
      const [two] = grad(scaled.sum(), [x]).gradients;
      return { y: x.add(one), z: x.sub(two) };
    };
    const { results, exact } = await ran({ x }, program as never);
    for (const [name, values] of Object.entries(exact))
      for (const [i, value] of values.entries())
        expect(results[name]![i], `${name}[${i}]`).to.be.closeTo(value, 1e-6);
    using traced = trace(device, { x: { shape, contiguous: true } }, program);
    expect(traced.plan.launches).to.equal(1);
    expect(String(traced.plan)).to.not.match(/fill|copy/);
  });

  it('equal constants with zeros around them at different places are different', async () => {
    const x = { shape: [3, 2], values: choices.numbers(6) };
    const program = ({ x }: { x: Expression<readonly [3, 2]> }) =>
      Object.fromEntries(
        [0, 1, 2].map((i) => {
          const [slope] = grad(x.slice(0, i, i + 1).mean(), [x]).gradients;
          return [`y${i}`, x.mul(slope)];
        }),
      );
    const { results, exact } = await ran({ x }, program as never);
    for (const [name, values] of Object.entries(exact))
      expect([...results[name]!], name).to.deep.equal([...values].map(Math.fround));
  });

  it('a plan writes out constants of up to 2^20 elements in all', () => {
    const count = 20;
    const shape = [2, 2 ** 15] as const;
    using traced = trace(device, { x: { shape, contiguous: true } }, ({ x }) =>
      Object.fromEntries(
        Array.from({ length: count }, (_, i) => {
          const [slope] = grad(
            x
              .slice(0, 0, 1)
              .sum()
              .mul(i + 1),
            [x],
          ).gradients;
          return [`y${i}`, x.mul(slope)];
        }),
      ),
    );
    const fills = String(traced.plan).match(/ fill /g) ?? [];
    expect(fills.length).to.equal(count - 15);
  });

  it('the gradient of a mean over an axis multiplies by its scale before it repeats elements', () => {
    const single: InternalOptions = { chains: false };
    using traced = trace(
      device,
      { x: [8, 4, 5] },
      ({ x }) => ({ dx: grad(x.mean({ axis: 2 }).square().sum(), [x]).gradients[0] }),
      single,
    );
    expect(String(traced.plan)).to.match(/ d mul +\[8, 4\] /);
    expect(String(traced.plan)).to.not.match(/ d mul +\[8, 4, 5\] /);
  });

  it('toString() lists the launches with the lines of the program', () => {
    const traced = makeNetwork();
    const lines = String(traced.plan).split('\n');
    expect(lines[0]).to.match(/^\d+ launches for \d+ ops \(\d+ merged\), \d+ nodes, depth \d+$/);
    expect(lines[1]).to.match(/^\d+\.\d KiB of memory \(\d+\.\d KiB without reuse\)$/);
    expect(lines).to.have.length(3 + traced.plan.launches);
    expect(lines[2]).to.match(/^# +kernel +op +shape +writes +reads +line +apart$/);
    const product = lines.find((line) => /gemm/.test(line));
    expect(product).to.match(
      /^\d+ +gemm +matmul +\[6, 8\] +@\d+ +y w +\S*plan\.test\.[jt]s:\d+:\d+$/,
    );
    // A plan with a side stream orders the launches differently.
    expect(ON_HOST ? lines.at(-1) : lines.join()).to.match(/ d matmul /);
  });

  it('firstNonFinite() names the op and its line, and accepts the infinity of a mask', async () => {
    const make = (infinite: boolean): Traced<{ x: readonly [4] }, Expression> =>
      keep(
        trace(device, { x: [4] }, ({ x }) => {
          const masked = where(x.gt(0), x, -Infinity);
          const sum = masked.softmax().mul(x).sum();
          return infinite ? x.log().sum().add(sum) : sum;
        }),
      );
    const x = keep(device.allocate({ shape: [4] }).write(Float32Array.of(1, -2, 3, 0.5), stream));
    await stream.synchronize();
    const [clean, wrong] = [make(false), make(true)];
    expect(await firstNonFinite(device, (to) => clean.run(to, { x }))).to.equal(null);
    const found = await firstNonFinite(device, (to) => wrong.run(to, { x }));
    expect(found).to.include({ kernel: 'chain', index: 1 });
    expect(found!.op).to.match(/\blog\b/);
    expect(found!.line).to.match(/plan\.test\.[jt]s:\d+:\d+$/);
    expect(found!.text).to.match(
      /'chain' for '\S*log\S*' of \S+plan\.test\.[jt]s:\d+:\d+.*, wrote NaN to element 1 of y\d$/,
    );
  });

  it('run() reads each input once, also from a getter', async () => {
    using traced = trace(device, { x: [2] }, ({ x }) => x.mul(2));
    const [a, b] = [1, 5].map((value) =>
      keep(device.allocate({ shape: [2] }).write(Float32Array.of(value, value), stream)),
    ) as [Tensor, Tensor];
    let reads = 0;
    const inputs = {
      get x() {
        return reads++ % 2 === 0 ? a : b;
      },
    };
    const seen: number[] = [];
    for (let i = 0; i < 4; i++) {
      traced.run(stream, inputs);
      seen.push((await traced.outputs.toArray(stream))[0]!);
    }
    expect(seen).to.deep.equal([2, 10, 2, 10]);
  });

  for (const [n, kernels] of [
    [6, ['unary', 'squashed_gaussian_rows', 'copy2d']],
    [33, ['unary', 'squashed_gaussian', 'reduce_rows', 'copy2d']],
  ] as const)
    it(`squashedGaussian writes ${n} elements of an action into a concatenation`, async () => {
      const inputs = { obs: floats([4, 3]), out: floats([4, 2 * n]), noise: floats([4, n]) };
      const result = await ran(inputs, ({ obs, out, noise }) => {
        const { action, logProb } = squashedGaussian(out!, noise!.tanh());
        return { both: concat(1, obs!, action), logProb };
      });
      expect(difference(result)).to.equal(null);
      for (const kernel of kernels) expect(result.plan).to.match(new RegExp(` ${kernel} `));
      expect(result.launches).to.equal(kernels.length);
    });

  for (const [targetRows, what] of [
    [4, 'share targets'],
    [8, 'have their own targets'],
  ] as const)
    it(`the losses of two critics that ${what} are one launch`, async () => {
      const range = { min: -2, max: 2 };
      const inputs = {
        q: floats([8, 3]),
        action: { shape: [4], values: choices.indices(4, 3) },
        target: floats([targetRows]),
        logits: floats([8, 5]),
        targets: floats([targetRows, 5]),
        probs: floats([8, 5]),
        reward: floats([4]),
        discount: floats([4]),
        weights: floats([4]),
      };
      const result = await ran(
        inputs,
        ({ q, action, target, logits, targets, probs, reward, discount, weights }) => {
          const scalar = tdLoss(q!, action!, target!, { weights: weights! });
          const atoms = categoricalLoss(logits!, targets!, { ...range, weights: weights! });
          const { projected } = categoricalProject(probs!, reward!, discount!, {
            ...range,
            cost: weights!,
          });
          return { td: scalar.loss, cross: atoms.loss, projected };
        },
      );
      expect(difference(result)).to.equal(null);
      for (const kernel of ['td_loss_weighted', 'categorical_loss', 'categorical_project'])
        expect(result.plan.match(new RegExp(` ${kernel} `, 'g')), kernel).to.have.length(1);
    });

  it('run() refuses wrong inputs before it launches anything', async () => {
    using traced = trace(device, { x: [2, 3], w: { shape: [3], contiguous: true } }, ({ x, w }) =>
      x.mul(w).sum(),
    );
    const [x, w, wide] = [[2, 3], [3], [2, 6]].map((shape) => keep(device.allocate({ shape }))) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    const ints = keep(device.allocate({ shape: [2, 3], dtype: 'int32' }));
    const run = (inputs: object) => refusal(() => traced.run(stream, inputs as never)).message;
    expect(run({ x })).to.equal("input 'w' must be a tensor [3], got undefined");
    expect(run({ x, w, z: x })).to.equal("the trace has no input 'z'; its inputs are x, w");
    expect(run({ x: w, w })).to.equal("input 'x' must be [2, 3], got [3]");
    expect(run({ x: ints, w })).to.equal("input 'x' must be float32, got int32");
    const gaps = wide.view({ shape: [2, 3], strides: [6, 2] });
    expect(run({ x: gaps, w })).to.match(
      /^input 'x' must be rows of contiguous elements, got strides \[6,2\]/,
    );
    const spread = wide.view({ shape: [3], strides: [2] });
    expect(run({ x, w: spread })).to.match(/^input 'w' was declared contiguous, got strides \[2\]/);
    const back = keep(trace(device, { x: [2, 3] }, ({ x }) => x.exp()));
    expect(refusal(() => back.run(stream, { x: back.outputs })).message).to.equal(
      "input 'x' is memory of this plan, which a run overwrites; copy it to a tensor of its own",
    );
    if (device.name !== 'host:0') {
      const other = keep(openDevice('host:0').allocate({ shape: [2, 3] }));
      expect(run({ x: other, w })).to.equal(
        `input 'x' is on host:0, and the trace is on ${device.name}`,
      );
    }
    x.close();
    expect(run({ x, w })).to.match(/closed/);
  });

  it('close() frees the memory, and run() throws after it', () => {
    const before = openHandles();
    const traced = trace(device, { x: [3] }, ({ x }) => x.add(normal([3])));
    traced.close();
    traced.close();
    expect(openHandles()).to.deep.equal(before);
    const x = keep(device.allocate({ shape: [3] }));
    expect(refusal(() => traced.run(stream, { x })).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
  });

  it('a trace that fails leaves nothing open', () => {
    const before = openHandles();
    expect(() =>
      trace(device, { x: [3] }, () => normal([3]).add(normal([2]) as never) as never),
    ).to.throw(RangeError);
    expect(() =>
      trace(device, { x: [3] }, ({ x }) => concat(0, x) && (undefined as never)),
    ).to.throw(TypeError);
    expect(openHandles()).to.deep.equal(before);
  });
});
