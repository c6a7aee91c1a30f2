/**
 * DQN (double by default) on a device, as a traced learner. An update on minibatches consists of
 * kernel launches only, so a graph can capture it.
 */
import { outsideIndices } from '../../base/action-space.ts';
import { checkCount, checkFlag, checkKeys } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { checkMaskSize } from '../../base/mask-bits.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { type Adam, type AdamOptions, adamKeys, adamOptions } from '../adam.ts';
import { type Rows, reader } from '../batch.ts';
import { checkWithin } from '../checks.ts';
import { installHooks, Learner, type LearnerSettings } from '../learner.ts';
import { refuseMasks } from '../masks.ts';
import type { Network } from '../network/network.ts';
import { MlpPolicy } from '../policy.ts';
import { adamParts, networkParts } from '../state.ts';
import type { Expression } from '../trace/expression.ts';
import { InputColumns } from '../trace/learner/columns.ts';
import { copied, polyak } from '../trace/learner/networks.ts';
import { plainAdam } from '../trace/learner/optimizers.ts';
import { Program } from '../trace/learner/program.ts';
import { ProgramUpdate } from '../trace/learner/update.ts';
import type { UpdateOptions } from '../update-options.ts';
import { duelingAmong, qLosses } from './heads.ts';
import { type QNetworkOptions, qNetwork, qNetworkKeys } from './policy.ts';

type Floats = Tensor<'float32'>;

export interface DqnOptions extends AdamOptions, QNetworkOptions {
  /** number of rows of one minibatch. An update of K × batchSize rows does K gradient steps */
  batchSize: number;
  /** discount of one step, 0 to 1, default 0.99. Only for batches without `discounts` */
  gamma?: number;
  /**
   * whether the online network chooses the next action while the target network computes its value
   * (double DQN). Default true. If false, the target network does both
   */
  double?: boolean;
  /**
   * whether batches have masks of legal actions. The next action is then a legal one, and the mean of
   * a dueling head's advantages is over legal actions. Default false
   */
  actionMask?: boolean;
  /**
   * Huber threshold of the TD error, default 1. With 0 the loss is the mean squared error. A
   * categorical head ignores this option
   */
  huberDelta?: number;
  /**
   * share tau in `target ← tau · online + (1 − tau) · target`, which the learner computes after
   * every gradient step. 0 to 1, default 0.005. Do not combine it with targetEvery
   */
  tau?: number;
  /**
   * number of gradient steps from one copy target ← online to the next. Default: the learner uses
   * tau. Do not combine it with tau
   */
  targetEvery?: number;
  /** seed of the initial weights, default 0 */
  seed?: number;
}

const known = [
  ...qNetworkKeys,
  'batchSize',
  'gamma',
  'double',
  'actionMask',
  'huberDelta',
  'tau',
  'targetEvery',
  'seed',
  ...adamKeys,
];

/** Columns of K × batchSize rows. They are strided views of packed rows, or separate tensors. */
export type DqnBatch = Rows & {
  /** [rows, obsDim] */
  obs: Floats;
  /** [rows, obsDim] */
  nextObs: Floats;
  /** [rows] or [rows, 1]: indices of the actions taken, of any dtype */
  actions: Tensor;
  /**
   * legal actions of the next state, for a learner with the option actionMask: uint32 [rows,
   * ⌈actions / 32⌉] of bits, or bool, uint8 or float32 [rows, actions]. A row of a final state may
   * have none
   */
  nextActionMask?: Tensor | undefined;
  /** legal actions of the state, in the same form. Only a dueling head with actionMask needs them */
  actionMask?: Tensor | undefined;
};

/**
 * Trains a DQN (double by default) by updates that a pipeline captures once.
 * @example
 * const learner = new DqnLearner(device, { obsDim: 4, actions: 2, hidden: [64], batchSize: 128 });
 * await learner.ready;
 * pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
 *   scalars: learner.scalars,
 *   weights: learner.parameters,
 * });
 */
