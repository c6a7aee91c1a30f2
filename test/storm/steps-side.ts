/**
 * Trajectories and priorities: a pool of collectors, runs and manual ticks in turn, and a
 * checkpoint of all of them.
 */
import {
  type Checkpoint,
  CollectorPool,
  prioritized,
  RateLimiter,
  ReplayPipeline,
  type Tensor,
  TrajectoryBuffer,
  WeightMailbox,
} from '../../src/index.ts';
import { threadsOf } from '../../src/run/collectors/collector-pool.ts';
import { workersOf } from '../pipeline/inside.ts';
import { StormLearner, scalars, TOLD, WEIGHTS } from './learner.ts';
import { bodyOf, type Common, laneCounts, numberOf, prioOf, stepFields } from './numbers.ts';
import { LaneScan } from './oracle.ts';
import {
  floats,
  goneOn,
  lookedAt,
  nameOf,
  RESTARTS,
  ROWS,
  type SideOptions,
  type StormThread,
  saving,
  scanned,
  WeightScan,
} from './side.ts';
import type { Stack } from './stack.ts';

const LANES = 4;
const [ALPHA, EPSILON] = [0.6, 1e-6];

export type StepsSide = Awaited<ReturnType<typeof openSteps>>;

export async function openSteps(options: SideOptions, stack: Stack) {
  const { device, placement, rows, wrong } = options;
  const limiter = RateLimiter.create({
    samplesPerInsert: 32,
    minSize: 400,
    errorBuffer: 8192,
    gateAdd: true,
  });
  const buffer = TrajectoryBuffer.create({
    capacity: LANES * 8192,
    lanes: LANES,
    fields: stepFields,
    limiter,
  });
  const mailbox = WeightMailbox.create({ length: WEIGHTS });
  const learner = stack.use(new StormLearner(device, ROWS));
  const out = stack.use(device.allocate({ shape: [48] }));
  const view = buffer.transitions({ nStep: 2, gamma: 0.5 });
  const sampler = prioritized({ alpha: ALPHA, epsilon: EPSILON });
  const pipeline = stack.use(
    await ReplayPipeline.open({
      buffer,
      view,
      sampler,
      mailbox,
      device: device.name,
      sampleCount: ROWS,
      placement,
      rows,
      ...(placement === 'inline' ? {} : { restart: RESTARTS }),
    }),
  );
  const captured = pipeline.capture(
    (batch, { stream, out: told, priorities }) => {
      learner.update(stream, batch, told);
      stream.copy(priorities!, batch.prio);
    },
    { scalars: scalars(TOLD), weights: learner.weights },
  );
  const parts = { buffer, pipeline, learner, mailbox };
  const { tick, collectors } = await goneOn(options, {
    pipeline,
    learner,
    mailbox,
    parts: { buffer },
  });
  const common: Common = {
    memory: buffer.share().memory,
    offset: buffer.share().offset,
    lanes: LANES,
    words: new Int32Array(new SharedArrayBuffer(4 * (LANES + 2))),
  };
  const counts = laneCounts(common, LANES);
  const pool = stack.use(
    await CollectorPool.open({
      entry: new URL('./collector.js', import.meta.url),
      buffer,
      mailbox,
      workers: 2,
      options: common,
      restart: RESTARTS,
      resume: collectors as never,
    }),
  );
  const checkpoint: Checkpoint = stack.use(
    await saving(options, { ...parts, collectors: pool }, '600 ms'),
  );
  const ticks = scanned(pipeline, wrong);
  const scan = new LaneScan(buffer, counts, wrong);
  const weights = new WeightScan(mailbox, wrong);
  /** lane and number of the steps whose priorities must be in the tree by the end */
  const drawn = new Set<string>();
  pipeline.on('tick', ({ scalars: said }) => {
    const told = said as Readonly<Record<string, number>>;
    if (told.o0 === undefined || Number.isNaN(told.o0)) return;
    if (drawn.size > 200_000) drawn.clear();
    for (let i = 0; i < TOLD; i++)
      drawn.add(`${told[`o${4 * i}`]}/${numberOf(told[`o${4 * i + 1}`]!, told[`o${4 * i + 2}`]!)}`);
  });
  let next = tick + 1;
  const stop = new AbortController();

  /** Makes one manual tick, and checks its rows on the host. */
  async function manually(): Promise<void> {
    ticks.manual(next);
    const batch = await pipeline.sampleLargeBatch(next, ROWS, { signal: stop.signal });
    if (batch === null) return;
    const { body, obs, nextObs, prio, priorities, steps, terminated } = batch;
    learner.update(device.currentStream, batch, out);
    device.currentStream.copy(priorities!, prio);
    const [of, from, to, made, k, over] = await Promise.all(
      [body, obs, nextObs, prio, steps, terminated].map((tensor) => floats(tensor as Tensor)),
    );
    pipeline.afterTick();
    next++;
    for (let row = 0; row < ROWS; row++) {
      const [lane, number] = [from![4 * row]!, numberOf(from![4 * row + 1]!, from![4 * row + 2]!)];
      const behind = numberOf(to![4 * row + 1]!, to![4 * row + 2]!);
      const final = to![4 * row + 3]!;
      const where = `tick ${next - 1}, row ${row}: step ${number} of lane ${lane}`;
      if (of![16 * row] !== bodyOf(lane, number) || made![row] !== prioOf(lane, number))
        wrong(`${where} is torn`);
      if (to![4 * row] !== lane || behind !== number + k![row]! - final)
        wrong(
          `${where} and ${k![row]} more come to ${behind} (final ${final}) of lane ${to![4 * row]}`,
        );
      if (over![row] === 1 && final !== 1) wrong(`${where} is over and goes on`);
    }
    const [updates, torn] = await floats(out);
    if (updates !== next || torn !== 0)
      wrong(`tick ${next - 1} by hand is update ${updates}, torn ${torn}`);
  }

  async function running(): Promise<void> {
    for (let round = 1; !stop.signal.aborted; round++) {
      try {
        for (let i = 0; i < 3; i++) await manually();
      } catch (error) {
        if (stop.signal.aborted) return;
        throw error;
      }
      const ran = await captured.run({
        ticks: 100 + ((round * 37) % 400),
        publishEvery: 1,
        signal: stop.signal,
      });
      next += ran.ticks;
      if (!ran.aborted && weights.newest !== next)
        wrong(`the run ended behind update ${next} and published ${weights.newest}`);
    }
  }

  /**
   * Checks the leaves of all drawable steps. If a step's priority was sent back, its leaf must have
   * exactly that priority. Any other step's leaf must have a priority that some step can have.
   */
  function lookAtLeaves(): void {
    const { leaves } = sampler.inspect();
    const ids = buffer.drawableIds(view);
    const { obs } = buffer.transitionsAt({ view, ids });
    const may = new Set(
      Array.from({ length: 13 }, (_, i) => i + 1).map((p) => (p + EPSILON) ** ALPHA),
    );
    may.add((1 + EPSILON) ** ALPHA);
    for (const [i, id] of ids.entries()) {
      const lane = id % LANES;
      const leaf =
        leaves[lane * buffer.laneCapacity + (Math.floor(id / LANES) % buffer.laneCapacity)]!;
      const number = numberOf(obs[4 * i + 1]!, obs[4 * i + 2]!);
      const home = (prioOf(lane, number) + EPSILON) ** ALPHA;
      const close = (value: number) => Math.abs(leaf - value) < 1e-6;
      if (drawn.has(`${lane}/${number}`) ? !close(home) : ![...may].some(close))
        wrong(
          `step ${number} of lane ${lane} has leaf ${leaf}, its priority ${prioOf(lane, number)} makes ${home}`,
        );
    }
  }

  return {
    name: 'steps' as const,
    tick,
    pipeline,
    pool,
    checkpoint,
    stop,
    running: lookedAt(running()),
    threads: (): StormThread[] =>
      [...workersOf(pipeline), ...threadsOf(pool)].filter((each) => each !== undefined),
    nameOf: (thread: StormThread) =>
      nameOf(thread, { actor: workersOf(pipeline), collector: threadsOf(pool) }),
    facts: () => ({
      ticks: ticks.told,
      missed: ticks.missed,
      rows: scan.seen,
      passed: scan.passed,
      drawn: drawn.size,
    }),
    look(): void {
      scan.look();
      weights.look();
      for (let lane = 0; lane < LANES; lane++) {
        const confirmed = Atomics.load(common.words, lane);
        const has = counts.steps(lane);
        if (has < confirmed) wrong(`lane ${lane} lost steps: it has ${has} of ${confirmed}`);
      }
      if (common.words[LANES] !== 0) wrong('a collector was given torn weights');
      if (common.words[LANES + 1] !== 0) wrong('a collector was given weights that went back');
    },
    /** Checks at the end, when everything is at rest and saved, that nothing is missing. */
    async last(): Promise<void> {
      scan.look(true);
      const updates = await learner.updates();
      if (updates !== next) wrong(`${next} ticks made ${updates} updates`);
      if (limiter.inserts !== buffer.ptr)
        wrong(`the limiter counts ${limiter.inserts} steps of ${buffer.ptr}`);
      const pending = pipeline.inspect().slots.some(({ state }) => state !== 'Free') ? 1 : 0;
      const ahead = limiter.samples / ROWS - next;
      if (ahead !== 0 && ahead !== pending)
        wrong(`the limiter counts ${limiter.samples} rows of ${next} ticks`);
    },
    lookAtLeaves,
  };
}
