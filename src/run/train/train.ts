/**
 * Trains from an environment's module to a curve of evaluations. It opens buffer, learner, pipeline
 * and collectors, runs them in parallel, evaluates, and closes them. examples/cartpole-dqn shows a
 * longer training loop in full.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { callAfter } from '../../base/clock.ts';
import { Random } from '../../base/random.ts';
import { ReplayPipeline } from '../../engine/pipeline/replay-pipeline.ts';
import { Deadline, orAborted } from '../../shm/wait.ts';
import type { TrajectoryBuffer } from '../../store/lanes/trajectory-buffer.ts';
import { prioritized } from '../../store/prioritized.ts';
import { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import { WeightMailbox } from '../../store/weights/weight-mailbox.ts';
import { CollectorPool } from '../collectors/collector-pool.ts';
import type { EnvironmentSet } from '../environments/environment-set.ts';
import { givesMasks } from '../environments/gives-masks.ts';
import { environmentMaker } from '../environments/load-environment.ts';
import { Best, savePolicy } from './evaluated-weights.ts';
import { Evaluator, openEvaluated } from './evaluator.ts';
import type { OpenLearner } from './learner-plan.ts';
import { showProgress } from './live-display.ts';
import { LockStepCollectors, ticksDue } from './lock-step.ts';
import { ObservationRows } from './observation-rows.ts';
import {
  type AnyTrainOptions,
  checkedTrain,
  type OwnTrainOptions,
  type TrainOptions,
} from './options.ts';
import {
  type ChosenPolicy,
  isOwnLearner,
  type PolicyChoice,
  PriorityWatch,
} from './own-learner.ts';
import {
  bufferOf,
  collectorOptions,
  limiterOf,
  openLearner,
  type TrainPlan,
  trainPlan,
  viewOf,
} from './plan.ts';
import {
  type CurvePoint,
  liveLines,
  plainLine,
  type TrainCollectors,
  type TrainProgress,
  type TrainResult,
} from './progress.ts';
import {
  type Resumption,
  resumptionOf,
  type Solved,
  TrainCheckpoint,
  type TrainCounts,
} from './resume.ts';

const COLLECTOR = new URL('./collector.js', import.meta.url);
/** Milliseconds between two looks at the progress, at which an evaluation may be due. */
const LOOK_MS = 20;
/**
 * Stream of `seed` from which the seed of the sampling of rows is drawn. No other draw uses this
 * stream.
 */
const STREAM = 2 ** 20 + 2;
/** Share of `seconds` that the last evaluation may take in addition. */
const LAST_LOOK = 0.1;
/** Weight of a new tick in the smoothed scalars. */
const SMOOTHING = 0.02;
/**
 * The first beta. It grows to 1 during the training, so that importance weights count more and
 * more.
 */
const FIRST_BETA = 0.4;

/**
 * Trains a learner of the caller, which acts by `policy`.
 *
 * @param options `environment`, `learner` and `policy`. The other options have defaults
 * @returns the results, whose policies are MlpPolicy for `policy: { network }`
 * @throws as train() of a built-in learner, and the errors of the learner and of the policy's module
 * @example
 * const { best } = await train({
 *   environment: new URL('./target.mjs', import.meta.url),
 *   learner: ({ device, obsDim }) => new QrDqnLearner(device, { obsDim, actions: 2, … }),
 *   policy: { network: 'q' },
 * });
 */
export function train<const C extends PolicyChoice>(
  options: OwnTrainOptions<C>,
): Promise<TrainResult<ChosenPolicy<C>>>;
/**
 * Trains a learner on an environment until the goal is reached, `steps` or `seconds` are over, or
 * the signal aborts. It opens buffer, learner, pipeline and collectors, and evaluates the newest
 * weights regularly. At the end it closes everything, also after a failure. If an evaluation is
 * under way at the end, it is stopped and adds no point to the curve. The last evaluation may take
 * a tenth of `seconds` more.
 *
 * @param options `environment` and `learner`. The other options have defaults
 * @returns the results, or the results so far if the signal aborted
 * @throws {TypeError|RangeError} for an invalid option, and for a learner or a checkpoint that does
 *   not fit the environment or the options
 * @throws {ERR_HOTSLOT_UNAVAILABLE} if this machine cannot drive the device, or the folder of
 *   `dump` cannot be written
 * @throws {ERR_HOTSLOT_THREAD_LOST} if a collector, its environment or its policy fails, with the
 *   error as `cause`. If `deterministic` is true, the error itself
 * @throws {PipelineError} if an actor fails
 * @throws the errors of the environment's module, of an environment in an evaluation, and of
 *   `evaluation.evaluate`, `onPoint` and `onOpen`
 * @example
 * const { solved, policy } = await train({
 *   environment: new URL('./target.mjs', import.meta.url),
 *   learner: { algorithm: 'sac' },
 *   steps: 20_000,
 * });
 */
