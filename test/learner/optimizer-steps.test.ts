/**
 * Compares the steps of Adam and Sgd, each one launch, with the same steps by launches of other
 * kernels. All bits must be equal.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import type { Device, Stream, Tensor } from '../../src/device/device.ts';
import { openDevice } from '../../src/device/open.ts';
import { Adam } from '../../src/learn/adam.ts';
import { ops } from '../../src/learn/ops/index.ts';
import { type Follow, type Optimizer, stepLaunch } from '../../src/learn/optimizer.ts';
import { Sgd } from '../../src/learn/sgd.ts';
import { adam, sgd } from '../../src/learn/trace/learner/optimizers.ts';
import { TESTED } from '../rig/tested-device.ts';

type Floats = Tensor<'float32'>;
type Options = Record<string, number | boolean>;

const MOMENTS = 2;
const CASES = 40;
const round = Math.fround;

interface Drawn {
  kind: 'adam' | 'sgd';
  n: number;
  options: Options;
  rate: number;
  maxNorm: number;
  /** steps that the counter has before the first one */
  counted: number;
  /** number of steps that one launch of count_up after the other counts at once */
  uncounted: number;
  follow: Omit<Follow, 'target'> & { count: number };
}

function drawn(seed: number): Drawn {
  const numbers = new Random(seed);
  const pick = <T>(...all: T[]): T => all[numbers.below(all.length)] as T;
  const n = seed < 4 ? [1, 2, 5000, 4097][seed]! : 1 + Math.floor(numbers.next() ** 3 * 5000);
  const kind = pick('adam', 'sgd');
  const maxNorm = pick(0, 0.1, 3, 1e4);
  const momentum = pick(0, 0.9, 0.5);
  const options: Options =
    kind === 'adam'
      ? {
          beta1: pick(0, 0.5, 0.9),
          beta2: pick(0, 0.999, 0.999999999),
          epsilon: pick(0, 1e-8, 1e-3),
          decoupled: pick(false, true),
        }
      : { momentum, nesterov: momentum > 0 && pick(false, true) };
  const first = numbers.below(n);
  return {
    kind,
    n,
    options: {
      ...options,
      weightDecay: pick(0, 0.01, 0.5),
      ...(maxNorm > 0 && { maxGradNorm: maxNorm }),
    },
    rate: pick(0, 1e-3, 0.37),
    maxNorm,
    counted: pick(0, 1, 1000, 2 ** 30),
    uncounted: pick(1, 2, 3),
    follow: {
      first,
      count: 1 + numbers.below(n - first),
      tau: pick(0, 0.005, 1),
      every: pick(1, 2, 5),
    },
  };
}

/** Returns values with signed zeros and subnormal numbers among them. */
function values(numbers: Random, n: number): Float32Array {
  const odd = [0, -0, 1e-42, -3];
  return Float32Array.from({ length: n }, () =>
    numbers.below(9) === 0 ? (odd[numbers.below(4)] as number) : numbers.between(-2, 2),
  );
}

/** Returns rate / (1 − beta1^t) and 1 / √(1 − beta2^t), each operation rounded to float32. */
function adamFactors(t: number, rate: number, rests: readonly number[]): readonly [number, number] {
  const [left1, left2] = rests.map((rest) => {
    let [left, power] = [0, round(rest)];
    for (let bits = t; bits > 0; bits = Math.floor(bits / 2)) {
      if (bits % 2 === 1) left = round(left + round(power * round(1 - left)));
      power = round(power * round(2 - power));
    }
    return left;
  }) as [number, number];
  return [round(round(rate) / left1), round(1 / round(Math.sqrt(left2)))];
}

