/**
 * Base class of learners with an actor and critics. It builds the critics' inputs and targets,
 * steps the critics, and calls the actor's step.
 */

import { outsideBox } from '../../base/action-space.ts';
import { savedName } from '../../base/old-names.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { ACTOR_CRITIC_RATE, Adam } from '../adam.ts';
import { type Columns, discountsOf, type Rows, reader } from '../batch.ts';
import { installHooks, Learner, type LearnerSettings, type StepContext } from '../learner.ts';
import type { Network, NetworkWorkspace } from '../network/network.ts';
import { Normalizer } from '../normalizer.ts';
import { ops } from '../ops/index.ts';
import { adamParts, networkParts, type Part, tensorParts } from '../state.ts';
import type { Draw, UpdateOptions } from '../update-options.ts';
import { vectorsOf, type Watched } from '../watch.ts';
import { type ActorValue, Critics } from './critics.ts';
import { headOf } from './heads.ts';
import {
  type ActorCriticOptions,
  actorCriticOptions,
  actorSettings,
  criticNetwork,
  everyOf,
  optimizerOf,
} from './options.ts';
import { boxOf } from './squashed-gaussian.ts';

type Floats = Tensor<'float32'>;

/**
 * Columns of K × batchSize rows, all float32. They are strided views of packed rows, or separate
 * tensors.
 */
export type ActorCriticBatch = Rows & {
  /** [rows, obsDim] */
  obs: Floats;
  /** [rows, obsDim] */
  nextObs: Floats;
  /** [rows, actionDim], inside the box of actions */
  actions: Floats;
  /** [rows, criticObsDim], required if the learner has the option criticObsDim */
  criticObs?: Floats;
  /** [rows, criticObsDim], required if the learner has the option criticObsDim */
  nextCriticObs?: Floats;
};

/** Hooks in which each algorithm that extends ActorCritic does its own work. */
export interface ActorHooks {
  /**
   * events of the actor or of a temperature that a step may record. The critics' event 'q' is added
   * to them
   */
  readonly events: readonly (`actor.${number}` | `alpha.${number}`)[];
  /**
   * enqueues the computation of the actions for `nextObs` into `into`. Returns a column of costs,
   * which the critics' targets subtract from the next values. Returns undefined if the algorithm
   * has no cost
   */
  nextActions(
    stream: Stream,
    nextObs: Floats,
    into: Floats,
    context: StepContext,
  ): Floats | undefined;
  /** enqueues work that runs after each step of the critics */
  criticsStepped?(stream: Stream, context: StepContext): void;
  actorStep(stream: Stream, obs: Floats, context: StepContext): void;
  /** updates target networks other than the critics', after the critics' targets were updated */
  follow?(stream: Stream, tau: number): void;
  parts?(): [string, Part][];
  restored?(stream: Stream): void;
}

/** Tensors and networks that the hooks use. */
export interface CriticCore {
  readonly critics: Critics;
  /** float32: the scalars of the last step, in the order of `scalars` */
  readonly numbers: Floats;
  readonly online: readonly Floats[][];
  readonly gradient: Floats;
  readonly slopes: readonly Floats[][];
  readonly pass: NetworkWorkspace;
  readonly nextPass: NetworkWorkspace;
  /** [rows, 1]: scratch memory */
  readonly column: Floats;
  /** [rows, actionDim]: view of the actions in the critics' input */
  readonly actions: Floats;
  /**
   * enqueues the critics' values of the input whose actions are `actions`, into critics.value.
   * Returns the gradient of their negated mean at `actions`
   */
  pull(stream: Stream): Floats;
}

/**
 * criticCoreOf() returns the tensors and networks of a learner, and installActorHooks() installs
 * its hooks. Only classes that extend ActorCritic call them.
 */
export let criticCoreOf: (learner: ActorCritic) => CriticCore;
export let installActorHooks: (learner: ActorCritic, hooks: ActorHooks) => void;

/** Trains an actor and critics for continuous actions. SacLearner and Td3Learner extend it. */
export abstract class ActorCritic extends Learner {
  /** description of the actor's network */
  readonly actor: Network;
  /**
   * contiguous vector for collectors: the actor's parameters. With a normalizer, its means and
   * factors follow
   */
  readonly published: Floats;
  /** flat vector of the actor's parameters, a view of the beginning of `published` */
  readonly parameters: Floats;
  readonly actorOptimizer: Adam;
  /** optimizer of the parameters of all critics */
  readonly criticOptimizer: Adam;
  /** normalizer of obs and nextObs, or undefined without the option `normalizer` */
  readonly normalizer: Normalizer | undefined;
  readonly #common: CriticCore;
  #hooks!: ActorHooks;
  readonly #input: Floats;
  readonly #nextInput: Floats;
  readonly #discounts: Floats;
  readonly #rewards: Floats;
  readonly #normalizedObs: Floats;
  readonly #normalizedNextObs: Floats;
  readonly #options: ActorCriticOptions;
  readonly #every: { target: number; actor: number };
  readonly #tau: number;
  readonly #rewardScale: number;

