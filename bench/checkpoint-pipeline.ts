/**
 * Measures what saves in the background cost a running pipeline: CPU time per tick, and how long
 * the pipeline pauses.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { internalsOf } from '../src/engine/pipeline/replay-pipeline.ts';
import { Field } from '../src/engine/ring/slot.ts';
import { DqnLearner } from '../src/entries/learner.ts';
import {
  Checkpoint,
  openDevice,
  prioritized,
  ReplayBuffer,
  ReplayPipeline,
  TrajectoryBuffer,
} from '../src/index.ts';
import { type Benchmark, median, middle, percentile } from './harness.ts';

const CAPACITY = 100_000;
const OBS_DIM = 20;
/** rows that are added between two saves */
const FRESH = 4096;
const LANES = 64;
const EVERY_MS = 200;

const TASKS = '/proc/self/task';
/** Returns the ns that a thread of this process has run, or 0 if the thread has ended. */
function ranFor(thread: string): number {
  try {
    return Number(readFileSync(`${TASKS}/${thread}/schedstat`, 'utf8').split(' ')[0]);
  } catch {
    return 0;
  }
}

interface Rig {
  pipeline: ReplayPipeline;
  checkpoint: Checkpoint;
  addRows(): void;
  /** calls `seen` when the pipeline has paused for a save */
  whenStill(seen: () => void): void;
  /** ns that the threads of the pipeline and of the device have run */
  ran(): number;
}

interface Setting {
  device: string;
  folder: string;
  kind: Kind;
}
const updates = {
  learns: 'DQN, 64 rows, 20-64-64-4',
  ticks: 'ticks of one copy, 256 rows',
  priorities: 'ticks of one copy, 256 steps by priorities',
} as const;
type Kind = keyof typeof updates;

/**
 * Creates the buffer: packed rows, or, for 'priorities', steps of many lanes whose priorities are
 * saved too.
 */
function filled(kind: Kind): {
  buffer: ReplayBuffer | TrajectoryBuffer;
  addRows(): void;
  how: object;
} {
  const numbers = (count: number, of: (i: number) => number) =>
    new Float32Array(count).map((_, i) => of(i));
  if (kind !== 'priorities') {
    const buffer = ReplayBuffer.offPolicy({ capacity: CAPACITY, obsDim: OBS_DIM, actionDim: 1 });
    const batch = {
      obs: numbers(FRESH * OBS_DIM, Math.sin),
      nextObs: numbers(FRESH * OBS_DIM, Math.cos),
      actions: numbers(FRESH, (i) => i % 4),
      rewards: numbers(FRESH, (i) => Math.sin(3 * i)),
      dones: new Float32Array(FRESH),
      truncated: new Float32Array(FRESH),
    };
    return {
      buffer: buffer as unknown as ReplayBuffer,
      addRows: () => void buffer.add(batch),
      how: {},
    };
  }
  const fields = { obs: { shape: [OBS_DIM], observation: true } } as const;
  const buffer = TrajectoryBuffer.create({
    capacity: LANES * Math.floor(CAPACITY / LANES),
    lanes: LANES,
    fields,
  });
  const writer = buffer.writer();
  const none = new Uint8Array(LANES);
  const step = {
    obs: numbers(LANES * OBS_DIM, Math.sin),
    rewards: numbers(LANES, (i) => 1 + Math.sin(3 * i)),
    terminated: none,
    truncated: none,
  };
  const addRows = () => {
    for (let added = 0; added < FRESH; added += LANES) writer.add(step);
  };
  const how = { view: buffer.transitions(), sampler: prioritized({ alpha: 0.6 }) };
  return { buffer: buffer as unknown as TrajectoryBuffer, addRows, how };
}

async function inRig(
  { device: name, folder, kind }: Setting,
  use: (rig: Rig) => Promise<void>,
): Promise<void> {
  // Starts Node's file threads now. Otherwise they would be counted as threads of the pipeline.
  await Promise.all(Array.from({ length: 16 }, () => stat(folder)));
  const others = new Set(readdirSync(TASKS));
  const device = openDevice(name);
  const { buffer, addRows, how } = filled(kind);
  while (buffer.ptr < CAPACITY) addRows();
  const learns = kind === 'learns';
  const sizes = { obsDim: OBS_DIM, actions: 4, hidden: [64, 64], batchSize: 64, seed: 1 };
  const learner = learns ? new DqnLearner(device, sizes) : null;
  await learner?.ready;
  // 2^16 entries are the smallest journal that holds all ticks of a save.
  const options = {
    buffer,
    device: name,
    sampleCount: learns ? 64 : 256,
    journal: 2 ** 16,
    ...how,
  };
  const pipeline = (await ReplayPipeline.open(options as never)) as unknown as ReplayPipeline;
  pipeline.capture((given, { stream, out, priorities }) => {
    if (priorities) stream.copy(priorities, given.rewards!);
    if (learner) learner.update(stream, given as never, out);
    else stream.copy(out.view({ shape: [1] }), given.rewards!.view({ shape: [1] }));
  });
  let still = () => {};
  const extra = () => still();
  const parts = { buffer, pipeline, extra, ...(learner ? { learner } : {}) } as never;
  const checkpoint = await Checkpoint.open(join(folder, kind), parts);
  await pipeline.run({ ticks: 2000 });
  await checkpoint.save();
  const threads = readdirSync(TASKS).filter((thread) => !others.has(thread));
  const whenStill = (seen: () => void) => {
    still = seen;
  };
  try {
    const ran = () => threads.reduce((sum, thread) => sum + ranFor(thread), 0);
    await use({ pipeline, checkpoint, addRows, whenStill, ran });
  } finally {
    await checkpoint.close();
    await pipeline.close();
    learner?.close();
    buffer.close();
  }
}

