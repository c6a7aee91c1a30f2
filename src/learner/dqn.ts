/** DQN (double by default) as device work: minibatch updates made of kernel launches only, so they can be captured once. */

import { checkCount, checkKeys, shown } from '../checks.ts';
import { checkDevice, checkStream } from '../device/checks.ts';
import { type Device, type DeviceEvent, type Stream, Tensor } from '../device/device.ts';
import { checkOpen, makingOf, Owner, own } from '../device/owner.ts';
import { rangeError, stateError, typeError } from '../errors.ts';
import type { Activation } from './activation.ts';
import { Adam, type AdamOptions, adamOptions } from './adam.ts';
import { checkVector, checkWithin, rowStride } from './checks.ts';
import { convert } from './convert.ts';
import { checkBatch, checkFields, type DqnBatch, type DqnColumns, sliced } from './dqn-batch.ts';
import { type LayerTensors, Mlp, type MlpWorkspace } from './mlp.ts';

export interface DqnOptions extends AdamOptions {
  /** floats of an observation */
  obsDim: number;
  /** number of actions; the batch stores an action as its index */
  actions: number;
  /** neurons of the hidden layers, e.g. [120, 84] */
  hidden: readonly number[];
  /** default 'relu' */
  activation?: Activation;
  /** rows of one minibatch; an update of K × batchSize rows makes K steps */
  batchSize: number;
  /** discount of one step, for batches without `discounts` of their own; default 0.99 */
  gamma?: number;
  /** the online network chooses the next action, the target network values it; default true */
  doubleDqn?: boolean;
  /** Huber threshold of the TD error; 0 gives the mean squared error; default 1 */
  huberDelta?: number;
  /** target ← tau·online + (1 − tau)·target at every step; default 0.005; not together with targetEvery */
  tau?: number;
  /** target ← online at every so many steps instead */
  targetEvery?: number;
  /** of the initial weights; default 0 */
  seed?: number;
}

const known = [
  ...['obsDim', 'actions', 'hidden', 'activation', 'batchSize', 'gamma', 'doubleDqn', 'huberDelta', 'tau'],
  ...['targetEvery', 'seed', 'learningRate', 'beta1', 'beta2', 'epsilon', 'maxGradNorm'],
];

export class DqnLearner extends Owner {
  readonly device: Device;
  readonly mlp: Mlp;
  readonly batchSize: number;
  /** what an update writes to `out`, in order: means over all its rows */
  readonly scalars = ['loss', 'meanQ'] as const;
  /** the online network's flat vector (MlpLayout): what to publish to collectors */
  readonly parameters: Tensor<'float32'>;
  /** the target network's flat vector */
  readonly target: Tensor<'float32'>;
  readonly optimiser: Adam;
  /** resolves when the initial weights are in place; await it before capturing an update */
  readonly ready: Promise<void>;
  readonly #options: DqnOptions;
  readonly #gradient: Tensor<'float32'>;
  readonly #online: LayerTensors[];
  readonly #targetLayers: LayerTensors[];
  readonly #gradientLayers: LayerTensors[];
  /** passes over obs with backward, over nextObs by the target, over nextObs by the online network */
  readonly #pass: MlpWorkspace;
  readonly #targetPass: MlpWorkspace;
  readonly #choicePass: MlpWorkspace | undefined;
  readonly #goal: Tensor<'float32'>;
  readonly #terms: Tensor<'float32'>;
  /** indices of actions that are stored as something else than floats */
  readonly #actions: Tensor<'float32'>;
  /** the weight of all rows of a batch without weights, and where priorities go that nobody asked for */
  readonly #one: Tensor<'float32'>;
  readonly #unread: Tensor<'float32'>;
  readonly #written: DeviceEvent;
  #settled = false;

