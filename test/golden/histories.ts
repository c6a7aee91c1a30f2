/**
 * Writes the histories of a replay file into a TrajectoryBuffer, as their environments would. The
 * file names a step by lane and tick. The buffer names it by an id, and final observations have ids
 * too.
 */
import { TrajectoryBuffer, type View } from '../../src/index.ts';
import {
  columnsOf,
  Difference,
  exactly,
  type Numbers,
  refused,
  same,
  sameList,
  type Tolerance,
} from './differences.ts';

export interface HistoryLane {
  obs: number[];
  reward: number[];
  terminated: number[];
  truncated: number[];
  /** the observation after the last step of an episode, null for all other steps */
  final: (number | null)[];
  /** number of places written in all, with final observations */
  cells: number;
  /** the oldest tick that is still in the ring if final observations take places */
  firstLive: { cells: number };
  /** first tick, last tick, and 1 if the episode has ended */
  episodes: [number, number, number][];
}

export interface History {
  id: string;
  lanes: number;
  ticks: number;
  /** number of places of one lane */
  capacity: number;
  lane: HistoryLane[];
}

/**
 * Rows that may be drawn, by layout. `shared`: a final observation takes a place of its lane, as in
 * a TrajectoryBuffer. `stored`: it takes none, so the ring has more rows.
 */
export interface Layouts {
  stored: readonly number[];
  shared: readonly number[];
}

export interface Row {
  lane: number;
  tick: number;
  id: number;
}

/** A buffer with any fields. */
interface ViewedBuffer extends Pick<TrajectoryBuffer, 'drawable' | 'drawableIds'> {
  transitionsAt(options: { view: View; ids: readonly number[] }): object;
}

const isEnd = (lane: HistoryLane, tick: number): boolean =>
  lane.terminated[tick] === 1 || lane.truncated[tick] === 1;
export const rowName = ({ lane, tick }: Row): string => `lane ${lane}, row ${tick}`;

/** The ids of a history: of each step by lane and tick, and of the final observation after it. */
export class Places {
  readonly history: History;
  /**
   * whether lanes have room for the whole history: nothing is overwritten, so all rows of `stored`
   * exist too
   */
  readonly roomy: boolean;
  readonly steps: readonly number[][];
  readonly finals: readonly (number | null)[][];
  /** the id that each lane would give its next step */
  readonly next: readonly number[];

  constructor(history: History, roomy: boolean) {
    this.history = history;
    this.roomy = roomy;
    const { lanes, ticks } = history;
    same(`history ${history.id}: the number of its lanes`, history.lane.length, lanes);
    const all = history.lane.map((lane, l) => {
      let place = 0;
      const id = () => place++ * lanes + l;
      const pairs = Array.from(
        { length: ticks },
        (_, t) => [id(), isEnd(lane, t) ? id() : null] as const,
      );
      same(`history ${history.id}, lane ${l}: the cells that were written`, place, lane.cells);
      lane.final.forEach((final, t) => {
        if ((final !== null) !== isEnd(lane, t))
          throw new Difference(
            `history ${history.id}, lane ${l}, row ${t}: its flags and final do not agree`,
          );
      });
      for (const [first, last, ended] of lane.episodes)
        same(
          `history ${history.id}, lane ${l}: the end of episode ${first} to ${last}`,
          isEnd(lane, last) ? 1 : 0,
          ended,
        );
      return {
        steps: pairs.map(([step]) => step),
        finals: pairs.map(([, final]) => final),
        next: id(),
      };
    });
    this.steps = all.map(({ steps }) => steps);
    this.finals = all.map(({ finals }) => finals);
    this.next = all.map(({ next }) => next);
  }

  /** Returns the rows of these ticks, one list per lane. Their order is that of ordinals. */
  rows(ticks: readonly (readonly number[])[]): Row[] {
    same('the number of lanes', ticks.length, this.history.lanes);
    return ticks.flatMap((list, lane) => list.map((tick) => this.row(lane, tick)));
  }

  row(lane: number, tick: number): Row {
    const id = this.steps[lane]?.[tick];
    if (id === undefined) throw new Difference(`the history has no lane ${lane}, row ${tick}`);
    return { lane, tick, id };
  }

