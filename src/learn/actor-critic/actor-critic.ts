/**
 * The common part of learners with an actor and critics: inputs, targets, critics' steps, and their
 * order.
 */
import { outsideBox } from '../../base/action-space.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { ACTOR_CRITIC_RATE, Adam } from '../adam.ts';
import { type Columns, discountsOf, type Rows } from '../batch.ts';
import { begin, Learner, type LearnerSettings, type StepContext } from '../learner.ts';
import type { Network, NetworkWorkspace } from '../network/network.ts';
import { Normaliser } from '../normaliser.ts';
import { ops } from '../ops/index.ts';
import { adamParts, networkParts, type Part, tensorParts } from '../state.ts';
import type { Draw, UpdateOptions } from '../update-options.ts';
import type { Watched } from '../watch.ts';
import { type ActorValue, Critics } from './critics.ts';
import { headOf } from './heads.ts';
import {
  type ActorCriticOptions,
  actorCriticOptions,
  actorSettings,
  criticNetwork,
  everyOf,
  optimiserOf,
} from './options.ts';
import { boxOf } from './squashed-gaussian.ts';

type Floats = Tensor<'float32'>;

/**
 * Columns of K × batchSize rows, float32, as strided views of packed rows or as separate tensors.
 */
export type ActorCriticBatch = Rows & {
  /** [rows, obsDim] */
  obs: Floats;
  nextObs: Floats;
  /** [rows, actionDim], within the box */
  actions: Floats;
  /** [rows, criticObsDim], if the learner was made with it */
  criticObs?: Floats;
  nextCriticObs?: Floats;
};

/** The hooks in which each of these learners does its own work. */
export interface ActorHooks {
  /**
   * events that a step may record in addition to the critics' 'q': of the actor, or of a
   * temperature
   */
  readonly events: readonly (`actor.${number}` | `alpha.${number}`)[];
  /**
   * writes the actions after nextObs, and returns the cost that is subtracted from their value, a
   * column
   */
  nextActions(
    stream: Stream,
    nextObs: Floats,
    into: Floats,
    context: StepContext,
  ): Floats | undefined;
  /** after the critics' step */
  criticsStepped?(stream: Stream, context: StepContext): void;
  actorStep(stream: Stream, obs: Floats, context: StepContext): void;
  /** moves further targets, after the critics' targets */
  follow?(stream: Stream, tau: number): void;
  parts?(): [string, Part][];
  restored?(stream: Stream): void;
}

/** The tensors and networks on which the hooks work. */
export interface CriticCore {
  readonly critics: Critics;
  /** float32: the numbers that `scalars` names */
  readonly numbers: Floats;
  readonly online: readonly Floats[][];
  readonly gradient: Floats;
  readonly slopes: readonly Floats[][];
  readonly pass: NetworkWorkspace;
  readonly nextPass: NetworkWorkspace;
  /** [rows, 1]: scratch */
  readonly column: Floats;
  /** [rows, actionDim]: the actions in the critics' input */
  readonly actions: Floats;
  /**
   * returns the gradient at those actions of their negated mean value, and writes their values to
   * critics.value
   */
  pull(stream: Stream): Floats;
}

/** Both are for the learners that extend ActorCritic. */
export let criticCoreOf: (learner: ActorCritic) => CriticCore;
export let beginWithHooks: (learner: ActorCritic, ways: ActorHooks) => void;

export abstract class ActorCritic extends Learner {
  /** description of the actor's network */
  readonly actor: Network;
  /**
   * contiguous vector for collectors: the actor's parameters and, with a normalizer, means and
   * factors after them
   */
  readonly published: Floats;
  /** the actor's flat vector, the first part of `published` */
  readonly parameters: Floats;
  readonly actorOptimiser: Adam;
  readonly criticOptimiser: Adam;
  readonly normaliser: Normaliser | undefined;
  readonly #common: CriticCore;
  #ways!: ActorHooks;
  readonly #input: Floats;
  readonly #nextInput: Floats;
  readonly #discounts: Floats;
  readonly #rewards: Floats;
  readonly #seen: Floats;
  readonly #nextSeen: Floats;
  readonly #options: ActorCriticOptions;
  readonly #every: { target: number; actor: number };
  readonly #tau: number;
  readonly #rewardScale: number;

