/**
 * Measures costs along what grows: stored rows, bytes of a row, rows of a batch, slots, writers.
 * `--record` writes tables and pictures to bench/results/scale.
 */
import { join } from 'node:path';
import { ReplayBuffer, ReplayPipeline, TrajectoryBuffer } from '../src/index.ts';
import { Batches, filledSteps, stepsOf } from './batches.ts';
import { type Benchmark, filledRows, inTurn, middle, type Report } from './harness.ts';
import { gathers } from './pack.ts';
import { type DeviceRecord, folder } from './record.ts';
import { risen, write } from './scale/table.ts';
import { Writers } from './writers.ts';

const powers = (from: number, to: number, by: number) =>
  Array.from(
    { length: Math.round(Math.log(to / from) / Math.log(by)) + 1 },
    (_, i) => from * by ** i,
  );

/** Reports a point of a curve. */
type Tell = (
  series: string,
  x: number,
  metric: string,
  values: number[],
  unit: string,
  as?: (us: number) => number,
) => void;

const teller =
  (report: Report, curve: string): Tell =>
  (series, x, metric, values, unit, as) =>
    report({
      case: `${curve} ${x.toLocaleString('en')}, ${series}`,
      metric,
      unit,
      at: { curve, series, x },
      ...middle(values, as),
    });

/**
 * Measures draws, priority updates and add() of 16 rows. Batches are made as the pack actor makes
 * them, into memory that is reused.
 */
function rowsStored(tell: Tell, quick: boolean): void {
  const rounds = quick ? 200 : 3000;
  for (const capacity of [...powers(1e4, quick ? 1e6 : 1e7, 10), ...(quick ? [] : [2e7])]) {
    {
      const buffer = filledRows(capacity, 4);
      const out = new Float32Array(256 * 4);
      const row = new Float32Array(16 * 4);
      let seed = 0;
      const times = sparse(rounds, {
        draw: () => buffer.sample({ seed: seed++, count: 256 }, out),
      });
      tell('uniform sample()', capacity, 'time of 256', times.draw!, 'µs');
      tell(
        'ReplayBuffer',
        capacity,
        'time of 16 added',
        sparse(rounds, { add: () => buffer.add({ row }) }).add!,
        'µs',
      );
      buffer.close();
    }
    globalThis.gc?.();
    const fields = { obs: { shape: [1], observation: true } } as const;
    const buffer = filledSteps({ capacity: capacity - (capacity % 16), lanes: 16, fields }, 1000);
    const view = buffer.transitions();
    const batches = new Batches(buffer, {
      view,
      rows: 256,
      only: ['ids', 'weights'],
      prioritized: true,
    });
    const all = batches.all();
    batches.update(
      all,
      new Float32Array(all.length).map((_, i) => 0.1 + (i % 17) / 17),
    );
    const given = new Float32Array(256).map((_, i) => 0.1 + (i % 13) / 13);
    let seed = 0;
    let ids = batches.make(seed);
    const times = sparse(rounds, {
      draw: () => {
        ids = batches.make(seed++);
      },
      update: () => batches.update(ids, given),
    });
    tell('drawn by priority', capacity, 'time of 256', times.draw!, 'µs');
    tell('priorities updated', capacity, 'time of 256', times.update!, 'µs');
    using writer = buffer.writer();
    const steps = { ...stepsOf(fields, 16), truncated: new Uint8Array(16) } as never;
    tell(
      'TrajectoryBuffer, 16 lanes',
      capacity,
      'time of 16 added',
      sparse(rounds, { add: () => writer.add(steps) }).add!,
      'µs',
    );
    buffer.close();
    globalThis.gc?.();
  }
}

/**
 * Returns the microseconds of each call, with the contenders in turn. First runs a tenth of the
 * rounds untimed.
 */
function sparse(
  rounds: number,
  contenders: Record<string, () => unknown>,
): Record<string, number[]> {
  const times: Record<string, number[]> = Object.fromEntries(
    Object.keys(contenders).map((name) => [name, []]),
  );
  for (let round = -Math.ceil(rounds / 10); round < rounds; round++)
    for (const [name, act] of Object.entries(contenders)) {
      const begin = performance.now();
      act();
      const took = (performance.now() - begin) * 1000;
      if (round >= 0) times[name]!.push(took);
    }
  return times;
}

async function rowSize(tell: Tell, quick: boolean): Promise<void> {
  for (const bytes of powers(4, 65_536, 4)) {
    const capacity = Math.min((quick ? 2 ** 26 : 2 ** 29) / bytes, 2 ** 23);
    const rows = Math.max(Math.min(capacity / 8, 32_768, 2 ** 25 / bytes), 64);
    const buffer = filledRows(capacity, bytes / 4);
    const { random, inOrder } = gathers(buffer, rows, new Uint8Array(rows * bytes));
    const { one, cold } = await inTurn(quick ? 10 : 40, {
      one: () => random(true),
      cold: () => inOrder(true),
    });
    for (const [series, { caller }] of [
      ['random rows', one],
      ['the same rows in order', cold],
    ] as const) {
      tell(series, bytes, 'speed', caller, 'GB/s', (us) => (rows * bytes) / us / 1e3);
      tell(series, bytes, 'time per row', caller, 'ns', (us) => (us * 1e3) / rows);
    }
    buffer.close();
    globalThis.gc?.();
  }
}

