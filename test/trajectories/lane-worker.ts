/**
 * A thread of the stress test of trajectories. It writes steps whose values encode their origin, or
 * samples steps and checks them.
 */
import {
  type PrioritizedSampler,
  prioritized,
  type SharedTrajectoryBuffer,
  TrajectoryBuffer,
} from '../../src/index.ts';
import { givenTask, perform } from '../rig/test-thread.ts';
import { endAt, fault, type fields, LANES, misplaced, rewardAt, tell } from './telling.ts';

export interface LaneWork {
  shared: SharedTrajectoryBuffer<ReturnType<typeof fields>>;
  /**
   * Int32. 0: number of ready threads. 1: number of readers that still read. 2: number of writers
   * that have not finished their rounds
   */
  control: SharedArrayBuffer;
  together: number;
  words: number;
  role:
    | 'write'
    | 'uniform'
    | 'by priority'
    | 'windows'
    | 'windows by priority'
    | 'places'
    | 'clear';
  /** lanes of a writer */
  firstLane: number;
  lanes: number;
  /**
   * least number of samples of a reader, which continues until every writer has finished its
   * rounds, and rows of each sample
   */
  samples: number;
  rows: number;
}
export interface Told {
  samples: number;
  wrong: string | null;
  /** number of chosen steps that were overwritten meanwhile */
  gone: number;
  longest: number;
}

const work = givenTask<LaneWork>();
const buffer = TrajectoryBuffer.attach(work.shared);
const control = new Int32Array(work.control);
const READY = 0;
const READING = 1;
const WITHOUT_TURNS = 2;
/**
 * rounds that every writer must make. On a busy machine a writer may not run while the other
 * threads finish
 */
const TURNS = 5;

function startTogether(): void {
  Atomics.add(control, READY, 1);
  Atomics.notify(control, READY);
  for (
    let ready = Atomics.load(control, READY);
    ready < work.together;
    ready = Atomics.load(control, READY)
  )
    Atomics.wait(control, READY, ready);
}

/** Writes until the last reader is done. Returns the number of steps. */
function write(): number {
  const { firstLane, lanes, words } = work;
  using writer = buffer.writer({ firstLane, lanes });
  const [obs, finalObs] = [new Float64Array(lanes * words), new Float64Array(lanes * words)];
  const [id, rewards] = [new Float64Array(lanes), new Float32Array(lanes)];
  const [terminated, truncated, skip] = [
    new Uint8Array(lanes),
    new Uint8Array(lanes),
    new Uint8Array(lanes),
  ];
  const places = new Array<number>(lanes).fill(0);
  const steps = new Array<number>(lanes).fill(0);
  let written = 0;
  for (let round = 0; Atomics.load(control, READING) > 0; round++) {
    for (let i = 0; i < lanes; i++) {
      // Skips some lanes, so that they have different numbers of steps.
      skip[i] = lanes > 1 && (round * 7 + i) % 5 === 0 ? 1 : 0;
      id[i] = places[i]! * LANES + firstLane + i;
      rewards[i] = rewardAt(places[i]!);
      const end = endAt(id[i]!);
      terminated[i] = end === 'terminated' ? 1 : 0;
      truncated[i] = end === 'truncated' ? 1 : 0;
      tell(obs, i, words, id[i]!, steps[i]!);
      if (end !== 'no') tell(finalObs, i, words, id[i]! + LANES, steps[i]! + 1);
    }
    writer.add({ obs, finalObs, id, rewards, terminated, truncated, skip });
    for (let i = 0; i < lanes; i++) {
      if (skip[i]) continue;
      const ended = terminated[i] || truncated[i];
      places[i]! += ended ? 2 : 1;
      steps[i] = ended ? 0 : steps[i]! + 1;
      written++;
    }
    if (round + 1 === TURNS) Atomics.sub(control, WITHOUT_TURNS, 1);
  }
  return written;
}

/** Returns whether a reader continues. It makes at least `least` samples. */
function goesOn({ samples, wrong }: Told, least = work.samples): boolean {
  return wrong === null && (samples < least || Atomics.load(control, WITHOUT_TURNS) > 0);
}

function read(): Told {
  const { role, words, rows } = work;
  const windows = role.startsWith('windows');
  const view = windows
    ? buffer.windows({ length: 3, burnIn: 2, edges: 'anchor' })
    : buffer.transitions({ nStep: 3, gamma: 0.5 });
  const sampler: PrioritizedSampler | undefined = role.endsWith('by priority')
    ? prioritized({ alpha: 1 })
    : undefined;
  const checked = (sample: object) => fault(sample, words, 3, windows ? 5 : 0);
  const result: Told = { samples: 0, wrong: null, gone: 0, longest: 0 };
  for (let seed = 0; goesOn(result); seed++) {
    const begin = performance.now();
    try {
      const sample = buffer.sample({ view, seed, count: rows, ...(sampler ? { sampler } : {}) });
      result.longest = Math.max(result.longest, performance.now() - begin);
      result.samples++;
      result.wrong = checked(sample);
      if (sampler)
        buffer.updatePriorities(
          sample.ids,
          Float64Array.from(sample.ids, (id) => 1 + ((id + seed) % 50)),
        );
    } catch (error) {
      // The buffer is empty at first. After the first sample it must never be empty.
      if ((error as { code?: string }).code !== 'ERR_HOTSLOT_STATE_EMPTY' || result.samples > 0)
        throw error;
      continue;
    }
    // Writers overwrite the oldest steps next.
    const ids = buffer.drawableIds(view).slice(0, 2);
    try {
      result.wrong ??= checked(buffer.transitionsAt({ view, ids }));
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_HOTSLOT_RANGE') throw error;
      result.gone++;
    }
  }
  return result;
}

/** Reads single places, the oldest first, because writers overwrite these next. */
function readPlaces(): Told {
  const view = buffer.transitions({ nStep: 1, gamma: 0.5 });
  const result: Told = { samples: 0, wrong: null, gone: 0, longest: 0 };
  while (goesOn(result, work.samples * work.rows * 4)) {
    for (const id of buffer.drawableIds(view).slice(0, 3)) {
      try {
        result.wrong ??= misplaced(buffer.read([id]), work.words, id);
        result.samples++;
      } catch (error) {
        if ((error as { code?: string }).code !== 'ERR_HOTSLOT_RANGE') throw error;
        result.gone++;
      }
    }
  }
  return result;
}

/**
 * Clears the buffer again and again while other threads do the same. Steps from before a clear must
 * not be seen after it.
 */
function clear(): Told {
  const view = buffer.transitions({ nStep: 1, gamma: 0.5 });
  const result: Told = { samples: 0, wrong: null, gone: 0, longest: 0 };
  const newest = new Array<number>(LANES).fill(-1);
  for (; goesOn(result); result.samples++) {
    const ids = buffer.drawableIds(view);
    for (const id of ids) {
      const back = id <= newest[id % LANES]!;
      if (back)
        result.wrong = `id ${id} was seen after ${newest[id % LANES]} of its lane was forgotten`;
    }
    for (const id of ids) newest[id % LANES] = id;
    buffer.clear();
    result.gone += ids.length;
  }
  return result;
}

startTogether();
await perform(() => {
  try {
    if (work.role === 'write') return write();
    if (work.role === 'clear') return clear();
    return work.role === 'places' ? readPlaces() : read();
  } finally {
    // Whichever way this thread ends, the other threads must not wait for it.
    if (work.role === 'write') Atomics.store(control, WITHOUT_TURNS, 0);
    else Atomics.sub(control, READING, 1);
  }
});