  static {
    criticCoreOf = (learner) => learner.#common;
    beginWithHooks = (learner, ways) => {
      learner.#ways = ways;
      begin(learner, {
        events: {
          q: learner.#common.critics.gradient.size,
          ...Object.fromEntries(
            ways.events.map((event) => [
              event,
              event.startsWith('actor') ? learner.parameters.size : 1,
            ]),
          ),
        },
        step: (...told) => learner.#step(...told),
        report: (...told) => learner.#report(...told),
        watched: () => learner.#watched(ways.events),
        parts: () => [...learner.#parts(), ...(ways.parts?.() ?? [])],
        restored: (stream) => ways.restored?.(stream),
      });
    };
  }

  protected constructor(
    what: string,
    device: Device,
    options: ActorCriticOptions,
    how: {
      keys: readonly string[];
      actor: (options: ActorCriticOptions) => Network;
      actorValue: (clipped: boolean) => ActorValue;
      logFloor: number;
      targetEvery: number;
      actorEvery: number;
      draws: readonly Draw[];
      /** count of the numbers that `scalars` names */
      numbers: number;
      /** from the algorithm's own options */
      settings: LearnerSettings;
    },
  ) {
    const {
      critics,
      critic,
      clippedDouble,
      tau,
      rewardScale,
      seed,
      firstUpdate,
      normaliser,
      actorValue,
    } = actorCriticOptions(what, options, how.keys);
    const every = {
      target: everyOf('targetEvery', options.targetEvery ?? how.targetEvery),
      actor: everyOf('actorEvery', options.actorEvery ?? how.actorEvery),
    };
    const { obsDim, actionDim, batchSize, criticObsDim, gamma } = options;
    const fields: Record<string, number> = { obs: obsDim, nextObs: obsDim, actions: actionDim };
    if (criticObsDim !== undefined)
      Object.assign(fields, { criticObs: criticObsDim, nextCriticObs: criticObsDim });
    const cycle = [every.target, every.actor];
    const value = actorValue ?? how.actorValue(clippedDouble);
    const settings = {
      tau,
      targetEvery: every.target,
      actorEvery: every.actor,
      critics,
      critic: { ...critic },
      clippedDouble,
      actorValue: value,
      rewardScale,
      ...actorSettings(options),
      ...how.settings,
    };
    const actor = how.actor(options);
    const { low, high } = boxOf(actionDim, options);
    super(what, device, {
      batchSize,
      fields,
      explainOutside: outsideBox(low, high),
      draws: how.draws,
      every: cycle,
      firstUpdate,
      gamma,
      seed,
      settings,
    });
    this.#options = options;
    this.#every = every;
    this.#tau = tau;
    this.#rewardScale = rewardScale;
    this.actor = actor;
    const size = this.actor.parameterCount;
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    const width = (criticObsDim ?? obsDim) + actionDim;
    using construction = guardConstruction(this);
    const numbers = allocate(how.numbers);
    this.published = allocate(size + (normaliser ? 2 * obsDim : 0));
    this.parameters = this.published.view({ shape: [size] }).write(this.actor.initialise(seed));
    this.normaliser =
      normaliser &&
      own(
        this,
        new Normaliser(
          device,
          {
            size: obsDim,
            rows: batchSize,
            published: this.published.view({ shape: [2 * obsDim], offset: size }),
          },
          normaliser,
        ),
      );
    const clipped = clippedDouble;
    const head = own(
      this,
      headOf(device, { rows: batchSize, critics, clipped, kind: critic, logFloor: how.logFloor }),
    );
    const made = own(
      this,
      new Critics(
        device,
        {
          network: criticNetwork(options, head.width),
          head,
          critics,
          rows: batchSize,
          seed: seed + 1,
          actorValue: value,
          words: numbers.view({ shape: [2] }),
        },
        optimiserOf('criticOptimiser', options.criticOptimiser, options.maxGradNorm),
      ),
    );
    this.criticOptimiser = made.optimiser;
    const actorOptimiser = optimiserOf(
      'actorOptimiser',
      options.actorOptimiser,
      options.maxGradNorm,
    );
    this.actorOptimiser = own(
      this,
      new Adam(device, this.parameters, actorOptimiser, ACTOR_CRITIC_RATE),
    );
    this.#input = allocate(batchSize, width);
    this.#nextInput = allocate(batchSize, width);
    const gradient = allocate(size);
    this.#common = {
      critics: made,
      numbers,
      gradient,
      online: this.actor.over(this.parameters),
      slopes: this.actor.over(gradient),
      pass: own(this, this.actor.workspace(device, batchSize, { backward: true })),
      nextPass: own(this, this.actor.workspace(device, batchSize)),
      column: allocate(batchSize, 1),
      actions: this.#actionsIn(this.#input),
      pull: (stream) => this.#actionsIn(made.pull(stream, this.#input)),
    };
    this.#discounts = allocate(batchSize, 1);
    this.#rewards = allocate(batchSize, 1);
    this.#seen = allocate(batchSize, obsDim);
    this.#nextSeen = allocate(batchSize, obsDim);
    construction.done();
  }

