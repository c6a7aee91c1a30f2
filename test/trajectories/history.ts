/**
 * Random histories of a trajectory buffer. Next to the buffer each is kept as explicit lists of
 * episodes, without rings and counters. Tests of views compare the buffer with these lists.
 */
import { TrajectoryBuffer, type TrajectoryWriter, type TypedArray } from '../../src/index.ts';

/** A pseudorandom generator with a seed, for tests only. */
export class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = Math.imul(seed + 1, 0x9e3779b1) >>> 0;
  }
  /** returns an integer below `n` */
  below(n: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  }
  chance(p: number): boolean {
    return this.below(1 << 20) < p * (1 << 20);
  }
  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

/**
 * Observations and other fields of several widths. `goal` and `reached` have the same shape and
 * dtype.
 */
export const fields = {
  actions: { shape: [2], dtype: 'int32' },
  obs: { shape: [3], observation: true },
  frame: { shape: [5], dtype: 'uint8', observation: true },
  goal: { shape: [2], dtype: 'float64', observation: true },
  reached: { shape: [2], dtype: 'float64', observation: true },
  half: { shape: [], dtype: 'float16' },
  key: { shape: [], dtype: 'int64' },
} as const;
export type Key = keyof typeof fields;
export const keys = Object.keys(fields) as Key[];
export const observations: readonly Key[] = ['obs', 'frame', 'goal', 'reached'];
export const elementsOf = (key: Key): number =>
  fields[key].shape.reduce((a: number, b: number) => a * b, 1);
const arrays = {
  actions: Int32Array,
  obs: Float32Array,
  frame: Uint8Array,
  goal: Float64Array,
  reached: Float64Array,
  half: Uint16Array,
  key: BigInt64Array,
} as const;
export const zeros = (key: Key, rows: number): TypedArray =>
  new arrays[key](rows * elementsOf(key));

/** Returns the value of element `e` of a field at an id. It depends on all three. */
export function valueAt(key: Key, id: number, e: number): number | bigint {
  const value = id * 32 + keys.indexOf(key) * 4 + e + 1;
  if (key === 'frame') return Math.imul(value, 0x9e3779b1) >>> 24;
  if (key === 'half') return value & 0x7bff;
  return key === 'key' ? BigInt(value) : value;
}

/** Writes the value of an id as row `row`. */
export function put(array: TypedArray, row: number, key: Key, id: number): void {
  const n = elementsOf(key);
  for (let e = 0; e < n; e++)
    (array as unknown as (number | bigint)[])[row * n + e] = valueAt(key, id, e);
}

export interface Episode {
  readonly lane: number;
  /** places of its steps */
  readonly steps: number[];
  /**
   * place of its final observation, or null if it has not ended or its writer closed before its end
   */
  final: number | null;
}

export interface Step {
  readonly episode: Episode;
  /** index in the episode, which is the episode's length for the final observation */
  readonly index: number;
  readonly reward: number;
  readonly terminated: number;
  readonly truncated: number;
}

interface Lane {
  /** everything ever written, by place */
  readonly places: Step[];
  running: Episode | null;
  floor: number;
}

export class History {
  readonly dice: Dice;
  readonly lanes: number;
  readonly perLane: number;
  readonly buffer: TrajectoryBuffer<typeof fields>;
  readonly #lanes: Lane[];
  #writers: TrajectoryWriter<typeof fields>[] = [];
  /** how often an episode ends, and how often an add skips a lane */
  readonly #ending: number;
  readonly #skipping: number;

  constructor(seed: number, lanes: number, perLane: number, ending?: number) {
    this.dice = new Dice(seed);
    this.lanes = lanes;
    this.perLane = perLane;
    this.#ending = ending ?? this.dice.of([0, 0.02, 0.1, 0.3, 0.9]);
    this.#skipping = this.dice.of([0, 0.2, 0.7]);
    this.buffer = TrajectoryBuffer.create({ capacity: lanes * perLane, lanes, fields });
    this.#lanes = Array.from({ length: lanes }, () => ({ places: [], running: null, floor: 0 }));
    this.#openWriters();
  }