export function train(options: TrainOptions): Promise<TrainResult>;
export async function train(options: AnyTrainOptions): Promise<unknown> {
  const resumption = await resumptionOf(checkedTrain(options));
  const given = resumption.options;
  const make = await environmentMaker(given.environment.href);
  const evaluated = await openEvaluated(make, given);
  try {
    const { spaces } = evaluated;
    // Options and spaces that do not fit are found before an environment is reset.
    if (!isOwnLearner(given.learner)) trainPlan(given, spaces);
    const masked = await masksOf(evaluated, given.signal);
    using own = await openLearner(given, spaces, masked);
    const plan = trainPlan(given, spaces, { own: own?.plan ?? null, masked });
    const training = new Training(plan, evaluated, resumption);
    const running = training.run();
    if (!plan.display) return await running;
    const progress = () => training.progress();
    return await showProgress(running, {
      live: () => liveLines(progress(), plan),
      line: () => plainLine(progress(), plan),
    });
  } finally {
    await Promise.resolve(evaluated.close()).catch(() => {});
  }
}

/** Returns whether the environments give masks. An aborted training ends without the answer. */
async function masksOf(set: EnvironmentSet, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    return await orAborted(givesMasks(set), signal);
  } catch (error) {
    if (signal?.aborted) return false;
    throw error;
  }
}

interface Turns {
  pipeline: ReplayPipeline;
  evaluator: Evaluator;
  signal: AbortSignal;
}

