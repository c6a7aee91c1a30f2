/**
 * DQN (double by default) as device work: minibatch updates made of kernel launches only, so they
 * can be captured once.
 */
import { outsideIndices } from '../../base/action-space.ts';
import { checkCount, checkFlag, checkKeys } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { Adam, type AdamOptions, adamKeys, adamOptions } from '../adam.ts';
import type { Columns, Rows } from '../batch.ts';
import { checkWithin } from '../checks.ts';
import { convert } from '../convert.ts';
import { installHooks, Learner, type LearnerSettings, type StepContext } from '../learner.ts';
import type { Network, NetworkWorkspace } from '../network/network.ts';
import { MlpPolicy } from '../policy.ts';
import { adamParts, networkParts } from '../state.ts';
import type { UpdateOptions } from '../update-options.ts';
import { headOf, type Q } from './heads.ts';
import { type QNetworkOptions, qNetwork, qNetworkKeys } from './policy.ts';

type Floats = Tensor<'float32'>;

export interface DqnOptions extends AdamOptions, QNetworkOptions {
  /** rows of one minibatch. An update of K × batchSize rows makes K steps */
  batchSize: number;
  /** discount of one step, 0 to 1, for batches without `discounts`, default 0.99 */
  gamma?: number;
  /**
   * true: the online network chooses the next action, and the target network values it (double
   * DQN). Default true
   */
  double?: boolean;
  /**
   * Huber threshold of the TD error, default 1. With 0 the loss is the mean squared error. Ignored
   * with a categorical head
   */
  huberDelta?: number;
  /**
   * share of the online network in target ← tau · online + (1 − tau) · target after every step, 0
   * to 1, default 0.005. Not together with targetEvery
   */
  tau?: number;
  /** gradient steps from one copy target ← online to the next, instead of tau, default: tau */
  targetEvery?: number;
  /** seed of the initial weights, default 0 */
  seed?: number;
}

const known = [
  ...qNetworkKeys,
  'batchSize',
  'gamma',
  'double',
  'huberDelta',
  'tau',
  'targetEvery',
  'seed',
  ...adamKeys,
];