  /** Opens writers for random ranges of lanes. */
  #openWriters(): void {
    for (let first = 0; first < this.lanes; ) {
      const lanes = 1 + this.dice.below(this.lanes - first);
      this.#writers.push(this.buffer.writer({ firstLane: first, lanes }));
      first += lanes;
    }
  }

  /** Closes every writer in mid-episode and opens new writers for the lanes. */
  abandon(): void {
    for (const writer of this.#writers.splice(0)) writer.close();
    for (const lane of this.#lanes) lane.running = null;
    this.#openWriters();
  }
  clear(): void {
    this.buffer.clear();
    for (const lane of this.#lanes) lane.floor = lane.places.length;
  }
  /** Makes one add by a random writer. */
  add(): void {
    const writer = this.dice.of(this.#writers);
    const { firstLane, lanes } = writer;
    const flags = (p: number) =>
      Uint8Array.from({ length: lanes }, () => (this.dice.chance(p) ? 1 : 0));
    const [terminated, truncated, skip] = [
      flags(this.#ending / 2),
      flags(this.#ending / 2),
      flags(this.#skipping),
    ];
    // Any byte other than zero sets a flag.
    if (this.dice.chance(0.1))
      for (const each of [terminated, truncated, skip]) each.set(each.map((flag) => flag * 7));
    const rewards = Float32Array.from({ length: lanes }, () => this.dice.below(2001) / 7 - 100);
    const given: Record<string, unknown> = { rewards, terminated, truncated };
    if (skip.some((flag) => flag !== 0) || this.dice.chance(0.5)) given.skip = skip;
    else skip.fill(0);
    const ends = (i: number) => terminated[i] !== 0 || truncated[i] !== 0;
    for (const key of keys) {
      const [now, last] = [zeros(key, lanes), zeros(key, lanes)];
      for (let i = 0; i < lanes; i++) {
        const id = this.nextId(firstLane + i);
        put(now, i, key, id);
        if (ends(i)) put(last, i, key, id + this.lanes);
      }
      given[key] = now;
      if (
        observations.includes(key) &&
        (terminated.some((_, i) => !skip[i] && ends(i)) || this.dice.chance(0.2))
      )
        given[`final${key.charAt(0).toUpperCase()}${key.slice(1)}`] = last;
    }
    if (writer.add(given as never) !== lanes) throw new Error('add() took less than it has lanes');
    for (let i = 0; i < lanes; i++)
      if (!skip[i])
        this.#note(firstLane + i, rewards[i]!, terminated[i] ? 1 : 0, truncated[i] ? 1 : 0);
  }
  #note(l: number, reward: number, terminated: number, truncated: number): void {
    const lane = this.#lanes[l]!;
    lane.running ??= { lane: l, steps: [], final: null };
    const episode = lane.running;
    lane.places.push({ episode, index: episode.steps.length, reward, terminated, truncated });
    episode.steps.push(lane.places.length - 1);
    if (!terminated && !truncated) return;
    episode.final = lane.places.length;
    lane.places.push({
      episode,
      index: episode.steps.length,
      reward: 0,
      terminated: 0,
      truncated: 0,
    });
    lane.running = null;
  }

  nextId(lane: number): number {
    return this.#lanes[lane]!.places.length * this.lanes + lane;
  }
  idOf(episode: Episode, index: number): number {
    return (episode.steps[index] ?? episode.final!) * this.lanes + episode.lane;
  }
  at(id: number): Step {
    return this.#lanes[id % this.lanes]!.places[Math.floor(id / this.lanes)]!;
  }
  /** Returns whether the ring still holds this place. */
  has(lane: number, place: number): boolean {
    const { places, floor } = this.#lanes[lane]!;
    return place >= floor && place >= places.length - this.perLane && place < places.length;
  }
  /** Returns the ids of the steps that the ring holds, lane by lane, the oldest first. */
  steps(): number[] {
    return this.places().filter((id) => this.isStep(id));
  }
  /** Returns the ids of the steps and final observations that the ring holds. */
  places(): number[] {
    return this.#lanes.flatMap(({ places, floor }, lane) => {
      const first = Math.max(floor, places.length - this.perLane, 0);
      return Array.from(
        { length: places.length - first },
        (_, i) => (first + i) * this.lanes + lane,
      );
    });
  }
  isStep(id: number): boolean {
    const { episode, index } = this.at(id);
    return index < episode.steps.length;
  }
  /** Returns the number of steps ever written. */
  get written(): number {
    return this.#lanes.reduce(
      (sum, { places }) => sum + places.filter((s) => s.index < s.episode.steps.length).length,
      0,
    );
  }
  /** Returns ids that do not belong to a drawable step, including some that were never written. */
  others(drawable: readonly number[]): number[] {
    const known = new Set(drawable);
    const most = this.lanes * (Math.max(...this.#lanes.map(({ places }) => places.length)) + 3);
    return Array.from({ length: most }, (_, id) => id).filter((id) => !known.has(id));
  }
  close(): void {
    for (const writer of this.#writers) writer.close();
    this.buffer.close();
  }
}
