/** Loads episodes of a data set into the lanes of a trajectory buffer. */

import type { ArrayOf, DType } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import { noteActions } from '../../base/loaded-actions.ts';
import type { RateLimiter } from '../rate-limiter.ts';
import { actionCheck } from '../rows/action-check.ts';
import {
  type Column,
  checkAdmitted,
  DataSet,
  gated,
  type LoadOptions,
  pause,
} from '../rows/data-set.ts';
import type { NonFiniteNumbers } from '../rows/field-roles.ts';
import {
  finalKey,
  nextKey,
  type StepField,
  type StepLayout,
  type Steps,
  shownStep,
} from './schema.ts';
import type { TrajectoryWriter } from './trajectory-writer.ts';

/** The members of TrajectoryBuffer that load() uses. */
interface Lanes {
  readonly lanes: number;
  readonly laneCapacity: number;
  readonly layout: StepLayout;
  readonly limiter: RateLimiter | null;
  share(): { readonly nonFinite: NonFiniteNumbers };
  writer(options: { firstLane: number; lanes: 1 }): TrajectoryWriter;
}

/** Steps of one episode in the file: the rows from `from` to before `to`. */
interface Episode {
  from: number;
  /** row after the last step that is added */
  to: number;
  ended: 'terminated' | 'truncated' | 'no';
  /** both flags of the episode's last step, as the file has them */
  flags: readonly [terminated: number, truncated: number];
  /**
   * number of episodes before this one that end in the file. It is the index of this episode's row
   * in the columns of final observations
   */
  end: number;
  lane: number;
}

interface Columns {
  readonly fields: readonly {
    field: StepField;
    now: Column;
    final: Column | undefined;
    next: Column | undefined;
  }[];
  readonly rewards: Column;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  readonly lane: ArrayOf<DType> | undefined;
  readonly episodeStep: ArrayOf<DType> | undefined;
  /**
   * whether the file has neither final nor next observations for a field. The observation of a
   * truncated episode's last step then becomes its final observation
   */
  readonly cut: boolean;
}

/** D4RL's column names, by field. */
const others: Readonly<Record<string, string>> = {
  obs: 'observations',
  nextObs: 'next_observations',
};
/** Number of steps that are read from the columns at once. */
const CHUNK = 1024;

const own = (key: string, dtype: DType) => ({ key, dtype, shape: [] });

/** Implements TrajectoryBuffer.load(). */
export async function loadSteps(
  buffer: Lanes,
  given: unknown,
  options: LoadOptions,
): Promise<number> {
  const fields = buffer.layout.fields.map(shownStep);
  const made = fields
    .filter(({ observation }) => observation)
    .flatMap(({ key }) => [finalKey(key), nextKey(key)]);
  const flags = [
    'rewards',
    'terminated',
    'truncated',
    'terminals',
    'timeouts',
    'lane',
    'episodeStep',
  ];
  const data = await DataSet.of(given, options, [
    ...fields.map(({ key }) => key),
    ...made,
    ...flags,
  ]);
  const columns = columnsOf(data, fields);
  const span = data.span(options);
  const episodes = episodesOf(columns, span);
  place(buffer, columns, episodes);
  checkColumns(buffer, columns, span);
  checkActions(buffer, options, columns, span);
  const count = episodes.reduce((steps, { from, to }) => steps + to - from, 0);
  checkAdmitted(buffer.limiter, count);
  return write(buffer, columns, episodes, count);
}

/**
 * Throws if a field's dtype cannot hold a value, or if a writer would reject the value. load()
 * calls this function before it adds the first step.
 */
function checkColumns(
  buffer: Lanes,
  columns: Columns,
  { from, to }: { from: number; to: number },
): void {
  const { terminated, truncated, fields, rewards } = columns;
  const checks = buffer.share().nonFinite === 'refuse';
  const always = () => true;
  rewards.check(from, to, checks ? always : undefined);
  const ended = terminated.map((flag, row) => flag | truncated[row]!);
  const ends = Array.from(ended.keys()).filter((row) => ended[row] === 1);
  for (const { field, now, next, final } of fields) {
    const checked = checks && (field.observation || field.key === 'actions');
    now.check(from, to, checked ? always : undefined);
    // Next observations are read only at the end of an episode. A non-finite one is stored as 0 if
    // the episode terminated, so it passes this check.
    next?.check(from, to, checked ? (row) => ended[row] === 1 && terminated[row] === 0 : undefined);
    final?.check(
      0,
      final.rows,
      checked ? (end) => terminated[ends[end] as number] === 0 : undefined,
    );
  }
}