class Training {
  readonly plan: TrainPlan;
  readonly #evaluated: EnvironmentSet;
  readonly #resumption: Resumption;
  readonly #curve: CurvePoint[] = [];
  #best = new Best(null);
  readonly #scalars: Record<string, number> = {};
  #ticks = 0;
  #begin = performance.now();
  /** seconds at the end of the run, without the last evaluation, null during the run */
  #seconds: number | null = null;
  /** environment steps at which the next evaluation is due */
  #due = 0;
  /** result that reached the goal in this run or in an earlier one, null without such a result */
  #solved: Solved | null = null;
  #collected: () => { steps: number; episodes: number; meanReturn: number } = () => ({
    steps: 0,
    episodes: 0,
    meanReturn: Number.NaN,
  });
  #waitingFor: () => string = () => '';

  constructor(plan: TrainPlan, evaluated: EnvironmentSet, resumption: Resumption) {
    this.plan = plan;
    this.#resumption = resumption;
    this.#evaluated = evaluated;
  }

  progress(): TrainProgress {
    return {
      ...this.#collected(),
      updates: this.#ticks * this.plan.minibatches,
      seconds: this.#seconds ?? (performance.now() - this.#begin) / 1000,
      scalars: this.#scalars,
      point: this.#curve.at(-1) ?? null,
      waitingFor: this.#waitingFor(),
    };
  }

  async run(): Promise<TrainResult> {
    const plan = this.plan;
    using opened = plan.learner.open(plan.device, plan.products);
    const { learner, device } = opened;
    await learner.ready;
    const limiter = limiterOf(plan);
    using buffer = bufferOf(plan, limiter);
    const mailbox = WeightMailbox.create({ length: opened.weights.size });
    using rows = new ObservationRows(device, plan);
    await using pipeline = await this.#open(buffer, opened, rows, mailbox);
    this.#waitingFor = () => pipeline.waitingFor();
    const evaluator = await Evaluator.open(plan, mailbox, this.#evaluated);
    await using kept = await TrainCheckpoint.of(
      plan,
      { buffer, learner, pipeline, mailbox },
      this.#resumption,
    );
    await using pool = await this.#collectors(buffer, mailbox, kept.collectors);
    if (pool === null) return await this.#result(evaluator, null, null);
    // #atOnce() awaits `done` later, and some returns never do. A collector may fail before that.
    pool.done.catch(() => {});
    this.#collected = () => pool.statistics();
    this.#goOn(kept.before);
    const checkpoint = await kept.begin(pool, () => ({
      seconds: this.progress().seconds,
      curve: [...this.#curve],
      solved: this.#solved,
      best: this.#best.now,
    }));
    // The limits apply to the whole training, so the ticks, seconds and result of earlier runs
    // count.
    const ticks = plan.ticks - this.#ticks;
    const seconds = plan.seconds - (kept.before?.seconds ?? 0);
    const reached = this.#solved && this.#solved.meanReturn >= plan.goal ? this.#solved : null;
    const dumped = async (result: TrainResult) => {
      if (plan.dump === undefined || result.interrupted) return result;
      await pool.close(); // no more rows are added
      await buffer.dump(plan.dump);
      return result;
    };
    if (ticks <= 0 || seconds <= 0 || reached) {
      this.#seconds = kept.before?.seconds ?? null;
      evaluator.take(reached?.weights);
      return dumped(
        await this.#result(evaluator, reached?.meanReturn ?? null, this.#curve.at(-1) ?? null),
      );
    }
    const parts = { pipeline: pipeline as ReplayPipeline, collectors: pool };
    await plan.onOpen({ ...parts, ...(checkpoint && { checkpoint }) });
    this.#begin = performance.now() - (kept.before?.seconds ?? 0) * 1000;
    const stop = new AbortController();
    const signal = AbortSignal.any([plan.signal, stop.signal]);
    const deadline = new Deadline(seconds * 1000);
    let late = false;
    using _ = callAfter(seconds * 1000, () => {
      late = true;
      stop.abort();
    });
    const turns = { pipeline: pipeline as ReplayPipeline, evaluator, signal };
    try {
      const solved =
        pool instanceof LockStepCollectors
          ? await this.#inTurns(pool, turns)
          : await this.#atOnce(pool, turns, stop);
      // The timer may fire slightly before the limit. The seconds are raised to the limit, so that
      // a resumed run sees that it has no time left.
      this.#seconds = Math.max(this.progress().seconds, late ? plan.seconds : 0);
      // A confirmed result is not evaluated again.
      const last =
        solved === null && !plan.signal.aborted
          ? await this.#lastEvaluation(evaluator, deadline)
          : null;
      const meanReturn = solved ?? last?.meanReturn ?? Number.NaN;
      this.#solved =
        meanReturn >= plan.goal ? { meanReturn, weights: evaluator.weights.slice() } : null;
      await kept.last();
      return await dumped(await this.#result(evaluator, solved, last));
    } finally {
      stop.abort();
    }
  }

  /**
   * Collects, learns and evaluates concurrently. Returns the confirmed mean return, or null if the
   * training ended otherwise. Aborts `stop` at the end.
   */
  async #atOnce(
    pool: TrainCollectors,
    { pipeline, evaluator, signal }: Turns,
    stop: AbortController,
  ): Promise<number | null> {
    const before = this.#ticks;
    const running = pipeline.run({
      ticks: this.plan.ticks - before,
      signal,
      publishEvery: 1,
    });
    // `over` aborts when the run ends or a collector fails. This ends the current evaluation and
    // the wait for the next one.
    const over = new AbortController();
    const ended = Promise.race([running.then(() => {}), pool.done]).finally(() => over.abort());
    ended.catch(() => {});
    try {
      const until = AbortSignal.any([signal, over.signal]);
      let solved: number | null = null;
      while (solved === null && !until.aborted) {
        this.#anneal(pipeline);
        solved = await this.#look(evaluator, until);
        if (solved === null) await wait(LOOK_MS, undefined, { signal: until }).catch(() => {});
      }
      stop.abort();
      await ended;
      this.#ticks = before + (await running).ticks;
      return solved;
    } finally {
      stop.abort();
      await Promise.allSettled([running, ended]);
    }
  }

  /**
   * Collects, learns and evaluates in turns, at fixed numbers of environment steps. Returns the
   * confirmed mean return, or null if the training ended otherwise.
   */
  async #inTurns(
    collectors: LockStepCollectors,
    { pipeline, evaluator, signal }: Turns,
  ): Promise<number | null> {
    while (!signal.aborted) {
      const before = this.#ticks;
      const ticks = ticksDue(collectors.statistics().steps, this.plan) - before;
      if (ticks > 0) {
        this.#anneal(pipeline);
        // Publishes once, after the last tick, so that timing does not decide which version of the
        // weights the policy gets.
        this.#ticks = before + (await pipeline.run({ ticks, publishEvery: ticks, signal })).ticks;
      }
      const solved = await this.#look(evaluator, signal);
      if (solved !== null || signal.aborted || this.#ticks >= this.plan.ticks) return solved;
      try {
        await collectors.collect(signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
    return null;
  }

  /** Continues the counts, the time and the curve of an earlier run. */
  #goOn(before: TrainCounts | null): void {
    this.#begin = performance.now() - (before?.seconds ?? 0) * 1000;
    this.#ticks = before?.ticks ?? 0;
    this.#curve.push(...(before?.curve ?? []));
    this.#solved = before?.solved ?? null;
    this.#best = new Best(before?.best ?? null);
    // A resumed training does not repeat the evaluations of earlier runs.
    this.#due = this.#dueAfter(this.#collected().steps);
  }

  /** Opens the collectors. Resolves with null if the signal aborts before they are created. */
  async #collectors(
    buffer: ReplayBuffer | TrajectoryBuffer,
    mailbox: WeightMailbox,
    resume: unknown,
  ): Promise<CollectorPool | LockStepCollectors | null> {
    const { workers, seed, signal, deterministic } = this.plan;
    const options = collectorOptions(this.plan);
    try {
      if (deterministic)
        return await LockStepCollectors.open({ buffer, mailbox, seed, options, resume, signal });
      return await CollectorPool.open({
        entry: COLLECTOR,
        buffer,
        mailbox,
        workers,
        seed,
        options,
        resume,
        signal,
      });
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }

  /**
   * Evaluates the newest weights at the end. Resolves with null if no weights were published, or if
   * the signal or a time limit ended the evaluation. The limit is needed because an episode may
   * never end.
   */
  async #lastEvaluation(evaluator: Evaluator, deadline: Deadline): Promise<CurvePoint | null> {
    const { evaluation, seconds, signal } = this.plan;
    const late = new AbortController();
    using _ = callAfter(Math.max(0, deadline.left) + seconds * 1000 * LAST_LOOK, () =>
      late.abort(),
    );
    return await this.#evaluate(
      evaluator,
      evaluation.confirm,
      this.progress(),
      AbortSignal.any([signal, late.signal]),
    );
  }

  /**
   * Returns the result. `solved` is the confirmed mean return. `last` is the last evaluation, null
   * if it was ended early.
   */
  async #result(
    evaluator: Evaluator,
    solved: number | null,
    last: CurvePoint | null,
  ): Promise<TrainResult> {
    const { weights, policy } = evaluator;
    const best = this.#best.now;
    const { goal, signal } = this.plan;
    const { steps, updates, seconds } = this.progress();
    const meanReturn = solved ?? this.#curve.at(-1)?.meanReturn ?? null;
    const interrupted = signal.aborted && solved === null;
    return {
      solved: solved !== null || (last !== null && !interrupted && last.meanReturn >= goal),
      meanReturn,
      steps,
      updates,
      seconds,
      interrupted,
      curve: this.#curve,
      weights,
      policy,
      best: best && { ...best, policy: await evaluator.policyOf(best.weights) },
    };
  }

  /** Raises the exponent of the importance weights with the environment steps. */
  #anneal(pipeline: ReplayPipeline): void {
    const { steps, prioritized } = this.plan;
    const share = this.#collected().steps / steps;
    if (prioritized) pipeline.setBeta(Math.min(1, FIRST_BETA + (1 - FIRST_BETA) * share));
  }

  /** Returns the number of steps of the next evaluation, after `steps` steps. */
  #dueAfter(steps: number): number {
    const { every } = this.plan.evaluation;
    return (Math.floor(steps / every) + 1) * every;
  }

  /**
   * Evaluates if an evaluation is due. Returns the mean return if it reaches the goal and was
   * confirmed, otherwise null.
   */
  async #look(evaluator: Evaluator, signal: AbortSignal): Promise<number | null> {
    const { evaluation, goal } = this.plan;
    const { steps } = this.#collected();
    if (steps < this.#due) return null;
    this.#due = this.#dueAfter(steps);
    const point = await this.#evaluate(evaluator, evaluation.episodes, this.progress(), signal);
    if (point === null || point.meanReturn < goal) return null;
    // One of many evaluations may reach the goal by chance. So other episodes have to confirm it.
    const { confirm } = evaluation;
    const confirmed = await this.#evaluate(evaluator, confirm, this.progress(), signal, point);
    return confirmed !== null && confirmed.meanReturn >= goal ? confirmed.meanReturn : null;
  }

  /**
   * Evaluates, and adds a point to the curve. Returns null if no weights were published, or if the
   * signal ended the evaluation.
   *
   * With `again`, evaluates the weights of that point once more. If the curve has a point with the
   * same number of steps, the new point replaces it. This can happen, because collectors may have
   * waited for the learner between two evaluations.
   */
  async #evaluate(
    evaluator: Evaluator,
    episodes: number,
    { steps, updates, seconds }: TrainProgress,
    signal: AbortSignal,
    again?: CurvePoint,
  ): Promise<CurvePoint | null> {
    const result = await evaluator.evaluate(
      episodes,
      { newest: again === undefined, steps },
      signal,
    );
    if (result === null) return null;
    const { meanReturn, deviation } = result;
    const at = again ?? { steps, updates, seconds };
    const point = {
      steps: at.steps,
      updates: at.updates,
      seconds: at.seconds,
      episodes,
      meanReturn,
      deviation,
    };
    if (this.#curve.at(-1)?.steps === point.steps) this.#curve.pop();
    this.#curve.push(point);
    const weights = evaluator.weights.slice();
    this.#best.take(point, weights, result.again);
    const { onPoint, masked } = this.plan;
    if (onPoint) {
      const policy = await evaluator.policyOf(weights);
      const save = (path: string | URL) => savePolicy(policy, weights, path, masked);
      await onPoint(point, { weights: weights.slice(), policy, save });
    }
    return point;
  }

  async #open(
    buffer: ReplayBuffer | TrajectoryBuffer,
    { learner, device, weights }: OpenLearner,
    rows: ObservationRows,
    mailbox: WeightMailbox,
  ) {
    const { sampleCount, seed, prioritized: byPriority, deterministic } = this.plan;
    const common = {
      device: device.name,
      sampleCount,
      mailbox,
      placement: deterministic ? 'inline' : 'auto',
      baseSeed: new Random(seed, STREAM).below(2 ** 31),
    } as const;
    const sampled = byPriority ? { sampler: prioritized(), beta: FIRST_BETA } : {};
    const pipeline =
      buffer instanceof ReplayBuffer
        ? await ReplayPipeline.open({ ...common, buffer })
        : await ReplayPipeline.open({
            ...common,
            ...sampled,
            buffer,
            view: viewOf(buffer, this.plan),
          });
    try {
      const watch = new PriorityWatch(byPriority);
      pipeline.capture(
        (batch, { stream, out }) => learner.update(stream, watch.of(rows.of(batch, stream)), out),
        { scalars: learner.scalars, weights },
      );
      watch.check();
      pipeline.on('tick', ({ scalars }) => this.#count(scalars));
      return pipeline;
    } catch (error) {
      await pipeline.close();
      throw error;
    }
  }

  #count(scalars: Readonly<Record<string, number>>): void {
    this.#ticks++;
    for (const [name, value] of Object.entries(scalars)) {
      const before = this.#scalars[name];
      this.#scalars[name] = before === undefined ? value : before + SMOOTHING * (value - before);
    }
  }
}
