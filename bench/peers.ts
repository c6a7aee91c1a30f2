/**
 * Compares whole ticks with the same ticks in torch, with batches made the way torch learners do.
 * On the CPU device, another process selects rows into a shared slot. A thread copies the slot to
 * the learner's tensor, one tick ahead of an eager update. On a GPU, rows go through pinned slots,
 * either in turn or by a thread that is one tick ahead. There the copy alone is timed too. On the
 * CPU device, also compares one sample() call with numpy's indexing of each field. Every round runs
 * all contenders.
 */
import { cpus } from 'node:os';
import {
  type Device,
  openDevice,
  ReplayBuffer,
  ReplayPipeline,
  type Tensor,
} from '../src/index.ts';
import { type Benchmark, beside, filledRows, inTurn, median, type Report } from './harness.ts';
import { nameOf, Peer, threadsOf } from './peers/peer.ts';

interface Shape {
  rows: number;
  obs: number;
  actions: number;
  capacity: number;
  /** ticks of a round. The peer makes at most 1,000 */
  ticks: number;
  /**
   * least ratios: run() against torch with its default threads, run() against torch with its best
   * thread count, and manual ticks against its default. null: no goal
   */
  goals: readonly [autonomous: number, best: number | null, manual: number | null];
}
const shapes: readonly Shape[] = [
  { rows: 32_768, obs: 213, actions: 5, capacity: 1_048_576, ticks: 24, goals: [3, 2.2, null] },
  { rows: 4096, obs: 213, actions: 5, capacity: 1_048_576, ticks: 200, goals: [3, null, null] },
  { rows: 256, obs: 19, actions: 2, capacity: 100_000, ticks: 10_000, goals: [6, null, 3] },
];
/**
 * Returns the floats of a row: both observations, the actions, and the three scalars of a
 * transition.
 */
const floatsOf = ({ obs, actions }: Shape) => 2 * obs + actions + 3;
const titleOf = (shape: Shape) => `${shape.rows} rows × ${4 * floatsOf(shape)} B`;
/**
 * Returns the thread counts that torch is timed with: 1, 2, 4 … and all cores. A GPU gets fewer,
 * because its time is limited.
 */
const countsFor = (device: Device): number[] =>
  device.family === 'host'
    ? threadCounts
    : [...new Set([1, Math.min(4, cpus().length), cpus().length])];
const threadCounts = [
  ...[1, 2, 4, 8, 16, 32, 64].filter((count) => count < cpus().length),
  cpus().length,
];

/** Runs that many ticks and returns the microseconds of one. */
type Ticks = (ticks: number) => Promise<number>;

/**
 * Returns Hotslot's contenders by name. Each opens a pipeline while it is timed. An update is one
 * operation.
 */
function oursOf(buffer: ReplayBuffer, shape: Shape, device: Device): Record<string, Ticks> {
  const { rows } = shape;
  const open = (options: object) =>
    ReplayPipeline.open({ buffer, device: device.name, sampleCount: rows, ...options });
  const autonomous = (options: object) => async (ticks: number) => {
    await using pipeline = await open(options);
    pipeline.capture(({ row }, { stream, out }) => stream.copy(first(out), first(row as Tensor)));
    await pipeline.run({ ticks: Math.ceil(ticks / 10) });
    return 1e6 / (await pipeline.run({ ticks })).ticksPerSecond;
  };
  const manual = async (ticks: number) => {
    await using pipeline = await open({});
    using seen = device.allocate({ shape: [1] });
    pipeline.startPrepare(0, rows);
    let begin = 0;
    for (let tick = -Math.ceil(ticks / 10); tick < ticks; tick++) {
      if (tick === 0) begin = performance.now();
      const id = tick + Math.ceil(ticks / 10);
      const batch = await pipeline.sampleLargeBatch(id, rows);
      pipeline.startPrepare(id + 1, rows);
      device.currentStream.copy(seen, first(batch.row as Tensor));
      pipeline.afterTick();
    }
    return ((performance.now() - begin) * 1000) / ticks;
  };
  const ways = { autonomous: autonomous({}), manual };
  if (device.family === 'host') return { ...ways, copied: autonomous({ transfer: 'immediate' }) };
  return { ...ways, "rows: 'device'": autonomous({ rows: 'device' }) };
}
const first = (tensor: Tensor) => tensor.view({ shape: [1] });

