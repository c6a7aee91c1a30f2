/**
 * A rig that runs two learners of a group in a stepped world, stops them at given points, and
 * checks their state afterwards.
 */
import { expect } from 'chai';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { RateLimiter, ReplayBuffer } from '../../src/index.ts';
import { closeAll, rows, SAMPLE } from '../pipeline/fixture.ts';
import { closeGroups, join, learner, read } from '../ranks/learners.ts';
import { World } from './stepped-world.ts';

export const stops = ['abort', 'hold', 'close', 'fail', 'leave'] as const;
export type Stop = (typeof stops)[number];
export interface Planned {
  readonly stop: Stop;
  readonly rank: 0 | 1;
  readonly at: number;
}
/**
 * Two ranks, depth 2, up to three ticks, parameters averaged after every tick or every second tick.
 */
export interface Case {
  readonly ticks: readonly [number, number];
  readonly every: 1 | 2;
  /** whether rank 1 has no rows until rank 0 has ended */
  readonly starved?: true;
}

export interface How {
  readonly random?: () => number;
  readonly everywhere?: boolean;
  readonly breaks?: (world: World) => void;
}

type Outcome = { ended?: unknown; ticks?: number; error?: Error };

/** Two learners in one world. */
interface Table {
  readonly of: Case;
  readonly world: World;
  readonly limiters: readonly RateLimiter[];
  readonly learners: readonly Awaited<ReturnType<typeof learner>>[];
  readonly buffers: readonly ReplayBuffer[];
}

async function lay(of: Case, breaks?: (world: World) => void): Promise<Table> {
  const world = new World();
  if (breaks) world.hurry();
  breaks?.(world);
  const limiters = [0, 1].map(() =>
    RateLimiter.create({ samplesPerInsert: 1000, minSize: 4, errorBuffer: 1e12 }),
  );
  const groups = await join(2);
  const buffers = limiters.map((limiter) =>
    ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1, limiter }),
  );
  const learners = await Promise.all(
    groups.map((group, rank) => {
      const buffer = buffers[rank]!;
      if (!of.starved || rank === 0) buffer.add(rows(32));
      const placement = [['pack'], ['submit', 'poll', 'replay']] as const;
      return learner(group, of.every, { depth: 2, journal: 64, buffer, placement });
    }),
  );
  for (const { made } of learners) made.on('error', () => {});
  return { of, world, limiters, learners, buffers };
}

/**
 * The learners of the last case, if its stops ended nothing for good. The next case runs them
 * again.
 */
let laid: Table | null = null;

async function clear({ world, learners }: Table): Promise<void> {
  laid = null;
  try {
    await settle(
      { world, learners },
      'closing',
      learners.map(({ made }) => made.close()),
    );
    await closeAll();
  } finally {
    closeGroups();
    world[Symbol.dispose]();
  }
}
/** Closes the learners after the last case. */
export async function clearUp(): Promise<void> {
  if (laid !== null) await clear(laid);
}

async function settle<T>(
  { world, learners }: Pick<Table, 'world' | 'learners'>,
  what: string,
  promises: readonly Promise<T>[],
): Promise<PromiseSettledResult<T>[]> {
  let over = false;
  const all = Promise.allSettled(promises).finally(() => {
    over = true;
  });
  const state = () => JSON.stringify(learners.map(({ made }) => made.inspect()));
  await world.until(what, () => over, state);
  return all;
}

/**
 * Runs the case with these stops and throws what is wrong. Returns the number of points. A stop
 * planned for a later point did not happen. `breaks` injects faults into the world.
 */
export async function play(of: Case, planned: readonly Planned[], how: How = {}): Promise<number> {
  try {
    return await played(of, planned, how);
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`${JSON.stringify(planned)} in ${JSON.stringify(of)}: ${message}`, {
      cause: error,
    });
  }
}