export class DqnLearner extends Learner {
  readonly scalars = ['loss', 'meanQ'] as const;
  /** description of the network that computes the head's input from observations */
  readonly network: Network;
  /** flat vector of the online network's parameters, which is published to collectors */
  readonly parameters: Floats;
  /** flat vector of the target network's parameters */
  readonly target: Floats;
  readonly optimizer: Adam;
  /** network that computes the actions' values from observations */
  readonly #values: Network;

  /**
   * Returns `optimizer`.
   *
   * @deprecated Use `optimizer`. This name is removed in 0.5.
   */
  get optimiser(): Adam {
    return this.optimizer;
  }

  /**
   * Allocates all memory on `device`. The initial weights are written on device.currentStream, and
   * `ready` resolves after that.
   *
   * @throws {TypeError|RangeError} for a wrong option, or for tau and targetEvery together
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(device: Device, options: DqnOptions) {
    refuse(options);
    checkKeys('DqnLearner', options, known);
    const { obsDim, actions, gamma, seed = 0, double = true, actionMask = false } = options;
    const { head = { kind: 'scalar' }, huberDelta = 1, batchSize: rows } = options;
    if (options.tau !== undefined && options.targetEvery !== undefined)
      throw rangeError(
        `give tau (${options.tau}) or targetEvery (${options.targetEvery}), not both`,
      );
    const { tau = 0.005, targetEvery } = options;
    checkWithin('tau', tau, 0, 1);
    checkWithin('huberDelta', huberDelta, 0, 1e30);
    if (targetEvery !== undefined) checkCount('targetEvery', targetEvery, 1, 2 ** 31 - 1);
    checkCount('seed', seed, 0);
    checkWithin('gamma', gamma ?? 0, 0, 1);
    checkFlag('double', double);
    checkFlag('actionMask', actionMask);
    const { network, values, parts } = qNetwork(options);
    if (actionMask) checkMaskSize('actionMask: actions', actions);
    const dueling = actionMask && parts !== network;
    const masks: Record<string, number> = {
      ...(actionMask && { nextActionMask: actions }),
      ...(dueling && { actionMask: actions }),
    };
    const maskFields = Object.fromEntries(
      Object.keys(masks).map((name) => [name, { mask: actions }]),
    );
    const fields = { obs: obsDim, nextObs: obsDim, actions: 'index' as const, ...maskFields };
    const readBatch = reader('DqnLearner', fields, rows, gamma);
    const explainOutside = outsideIndices(actions);
    super('DqnLearner', device, {
      batchSize: rows,
      read: (batch) => {
        if (!actionMask) refuseMasks('DqnLearner', batch);
        return readBatch(batch);
      },
      explainOutside,
      seed,
      settings: settingsOf(options),
    });
    using construction = guardConstruction(this);
    this.network = network;
    this.#values = values;
    const q = qLosses(head, actions, huberDelta);
    const atoms = network.outputs / actions;
    // A dueling layer takes the mean over all actions, so expressions replace it if there are masks.
    const combined = (output: Expression, legal: Expression | undefined): Expression =>
      dueling ? duelingAmong(output, legal as Expression, atoms) : output;
    const program = own(
      this,
      new Program(
        device,
        {
          name: 'DqnLearner',
          rows,
          seed,
          batch: {
            obs: [obsDim],
            nextObs: [obsDim],
            actions: 'index',
            rewards: [],
            discounts: [],
            weights: [],
            ...maskFields,
          },
          networks: {
            online: dueling ? parts : network,
            target:
              targetEvery === undefined
                ? polyak('online', tau)
                : copied('online', { every: targetEvery }),
          },
          optimizers: { online: plainAdam(adamOptions(options)) },
          update({ online, target }: DqnNetworks, batch: DqnExpressions) {
            const { obs, nextObs, rewards, discounts, weights } = batch;
            const legal = actionMask ? batch.nextActionMask : undefined;
            const choice = double ? combined(online(nextObs), legal) : undefined;
            const next = combined(target(nextObs), legal);
            const targets = q.targets(next, choice ?? next, rewards, discounts, legal);
            const output = combined(online(obs), dueling ? batch.actionMask : undefined);
            const { loss, value, error } = q.losses(output, batch.actions, targets, weights);
            const mean = loss.mean();
            return {
              minimize: { online: mean },
              scalars: { loss: mean, meanQ: value.mean() },
              priorities: error,
            };
          },
        },
        { made: new Error(), event: () => 'q' },
      ),
    );
    const update = own(
      this,
      new ProgramUpdate(device, program, { generator: null, counts: false, watchesLayers: true }),
    );
    const columns = own(this, new InputColumns(device, { rows, gamma, indexed: true, masks }));
    this.parameters = program.flat(program.holder('online'));
    this.target = program.flat(program.holder('target'));
    this.optimizer = program.steppers[0]!.optimizer as Adam;
    installHooks(this, {
      events: update.events,
      plan: update.plan,
      step: (stream, given, context) =>
        update.step(stream, columns.inputs(stream, given), given.priorities, context),
      report: (...args) => update.report(...args),
      watched: () => update.watched(),
      parts: () => [
        ...networkParts('online', network, this.parameters),
        ...networkParts('target', network, this.target),
        ...adamParts('optimizer', this.optimizer),
      ],
    });
    construction.done();
  }

  /**
   * Enqueues K = rows / batchSize steps on consecutive minibatches, as Learner.update() does.
   *
   * @param batch K × batchSize rows. See DqnBatch
   * @param out contiguous float32 [2] or more. It receives the means of loss and value over all
   *   rows. If the batch has weights, they multiply the losses
   * @throws as Learner.update()
   */
  override update(stream: Stream, batch: DqnBatch, out: Floats, options?: UpdateOptions): void {
    super.update(stream, batch, out, options);
  }

