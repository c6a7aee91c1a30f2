/**
 * Two lanes of a plan: its launches on the caller's stream, and those on a side stream. Only captures
 * use the side stream. docs/contributing/design/expressions.md has the rules.
 */
import type { Device, DeviceEvent, Stream } from '../../../device/device.ts';
import { apart, dependenciesOf, laidOut } from './depth.ts';
import { costOf, EDGE, mayBeVendors } from './estimate.ts';
import type { Buffer, Launch } from './launches.ts';
import { type Layout, layOut } from './memory.ts';

/** The caller's stream, or the side stream. */
export type Lane = 0 | 1;

/** When a plan uses a side stream: if the estimate finds a gain, never, or wherever dependencies allow it. */
export type LaneUse = 'estimate' | 'none' | 'all';

/** Defaults that only tests set. */
export const laneDefaults: { use: LaneUse } = { use: 'estimate' };

/** A launch with its estimated time, or another task that takes a lane. */
export interface Task {
  /** in microseconds */
  readonly time: number;
  /** share of the device that the task fills */
  readonly share: number;
  /** whether the task must run on the caller's stream */
  readonly main: boolean;
  /** indices of earlier tasks that must end before this one */
  readonly needs: readonly number[];
}

/** An order of tasks with the lane of each, and the time after which both lanes have ended. */
export interface Schedule {
  readonly order: readonly number[];
  /** by the task's index */
  readonly lanes: readonly Lane[];
  readonly end: number;
}

/** Returns the time from the begin of each task to the end of the longest chain that it begins. */
function remaining(tasks: readonly Task[]): readonly number[] {
  const left = tasks.map(({ time }) => time);
  for (let i = tasks.length - 1; i >= 0; i--)
    for (const j of tasks[i]!.needs) left[j] = Math.max(left[j]!, tasks[j]!.time + left[i]!);
  return left;
}

/**
 * Schedules tasks on two lanes. The next task is the one that can begin first, after its needs are
 * scheduled. If several can, the one with the longest chain after it is the next.
 *
 * @param edge time from the end of a task on one lane to the begin of a task on the other one
 */
export function scheduled(tasks: readonly Task[], edge: number): Schedule {
  const left = remaining(tasks);
  const lanes: Lane[] = [];
  const ends: number[] = [];
  const begins: number[] = [];
  const order: number[] = [];
  const taken: [number[], number[]] = [[], []];
  const free: [number, number] = [0, edge];
  const open = new Set(tasks.keys());
  const beginOf = (i: number, lane: Lane): number => {
    const { needs, time, share } = tasks[i] as Task;
    let begin = free[lane];
    for (const j of needs) begin = Math.max(begin, ends[j]! + (lanes[j] === lane ? 0 : edge));
    // Tasks that do not fit on the device together run one after the other.
    const others = taken[1 - lane]!;
    let at = others.length;
    while (at > 0 && ends[others[at - 1]!]! > begin) at--;
    for (const j of others.slice(at))
      if (share + tasks[j]!.share > 1 && begins[j]! < begin + time && begin < ends[j]!)
        begin = ends[j]!;
    return begin;
  };
  while (open.size > 0) {
    let best = { task: -1, lane: 0 as Lane, begin: Number.POSITIVE_INFINITY };
    for (const task of open) {
      const { main, needs } = tasks[task] as Task;
      if (needs.some((j) => open.has(j))) continue;
      for (const lane of main ? ([0] as const) : ([0, 1] as const)) {
        const begin = beginOf(task, lane);
        const sooner = begin - best.begin;
        if (sooner > 0 || (sooner === 0 && best.task >= 0 && left[task]! <= left[best.task]!))
          continue;
        best = { task, lane, begin };
      }
    }
    const { task, lane, begin } = best;
    open.delete(task);
    order.push(task);
    taken[lane].push(task);
    lanes[task] = lane;
    begins[task] = begin;
    ends[task] = begin + tasks[task]!.time;
    free[lane] = ends[task]!;
  }
  const side = order.some((task) => lanes[task] === 1);
  return { order, lanes, end: side ? Math.max(free[0], free[1] + edge) : free[0] };
}

/** The wait of a launch for the other lane. */
export interface Wait {
  /** index of the launch that begins after the wait, or the number of launches for the end */
  readonly before: number;
  /** index of the launch after which the other lane records the event, or −1 for the begin */
  readonly after: number;
}

/** The waits between two lanes, and the order that they give. */
export interface Waits {
  readonly waits: readonly Wait[];
  /** by launch: the last launches of both lanes that are over when it begins, or −1 */
  readonly over: readonly (readonly [main: number, side: number])[];
}

/**
 * Returns the waits that launches need, in the order in which they are enqueued. A wait that follows from
 * the order of a lane and from earlier waits is left out. The first launch of the side stream waits for
 * the caller's stream, because a capture gets a second stream by such a wait. The caller's stream waits
 * for the last launch of the side stream at the end.
 */