  static {
    criticCoreOf = (learner) => learner.#common;
    installActorHooks = (learner, hooks) => {
      learner.#hooks = hooks;
      installHooks(learner, {
        events: {
          q: learner.#common.critics.gradient.size,
          ...Object.fromEntries(
            hooks.events.map((event) => [
              event,
              event.startsWith('actor') ? learner.parameters.size : 1,
            ]),
          ),
        },
        step: (...args) => learner.#step(...args),
        report: (...args) => learner.#report(...args),
        watched: () => vectorsOf(learner.#watched(hooks.events)),
        parts: () => [...learner.#parts(), ...(hooks.parts?.() ?? [])],
        restored: (stream) => hooks.restored?.(stream),
      });
    };
  }

  /**
   * Returns `actorOptimizer`.
   *
   * @deprecated Use `actorOptimizer`. This name is removed in 0.5.
   */
  get actorOptimiser(): Adam {
    return this.actorOptimizer;
  }

  /**
   * Returns `criticOptimizer`.
   *
   * @deprecated Use `criticOptimizer`. This name is removed in 0.5.
   */
  get criticOptimiser(): Adam {
    return this.criticOptimizer;
  }

  /**
   * Returns `normalizer`.
   *
   * @deprecated Use `normalizer`. This name is removed in 0.5.
   */
  get normaliser(): Normalizer | undefined {
    return this.normalizer;
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
      /** number of scalars */
      numbers: number;
      /** settings from the algorithm's own options */
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
      normalizer,
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
      gamma: gamma ?? 0.99,
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
      read: reader(what, fields, batchSize, gamma),
      explainOutside: outsideBox(low, high),
      draws: how.draws,
      every: cycle,
      firstUpdate,
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
    this.published = allocate(size + (normalizer ? 2 * obsDim : 0));
    this.parameters = this.published.view({ shape: [size] }).write(this.actor.initialize(seed));
    this.normalizer =
      normalizer &&
      own(
        this,
        new Normalizer(
          device,
          {
            size: obsDim,
            rows: batchSize,
            published: this.published.view({ shape: [2 * obsDim], offset: size }),
          },
          normalizer,
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
          numbers: numbers.view({ shape: [2] }),
        },
        optimizerOf('criticOptimizer', options.criticOptimizer, options.maxGradNorm),
      ),
    );
    this.criticOptimizer = made.optimizer;
    const actorOptimizer = optimizerOf(
      'actorOptimizer',
      options.actorOptimizer,
      options.maxGradNorm,
    );
    this.actorOptimizer = own(
      this,
      new Adam(device, this.parameters, actorOptimizer, ACTOR_CRITIC_RATE),
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
    this.#normalizedObs = allocate(batchSize, obsDim);
    this.#normalizedNextObs = allocate(batchSize, obsDim);
    construction.done();
  }

  /**
   * Enqueues K = rows / batchSize steps on consecutive minibatches, as Learner.update() does. A
   * step updates the normalizer and the critics, then the actor and the targets if they are due.
   *
   * @param batch K × batchSize rows. See ActorCriticBatch
   * @param out contiguous float32, at least as long as `scalars`. It receives the means over the K
   *   steps. If a step does not compute a scalar, its previous value counts
   * @throws as Learner.update()
   */
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
    const { normalizer } = this;
    const { critics, numbers, actions } = this.#common;
    const hooks = this.#hooks;
    let [obs, nextObs] = [columns.obs as Floats, columns.nextObs as Floats];
    if (normalizer) {
      normalizer.update(stream, obs);
      normalizer.apply(stream, this.#normalizedObs, obs);
      normalizer.apply(stream, this.#normalizedNextObs, nextObs);
      [obs, nextObs] = [this.#normalizedObs, this.#normalizedNextObs];
    }
    this.#observe(stream, this.#input, columns.criticObs ?? obs);
    this.#observe(stream, this.#nextInput, columns.nextCriticObs ?? nextObs);
    ops.convert(stream, actions, columns.actions as Floats);
    const cost = hooks.nextActions(stream, nextObs, this.#actionsIn(this.#nextInput), context);
    let rewards = columns.rewards as Floats;
    if (this.#rewardScale !== 1) {
      ops.convert(stream, this.#rewards, rewards, { scale: this.#rewardScale });
      rewards = this.#rewards;
    }
    const discounts = discountsOf(stream, this.#discounts, columns, this.#options.gamma ?? 0.99);
    critics.aim(stream, this.#nextInput, { rewards, discounts, cost });
    critics.measure(stream, this.#input, columns.weights, columns.priorities);
    const { gradient, optimizer } = critics;
    context.record('q', () => ({ loss: numbers.view({ shape: [1] }), gradient, optimizer }));
    critics.step(stream);
    hooks.criticsStepped?.(stream, context);
    if (context.phase % this.#every.actor === 0) hooks.actorStep(stream, obs, context);
    if (context.phase % this.#every.target !== 0) return;
    critics.follow(stream, this.#tau);
    hooks.follow?.(stream, this.#tau);
  }

  #watched(events: readonly string[]): Watched[] {
    const { critics, gradient, pass } = this.#common;
    const { steps } = this.actorOptimizer;
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
      ...adamParts('actorOptimizer', this.actorOptimizer),
      ...critics.parts(),
      ['numbers', { tensor: numbers }],
    ];
    if (!this.normalizer) return parts;
    const { mean, variance, factor, count } = this.normalizer;
    return [...parts, ...tensorParts(savedName('normalizer'), { mean, variance, factor, count })];
  }
}