  /** Returns the file's name for an id. */
  named(id: number): string {
    const lane = id % this.history.lanes;
    const tick = this.steps[lane]?.indexOf(id) ?? -1;
    return tick < 0 ? `id ${id}, which is no step` : rowName({ lane, tick, id });
  }
}

/** Returns one value for each lane. */
export const acrossLanes = <T>(
  history: History,
  of: (lane: HistoryLane, index: number) => T,
): T[] => history.lane.map(of);

/** Returns the columns that every step has in addition to the buffer's fields. */
export function flagsAt(history: History, tick: number) {
  return {
    rewards: Float32Array.from(acrossLanes(history, (lane) => lane.reward[tick]!)),
    terminated: Uint8Array.from(acrossLanes(history, (lane) => lane.terminated[tick]!)),
    truncated: Uint8Array.from(acrossLanes(history, (lane) => lane.truncated[tick]!)),
  };
}
export const obsAt = (history: History, tick: number): Float64Array =>
  Float64Array.from(acrossLanes(history, (lane) => lane.obs[tick]!));
/** Returns NaN for lanes whose episode continues, because the buffer must not read that value. */
export const finalObsAt = (history: History, tick: number): Float64Array =>
  Float64Array.from(acrossLanes(history, (lane) => lane.final[tick] ?? Number.NaN));

/** Returns the number of places that a buffer of the history has. */
export const capacityOf = ({ history, roomy }: Places): number =>
  history.lanes *
  (roomy ? Math.max(...acrossLanes(history, ({ cells }) => cells)) : history.capacity);

/** Calls `look` for the history's own ring, then for a ring with room for the whole history. */
export function inBoth(history: History, look: (places: Places) => void): void {
  look(new Places(history, false));
  try {
    look(new Places(history, true));
  } catch (error) {
    if (error instanceof Difference)
      error.message = `with room for the whole history: ${error.message}`;
    throw error;
  }
}

function create(places: Places) {
  return TrajectoryBuffer.create({
    capacity: capacityOf(places),
    lanes: places.history.lanes,
    fields: {
      // float64, because values reach lane · 10⁶ + ½.
      obs: { shape: [], dtype: 'float64', observation: true },
      // The tick + 1, because 0 is the value of padding.
      tick: { shape: [], dtype: 'int32' },
    },
  });
}

/**
 * Writes a history into both rings, checks what each of them still has, and calls `check` while the
 * writer is open.
 */
export function withHistory(
  history: History,
  check: (buffer: ReturnType<typeof create>, places: Places) => void,
): void {
  inBoth(history, (places) => {
    using buffer = create(places);
    using writer = buffer.writer({ firstLane: 0, lanes: history.lanes });
    for (let t = 0; t < history.ticks; t++) {
      const tick = new Int32Array(history.lanes).fill(t + 1);
      const step = {
        obs: obsAt(history, t),
        tick,
        ...flagsAt(history, t),
        finalObs: finalObsAt(history, t),
      };
      same(`add() of tick ${t}`, writer.add(step), history.lanes);
    }
    checkLive(buffer, places);
    check(buffer, places);
  });
}

/**
 * Checks read(): it returns the steps and final observations that are in the ring, and rejects
 * older ones.
 */
function checkLive(buffer: ReturnType<typeof create>, places: Places): void {
  const { history } = places;
  const firsts = acrossLanes(history, ({ firstLive }) => (places.roomy ? 0 : firstLive.cells));
  const live = firsts.flatMap((first, l) =>
    Array.from({ length: history.ticks - first }, (_, i) => places.row(l, first + i)),
  );
  same('ptr', buffer.ptr, history.lanes * history.ticks);
  same('size', buffer.size, live.length);
  const found = columnsOf(buffer.read(live.map(({ id }) => id)));
  const compare = (column: string, of: (lane: HistoryLane, tick: number) => number) =>
    sameRows(`read(): ${column}`, found[column], live, ({ lane, tick }) =>
      of(history.lane[lane]!, tick),
    );
  const startOf = (lane: HistoryLane, tick: number) =>
    lane.episodes.find(([first, last]) => first <= tick && tick <= last)?.[0] ?? Number.NaN;
  compare('obs', (lane, tick) => lane.obs[tick]!);
  compare('tick', (_, tick) => tick + 1);
  compare('rewards', (lane, tick) => lane.reward[tick]!);
  compare('terminated', (lane, tick) => lane.terminated[tick]!);
  compare('truncated', (lane, tick) => lane.truncated[tick]!);
  compare('episodeStep', (lane, tick) => tick - startOf(lane, tick));
  compare('final', () => 0);

  const ends = live.filter(({ lane, tick }) => places.finals[lane]![tick] !== null);
  const finals = columnsOf(buffer.read(ends.map(({ lane, tick }) => places.finals[lane]![tick]!)));
  sameRows(
    'read(): obs after',
    finals.obs,
    ends,
    ({ lane, tick }) => history.lane[lane]!.final[tick]!,
  );
  sameRows('read(): final after', finals.final, ends, () => 1);

  for (const [lane, first] of firsts.entries())
    for (let tick = 0; tick < first; tick++) {
      const row = places.row(lane, tick);
      refused(
        `read() of ${rowName(row)}, which is overwritten,`,
        () => buffer.read([row.id]),
        RangeError,
      );
    }
}