/** Returns the microseconds of a tick. Its update is one operation. */
async function tickTime(
  buffer: ReplayBuffer,
  device: string,
  sampleCount: number,
  depth: number,
  ticks: number,
) {
  await using pipeline = await ReplayPipeline.open({ buffer, device, sampleCount, depth });
  pipeline.capture(({ row }, { stream, out }) =>
    stream.copy(out.view({ shape: [1] }), row!.view({ shape: [1] })),
  );
  await pipeline.run({ ticks: Math.ceil(ticks / 10) });
  return 1e6 / (await pipeline.run({ ticks })).ticksPerSecond;
}

async function batch(tell: Tell, device: string, quick: boolean): Promise<void> {
  const buffer = filledRows(quick ? 100_000 : 1_000_000, 43);
  const rounds = quick ? 2 : 7;
  for (const rows of [32, 128, 512, 1024, 4096, 16_384, 65_536]) {
    const ticks = Math.max(20, Math.round((quick ? 100_000 : 1_000_000) / Math.max(rows, 64)));
    const out = new Float32Array(rows * 43);
    let seed = 0;
    const { draw } = sparse(ticks, {
      draw: () => buffer.sample({ seed: seed++, count: rows }, out),
    });
    tell('sample()', rows, 'time per row', draw!, 'ns', (us) => (us * 1e3) / rows);
    const times: number[] = [];
    for (let round = 0; round < rounds; round++)
      times.push(await tickTime(buffer, device, rows, 4, ticks));
    tell('a whole tick', rows, 'time per row', times, 'ns', (us) => (us * 1e3) / rows);
  }
  buffer.close();
}

async function depths(tell: Tell, device: string, quick: boolean): Promise<void> {
  const shapes = [
    { rows: 256, floats: 43, capacity: 100_000, ticks: 20_000 },
    { rows: 4096, floats: 434, capacity: 262_144, ticks: 200 },
  ];
  const all = [2, 3, 4, 6, 8];
  for (const { rows, floats, capacity, ticks } of shapes) {
    const buffer = filledRows(quick ? capacity / 4 : capacity, floats);
    const times = new Map(all.map((depth) => [depth, [] as number[]]));
    for (let round = 0; round < (quick ? 2 : 7); round++)
      for (const depth of all)
        times
          .get(depth)!
          .push(await tickTime(buffer, device, rows, depth, quick ? ticks / 10 : ticks));
    for (const [depth, values] of times)
      tell(`${rows} rows × ${4 * floats} B`, depth, 'time per tick', values, 'µs');
    buffer.close();
  }
}

async function writers(tell: Tell, quick: boolean): Promise<void> {
  const fields = { obs: { shape: [40], observation: true }, actions: { shape: [3] } };
  const capacity = quick ? 65_536 : 1_048_576;
  const packed = ReplayBuffer.create({
    capacity,
    fields: { obs: { shape: [40] }, actions: { shape: [2] }, rewards: { shape: [1] } },
  });
  const threads = new Writers();
  const groups = [1, 2, 4, 8].flatMap((count) => {
    const shared = TrajectoryBuffer.create({ capacity, lanes: 64, fields }).share();
    const rows = Array.from({ length: count }, () => ({
      fields,
      packed: packed.share(),
      firstLane: 0,
      lanes: 16,
    }));
    const own = Array.from({ length: count }, (_, i) => ({
      fields,
      shared,
      firstLane: (i * 64) / count,
      lanes: 64 / count,
    }));
    return [
      {
        count,
        series: 'ReplayBuffer, 16 rows an add()',
        group: threads.group(rows),
        rates: [] as number[],
      },
      {
        count,
        series: 'TrajectoryBuffer, 64 lanes shared out',
        group: threads.group(own),
        rates: [] as number[],
      },
    ];
  });
  await threads.ready();
  for (let round = -1; round < (quick ? 3 : 11); round++)
    for (const { group, rates } of groups) {
      const rate = await threads.rate(group, 150);
      if (round >= 0) rates.push(rate);
    }
  await threads.close();
  for (const { count, series, rates } of groups) tell(series, count, 'steps written', rates, 'M/s');
}

export const run: Benchmark = async (report, { device, quick }) => {
  const told: Parameters<Report>[0][] = [];
  const tell = (curve: string) =>
    teller((figure) => {
      told.push(figure);
      report(figure);
    }, curve);
  rowsStored(tell('rows-stored'), quick);
  await rowSize(tell('row-size'), quick);
  await batch(tell('batch'), device, quick);
  await depths(tell('depth'), device, quick);
  await writers(tell('writers'), quick);
  for (const line of risen(told)) console.error(`scale: ${line}`);
};

/** Writes tables and pictures. The runner calls it after it has written the record. */
export async function recorded({ cpu, node, commit, benches }: DeviceRecord): Promise<void> {
  const { figures, ...entry } = benches.scale!;
  await write(join(folder, 'scale'), figures, { cpu, node, commit, ...entry });
}