async function played(
  of: Case,
  planned: readonly Planned[],
  { breaks, ...order }: How,
): Promise<number> {
  if (laid !== null && (laid.of !== of || breaks)) await clear(laid);
  const table = laid ?? (await lay(of, breaks));
  laid = null;
  const { ticks, every } = of;
  const { world, limiters, learners, buffers } = table;
  const rings = learners.map(({ made }) => internalsOf(made).parts.ring);
  const aborts = learners.map(() => new AbortController());
  const done: Promise<unknown>[] = [];
  const came = new Set<Stop>();
  /** of each rank: how many ticks had finished before, and the most that may be finished after */
  const first = rings.map((ring) => ring.finished);
  const most = ticks.map((each, rank) => first[rank]! + each);
  const act = ({ stop, rank }: Planned) => {
    const { made, group } = learners[rank]!;
    came.add(stop);
    if (stop === 'abort') aborts[rank]!.abort();
    else if (stop === 'close') done.push(made.close());
    else if (stop === 'leave') group.close();
    else if (stop === 'fail')
      rings[rank]!.fail({ role: 'opener', slot: -1, tick: -1, error: new Error('out of eggs') });
    else {
      const held = internalsOf(made).control.use(
        async () => {
          // The other threads run meanwhile.
          for (let turn = 0; turn < 3; turn++) {
            expect(rings[rank]!.idle, 'no slot is in use while a save holds the run').to.equal(
              true,
            );
            await new Promise(setImmediate);
          }
        },
        { patient: null },
      );
      // If the pipeline closes or fails meanwhile, the save rejects.
      done.push(came.has('close') || came.has('fail') ? held.catch(() => {}) : held);
      held.catch(() => {});
    }
    if (stop === 'abort' || stop === 'close' || stop === 'fail')
      most[rank] = Math.min(most[rank]!, rings[rank]!.next);
  };
  const outcomes: Outcome[] = [{}, {}];
  try {
    world.plan(
      planned.map((each) => ({ at: each.at, act: () => act(each) })),
      order,
    );
    const runs = learners.map(async ({ made }, rank) => {
      try {
        outcomes[rank] = await made.run({ ticks: ticks[rank]!, signal: aborts[rank]!.signal });
      } catch (error) {
        outcomes[rank] = { error: error as Error };
      }
    });
    if (of.starved) {
      await settle(table, 'the end of the run that waits for a starved one', [runs[0]!]);
      buffers[1]!.add(rows(32));
    }
    await settle(table, 'the end of both runs', runs);
    const { points } = world;
    for (const each of await settle(table, 'the end of what stopped them', done))
      if (each.status === 'rejected' && !came.has('close') && !came.has('fail')) throw each.reason;
    check(outcomes, rings, first, most, came);
    if (came.has('close') || came.has('fail') || came.has('leave')) return points;
    for (const [rank, limiter] of limiters.entries())
      expect(limiter.samples, `rank ${rank}: rows that the limiter counts`).to.equal(
        rings[rank]!.finished * SAMPLE,
      );
    // Both learners can run again, and a run up to the next mean makes them equal. Each learner
    // counts its ticks from its latest mean. If both were stopped between two means, one may reach
    // the next mean first. The learner that finishes first ends the run of both.
    const isAlike = every === 1 || planned.length === 1;
    const again = await settle(
      table,
      'the end of the runs behind',
      learners.map(async ({ made }, rank) => {
        const { ended, ticks: applied } = await made.run({ ticks: every });
        if (isAlike || ended === 'ticks')
          expect({ ended, applied }).to.deep.equal({ ended: 'ticks', applied: every });
        else expect(ended).to.deep.equal({ rank: 1 - rank, why: 'ticks' });
      }),
    );
    for (const each of again) if (each.status === 'rejected') throw each.reason;
    if (every === 1) {
      const [x, y] = await read(learners);
      expect(x, 'parameters after the next mean').to.deep.equal(y);
    }
    if (!breaks && !of.starved) laid = table;
    return points;
  } finally {
    if (laid === null) {
      await settle(table, 'what stopped them', done);
      await clear(table);
    }
  }
}

function check(
  outcomes: Outcome[],
  rings: readonly { finished: number; idle: boolean }[],
  first: readonly number[],
  most: readonly number[],
  came: Set<Stop>,
): void {
  const said = JSON.stringify(
    outcomes.map(({ ended, ticks, error }) => ({ ended, ticks, error: error?.message })),
  );
  for (const [rank, { ended, ticks, error }] of outcomes.entries()) {
    expect(rings[rank]!.finished, `rank ${rank}: ticks that were applied; ${said}`).to.be.at.most(
      most[rank]!,
    );
    if (error) {
      expect(
        [...came].some((stop) => stop === 'close' || stop === 'fail' || stop === 'leave'),
        error.stack,
      ).to.equal(true);
      continue;
    }
    expect(rings[rank]!.idle, `rank ${rank}: no slot is in use after its run`).to.equal(true);
    expect(rings[rank]!.finished, `rank ${rank}: ticks of its run`).to.equal(first[rank]! + ticks!);
    if (typeof ended === 'string') continue;
    const by = ended as { rank: number; why: string };
    const other = outcomes[by.rank]!;
    expect(by.rank, said).to.equal(1 - rank);
    if (!other.error && by.why !== 'stopped') expect(other.ended, said).to.equal(by.why);
  }
  if (came.size === 0)
    expect(
      outcomes.every(({ ended }) => ended !== undefined),
      said,
    ).to.equal(true);
}