export function waitsOf(lanes: readonly Lane[], needs: readonly (readonly number[])[]): Waits {
  const waits: Wait[] = [];
  const over: (readonly [number, number])[] = [];
  // By lane: the last launches of both lanes that it comes after. The side stream does not even come
  // after the begin of the section.
  const known: readonly [[number, number], [number, number]] = [
    [-1, -1],
    [-2, -1],
  ];
  for (const [i, lane] of lanes.entries()) {
    const other = lane === 0 ? 1 : 0;
    const mine = known[lane];
    let after = -1;
    for (const j of needs[i]!) if (lanes[j] === other) after = Math.max(after, j);
    if (after > mine[other]) {
      waits.push({ before: i, after });
      mine[other] = after;
    }
    over.push([mine[0], mine[1]]);
    mine[lane] = i;
  }
  const last = known[1][1];
  if (last > known[0][1]) waits.push({ before: lanes.length, after: last });
  return { waits, over };
}

/** Estimated microseconds of a section, on one stream and on two. */
export interface LaneEstimate {
  readonly section: number;
  readonly one: number;
  readonly two: number;
  readonly used: boolean;
}

/** The launches of a plan in order, with their places in memory and their lanes. */
export interface LanePlan {
  readonly launches: readonly Launch[];
  readonly layout: Layout;
  /** by launch, or null if no section has a side stream */
  readonly lanes: readonly Lane[] | null;
  readonly estimates: readonly LaneEstimate[];
}

/** The lanes and waits of a section. */
export interface SectionWaits extends Waits {
  readonly lanes: readonly Lane[];
}

/** Returns the dependencies between launches [from, to) of a plan, which are those of a section. */
export function dependenciesIn(
  { launches, layout }: LanePlan,
  from: number,
  to: number,
  poison: boolean,
): readonly (readonly number[])[] {
  const poisoned = poison ? layout.freed.slice(from, to) : [];
  return dependenciesOf(launches.slice(from, to), laidOut(layout.offsets), poisoned);
}

/** Returns the lanes and waits of launches [from, to), or null if they have one lane. */
export function waitsIn(
  plan: LanePlan,
  from: number,
  to: number,
  poison: boolean,
): SectionWaits | null {
  const lanes = plan.lanes?.slice(from, to);
  if (!lanes?.includes(1)) return null;
  return { lanes, ...waitsOf(lanes, dependenciesIn(plan, from, to, poison)) };
}

/** Largest memory of a plan with lanes, as a multiple of its memory without them. */
const MORE_MEMORY = 1.2;

/**
 * Least gain of a side stream, in microseconds and as a share of the section. The estimate includes the
 * cost of edges already. It must be wrong by two edges, or by a tenth, before a section becomes slower.
 */
const LEAST_GAIN = 2 * EDGE;
const LEAST_SHARE = 0.1;

const sum = (numbers: readonly number[]): number => numbers.reduce((total, x) => total + x, 0);

/** Returns how a plan uses a side stream on a device. */
export function laneUseOn(device: Device, use: LaneUse = laneDefaults.use): LaneUse {
  const { family } = device;
  if (family === 'host') return 'none';
  // Level Zero's graphs run one launch after the other.
  return family === 'xpu' && use === 'estimate' ? 'none' : use;
}

/** The lanes of some sections, in an order of all launches. */
interface Laned {
  readonly order: readonly number[];
  readonly lanes: readonly Lane[];
  readonly estimates: readonly LaneEstimate[];
}

/**
 * Schedules each section by the dependencies between its launches. Launches of cuBLAS stay on the
 * caller's stream, because each stream with such products has a workspace of its own. Layers of users
 * and late sums stay there too.
 */
function lanedSections(
  launches: readonly Launch[],
  dependencies: (section: readonly Launch[], from: number) => readonly (readonly number[])[],
  use: LaneUse,
): Laned {
  const order: number[] = [];
  const lanes: Lane[] = [];
  const estimates: LaneEstimate[] = [];
  for (let from = 0; from < launches.length; ) {
    const { section } = launches[from] as Launch;
    const own = launches.slice(from).filter((launch) => launch.section === section);
    const needs = dependencies(own, from);
    const tasks = own.map((launch, i): Task => {
      const late = launch.late !== undefined;
      const main = late || launch.call !== undefined || mayBeVendors(launch);
      const { time, share } = costOf(launch);
      return { time, share: use === 'all' ? 0 : share, main, needs: needs[i]! };
    });
    const found = scheduled(tasks, use === 'all' ? 0 : EDGE);
    const one = sum(tasks.map(({ time }) => time));
    const two = found.end;
    const pays = use === 'all' || one - two >= Math.max(LEAST_GAIN, LEAST_SHARE * one);
    const used = pays && found.lanes.includes(1);
    if (use !== 'all') estimates.push({ section, one, two, used });
    for (const i of used ? found.order : own.keys()) {
      order.push(from + i);
      lanes.push(used ? found.lanes[i]! : 0);
    }
    from += own.length;
  }
  return { order, lanes, estimates };
}