function checkActions(
  buffer: Lanes,
  { actionSpace }: LoadOptions,
  columns: Columns,
  { from, to }: { from: number; to: number },
): void {
  const found = columns.fields.find(({ field }) => field.key === 'actions');
  const fields = columns.fields.map(({ field }) => field);
  const check = actionCheck(actionSpace, fields) ?? noteActions(buffer);
  if (!found) return;
  for (let at = from; at < to; at += CHUNK)
    check(
      found.now.take(at, Math.min(at + CHUNK, to)),
      found.field.elements,
      (row) => `row ${at + row}`,
    );
}

function columnsOf(data: DataSet, fields: readonly StepField[]): Columns {
  const now = fields.map((field) => data.need(field, others[field.key]));
  const rewards = data.need(own('rewards', 'float32'));
  const whole = (column: Column) => column.take(0, column.rows) as Uint8Array;
  const terminated = whole(data.need(own('terminated', 'bool'), 'terminals'));
  const truncated = data.ask(own('truncated', 'bool'));
  // D4RL also sets `timeouts` at steps that terminated. These steps do not count as truncated.
  const cut = truncated
    ? whole(truncated)
    : whole(data.need(own('timeouts', 'bool'))).map((out, i) => out & ~terminated[i]! & 1);
  const ends = terminated.reduce((all, flag, i) => all + (flag | cut[i]!), 0);
  const each = fields.map((field, f) => {
    const named = (key: string) => ({ ...field, key });
    const final = field.observation ? data.find(named(finalKey(field.key))) : undefined;
    if (final && final.rows !== ends)
      throw rangeError(
        `load: column '${final.name}' must have a row for each of the ${ends} episodes that end, but it has ${final.rows}`,
      );
    const next =
      field.observation && !final
        ? data.ask(named(nextKey(field.key)), others[nextKey(field.key)])
        : undefined;
    return { field, now: now[f]!, final, next };
  });
  const number = (key: string) => {
    const column = data.ask(own(key, 'uint32'));
    return column?.take(0, column.rows);
  };
  return {
    fields: each,
    rewards,
    terminated,
    truncated: cut,
    lane: number('lane'),
    episodeStep: number('episodeStep'),
    cut: each.some(({ field, final, next }) => field.observation && !final && !next),
  };
}

/**
 * Splits rows into episodes. A new episode begins after the end of the previous one, at another
 * lane, or at a step that does not follow the previous step.
 */
function episodesOf(columns: Columns, { from, to }: { from: number; to: number }): Episode[] {
  const { terminated, truncated, lane, episodeStep, cut } = columns;
  const episodes: Episode[] = [];
  let end = 0;
  for (let i = 0; i < from; i++) end += terminated[i]! | truncated[i]!;
  let open: Episode | null = null;
  for (let i = from; i < to; i++) {
    const follows =
      open !== null &&
      lane?.[i] === lane?.[i - 1] &&
      (!episodeStep || episodeStep[i] === Number(episodeStep[i - 1]) + 1);
    if (!follows) {
      open = { from: i, to: i, end, lane: Number(lane?.[i] ?? -1), ended: 'no', flags: [0, 0] };
      episodes.push(open);
    }
    const episode = open as Episode;
    episode.to = i + 1;
    if (!(terminated[i]! | truncated[i]!)) continue;
    episode.ended = terminated[i] ? 'terminated' : 'truncated';
    episode.flags = [terminated[i]!, truncated[i]!];
    end++;
    open = null;
  }
  if (!cut) return episodes;
  // The file has no observation after the last step of a truncated episode. So that step's own
  // observation becomes the final observation, and the step is dropped.
  for (const episode of episodes) if (episode.ended === 'truncated') episode.to--;
  return episodes.filter((episode) => episode.to > episode.from);
}

