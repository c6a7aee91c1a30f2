/**
 * Base class of learners with an actor and critics, as traced learners. It describes the critics'
 * phase, and each algorithm describes the phases of its actor.
 */

import { outsideBox } from '../../base/action-space.ts';
import { savedName } from '../../base/old-names.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { ACTOR_CRITIC_RATE, type Adam, type AdamOptions } from '../adam.ts';
import { type Rows, reader } from '../batch.ts';
import { generatorOf, installHooks, Learner, type LearnerSettings } from '../learner.ts';
import type { Network } from '../network/network.ts';
import { Normalizer } from '../normalizer.ts';
import { adamParts, networkParts, type Part, tensorParts } from '../state.ts';
import type { Expression } from '../trace/expression.ts';
import { concat } from '../trace/functions.ts';
import { InputColumns } from '../trace/learner/columns.ts';
import type { Phase } from '../trace/learner/description.ts';
import { ensemble, type Follower, type Parameter, polyak } from '../trace/learner/networks.ts';
import { type OptimizerDescription, plainAdam } from '../trace/learner/optimizers.ts';
import { Program } from '../trace/learner/program.ts';
import { networksParts, ProgramUpdate } from '../trace/learner/update.ts';
import type { Draw, UpdateOptions } from '../update-options.ts';
import { type ActorValue, type CriticLosses, criticLosses } from './critics.ts';
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

/** Expressions of a minibatch, and functions of expressions, of which an algorithm makes its phases. */
export interface Parts {
  /** the networks `actor`, `critics`, `targets` and those that the algorithm declares */
  readonly networks: Readonly<Record<string, (x: Expression) => Expression>>;
  readonly parameters: Readonly<Record<string, Expression>>;
  /** [rows, obsDim], after normalization */
  readonly obs: Expression;
  readonly nextObs: Expression;
  /** [rows, actionDim]: the batch's actions */
  readonly actions: Expression;
  /** number of gradient steps from one update of the actor to the next */
  readonly actorEvery: number;
  /**
   * returns the phase of the critics. Their targets use the actions `next`, and subtract the result
   * of `cost` [rows] from the next values. Its ops follow the critics' passes, and join their chain
   */
  criticPhase(next: Expression, cost?: () => Expression): Phase;
  /** returns the value [rows] of actions at obs that the actor maximizes */
  value(actions: Expression): Expression;
}

/** Names of the events of optimizers that step more than once in an update. */
const eventOf: Readonly<Record<string, string>> = { actor: 'actor', logAlpha: 'alpha' };

/** Describes an optimizer, whose default learning rate is that of actors and critics. */
export const describedAdam = (options: AdamOptions): OptimizerDescription =>
  plainAdam(options, ACTOR_CRITIC_RATE);

/**
 * programOf() returns the program of a learner, and addParts() adds parts to its state. Only classes
 * that extend ActorCritic call them.
 */
export let programOf: (learner: ActorCritic) => Program;
export let addParts: (
  learner: ActorCritic,
  added: { parts(): [string, Part][]; restored?(stream: Stream): void },
) => void;

/** Options of the critics' part of an update. */
interface CriticUpdate {
  readonly losses: CriticLosses;
  /** number of critics */
  readonly critics: number;
  readonly rows: number;
  readonly rewardScale: number;
  readonly actorValue: ActorValue;
  /** whether the critics have observations of their own */
  readonly ownObs: boolean;
  readonly actorEvery: number;
}
type Fields = 'obs' | 'nextObs' | 'actions' | 'rewards' | 'discounts' | 'weights';

/** Returns the function that describes an update as expressions: the parts of `phases`. */
function describedUpdate(
  phases: Algorithm['phases'],
  { losses, critics, rows, rewardScale, actorValue, ownObs, actorEvery }: CriticUpdate,
) {
  return (
    networks: Parts['networks'],
    batch: Readonly<Record<Fields, Expression>> & Readonly<Record<string, Expression>>,
    parameters: Parts['parameters'],
  ): readonly Phase[] => {
    const { obs, nextObs, actions, rewards, discounts, weights } = batch;
    const [seen, nextSeen] = ownObs ? [batch.criticObs!, batch.nextCriticObs!] : [obs, nextObs];
    const outputs = (of: 'critics' | 'targets', x: Expression, taken: Expression) =>
      networks[of]!(concat(1, x, taken) as Expression);
    return phases({
      ...{ networks, parameters, obs, nextObs, actions, actorEvery },
      criticPhase(next, cost) {
        const later = outputs('targets', nextSeen, next);
        const scaled: Expression = rewardScale === 1 ? rewards : rewards.mul(rewardScale);
        const targets = losses.targets(later, { rewards: scaled, discounts, cost: cost?.() });
        const of = losses.losses(outputs('critics', seen, actions), targets, weights);
        const criticLoss = of.loss.sum().mul(1 / rows);
        return {
          minimize: { critics: criticLoss },
          scalars: { criticLoss, meanQ: of.value.mean() },
          priorities: of.error.reshape([critics, rows]).mean({ axis: 0 }),
        };
      },
      value(taken) {
        const values = losses.values(outputs('critics', seen, taken));
        if (actorValue === 'first') return values.slice(0, 0, 1).reshape([rows]) as Expression;
        return values[actorValue]({ axis: 0 }) as Expression;
      },
    });
  };
}