/** Columns of K × batchSize rows, as strided views of packed rows or as separate tensors. */
export type DqnBatch = Rows & {
  /** [rows, obsDim] */
  obs: Floats;
  /** [rows, obsDim] */
  nextObs: Floats;
  /** [rows] or [rows, 1]: indices of the actions taken, of any dtype */
  actions: Tensor;
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
  /** description of the network from observations to the head's input */
  readonly network: Network;
  /** the online network's flat vector, which is published to collectors */
  readonly parameters: Floats;
  /** the target network's flat vector */
  readonly target: Floats;
  readonly optimizer: Adam;
  readonly #options: DqnOptions;
  readonly #head: Q;
  /** the network from observations to values of actions */
  readonly #values: Network;
  readonly #gradient: Floats;
  readonly #online: readonly Floats[][];
  readonly #targetLayers: readonly Floats[][];
  readonly #slopes: readonly Floats[][];
  /**
   * passes over obs with backward, over nextObs by the target, over nextObs by the online network
   */
  readonly #pass: NetworkWorkspace;
  readonly #targetPass: NetworkWorkspace;
  readonly #choicePass: NetworkWorkspace | undefined;
  readonly #terms: Floats;
  /** the loss of one minibatch, if it is recorded */
  readonly #loss: Floats;
  /** indices of actions as floats, if they are stored in another dtype */
  readonly #actions: Floats;

  /**
   * Returns `optimizer`.
   *
   * @deprecated `optimizer`, until 0.5
   */
  get optimiser(): Adam {
    return this.optimizer;
  }

  /**
   * Allocates everything on `device`. The initial weights are written in order of
   * device.currentStream, and `ready` resolves when they are in place.
   *
   * @throws {TypeError|RangeError} for a wrong option, or tau together with targetEvery
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
   */
  constructor(device: Device, options: DqnOptions) {
    refuse(options);
    checkKeys('DqnLearner', options, known);
    const { obsDim, actions, gamma, seed = 0, double = true } = options;
    const { head = { kind: 'scalar' }, huberDelta = 1, batchSize: rows } = options;
    if (options.tau !== undefined && options.targetEvery !== undefined)
      throw rangeError(
        `give tau (${options.tau}) or targetEvery (${options.targetEvery}), not both`,
      );
    checkWithin('tau', options.tau ?? 0, 0, 1);
    checkWithin('huberDelta', huberDelta, 0, 1e30);
    checkCount('targetEvery', options.targetEvery ?? 1, 1, 2 ** 31 - 1);
    checkWithin('gamma', gamma ?? 0, 0, 1);
    checkFlag('double', double);
    const { network, values } = qNetwork(options);
    const fields = { obs: obsDim, nextObs: obsDim, actions: 'index' as const };
    const explainOutside = outsideIndices(actions);
    super('DqnLearner', device, {
      batchSize: rows,
      fields,
      explainOutside,
      gamma,
      seed,
      settings: settingsOf(options),
    });
    this.#options = options;
    using construction = guardConstruction(this);
    this.#head = own(
      this,
      headOf(device, { rows, actions, gamma: gamma ?? 0.99, huberDelta }, head),
    );
    this.network = network;
    this.#values = values;
    const weights = this.network.initialize(seed);
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    const workspace = (how = {}) => own(this, this.network.workspace(device, rows, how));
    this.parameters = allocate(weights.length).write(weights);
    this.target = allocate(weights.length).write(weights);
    this.#gradient = allocate(weights.length);
    this.optimizer = own(this, new Adam(device, this.parameters, adamOptions(options)));
    this.#online = this.network.over(this.parameters);
    this.#targetLayers = this.network.over(this.target);
    this.#slopes = this.network.over(this.#gradient);
    this.#pass = workspace({ backward: true });
    this.#targetPass = workspace();
    this.#choicePass = double ? workspace() : undefined;
    this.#terms = allocate(rows, 2);
    this.#loss = allocate(2);
    this.#actions = allocate(rows, 1);
    installHooks(this, {
      events: { q: weights.length },
      step: (...args) => this.#step(...args),
      report: (...args) => this.#report(...args),
      watched: () => [
        {
          event: 'q',
          name: 'online',
          network: this.network,
          pass: this.#pass,
          gradient: this.#gradient,
          steps: this.optimizer.steps,
        },
      ],
      parts: () => [
        ...networkParts('online', this.network, this.parameters),
        ...networkParts('target', this.network, this.target),
        ...adamParts('optimizer', this.optimizer),
      ],
    });
    construction.done();
  }

  /**
   * Enqueues K = rows / batchSize steps on consecutive minibatches, as Learner.update() does.
   *
   * @param batch K × batchSize rows: see DqnBatch
   * @param out contiguous float32 [2] or more, for the means of loss and value over all rows.
   *   Losses are weighted if the batch has weights
   * @throws as Learner.update()
   */
  override update(stream: Stream, batch: DqnBatch, out: Floats, options?: UpdateOptions): void {
    super.update(stream, batch, out, options);
  }

  #step(stream: Stream, given: Columns, context: StepContext): void {
    const { network } = this;
    const [obs, nextObs] = [given.obs as Floats, given.nextObs as Floats];
    let actions = given.actions as Floats;
    if (actions.dtype !== 'float32') {
      convert(stream, this.#actions, actions);
      actions = this.#actions;
    }
    const columns = { ...given, actions };
    const value = network.forward(stream, this.#targetLayers, nextObs, this.#targetPass);
    const choice = this.#choicePass
      ? network.forward(stream, this.#online, nextObs, this.#choicePass)
      : value;
    this.#head.aim(stream, value, choice, columns);
    const q = network.forward(stream, this.#online, obs, this.#pass);
    this.#head.miss(stream, q, this.#pass.outputGradient, this.#terms, columns);
    network.backward(stream, this.#online, obs, this.#pass, this.#slopes);
    context.record('q', () => {
      this.#report(stream, this.#loss, 1, true);
      return {
        loss: this.#loss.view({ shape: [1] }),
        gradient: this.#gradient,
        optimizer: this.optimizer,
      };
    });
    this.optimizer.step(stream, this.#gradient);
    this.#follow(stream);
  }

  #report(stream: Stream, scalars: Floats, share: number, first: boolean): void {
    const reals = [share / this.batchSize, first ? 0 : 1] as const;
    stream.launch('column_sums', {
      tensors: [scalars, this.#terms],
      wholes: [this.batchSize, 2, 2],
      reals,
    });
  }

  /** Moves the target network after a step. */
  #follow(stream: Stream): void {
    const { tau = 0.005, targetEvery } = this.#options;
    const { size } = this.parameters;
    if (targetEvery === undefined) {
      stream.launch('axpby', {
        tensors: [this.target, this.parameters],
        wholes: [size],
        reals: [tau, 1 - tau],
      });
    } else {
      const tensors = [this.target, this.parameters, this.optimizer.steps] as const;
      stream.launch('copy_every', { tensors, wholes: [size, targetEvery] });
    }
  }

  /**
   * Returns a greedy policy with this network, on the calling thread and without a device. It has
   * no weights until load().
   *
   * @throws {TypeError} if a layer of `body` has no run()
   * @example
   * const policy = learner.policy().load(await learner.parameters.toArray());
   */
  policy(): MlpPolicy {
    return new MlpPolicy(this.#values);
  }
}

/** Returns the settings that a resumed run must share. */
function settingsOf(options: DqnOptions): LearnerSettings {
  const {
    double = true,
    huberDelta = 1,
    dueling = false,
    head = { kind: 'scalar' },
    tau = 0.005,
  } = options;
  const { targetEvery, activation = 'relu' } = options;
  const follows = targetEvery === undefined ? { tau } : { targetEvery };
  return { double, huberDelta, dueling, head: { ...head }, activation, ...follows };
}

/** Throws for renamed and removed options, with their replacement. */
function refuse(options: object): void {
  if (typeof options !== 'object' || options === null) return;
  if ('nStep' in options)
    throw typeError(
      "DqnLearner: unknown option 'nStep': gamma^nStep is wrong for a window that a time limit cut short. Give the batch `discounts`, gamma^k · (1 − terminated) of each row's k steps, in place of dones and truncated",
    );
  if ('doubleDqn' in options)
    throw typeError("DqnLearner: unknown option 'doubleDqn'; its name is double");
}
