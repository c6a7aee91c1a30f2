/**
 * Measures moving tensors between two devices of a family: the copy, how much of it the target's
 * work hides, and the cost of a call.
 */
import { nativeMemory } from '../src/device/native.ts';
import { DeviceGenerator } from '../src/entries/graph.ts';
import { ToDevice } from '../src/entries/linop.ts';
import { type Device, listDevices, openDevice, type Tensor } from '../src/index.ts';
import { type Benchmark, beside, inTurn, median, middle, speedBeside } from './harness.ts';

const PIECES = 32;
/** rows and columns of a piece, which is a square of floats: 4 MiB */
const SIDE = 1024;
/**
 * The target multiplies this many first rows of a piece by a matrix with COLUMNS columns.
 * Arithmetic limits the product, and not the memory that copies use too. But the CPU device shares
 * the product with idle cores, so no core is left for copying.
 */
const COLUMNS = 128;
const ROWS = 256;
/**
 * The target fills this many first elements of a piece with random numbers. Arithmetic limits this
 * too, and it uses one core.
 */
const ELEMENTS = 2 ** 15;

/** Enqueues work and returns the milliseconds until the device has done it. */
async function timed(device: Device, enqueue: () => void): Promise<number> {
  const begin = performance.now();
  enqueue();
  await device.currentStream.synchronize();
  return performance.now() - begin;
}

export const run: Benchmark = async (report, { device: name, quick }) => {
  const source = openDevice(name);
  const other = `${source.family}:${source.index + 1}`;
  if (source.family !== 'host' && !listDevices().some((each) => each.name === other))
    return console.error(`todevice: there is no ${other} to copy to`);
  const target = openDevice(other);
  const op = new ToDevice(source, target);
  const rounds = quick ? 10 : 40;

  // One copy, from the call until the target has the bytes, into memory that was used before.
  const bytes = 64 << 20;
  {
    using x = source.allocate({ shape: [bytes], dtype: 'uint8' });
    source.currentStream.fill(x, 1);
    await source.currentStream.synchronize();
    using warm = target.allocate({ shape: [bytes], dtype: 'uint8' });
    const plain = new Uint8Array(bytes);
    const bare = source.createStream();
    const times = { moved: [] as number[], baseline: [] as number[] };
    for (let round = -2; round < rounds; round++) {
      const moved = await timed(target, () => (op.forward(x) as Tensor).close());
      const begin = performance.now();
      if (source.family === 'host') nativeMemory().copyOut(x.handle, plain);
      else {
        bare.copy(warm, x);
        await bare.synchronize();
      }
      const baseline = performance.now() - begin;
      if (round < 0) continue;
      times.moved.push(moved * 1000);
      times.baseline.push(baseline * 1000);
    }
    bare.close();
    report({
      case: `64 MiB ${source.name} → ${target.name}; ${source.family === 'host' ? 'memcpy' : 'a bare copy'}`,
      metric: 'share of its speed',
      ...speedBeside(bytes, times.moved, times.baseline),
    });
  }

  // A sequence of pieces. The target computes on one while the next is copied.
  {
    using pieces = source.allocate({ shape: [PIECES, SIDE, SIDE] });
    source.currentStream.fill(pieces, 1);
    await source.currentStream.synchronize();
    using there = target.allocate({ shape: [PIECES, SIDE, SIDE] });
    using weights = target.allocate({ shape: [SIDE, COLUMNS] });
    using product = target.allocate({ shape: [ROWS, COLUMNS] });
    target.currentStream.fill(there, 1);
    const piece = (of: Tensor, i: number) =>
      of.view({ shape: [SIDE, SIDE], offset: i * SIDE * SIDE });
    using generator = new DeviceGenerator(target, { seed: 1 });
    const sized = [0, 0, ROWS, COLUMNS, SIDE, SIDE, COLUMNS, COLUMNS] as const;
    const works = {
      noise: (x: Tensor) => generator.normal(target.currentStream, x.view({ shape: [ELEMENTS] })),
      products: (x: Tensor) =>
        target.currentStream.launch('gemm', {
          tensors: [product, x, weights],
          wholes: sized,
          reals: [1, 0],
        }),
    };
    for (const [name, work] of Object.entries(works)) {
      let repeats = 1;
      const compute = (x: Tensor) => {
        for (let i = 0; i < repeats; i++) work(x);
      };
      const each = (act: (i: number) => void) => () => {
        for (let i = 0; i < PIECES; i++) act(i);
      };
      const ways = {
        copy: each((i) => (op.forward(piece(pieces, i)) as Tensor).close()),
        compute: each((i) => compute(piece(there, i))),
        both: each((i) => {
          using x = op.forward(piece(pieces, i)) as Tensor;
          compute(x);
        }),
      };
      // Repeats the work on a piece until it takes one and a half times as long as the piece's
      // copy. Then every copy but the first can be hidden.
      for (let i = 0; i < 3; i++) await timed(target, ways.both);
      const alone = async (act: () => void) => {
        const times: number[] = [];
        for (let i = 0; i < 5; i++) times.push(await timed(target, act));
        return median(times);
      };
      const enough = 1.5 * (await alone(ways.copy));
      // The time of few repeats contains the start of a thread, so `repeats` grows in steps and is
      // measured again.
      for (let took = await alone(ways.compute); took < enough; took = await alone(ways.compute))
        repeats = Math.ceil(repeats * Math.min(4, Math.max(1.1, enough / took)));
      const times = await inTurn(rounds, ways, () => target.currentStream.synchronize());
      const [copy, computed, both] = [times.copy, times.compute, times.both].map(({ done }) =>
        middle(done, (us) => us / 1000),
      ) as [ReturnType<typeof middle>, ReturnType<typeof middle>, ReturnType<typeof middle>];
      const inTurns = copy.value + computed.value;
      const what = `${PIECES} pieces of 4 MiB, ${name}`;
      report({ case: `${what}: copied and nothing else`, metric: 'time', ...copy, unit: 'ms' });
      report({
        case: `${what}: computed and nothing else`,
        metric: 'time',
        ...computed,
        unit: 'ms',
      });
      report({
        case: `${what}: copied and computed; one after the other`,
        metric: 'time',
        ...both,
        unit: 'ms',
        baseline: inTurns,
        ratio: inTurns / both.value,
      });
      report({
        case: what,
        metric: 'share of copies hidden',
        value: (100 * (inTurns - both.value)) / copy.value,
        unit: '%',
        ...(name === 'noise' && { goal: { least: 80 } }),
      });
    }
  }

  // JavaScript's share of a call. Compares small tensors with the bare operations that forward()
  // makes. The queue is drained between bursts.
  using small = source.allocate({ shape: [64] });
  using there = target.allocate({ shape: [64] });
  using event = source.createEvent();
  using bare = source.createStream();
  const calls = {
    forward: () => (op.forward(small) as Tensor).close(),
    bare: () => {
      source.currentStream.record(event);
      bare.wait(event);
      bare.copy(there, small);
      bare.record(event);
      target.currentStream.wait(event);
    },
  };
  const js = await inTurn(4 * rounds, calls, () => target.currentStream.synchronize(), 200);
  report({
    case: '256 B to another device; record, wait, copy, record, wait',
    metric: 'JS cost of forward',
    ...beside(js.forward.caller, js.bare.caller),
    unit: 'µs',
  });
  for (const each of [source, target]) each.close();
};