/**
 * Assigns each episode its lane of the file, or else the lane with the fewest places used so far.
 * Throws if a lane has too few places.
 */
function place(buffer: Lanes, { lane }: Columns, episodes: readonly Episode[]): void {
  const used = new Float64Array(buffer.lanes);
  for (const episode of episodes) {
    if (lane === undefined)
      episode.lane = used.indexOf(used.reduce((least, each) => Math.min(least, each)));
    else if (episode.lane >= buffer.lanes)
      throw rangeError(
        `load: row ${episode.from} is of lane ${episode.lane}, and the buffer has ${buffer.lanes} lanes`,
      );
    used[episode.lane]! += episode.to - episode.from + (episode.ended === 'no' ? 0 : 1);
  }
  const over = used.findIndex((places) => places > buffer.laneCapacity);
  if (over >= 0)
    throw rangeError(
      `load: steps and final observations need ${used[over]} places of lane ${over}, and a lane has ${buffer.laneCapacity}: ` +
        `pick some with rows: { from, to }, or make the buffer larger: a capacity of ${Math.max(...used) * buffer.lanes} is enough`,
    );
}

async function write(
  buffer: Lanes,
  columns: Columns,
  episodes: readonly Episode[],
  count: number,
): Promise<number> {
  const writers = new Map<number, TrajectoryWriter>();
  let added = 0;
  try {
    // Opens all writers before the first step, so that a lane with a writer throws before any step
    // is added.
    for (const { lane } of episodes)
      if (!writers.has(lane)) writers.set(lane, buffer.writer({ firstLane: lane, lanes: 1 }));
    for (const episode of episodes) {
      for (let at = episode.from; at < episode.to; at += CHUNK) {
        const to = Math.min(at + CHUNK, episode.to);
        for (const steps of stepsOf(columns, episode, at, to)) {
          if (writers.get(episode.lane)!.add(steps) === 0)
            throw gated(
              buffer.limiter?.addWaitingFor(1) ?? 'others add too',
              `${added} of ${count} steps were added`,
            );
          added++;
        }
        await pause();
      }
      if (episode.ended !== 'no') continue;
      // The episode has no end in the file. A new writer begins another episode with its first
      // step, so the lane's next steps do not continue this one.
      writers.get(episode.lane)!.close();
      writers.set(episode.lane, buffer.writer({ firstLane: episode.lane, lanes: 1 }));
    }
    return added;
  } finally {
    for (const writer of writers.values()) writer.close();
  }
}

/**
 * Yields the steps from `from` to before `to` of an episode, one at a time. Their form is that of
 * add() for a writer with one lane.
 */
function* stepsOf(columns: Columns, episode: Episode, from: number, to: number): Generator<Steps> {
  const { fields } = columns;
  const now = fields.map(({ now: column }) => column.take(from, to));
  const rewards = columns.rewards.take(from, to) as Float32Array;
  const none = Uint8Array.of(0);
  for (let i = from; i < to; i++) {
    const last = i + 1 === episode.to && episode.ended !== 'no';
    const step: Record<string, unknown> = {
      rewards: rewards.subarray(i - from, i - from + 1),
      terminated: last ? Uint8Array.of(episode.flags[0]) : none,
      truncated: last ? Uint8Array.of(episode.flags[1]) : none,
    };
    fields.forEach(({ field: { key, elements, observation } }, f) => {
      step[key] = now[f]!.subarray((i - from) * elements, (i - from + 1) * elements);
      if (last && observation) step[finalKey(key)] = finalOf(columns, f, episode, i);
    });
    yield step;
  }
}

/** Returns the observation after step `i`, which is the last step of its episode. */
function finalOf(
  { fields, cut }: Columns,
  f: number,
  { end, ended }: Episode,
  i: number,
): ArrayOf<DType> {
  const { now, next, final } = fields[f]!;
  // The file may have no observation after a step that terminated. Learners do not bootstrap there
  // and do not use the final observation. So it may be the step's own.
  if (cut)
    return ended === 'truncated'
      ? now.take(i + 1, i + 2)
      : (final?.take(end, end + 1) ?? now.take(i, i + 1));
  return final ? final.take(end, end + 1) : next!.take(i, i + 1);
}