describe('steps of optimizers in one launch', () => {
  let device: Device;
  let stream: Stream;
  before(() => {
    device = openDevice(TESTED);
    stream = device.currentStream;
  });
  after(() => device.close());
  const open: { close(): void }[] = [];
  afterEach(() => {
    for (const made of open.splice(0).reverse()) made.close();
  });
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };
  const floats = (data: Float32Array | number): Floats =>
    typeof data === 'number'
      ? keep(device.allocate({ shape: [data] }))
      : keep(device.allocate({ shape: [data.length] })).write(data);
  const bytes = async (tensor: Tensor) =>
    Buffer.from((await tensor.toArray()).buffer).toString('hex');

  /** The state of a step by single launches. */
  function parts({ n, rate, maxNorm }: Drawn, start: Float32Array) {
    return {
      p: floats(start),
      moments: Array.from({ length: MOMENTS }, () => floats(n)),
      factors: floats(new Float32Array([0, 0, 1, 0])),
      partial: floats(256),
      rate: floats(Float32Array.of(rate)),
      slope: floats(n),
      scratch: floats(n),
      size: floats(n),
      wholes: [n] as const,
      maxNorm,
    };
  }
  type Parts = ReturnType<typeof parts>;

  function clipped({ factors, partial, slope, maxNorm, wholes }: Parts, g: Floats): void {
    if (maxNorm > 0) {
      stream.launch('grad_norm', { tensors: [partial, g], wholes });
      stream.launch('clip_scale', { tensors: [factors, partial], reals: [maxNorm] });
    }
    ops.mul(stream, slope, g, factors.view({ shape: [1], offset: 2 }));
  }

  function adamInParts(all: Parts, g: Floats, options: Options, t: number, rate: number): void {
    const { p, slope, scratch, size, wholes } = all;
    const [m, v] = all.moments as [Floats, Floats];
    const { beta1, beta2, epsilon, weightDecay, decoupled } = options as Record<string, number>;
    const rests = [1 - beta1!, 1 - beta2!].map(round) as [number, number];
    const [step, unbias] = adamFactors(t, rate, rests);
    clipped(all, g);
    const pull = decoupled ? 0 : weightDecay!;
    stream.launch('axpby', { tensors: [slope, p], wholes, reals: [pull, 1] });
    ops.mul(stream, m, m, 1 - rests[0]);
    ops.mul(stream, scratch, slope, rests[0]);
    ops.add(stream, m, m, scratch);
    ops.mul(stream, v, v, 1 - rests[1]);
    ops.mul(stream, scratch, slope, rests[1]);
    ops.mul(stream, scratch, scratch, slope);
    ops.add(stream, v, v, scratch);
    ops.sqrt(stream, size, v);
    ops.mul(stream, size, size, unbias);
    ops.add(stream, size, size, epsilon!);
    ops.mul(stream, scratch, m, step);
    ops.div(stream, scratch, scratch, size);
    // A step of 0 instead of 0 / 0.
    ops.ne(stream, slope, m, 0);
    ops.ne(stream, size, size, 0);
    ops.max(stream, slope, slope, size);
    ops.where(stream, scratch, slope, scratch, 0);
    ops.mul(stream, p, p, 1 - round(round(rate) * round(decoupled ? weightDecay! : 0)));
    ops.sub(stream, p, p, scratch);
  }

  function sgdInParts(all: Parts, g: Floats, options: Options): void {
    const { p, slope, scratch, wholes, rate } = all;
    const [direction] = all.moments as [Floats];
    const { momentum, nesterov, weightDecay } = options as Record<string, number>;
    clipped(all, g);
    if (weightDecay! > 0)
      stream.launch('axpby', { tensors: [slope, p], wholes, reals: [weightDecay!, 1] });
    stream.launch('axpby', { tensors: [direction, slope], wholes, reals: [1, momentum!] });
    if (nesterov)
      stream.launch('axpby', { tensors: [slope, direction], wholes, reals: [momentum!, 1] });
    ops.mul(stream, scratch, nesterov ? slope : direction, rate);
    ops.sub(stream, p, p, scratch);
  }

  const make = ({ kind, options, rate }: Drawn, p: Floats, steps?: Tensor<'int32'>): Optimizer =>
    keep((kind === 'adam' ? adam : sgd)({ ...options, learningRate: rate }).make(device, p, steps));
  const momentsOf = (optimizer: Optimizer): Floats[] =>
    optimizer instanceof Adam ? [optimizer.mean, optimizer.spread] : [(optimizer as Sgd).direction];

  for (let seed = 0; seed < CASES; seed++) {
    const what = drawn(seed);
    it(`case ${seed}, ${what.kind} of ${what.n}, has the bits of single launches`, async () => {
      const { kind, n, options, rate, counted, uncounted, follow } = what;
      const numbers = new Random(seed, 1);
      const start = values(numbers, n);
      const all = parts(what, start);
      const [plain, moving] = [floats(start), floats(start)];
      // Counters of several optimizers in one tensor, which the caller owns.
      const counters = keep(device.allocate({ shape: [3], dtype: 'int32' })).write(
        Int32Array.of(counted, 7, counted),
      );
      const [one, other] = [
        make(what, plain, counters.view({ shape: [1], offset: 2 })),
        make(what, moving, counters.view({ shape: [1] })),
      ];
      const begun = values(numbers, follow.count);
      const [target, wanted] = [floats(begun), floats(begun)];
      const reached = keep(device.allocate({ shape: [1], dtype: 'int32' }));
      const steps = 4;
      for (let k = 1; k <= steps; k++) {
        const g = floats(values(numbers, n));
        const t = counted + k;
        if (kind === 'adam') adamInParts(all, g, options, t, rate);
        else sgdInParts(all, g, options);
        stream.launch('follow_every', {
          tensors: [
            wanted,
            all.p.view({ shape: [follow.count], offset: follow.first }),
            reached.write(Int32Array.of(t)),
          ],
          wholes: [follow.count, follow.every],
          reals: [follow.tau, 1 - follow.tau],
        });
        one.step(stream, g);
        const ahead = ((k - 1) % uncounted) + 1;
        stepLaunch(other, stream, g, { ahead, follow: { ...follow, target } });
        if (ahead === uncounted)
          for (let i = 0; i < uncounted; i++) stream.launch('count_up', { tensors: [other.steps] });
      }
      const names = ['parameters', 'first moment', 'second moment', 'clip', 'norm'];
      const clipOf = (made: Optimizer) => [made.clip, made.gradientNorm];
      const state = all.moments.slice(0, kind === 'adam' ? 2 : 1);
      const factors = [2, 3].map((offset) => all.factors.view({ shape: [1], offset }));
      const want = [all.p, ...state, ...factors];
      for (const [how, made, p] of [
        ['step()', one, plain],
        ['stepLaunch() with a target', other, moving],
      ] as const) {
        const got = [p, ...momentsOf(made), ...clipOf(made)];
        expect(got.length).to.equal(want.length);
        for (const [i, tensor] of want.entries())
          expect(await bytes(got[i] as Floats), `${names[i]} of ${how}`).to.equal(
            await bytes(tensor),
          );
      }
      expect(await bytes(target), 'target').to.equal(await bytes(wanted));
      expect([...(await counters.toArray())]).to.deep.equal([
        counted + steps - (steps % uncounted),
        7,
        counted + steps,
      ]);
    });
  }

  it('step() takes two launches, and three when the gradient is clipped', async () => {
    for (const kind of [Adam, Sgd])
      for (const [options, launches] of [
        [{}, 2],
        [{ maxGradNorm: 1 }, 3],
      ] as const) {
        const optimizer = keep(new kind(device, floats(9), options));
        const gradient = floats(9);
        await stream.synchronize();
        const capturing = keep(device.createStream());
        capturing.beginCapture();
        optimizer.step(capturing, gradient);
        const graph = keep(capturing.endCapture());
        expect(graph.nodeCount, `${kind.name} ${JSON.stringify(options)}`).to.equal(launches);
      }
  });

  it('close() leaves a counter open that the caller owns', async () => {
    const counter = keep(device.allocate({ shape: [1], dtype: 'int32' })).write(Int32Array.of(3));
    for (const description of [adam(), sgd()]) {
      const optimizer = description.make(device, floats(4), counter.view({ shape: [1] }));
      optimizer.step(stream, floats(4));
      optimizer.close();
    }
    expect([...(await counter.toArray())]).to.deep.equal([5]);
  });
});