/** Returns a function that says whether all uses of a buffer are over when a launch begins. */
function overBefore(
  launches: readonly Launch[],
  lanes: readonly Lane[],
): (buffer: Buffer, launch: number) => boolean {
  const users = new Map<Buffer, number[]>();
  for (const [i, { views }] of launches.entries())
    for (const { buffer } of views) {
      const own = users.get(buffer) ?? [];
      if (own.at(-1) !== i) own.push(i);
      users.set(buffer, own);
    }
  const starts = launches.map(({ section }, i) => (launches[i - 1]?.section === section ? -1 : i));
  for (const i of starts.keys()) if (starts[i] === -1) starts[i] = starts[i - 1]!;
  const over = launches.map((): readonly [number, number] => [-1, -1]);
  for (const from of new Set(starts)) {
    const own = launches.filter((_, i) => starts[i] === from);
    const laned = lanes.slice(from, from + own.length);
    for (const [i, [main, side]] of waitsOf(laned, dependenciesOf(own, apart)).over.entries())
      over[from + i] = [from + main, from + side];
  }
  return (buffer, launch) =>
    (users.get(buffer) ?? []).every(
      (user) => user === launch || user < starts[launch]! || user <= over[launch]![lanes[user]!]!,
    );
}

/**
 * Orders the launches of a plan for two lanes, and lays out its memory.
 *
 * A side stream needs buffers that share no place with those of the other stream. So a buffer takes the
 * place of others only if all their uses are over then. If that needs more than 1.2 times the memory, the
 * layout stays as it is, and its dependencies decide.
 *
 * @param poison whether buffers are filled after their last use
 * @param most largest memory, as a multiple of the memory on one stream
 */
export function withLanes(
  launches: readonly Launch[],
  use: LaneUse,
  poison: boolean,
  most = use === 'all' ? Number.POSITIVE_INFINITY : MORE_MEMORY,
): LanePlan {
  const plain = layOut(launches);
  const none: LanePlan = { launches, layout: plain, lanes: null, estimates: [] };
  if (use === 'none') return none;
  const free = lanedSections(launches, (own) => dependenciesOf(own, apart), use);
  if (!free.lanes.includes(1)) return { ...none, estimates: free.estimates };
  const ordered = free.order.map((i) => launches[i]!);
  const layout = layOut(ordered, overBefore(ordered, free.lanes));
  if (layout.size <= most * plain.size)
    return { launches: ordered, layout, lanes: free.lanes, estimates: free.estimates };
  const freed = poison ? plain.freed : [];
  const tight = lanedSections(
    launches,
    (own, from) =>
      dependenciesOf(own, laidOut(plain.offsets), freed.slice(from, from + own.length)),
    use,
  );
  if (!tight.lanes.includes(1)) return { ...none, estimates: tight.estimates };
  return {
    launches: tight.order.map((i) => launches[i]!),
    layout: { ...plain, freed: tight.order.map((i) => plain.freed[i]!) },
    lanes: tight.lanes,
    estimates: tight.estimates,
  };
}

/** The side stream of a plan with its events, which exist before a capture begins. */
export class SideStream implements Disposable {
  readonly #stream: Stream;
  readonly #events: DeviceEvent[] = [];

  /** @param events largest number of waits of a section */
  constructor(device: Device, events: number) {
    this.#stream = device.createStream();
    try {
      for (let i = 0; i < events; i++) this.#events.push(device.createEvent());
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Returns how a section is enqueued from the stream of the capture. */
  on(main: Stream, section: SectionWaits): LanedEmission {
    return new LanedEmission([main, this.#stream], this.#events, section);
  }

  close(): void {
    for (const event of this.#events) event.close();
    this.#stream.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Enqueues the waits of a section around its launches. */
class LanedEmission {
  readonly #streams: readonly [Stream, Stream];
  readonly #events: readonly DeviceEvent[];
  readonly #section: SectionWaits;

  constructor(
    streams: readonly [Stream, Stream],
    events: readonly DeviceEvent[],
    section: SectionWaits,
  ) {
    this.#streams = streams;
    this.#events = events;
    this.#section = section;
    this.after(-1);
  }

  /**
   * Returns the stream of a launch, after it has waited for what the launch needs. The number of launches
   * stands for the end of the section.
   */
  before(launch: number): Stream {
    const stream = this.#streams[this.#section.lanes[launch] ?? 0];
    for (const [i, { before }] of this.#section.waits.entries())
      if (before === launch) stream.wait(this.#events[i]!);
    return stream;
  }

  /** Records the events of a launch, or of the begin of the section if `launch` is −1. */
  after(launch: number): void {
    const { lanes, waits } = this.#section;
    const stream = this.#streams[lanes[launch] ?? 0];
    for (const [i, { after }] of waits.entries())
      if (after === launch) stream.record(this.#events[i]!);
  }
}
