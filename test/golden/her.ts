/**
 * Cases of the section `her`: goals that later steps have achieved, the rewards with these goals,
 * and the columns that stay unchanged.
 */
import { goalReward, hindsight, TrajectoryBuffer } from '../../src/index.ts';
import { columnsOf, Difference, same } from './differences.ts';
import {
  capacityOf,
  finalObsAt,
  flagsAt,
  type History,
  inBoth,
  type Layouts,
  obsAt,
  type Places,
  type Row,
  rowsToCheck,
  sameRows,
} from './histories.ts';

type Goal = [number, number];
const strategies = ['future', 'final', 'episode'] as const;
type Strategy = (typeof strategies)[number];

interface HerRow {
  row: number;
  /** first and last tick of the row's episode */
  start: number;
  end: number;
  terminated: number;
  truncated: number;
  done: number;
  /** the reward with the desired goal */
  reward: number;
  /**
   * for each strategy: rewards with the goals of the steps that it allows, in order; null if the
   * episode is incomplete
   */
  future: number[];
  final: number;
  episode: number[] | null;
}

interface HerLane {
  achieved: Goal[];
  nextAchieved: Goal[];
  desired: Goal[];
  drawable: { whole: Layouts; ended: Layouts };
  rows: HerRow[];
}

interface HerSample {
  lane: number;
  row: number;
  strategy: Strategy;
  /** the step whose achieved goal replaces the row's goal */
  step: number;
  obs: number;
  next: number;
  achieved: Goal;
  nextAchieved: Goal;
  goal: Goal;
  reward: number;
  done: number;
}

export interface HerCase {
  history: string;
  threshold: number;
  lanes: HerLane[];
  samples: HerSample[];
}

/**
 * A row, the id of the step whose goal it gets (−1: it keeps its own), and the file's values for
 * it.
 */
interface Relabelled extends Row {
  goalId: number;
  goal: Goal;
  reward: number;
  done: number;
}

const across = (golden: HerCase, of: (lane: HerLane) => Goal): Float32Array =>
  Float32Array.from(golden.lanes.flatMap(of));

function create(places: Places) {
  const goal = { shape: [2], dtype: 'float32', observation: true } as const;
  return TrajectoryBuffer.create({
    capacity: capacityOf(places),
    lanes: places.history.lanes,
    // The field is not called `achieved`: its next value would be `nextAchieved`, a column that the
    // view adds.
    fields: { obs: { shape: [], dtype: 'float64', observation: true }, reached: goal, goal },
  });
}

/** Returns the steps whose goals a strategy allows, each with its reward. */
function admissible(
  { row, start, end, future, final, episode }: HerRow,
  strategy: Strategy,
): [number, number][] {
  if (strategy === 'final') return [[end, final]];
  const from = strategy === 'future' ? row : start;
  const rewards = strategy === 'future' ? future : (episode ?? []);
  same(`row ${row}: the number of its rewards for '${strategy}'`, rewards.length, end - from + 1);
  return rewards.map((reward, i) => [from + i, reward]);
}

export function checkHer(golden: HerCase, history: History): void {
  for (const { strategy } of golden.samples)
    if (!strategies.includes(strategy))
      throw new Difference(`the file has a sample of the strategy '${strategy}'`);
  inBoth(history, (places) => {
    using buffer = create(places);
    using writer = buffer.writer({ firstLane: 0, lanes: history.lanes });
    for (let t = 0; t < history.ticks; t++) {
      const goal = across(golden, ({ desired }) => desired[t]!);
      const step = {
        obs: obsAt(history, t),
        finalObs: finalObsAt(history, t),
        reached: across(golden, ({ achieved }) => achieved[t]!),
        finalReached: across(golden, ({ nextAchieved }) => nextAchieved[t]!),
        goal,
        finalGoal: goal,
        ...flagsAt(history, t),
      };
      same(`add() of tick ${t}`, writer.add(step), history.lanes);
    }
    for (const strategy of strategies) checkStrategy(golden, buffer, places, strategy);
  });
}

