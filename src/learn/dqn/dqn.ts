/**
 * DQN (double by default) on a device. An update on minibatches consists of kernel launches only,
 * so a graph can capture it.
 */
import { outsideIndices } from '../../base/action-space.ts';
import { checkCount, checkFlag, checkKeys } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, own } from '../../device/owner.ts';
import { Adam, type AdamOptions, adamKeys, adamOptions } from '../adam.ts';
import { type Columns, type Rows, reader } from '../batch.ts';
import { checkWithin } from '../checks.ts';
import { convert } from '../convert.ts';
import { installHooks, Learner, type LearnerSettings, type StepContext } from '../learner.ts';
import type { Network, NetworkWorkspace } from '../network/network.ts';
import { MlpPolicy } from '../policy.ts';
import { adamParts, networkParts } from '../state.ts';
import type { UpdateOptions } from '../update-options.ts';
import { vectorsOf } from '../watch.ts';
import { headOf, type Q } from './heads.ts';
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
  readonly #options: DqnOptions;
  readonly #head: Q;
  /** network that computes the actions' values from observations */
  readonly #values: Network;
  readonly #gradient: Floats;
  readonly #online: readonly Floats[][];
  readonly #targetLayers: readonly Floats[][];
  readonly #slopes: readonly Floats[][];
  /**
   * workspaces of the passes in an update: `#pass` for the online network's pass over obs, with
   * memory for backward. Over nextObs, `#targetPass` is for the target network and `#choicePass`
   * for the online network
   */
  readonly #pass: NetworkWorkspace;
  readonly #targetPass: NetworkWorkspace;
  readonly #choicePass: NetworkWorkspace | undefined;
  readonly #terms: Floats;
  /** loss of one minibatch, for an update that records it */
  readonly #loss: Floats;
  /** indices of actions as float32, for batches that store them in another dtype */
  readonly #actions: Floats;

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
      read: reader('DqnLearner', fields, rows, gamma),
      explainOutside,
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
      watched: () =>
        vectorsOf([
          {
            event: 'q',
            name: 'online',
            network: this.network,
            pass: this.#pass,
            gradient: this.#gradient,
            steps: this.optimizer.steps,
          },
        ]),
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
   * @param batch K × batchSize rows. See DqnBatch
   * @param out contiguous float32 [2] or more. It receives the means of loss and value over all
   *   rows. If the batch has weights, they multiply the losses
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

  /** Updates the target network after a gradient step, by tau or targetEvery. */
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
      stream.launch('follow_every', { tensors, wholes: [size, targetEvery], reals: [1, 0] });
    }
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
  const { targetEvery, activation = 'relu' } = options;
  const follows = targetEvery === undefined ? { tau } : { targetEvery };
  return { gamma, double, huberDelta, dueling, head: { ...head }, activation, ...follows };
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