/** Returns ns of CPU time per tick while rows are added. With `saves`, each addition is saved. */
async function perTick(
  { pipeline, checkpoint, addRows, ran }: Rig,
  ms: number,
  saves: boolean,
): Promise<number> {
  const over = new AbortController();
  const running = pipeline.run({ signal: over.signal });
  const [before, first] = [ran(), pipeline.inspect().finished];
  for (let turn = 0; turn < ms / EVERY_MS; turn++) {
    const turned = wait(EVERY_MS);
    addRows();
    if (saves) await checkpoint.save();
    await turned;
  }
  const each = (ran() - before) / (pipeline.inspect().finished - first);
  over.abort();
  await running;
  return each;
}

/** Milliseconds that were measured for one save while the pipeline runs. */
interface Seen {
  /** from the call of save() until the pipeline paused */
  drain: number;
  /** the pause, until the save has copied its state */
  still: number;
  /** the longest time between the ends of two ticks during the save */
  gap: number;
  /** the longest time between the ends of two ticks before the save, over the same duration */
  usual: number;
}

async function watched(
  { pipeline, checkpoint, addRows, whenStill }: Rig,
  count: number,
): Promise<Seen[]> {
  const { journal } = internalsOf(pipeline).parts.ring;
  let read = journal.head;
  const longestGap = () => {
    let [last, longest] = [0, 0];
    read = journal.read(read, ({ record }) => {
      const at = record[Field.doneAt] as number;
      if (last > 0) longest = Math.max(longest, at - last);
      last = at;
    }).next;
    return longest;
  };
  const seen: Seen[] = [];
  const over = new AbortController();
  const running = pipeline.run({ signal: over.signal });
  let took = 20;
  for (let save = 0; save < count; save++) {
    addRows();
    longestGap();
    await wait(took);
    const usual = longestGap();
    const begin = performance.now();
    let drain = 0;
    whenStill(() => {
      drain = performance.now() - begin;
    });
    const { stillSeconds } = await checkpoint.save();
    took = performance.now() - begin;
    seen.push({ drain, still: stillSeconds * 1000, gap: longestGap(), usual });
  }
  over.abort();
  await running;
  return seen;
}

export async function reportPipelines(
  report: Parameters<Benchmark>[0],
  { device, quick, folder }: { device: string; quick: boolean; folder: string },
): Promise<void> {
  for (const [kind, update] of Object.entries(updates) as [Kind, string][]) {
    await inRig({ device, folder, kind }, async (rig) => {
      const ms = quick ? 400 : 1000;
      const [saving, alone]: [number[], number[]] = [[], []];
      for (let pair = -1; pair < (quick ? 3 : 20); pair++) {
        const order = pair % 2 === 0 ? [true, false] : [false, true];
        for (const saves of order) {
          const each = await perTick(rig, ms, saves);
          if (pair >= 0) (saves ? saving : alone).push(each);
        }
      }
      const what = `${update}, a save of ${FRESH} rows every ${EVERY_MS} ms; none`;
      report({
        case: what,
        metric: 'processor time per tick',
        unit: 'µs',
        baseline: median(alone) / 1000,
        ...middle(saving, (ns) => ns / 1000),
      });
      const ratios = saving.map((ns, i) => ns / (alone[i] as number));
      report({ case: what, metric: 'the pairs, one by other', unit: '×', ...middle(ratios) });
      const seen = await watched(rig, quick ? 20 : 200);
      const all = (of: keyof Seen) => seen.map((each) => each[of]);
      for (const [metric, of] of [
        ['drained after', 'drain'],
        ['stood still for', 'still'],
        ['between ticks, save', 'gap'],
        ['between ticks, none', 'usual'],
      ] as const) {
        report({ case: `${update}, a save`, metric, unit: 'ms', ...middle(all(of)) });
        report({
          case: `${update}, a save`,
          metric: `${metric} p99`,
          unit: 'ms',
          value: percentile(all(of), 0.99),
        });
      }
    });
  }
}