  /** Allocates everything on `device`; the initial weights are written in order of device.currentStream. */
  constructor(device: Device, options: DqnOptions) {
    super('this learner');
    refuseSteps(options);
    checkKeys('DqnLearner', options, known);
    const { obsDim, actions, hidden, activation = 'relu', seed = 0 } = options;
    if (options.tau !== undefined && options.targetEvery !== undefined) {
      throw rangeError(`give tau (${options.tau}) or targetEvery (${options.targetEvery}), not both`);
    }
    checkWithin('tau', options.tau ?? 0, 0, 1);
    checkWithin('huberDelta', options.huberDelta ?? 1, 0, 1e30);
    checkCount('targetEvery', options.targetEvery ?? 1, 1, 2 ** 31 - 1);
    checkWithin('gamma', options.gamma ?? 0, 0, 1);
    const rows = checkCount('batchSize', options.batchSize);
    if (!Array.isArray(hidden)) throw typeError(`hidden must be an array of layer sizes, got ${shown(hidden)}`);
    const sizes = [checkCount('obsDim', obsDim), ...hidden, checkCount('actions', actions)];
    this.#options = options;
    this.device = checkDevice('DqnLearner', device);
    this.batchSize = rows;
    this.mlp = new Mlp({ sizes, activation });
    const weights = this.mlp.initialise(seed);
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    const workspace = (how = {}) => own(this, this.mlp.workspace(device, rows, how));
    using making = makingOf(this);
    this.parameters = allocate(this.mlp.parameterCount).write(weights);
    this.target = allocate(this.mlp.parameterCount).write(weights);
    this.#gradient = allocate(this.mlp.parameterCount);
    this.optimiser = own(this, new Adam(device, this.parameters, adamOptions(options)));
    this.#online = this.mlp.over(this.parameters);
    this.#targetLayers = this.mlp.over(this.target);
    this.#gradientLayers = this.mlp.over(this.#gradient);
    this.#pass = workspace({ backward: true });
    this.#targetPass = workspace();
    this.#choicePass = (options.doubleDqn ?? true) ? workspace() : undefined;
    this.#goal = allocate(rows);
    this.#terms = allocate(rows, 2);
    this.#actions = allocate(rows, 1);
    this.#one = allocate(1).write(Float32Array.of(1));
    this.#unread = allocate(rows, 1);
    this.#written = own(this, device.createEvent());
    device.currentStream.record(this.#written);
    making.done();
    this.ready = this.#written.done().then(() => {
      this.#settled = true;
    });
    // A caller that awaits it is thrown a failure, and so is the first update.
    this.ready.catch(() => {});
  }

  /**
   * Enqueues K = rows / batchSize steps on consecutive minibatches, and into `out` (float32, at least as long as
   * `scalars`) the means over all rows; of weighted losses where the batch has `weights`. What it has as `priorities` is
   * written. Launches only: nothing is allocated, so it may be captured once `ready`. Throws TypeError for a field that is
   * missing or of another dtype, RangeError for other shapes, naming both.
   */
  update(stream: Stream, batch: DqnBatch, out: Tensor<'float32'>): void {
    checkOpen(this);
    checkStream('update', stream);
    const total = checkFields(batch);
    this.#settle(stream);
    const { batchSize } = this;
    if (total < batchSize || total % batchSize !== 0) {
      throw rangeError(`an update needs a multiple of batchSize ${batchSize} rows, got ${total}`);
    }
    const count = this.scalars.length;
    if (!(out instanceof Tensor)) throw typeError(`out must be a float32 tensor, got ${shown(out)}`);
    if (out.size < count)
      throw rangeError(`out needs at least ${count} floats for ${this.scalars.join(', ')}, got ${out.size}`);
    const scalars = checkVector('out', out.view({ shape: [count] }), count);
    const checked = checkBatch(batch, total, this.mlp.inputs);
    for (let start = 0; start < total; start += batchSize) {
      this.#step(stream, sliced(checked, start, batchSize));
      const reals = [1 / total, start === 0 ? 0 : 1] as const;
      stream.launch('column_sums', { tensors: [scalars, this.#terms], wholes: [batchSize, count, count], reals });
    }
  }

  /** One gradient step on one minibatch; leaves (loss, chosen value) of each row in the terms. */
  #step(stream: Stream, batch: DqnColumns): void {
    const { mlp } = this;
    this.#aim(stream, batch);
    const q = mlp.forward(stream, this.#online, batch.obs, this.#pass);
    this.#miss(stream, batch, q);
    mlp.backward(stream, this.#online, batch.obs, this.#pass, this.#gradientLayers);
    this.optimiser.step(stream, this.#gradient);
    this.#follow(stream);
  }

  /** What each row's value should be, into the goal. */
  #aim(stream: Stream, { nextObs, rewards, dones, truncated, discounts }: DqnColumns): void {
    const { mlp, batchSize: rows } = this;
    const n = mlp.outputs;
    const value = mlp.forward(stream, this.#targetLayers, nextObs, this.#targetPass);
    const choice = this.#choicePass ? mlp.forward(stream, this.#online, nextObs, this.#choicePass) : value;
    if (discounts) {
      stream.launch('td_target_discounts', {
        tensors: [this.#goal, value, choice, rewards, discounts],
        wholes: [rows, n, n, n, rowStride(rewards), rowStride(discounts)],
      });
    } else if (dones && truncated) {
      stream.launch('td_target', {
        tensors: [this.#goal, value, choice, rewards, dones, truncated],
        wholes: [rows, n, n, n, rowStride(rewards), rowStride(dones), rowStride(truncated)],
        reals: [this.#options.gamma ?? 0.99],
      });
    }
  }

  /** Loss and gradient of what was missed, and by how much where that is asked. */
  #miss(stream: Stream, { actions, weights, priorities }: DqnColumns, q: Tensor<'float32'>): void {
    const { batchSize: rows } = this;
    const n = this.mlp.outputs;
    const dq = this.#pass.outputGradient;
    let chosen = actions as Tensor<'float32'>;
    if (actions.dtype !== 'float32') {
      convert(stream, this.#actions, actions);
      chosen = this.#actions;
    }
    const reals = [this.#options.huberDelta ?? 1, 1 / rows] as const;
    if (!weights && !priorities) {
      const tensors = [dq, this.#terms, q, this.#goal, chosen] as const;
      stream.launch('td_loss', { tensors, wholes: [rows, n, n, n, rowStride(chosen)], reals });
      return;
    }
    const [off, weight] = [priorities ?? this.#unread, weights ?? this.#one];
    stream.launch('td_loss_weighted', {
      tensors: [dq, this.#terms, off, q, this.#goal, chosen, weight],
      wholes: [rows, n, n, rowStride(off), n, rowStride(chosen), weights ? rowStride(weights) : 0],
      reals,
    });
  }

  /** Moves the target network after a step. */
  #follow(stream: Stream): void {
    const { tau = 0.005, targetEvery } = this.#options;
    const size = this.mlp.parameterCount;
    if (targetEvery === undefined) {
      stream.launch('axpby', { tensors: [this.target, this.parameters], wholes: [size], reals: [tau, 1 - tau] });
    } else {
      const tensors = [this.target, this.parameters, this.optimiser.steps] as const;
      stream.launch('copy_every', { tensors, wholes: [size, targetEvery] });
    }
  }

  /** Orders the first updates behind the initial weights, whatever stream wrote them. A capture cannot ask or wait. */
  #settle(stream: Stream): void {
    if (this.#settled) return;
    if (stream.capturing) throw stateError('CAPTURE', 'await learner.ready before capturing an update');
    if (this.#written.query()) this.#settled = true;
    else stream.wait(this.#written);
  }
}

/** Throws for an option that there was once, saying what stands in its place. */
function refuseSteps(options: object): void {
  if (typeof options !== 'object' || options === null || !('nStep' in options)) return;
  throw typeError(
    "DqnLearner: there is no option 'nStep': gamma^nStep is wrong for a window that a time limit cut short. Give the batch `discounts`, gamma^k · (1 − terminated) of each row's k steps, in place of dones and truncated",
  );
}