  /**
   * Returns a greedy policy with this network. It runs on the calling thread, needs no device, and
   * has no weights until load().
   *
   * @throws {TypeError} if a layer of `body` has no run()
   * @example
   * const policy = learner.policy().load(await learner.parameters.toArray());
   */
  policy(): MlpPolicy {
    return new MlpPolicy(this.#values);
  }
}

type DqnNetworks = Readonly<Record<'online' | 'target', (x: Expression) => Expression>>;
type DqnExpressions = Readonly<
  Record<'obs' | 'nextObs' | 'actions' | 'rewards' | 'discounts' | 'weights', Expression>
> & { readonly nextActionMask?: Expression; readonly actionMask?: Expression };

/** Returns the settings that a resumed run must share. */
function settingsOf(options: DqnOptions): LearnerSettings {
  const {
    gamma = 0.99,
    double = true,
    huberDelta = 1,
    dueling = false,
    head = { kind: 'scalar' },
    tau = 0.005,
  } = options;
  const { targetEvery, activation = 'relu', actionMask = false } = options;
  const follows = targetEvery === undefined ? { tau } : { targetEvery };
  const masked = actionMask ? { actionMask } : {};
  return {
    gamma,
    double,
    huberDelta,
    dueling,
    head: { ...head },
    activation,
    ...follows,
    ...masked,
  };
}

/** Throws for an option that was renamed or removed. The error names what replaces it. */
function refuse(options: object): void {
  if (typeof options !== 'object' || options === null) return;
  if ('nStep' in options)
    throw typeError(
      "DqnLearner: unknown option 'nStep': gamma^nStep is wrong for a window that a time limit cut short. Give the batch `discounts`, gamma^k · (1 − terminated) of each row's k steps, in place of dones and truncated",
    );
  if ('doubleDqn' in options)
    throw typeError("DqnLearner: unknown option 'doubleDqn'; its name is double");
}