/**
 * Compares a column of `width` elements per row with the values that `expected` returns for each
 * row.
 */
export function sameRows<R extends Row>(
  what: string,
  got: Numbers,
  rows: readonly R[],
  expected: (row: R) => number | readonly number[] | undefined,
  { width = 1, tolerance = exactly }: { width?: number; tolerance?: Tolerance } = {},
): void {
  const wanted = rows.flatMap((row) => {
    const of = [expected(row)].flat();
    if (of.length !== width || of.some((each) => typeof each !== 'number'))
      throw new Difference(
        `${what} of ${rowName(row)}: the file has ${JSON.stringify(of)}, ${width} numbers expected`,
      );
    return of as number[];
  });
  const name = (i: number) => {
    const element = width === 1 ? '' : `[${i % width}]`;
    return `${element} of ${rowName(rows[Math.floor(i / width)]!)}`;
  };
  sameList(what, got, wanted, { tolerance, name });
}

interface Viewed {
  buffer: ViewedBuffer;
  view: View;
  places: Places;
}

/**
 * Returns the rows whose columns can be compared. In the history's own ring these are the drawable
 * rows, and it is also checked that only these are drawable. With room for the whole history, these
 * are the drawable rows of `stored`.
 */
export function rowsToCheck(what: string, viewed: Viewed, lanes: readonly Layouts[]): Row[] {
  const { buffer, view, places } = viewed;
  if (!places.roomy)
    return checkDrawable(
      what,
      viewed,
      lanes.map(({ shared }) => shared),
    );
  const ids = new Set(buffer.drawableIds(view));
  return places.rows(lanes.map(({ stored }) => stored)).filter(({ id }) => ids.has(id));
}

/**
 * Checks that the rows of `ticks`, one list per lane, are drawable and no others are. It compares
 * the count and the ordered list, and transitionsAt() must reject every other id.
 */
function checkDrawable(
  what: string,
  { buffer, view, places }: Viewed,
  ticks: readonly (readonly number[])[],
): Row[] {
  const { history } = places;
  const rows = places.rows(ticks);
  const ids = buffer.drawableIds(view);
  for (let i = 0; i < Math.max(ids.length, rows.length); i++) {
    const [got, wanted] = [ids[i], rows[i]];
    const text = got === undefined ? 'missing' : places.named(got);
    same(`${what}: drawable row ${i}`, text, wanted === undefined ? 'none' : rowName(wanted));
  }
  same(`${what}: drawable()`, buffer.drawable(view), rows.length);

  const refuse = (name: string, id: number) =>
    refused(
      `${what}: transitionsAt() of ${name}`,
      () => buffer.transitionsAt({ view, ids: [id] }),
      RangeError,
    );
  for (let lane = 0; lane < history.lanes; lane++) {
    const drawable = new Set(ticks[lane]);
    for (let tick = 0; tick < history.ticks; tick++) {
      const row = places.row(lane, tick);
      if (!drawable.has(tick)) refuse(`${rowName(row)}, which is not drawable,`, row.id);
      const final = places.finals[lane]![tick];
      if (typeof final === 'number') refuse(`the final observation after ${rowName(row)}`, final);
    }
    refuse(`lane ${lane}'s next place`, places.next[lane]!);
  }
  return rows;
}