  override update(
    stream: Stream,
    batch: ActorCriticBatch,
    out: Floats,
    options?: UpdateOptions,
  ): void {
    super.update(stream, batch, out, options);
  }

  #actionsIn(input: Floats): Floats {
    const { actionDim } = this.#options;
    const [rows, width] = input.shape as [number, number];
    return input.view({ shape: [rows, actionDim], offset: width - actionDim, strides: [width, 1] });
  }

  #observe(stream: Stream, input: Floats, obs: Floats): void {
    const [rows, width] = input.shape as [number, number];
    ops.convert(
      stream,
      input.view({ shape: [rows, width - this.#options.actionDim], strides: [width, 1] }),
      obs,
    );
  }

  #step(stream: Stream, columns: Columns, context: StepContext): void {
    const { normaliser } = this;
    const { critics, numbers, actions } = this.#common;
    const ways = this.#ways;
    let [obs, nextObs] = [columns.obs as Floats, columns.nextObs as Floats];
    if (normaliser) {
      normaliser.update(stream, obs);
      normaliser.apply(stream, this.#seen, obs);
      normaliser.apply(stream, this.#nextSeen, nextObs);
      [obs, nextObs] = [this.#seen, this.#nextSeen];
    }
    this.#observe(stream, this.#input, columns.criticObs ?? obs);
    this.#observe(stream, this.#nextInput, columns.nextCriticObs ?? nextObs);
    ops.convert(stream, actions, columns.actions as Floats);
    const cost = ways.nextActions(stream, nextObs, this.#actionsIn(this.#nextInput), context);
    let rewards = columns.rewards as Floats;
    if (this.#rewardScale !== 1) {
      ops.convert(stream, this.#rewards, rewards, { scale: this.#rewardScale });
      rewards = this.#rewards;
    }
    const discounts = discountsOf(stream, this.#discounts, columns, this.#options.gamma ?? 0.99);
    critics.aim(stream, this.#nextInput, { rewards, discounts, cost });
    critics.measure(stream, this.#input, columns.weights, columns.priorities);
    const { gradient, optimiser } = critics;
    context.record('q', () => ({ loss: numbers.view({ shape: [1] }), gradient, optimiser }));
    critics.step(stream);
    ways.criticsStepped?.(stream, context);
    if (context.phase % this.#every.actor === 0) ways.actorStep(stream, obs, context);
    if (context.phase % this.#every.target !== 0) return;
    critics.follow(stream, this.#tau);
    ways.follow?.(stream, this.#tau);
  }

  #watched(events: readonly string[]): Watched[] {
    const { critics, gradient, pass } = this.#common;
    const { steps } = this.actorOptimiser;
    const turns = events.filter((event) => event.startsWith('actor.'));
    return [
      ...critics.watched(),
      ...turns.map((event) => ({
        event,
        name: 'actor',
        network: this.actor,
        pass,
        gradient,
        steps,
      })),
    ];
  }

  #report(stream: Stream, scalars: Floats, share: number, first: boolean): void {
    const { numbers } = this.#common;
    const reals = [share, first ? 0 : 1] as const;
    stream.launch('axpby', { tensors: [scalars, numbers], wholes: [numbers.size], reals });
  }

  #parts(): [string, Part][] {
    const { critics, numbers } = this.#common;
    const parts: [string, Part][] = [
      ...networkParts('actor', this.actor, this.parameters),
      ...adamParts('actorOptimiser', this.actorOptimiser),
      ...critics.parts(),
      ['numbers', { tensor: numbers }],
    ];
    if (!this.normaliser) return parts;
    const { mean, variance, factor, count } = this.normaliser;
    return [...parts, ...tensorParts('normaliser', { mean, variance, factor, count })];
  }
}