/** The part of a learner with an actor and critics that each algorithm defines. */
export interface Algorithm {
  /** names of all options */
  readonly keys: readonly string[];
  /** default lower limit of the log-probabilities in the loss of categorical critics */
  readonly logFloor: number;
  readonly targetEvery: number;
  readonly actorEvery: number;
  /** random numbers, in the order in which the phases draw them */
  readonly draws: readonly Draw[];
  readonly scalars: readonly string[];
  /** scalars that the phases read as parameters */
  readonly reads?: readonly string[];
  /** settings from the algorithm's own options */
  readonly settings: LearnerSettings;
  /** parameters in addition to those of actor and critics */
  readonly parameters?: Readonly<Record<string, Parameter>>;
  actor(options: ActorCriticOptions): Network;
  actorValue(clipped: boolean): ActorValue;
  /** returns targets in addition to those of the critics, with the options tau and targetEvery */
  networks?(tau: number, targetEvery: number): Readonly<Record<string, Follower>>;
  /** returns the optimizers of `parameters` */
  optimizers?(): Readonly<Record<string, OptimizerDescription>>;
  /** describes an update */
  phases(parts: Parts): readonly Phase[];
}

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
  readonly #program: Program;
  #added: Parameters<typeof addParts>[1] = { parts: () => [] };

  static {
    programOf = (learner) => learner.#program;
    addParts = (learner, added) => {
      learner.#added = added;
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

  /** `algorithm` is an Algorithm, of which public declarations do not speak. */
  protected constructor(
    what: string,
    device: Device,
    options: ActorCriticOptions,
    algorithm: object,
  ) {
    const how = algorithm as Algorithm;
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
      every: [every.target, every.actor],
      firstUpdate,
      seed,
      settings,
    });
    this.actor = actor;
    const size = this.actor.parameterCount;
    using construction = guardConstruction(this);
    const losses = criticLosses(critic, {
      ...{ n: critics, rows: batchSize, clipped: clippedDouble, logFloor: how.logFloor },
    });
    const criticOptimizer = optimizerOf(
      'criticOptimizer',
      options.criticOptimizer,
      options.maxGradNorm,
    );
    const actorOptimizer = optimizerOf(
      'actorOptimizer',
      options.actorOptimizer,
      options.maxGradNorm,
    );
    this.published = own(this, device.allocate({ shape: [size + (normalizer ? 2 * obsDim : 0)] }));
    this.parameters = this.published.view({ shape: [size] });
    if (normalizer) {
      const published = this.published.view({ shape: [2 * obsDim], offset: size });
      const sizes = { size: obsDim, rows: batchSize, published };
      this.normalizer = own(this, new Normalizer(device, sizes, normalizer));
    }
    const description = {
      name: what,
      rows: batchSize,
      seed,
      batch: {
        ...Object.fromEntries(Object.entries(fields).map(([name, width]) => [name, [width]])),
        ...{ rewards: [], discounts: [], weights: [] },
      },
      networks: {
        actor,
        critics: ensemble(criticNetwork(options, losses.width), critics),
        targets: polyak('critics', tau, { every: every.target }),
        ...how.networks?.(tau, every.target),
      },
      parameters: how.parameters ?? {},
      optimizers: {
        critics: describedAdam(criticOptimizer),
        actor: describedAdam(actorOptimizer),
        ...how.optimizers?.(),
      },
      update: describedUpdate(how.phases, {
        ...{ losses, critics, rows: batchSize, rewardScale, actorValue: value },
        ...{ ownObs: criticObsDim !== undefined, actorEvery: every.actor },
      }),
    };
    this.#program = own(
      this,
      new Program(device, description, {
        memory: { actor: this.parameters },
        scalars: how.scalars,
        reads: how.reads ?? [],
        draws: how.draws.map(({ name }) => name),
        made: new Error(),
        event: (name, times) => (name === 'critics' ? 'q' : `${eventOf[name]}.${times}`),
      }),
    );
    const optimizer = (name: string) =>
      this.#program.steppers.find((each) => each.name === name)!.optimizer as Adam;
    this.criticOptimizer = optimizer('critics');
    this.actorOptimizer = optimizer('actor');
    const update = own(
      this,
      new ProgramUpdate(device, this.#program, {
        generator: generatorOf(this) ?? null,
        // A captured update holds whole cycles, so the device counts no minibatches.
        counts: false,
        watchesLayers: true,
      }),
    );
    const inputs = own(this, new InputColumns(device, { rows: batchSize, gamma, indexed: false }));
    const normalized = normalizer
      ? [0, 1].map(() => own(this, device.allocate({ shape: [batchSize, obsDim] })))
      : [];
    installHooks(this, {
      events: update.events,
      plan: update.plan,
      step: (stream, given, context) => {
        const bound = inputs.inputs(stream, given);
        if (this.normalizer) {
          const [obs, nextObs] = normalized as [Floats, Floats];
          this.normalizer.update(stream, bound.obs as Floats);
          this.normalizer.apply(stream, obs, bound.obs as Floats);
          this.normalizer.apply(stream, nextObs, bound.nextObs as Floats);
          Object.assign(bound, { obs, nextObs });
        }
        update.step(stream, bound, given.priorities, context);
      },
      report: (...args) => update.report(...args),
      watched: () => update.watched(),
      parts: () => [...this.#parts(), ...this.#added.parts()],
      restored: (stream) => this.#added.restored?.(stream),
    });
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

  #parts(): [string, Part][] {
    const program = this.#program;
    const networks = ['critics', 'targets'].flatMap((name) => {
      const holder = program.holder(name);
      return networksParts(name, holder, program.flat(holder));
    });
    const parts: [string, Part][] = [
      ...networkParts('actor', this.actor, this.parameters),
      ...adamParts('actorOptimizer', this.actorOptimizer),
      ...networks,
      ...adamParts('criticOptimizer', this.criticOptimizer),
      ['numbers', { tensor: program.numbers }],
    ];
    if (!this.normalizer) return parts;
    const { mean, variance, factor, count } = this.normalizer;
    return [...parts, ...tensorParts(savedName('normalizer'), { mean, variance, factor, count })];
  }
}