function checkStrategy(
  golden: HerCase,
  buffer: ReturnType<typeof create>,
  places: Places,
  strategy: Strategy,
): void {
  const { history } = places;
  const relabel = hindsight({ goal: 'goal', achieved: 'reached', strategy, ratio: 0.8 });
  const view = buffer.transitions({ nStep: 1, gamma: 0.99, relabel });
  const layouts = golden.lanes.map(
    ({ drawable }) => drawable[strategy === 'episode' ? 'whole' : 'ended'],
  );
  const rows = rowsToCheck(strategy, { buffer, view, places }, layouts);
  const said = rows.map((row) => ({ ...row, says: saysOf(golden, history, row) }));

  const own = said.map(({ says, ...row }): Relabelled => {
    const goal = golden.lanes[row.lane]!.desired[row.tick]!;
    return { ...row, goalId: -1, goal, reward: says.reward, done: says.done };
  });
  const each = said.flatMap(({ says, ...row }) =>
    admissible(says, strategy).map(([step, reward]): Relabelled => {
      const goal = golden.lanes[row.lane]!.nextAchieved[step]!;
      return { ...row, goalId: places.row(row.lane, step).id, goal, reward, done: says.done };
    }),
  );
  const ids = new Set(rows.map(({ id }) => id));
  const samples = golden.samples
    .map((of) => ({
      ...places.row(of.lane, of.row),
      goalId: places.row(of.lane, of.step).id,
      goal: of.goal,
      reward: of.reward,
      done: of.done,
      of,
    }))
    .filter(({ id, of }) => of.strategy === strategy && ids.has(id));

  const examined = (what: string, list: Relabelled[]) => {
    const goalIds = list.map(({ goalId }) => goalId);
    const sample = buffer.transitionsAt({ view, ids: list.map(({ id }) => id), goalIds });
    const got = columnsOf(sample);
    const lane = (row: Row) => golden.lanes[row.lane]!;
    const compare = (
      name: string,
      of: (row: Relabelled) => number | number[] | undefined,
      width = 1,
    ) => sameRows(`${strategy}, ${what}: ${name}`, got[name], list, of, { width });
    compare('ids', ({ id }) => id);
    compare('obs', (row) => history.lane[row.lane]!.obs[row.tick]);
    compare('reached', (row) => lane(row).achieved[row.tick], 2);
    compare('nextReached', (row) => lane(row).nextAchieved[row.tick], 2);
    compare('nextAchieved', (row) => lane(row).nextAchieved[row.tick], 2);
    compare('goal', ({ goal }) => goal, 2);
    compare('nextGoal', ({ goal }) => goal, 2);
    compare('relabelled', ({ goalId }) => (goalId < 0 ? 0 : 1));
    compare('terminated', ({ done }) => done);
    compare('truncated', (row) => history.lane[row.lane]!.truncated[row.tick]);
    const rewards = rewardsOf(sample, golden.threshold);
    sameRows(`${strategy}, ${what}: goalReward()`, rewards, list, ({ reward }) => reward);
    return got;
  };
  examined('own goals', own);
  examined('goals of its steps', each);
  const got = examined('samples', samples);
  const drawn = (name: string, of: (sample: HerSample) => number | number[], width = 1) =>
    sameRows(`${strategy}, samples: ${name}`, got[name], samples, (row) => of(row.of), { width });
  drawn('obs', ({ obs }) => obs);
  drawn('nextObs', ({ next }) => next);
  drawn('reached', ({ achieved }) => achieved, 2);
  drawn('nextReached', ({ nextAchieved }) => nextAchieved, 2);
}

/** Returns the file's values for a row. Throws if they contradict the history. */
function saysOf(golden: HerCase, history: History, { lane, tick }: Row): HerRow {
  const says = golden.lanes[lane]!.rows.find(({ row }) => row === tick);
  if (says === undefined)
    throw new Difference(`the file has no rewards of lane ${lane}, row ${tick}`);
  const of = history.lane[lane]!;
  const [start, end] = of.episodes.find(([first, last]) => first <= tick && tick <= last) ?? [];
  const what = `the file's row ${tick} of lane ${lane}`;
  same(`${what}: start`, says.start, start);
  same(`${what}: end`, says.end, end);
  same(`${what}: terminated`, says.terminated, of.terminated[tick]);
  same(`${what}: truncated`, says.truncated, of.truncated[tick]);
  return says;
}

function rewardsOf(sample: object, threshold: number): Float32Array {
  const { nextAchieved, goal, steps } = sample as Record<'nextAchieved' | 'goal', Float32Array> & {
    steps: Int32Array;
  };
  return goalReward({ achieved: nextAchieved, goal, steps, n: 1, dims: 2, gamma: 0.99, threshold });
}