async function ticks(report: Report, shape: Shape, device: Device, quick: boolean): Promise<void> {
  const { rows, goals } = shape;
  const capacity = quick ? Math.min(shape.capacity, 131_072) : shape.capacity;
  const buffer = filledRows(capacity, floatsOf(shape));
  const accelerator = device.family !== 'host';
  const peer = new Peer('replay_torch.py', 'torch', {
    rows,
    floats: floatsOf(shape),
    capacity,
    accelerator,
  });
  const told = await peer.said();
  const { threads } = told;
  const times = new Map<string, number[]>();
  const contenders: [string, () => Promise<number>][] = [];
  const few = Math.ceil(quick ? shape.ticks / (accelerator ? 20 : 4) : shape.ticks);
  for (const [name, time] of Object.entries(oursOf(buffer, shape, device)))
    contenders.push([name, () => time(few)]);
  const counts = [...new Set([...(accelerator ? [] : [threads]), ...countsFor(device)])];
  const theirTicks = Math.min(few, 1000);
  const theirs = (way: string, count: number) =>
    contenders.push([`${way} ${count}`, () => peer.time(`${way} ${count} ${theirTicks}`)]);
  for (const way of accelerator ? ['ahead', 'turn'] : ['pipeline', 'turn'])
    for (const count of counts) theirs(way, count);
  if (accelerator) theirs('copy', 1);
  for (let round = -1; round < (quick ? 3 : accelerator ? 5 : 9); round++)
    for (const [name, time] of contenders) {
      const took = await time();
      if (round >= 0) times.set(name, [...(times.get(name) ?? []), took]);
    }
  peer.close();
  buffer.close();

  const of = (name: string) => times.get(name) ?? [];
  const best = (way: string) =>
    counts.reduce((a, b) => (median(of(`${way} ${b}`)) < median(of(`${way} ${a}`)) ? b : a));
  const ways = {
    pipeline: 'two processes',
    ahead: 'a thread ahead',
    turn: 'one process in turn',
    copy: 'the copy alone',
  };
  const tell = (
    name: string,
    goal: number | null,
    way: keyof typeof ways,
    count: number,
    why: string,
  ) =>
    report({
      case: `${titleOf(shape)}, ${name}; ${nameOf(told)}, ${ways[way]}, ${threadsOf(count)} (${why})`,
      metric: 'time per tick',
      ...beside(of(name), of(`${way} ${count}`)),
      unit: 'µs',
      ...(goal !== null && { goal: { ratio: goal } }),
    });
  const chosen = `its best of ${counts.join(', ')}`;
  if (accelerator) {
    for (const way of ['ahead', 'turn'] as const) {
      for (const count of counts)
        tell(
          'autonomous',
          null,
          way,
          count,
          count === best(way) ? chosen : `its best has ${threadsOf(best(way))}`,
        );
    }
    tell('autonomous', null, 'copy', 1, 'no rows drawn');
    for (const name of ["rows: 'device'", 'manual'])
      tell(name, null, 'ahead', best('ahead'), chosen);
    return;
  }
  tell('autonomous', goals[0], 'pipeline', threads, 'its default');
  tell('autonomous', goals[1], 'pipeline', best('pipeline'), chosen);
  tell('autonomous', null, 'turn', best('turn'), chosen);
  tell('copied', null, 'pipeline', best('pipeline'), 'its best');
  tell('manual', goals[2], 'pipeline', threads, 'its default');
  tell('manual', null, 'turn', best('turn'), chosen);
}

/**
 * Compares one sample() call, which draws and gathers, with numpy. A learner without a pipeline
 * makes this call.
 */
async function samples(report: Report, shape: Shape, quick: boolean): Promise<void> {
  const { rows, obs, actions } = shape;
  const capacity = quick ? Math.min(shape.capacity, 131_072) : shape.capacity;
  const buffer = ReplayBuffer.offPolicy({ capacity, obsDim: obs, actionDim: actions });
  const chunk = 4096;
  const some = (width: number) => new Float32Array(chunk * width).map((_, i) => i % 7);
  const steps = { obs: some(obs), nextObs: some(obs), actions: some(actions), rewards: some(1) };
  const flags = { dones: new Float32Array(chunk), truncated: new Float32Array(chunk) };
  for (let left = capacity; left > 0; left -= chunk) buffer.add({ ...steps, ...flags });
  const peer = new Peer('replay_numpy.py', 'numpy', { rows, capacity, obs, actions });
  const { numpy } = JSON.parse(await peer.line()) as { numpy: string };
  const out = new Float32Array((rows * buffer.rowBytes) / 4);
  const calls = Math.ceil(200_000 / rows);
  const times = { ours: [] as number[], theirs: [] as number[] };
  let seed = 0;
  for (let round = -1; round < (quick ? 3 : 15); round++) {
    const { call } = await inTurn(calls, {
      call: () => buffer.sample({ seed: seed++, count: rows }, out),
    });
    const took = await peer.time(String(calls));
    if (round < 0) continue;
    times.ours.push(median(call.caller));
    times.theirs.push(took);
  }
  peer.close();
  buffer.close();
  report({
    case: `${titleOf(shape)} of ${capacity}, sample(); numpy ${numpy}, each field indexed, 1 thread`,
    metric: 'time per call',
    ...beside(times.ours, times.theirs),
    unit: 'µs',
  });
}

/**
 * Returns whether Python has the modules. If not, prints how to install them, and their part is
 * skipped.
 */
function has(modules: string): boolean {
  if (Peer.has(modules)) return true;
  console.error(`peers: no python3 has ${modules} (apt-get install python3-${modules}): left out`);
  return false;
}

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const [torch, numpy] = [has('torch'), device.family === 'host' && has('numpy')];
  for (const shape of shapes) {
    if (torch) await ticks(report, shape, device, quick);
    globalThis.gc?.();
    if (numpy) await samples(report, shape, quick);
    globalThis.gc?.();
  }
  device.close();
};
