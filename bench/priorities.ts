/**
 * Measures draws and updates by priority over a million steps. Compares them with numpy and, if it
 * is installed, torch.
 */

import { Random } from '../src/base/random.ts';
import { prioritized, type TrajectoryBuffer } from '../src/index.ts';
import { Batches, filledSteps } from './batches.ts';
import { type Benchmark, beside, type Figure, median, middle, type Report } from './harness.ts';
import { Peer } from './peers/peer.ts';

const cases = [
  { rows: 256, repeats: 200, drawn: 20, updated: 10 },
  { rows: 32_768, repeats: 4, drawn: 4000, updated: 1500 },
];
const steps = 2 ** 20;

/**
 * Returns the median microseconds of `repeats` calls. `before` runs before each call and is not
 * timed.
 */
function timed(repeats: number, act: () => unknown, before: () => unknown = () => {}): number {
  const times: number[] = [];
  for (let i = 0; i < repeats; i++) {
    before();
    const begin = performance.now();
    act();
    times.push((performance.now() - begin) * 1000);
  }
  return median(times);
}

/**
 * Returns the times of each contender, one per round, taken in turn. The times of the first round
 * are dropped.
 */
async function inRounds(
  rounds: number,
  contenders: Record<string, () => number | Promise<number>>,
): Promise<Record<string, number[]>> {
  const times: Record<string, number[]> = Object.fromEntries(
    Object.keys(contenders).map((name) => [name, []]),
  );
  for (let round = -1; round < rounds; round++) {
    for (const [name, time] of Object.entries(contenders)) {
      const took = await time();
      if (round >= 0) times[name]!.push(took);
    }
  }
  return times;
}

/** Measures draws and updates the way the pack actor makes them, into memory that is reused. */
async function native(
  report: Report,
  buffer: TrajectoryBuffer,
  { rows, repeats, drawn, updated }: (typeof cases)[number],
  rounds: number,
): Promise<void> {
  const random = new Random(1);
  const view = buffer.transitions();
  const chosen = new Batches(buffer, { view, rows, only: ['ids', 'weights'], prioritized: true });
  const whole = new Batches(buffer, { view, rows, prioritized: true });
  const uniform = new Batches(buffer, { view, rows, only: ['ids'] });
  const priorities = Float32Array.from({ length: steps }, () => random.between(0, 2));
  for (const batches of [chosen, whole]) batches.update(batches.all(), priorities);
  const given = priorities.subarray(0, rows);
  let seed = 0;
  let ids = chosen.make(seed);
  const draw = () => {
    ids = chosen.make(seed++);
  };
  const torch = Peer.has('numpy, torch');
  const modules = torch ? 'numpy, torch' : 'numpy';
  const peer = Peer.has(modules)
    ? new Peer('priorities_numpy.py', modules, { leaves: steps, count: rows, torch })
    : null;
  const others =
    peer === null
      ? []
      : ['numpy sum tree', 'numpy cumsum', ...(torch ? ['torch multinomial'] : [])];
  const times = await inRounds(rounds, {
    draw: () => timed(repeats, draw),
    whole: () => timed(repeats, () => whole.make(seed++)),
    uniform: () => timed(repeats, () => uniform.make(seed++)),
    update: () => timed(repeats, () => chosen.update(ids, given), draw),
    ...Object.fromEntries(others.map((name) => [name, () => peer!.time(name)])),
    ...(peer && { 'numpy update': () => peer.time('numpy update') }),
  });
  peer?.close();
  const of = (name: string) => times[name]!;
  const told = (
    name: string,
    metric: string,
    figure: Omit<Figure, 'bench' | 'case' | 'metric' | 'unit'>,
  ) => report({ case: name, metric, ...figure, unit: 'µs' });
  const what = `${rows} of ${steps} and their weights`;
  for (const other of [...others, 'uniform'])
    told(`${what}; ${other}`, 'time per draw', {
      ...beside(of('draw'), of(other)),
      ...(other === 'uniform' && { goal: { most: drawn } }),
    });
  told(
    `${what}, batches of 16 B a row; ids and weights`,
    'time per batch',
    beside(of('whole'), of('draw')),
  );
  const update = `${rows} priorities of ${steps}`;
  const goal = { most: updated };
  if (peer === null) told(update, 'time per update', { ...middle(of('update')), goal });
  else
    told(`${update}; numpy sum tree`, 'time per update', {
      ...beside(of('update'), of('numpy update')),
      goal,
    });
}

/**
 * Measures the calls that a learner without a pipeline makes. They check their arguments and return
 * new arrays.
 */
async function calls(report: Report, buffer: TrajectoryBuffer, rounds: number): Promise<void> {
  const view = buffer.transitions();
  const sampler = prioritized();
  let seed = 0;
  for (const { rows, repeats } of cases) {
    const sample = (by: object) => buffer.sample({ view, seed: seed++, count: rows, ...by });
    let { ids } = sample({ sampler });
    const priorities = new Float32Array(rows).fill(1.5);
    const redraw = () => {
      ids = sample({ sampler }).ids;
    };
    const times = await inRounds(rounds, {
      sample: () => timed(repeats, redraw),
      uniform: () => timed(repeats, () => sample({})),
      update: () => timed(repeats, () => buffer.updatePriorities(ids, priorities), redraw),
    });
    report({
      case: `sample() of ${rows} by priority; uniformly`,
      metric: 'time per call',
      ...beside(times.sample!, times.uniform!),
      unit: 'µs',
    });
    report({
      case: `updatePriorities() of ${rows}`,
      metric: 'time per call',
      ...middle(times.update!),
      unit: 'µs',
    });
  }
}

export const run: Benchmark = async (report, { quick }) => {
  if (!Peer.has('numpy'))
    console.error('priorities: python3 has no numpy, nothing to compare with');
  else if (!Peer.has('torch'))
    console.error('priorities: python3 has no torch, numpy alone is compared with');
  // The capacity has one more step per lane than can be drawn. The newest step of a lane has no
  // next observation yet.
  const lanes = 64;
  const fields = { obs: { shape: [1], observation: true } } as const;
  const buffer = filledSteps({ capacity: steps + lanes, lanes, fields });
  const rounds = quick ? 3 : 15;
  for (const each of cases) await native(report, buffer, each, rounds);
  await calls(report, buffer, rounds);
  buffer.close();
};
