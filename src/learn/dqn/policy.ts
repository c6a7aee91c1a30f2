/**
 * Builds the network of a DQN from its options, and a policy that acts with it. The policy runs on
 * the calling thread and needs no device.
 */
import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { type Activation, checkActivation } from '../activation.ts';
import { checkKind } from '../distribution.ts';
import { hiddenLayers, layerOf } from '../mlp.ts';
import { type Conv2d, type Conv2dOptions, conv2d, type ImageShape } from '../network/conv2d.ts';
import { dueling as duelingLayer, expectation } from '../network/heads.ts';
import { flatten, type Layer, linear } from '../network/layers.ts';
import { Network } from '../network/network.ts';
import { type ActOptions, MlpPolicy } from '../policy.ts';
import type { QHead } from './heads.ts';

/** Options of a DqnLearner that define its network. */
export interface QNetworkOptions {
  /** number of floats of an observation */
  obsDim: number;
  /** number of actions, which a batch stores as indices */
  actions: number;
  /** number of neurons of each hidden layer, such as [120, 84]. Required unless `body` is given */
  hidden?: readonly number[];
  /** activation after each hidden layer, default 'relu' */
  activation?: Activation;
  /**
   * convolutions over `image` before the hidden layers, default none. The activation follows each
   * of them. Mnih et al. (2015) use three
   */
  convolutions?: readonly (Conv2dOptions & { filters: number })[];
  /** shape of an observation for the convolutions. The product of its sizes must be obsDim */
  image?: ImageShape;
  /**
   * layers that replace `hidden`, `activation` and convolutions, from an observation to the input
   * of a last linear layer
   */
  body?: readonly Layer[];
  /**
   * whether the last layer combines a state's value with each action's advantage (Wang et al.,
   * 2016). Default false
   */
  dueling?: boolean;
  /**
   * output of the network for each action: one number, or a distribution over atoms (Bellemare et
   * al., 2017). Default { kind: 'scalar' }
   */
  head?: QHead;
}

export const qNetworkKeys = [
  'obsDim',
  'actions',
  'hidden',
  'activation',
  'convolutions',
  'image',
  'body',
  'dueling',
  'head',
] as const;

/**
 * Returns three networks with the same parameters. `network` computes the head's input from
 * observations. `values` computes each action's value from observations. `parts` is `network`
 * without its dueling layer: the state's value, followed by the actions' advantages. Without a
 * dueling layer, it is `network`.
 */
export function qNetwork(options: QNetworkOptions): {
  network: Network;
  values: Network;
  parts: Network;
} {
  const { actions, dueling = false, head = { kind: 'scalar' } } = options;
  checkFlag('dueling', dueling);
  checkCount('obsDim', options.obsDim);
  checkCount('actions', actions);
  const body = bodyOf(options);
  const atoms = checkKind('head', head, 51);
  const width = atoms?.atoms ?? 1;
  const outputs = (dueling ? 1 + actions : actions) * width;
  const ends = dueling ? [duelingLayer(actions, { atoms: width })] : [];
  const layers = [...body.layers, linear(body.outputs, outputs)];
  const network = new Network([...layers, ...ends]);
  const values = atoms ? new Network([...network.layers, expectation(actions, atoms)]) : network;
  return { network, values, parts: dueling ? new Network(layers) : network };
}

/** Returns the layers before the last linear layer, and the number of outputs of these layers. */
function bodyOf(options: QNetworkOptions): { layers: readonly Layer[]; outputs: number } {
  const { obsDim, hidden, activation, body } = options;
  if (body === undefined) {
    if (!Array.isArray(hidden))
      throw typeError(`hidden must be an array of layer sizes, got ${describeValue(hidden)}`);
    for (const [i, size] of hidden.entries()) checkCount(`hidden[${i}]`, size, 1, 2 ** 20);
    const between = checkActivation('activation', activation ?? 'relu');
    const front = imageLayers(options, between);
    const inputs = front?.outputs ?? obsDim;
    const layers = hiddenLayers([inputs, ...hidden], between);
    return { layers: [...(front?.layers ?? []), ...layers], outputs: hidden.at(-1) ?? inputs };
  }
  if (hidden !== undefined) throw rangeError('DqnLearner: give hidden or body, not both');
  for (const name of ['activation', 'convolutions', 'image'] as const)
    if (options[name] !== undefined)
      throw rangeError(`DqnLearner: ${name} is for hidden; a body has its own`);
  if (!Array.isArray(body))
    throw typeError(`body must be an array of layers, got ${describeValue(body)}`);
  const { inputs, outputs } = new Network(body);
  if (inputs !== obsDim)
    throw rangeError(`body takes ${inputs} numbers a row, obsDim is ${obsDim}`);
  return { layers: body, outputs };
}

/** Returns the convolutions and the number of their outputs, or null if the options have none. */
function imageLayers(
  { obsDim, convolutions, image }: QNetworkOptions,
  activation: Activation,
): { layers: Layer[]; outputs: number } | null {
  if (convolutions === undefined && image === undefined) return null;
  if (convolutions === undefined || image === undefined)
    throw rangeError('DqnLearner: give convolutions and image together');
  if (!Array.isArray(convolutions) || convolutions.length === 0)
    throw typeError(
      `convolutions must be an array of { filters, kernel, stride?, padding? }, got ${describeValue(convolutions)}`,
    );
  const layers: Layer[] = [];
  let shape: ImageShape = image;
  for (const { filters, ...options } of convolutions) {
    const made: Conv2d = conv2d(shape, filters, options);
    if (layers.length === 0 && made.inputs !== obsDim)
      throw rangeError(`image has ${made.inputs} numbers, obsDim is ${obsDim}`);
    layers.push(made, ...layerOf[activation]());
    shape = made.shape;
  }
  return { layers: [...layers, flatten()], outputs: shape[0] * shape[1] * shape[2] };
}

/** Options of a DqnPolicy. They are plain data, so they can be posted to another thread. */
export interface DqnPolicyOptions extends QNetworkOptions {
  /**
   * factor of an observation's elements, default 1. The policy multiplies in float32 before the
   * network runs. Use 1/255 if the learner scales the bytes of images by 1/255
   */
  scale?: number;
}

/**
 * Acts greedily with the weights that a DqnLearner publishes. A collector's thread can use it,
 * because it needs no learner.
 * @example
 * const policy = new DqnPolicy({ obsDim: 4, actions: 2, hidden: [64] });
 * const weights = new Float32Array(mailbox.length);
 * mailbox.read(weights);
 * const actions = policy.load(weights).act(obs, 8);
 */
export class DqnPolicy extends MlpPolicy {
  /** factor of an observation's elements, rounded to float32 */
  readonly scale: number;
  #scaledObs = new Float32Array(0);

  /**
   * Creates a policy without weights.
   *
   * @param options the learner's options that define its network, and `scale`
   * @throws {TypeError|RangeError} for a wrong option
   */
  constructor(options: DqnPolicyOptions) {
    checkKeys('DqnPolicy', options, [...qNetworkKeys, 'scale']);
    const { scale = 1, ...network } = options;
    if (
      typeof scale !== 'number' ||
      !Number.isFinite(Math.fround(scale)) ||
      Math.fround(scale) === 0
    )
      throw rangeError(
        `scale must be a number that float32 has and not 0, got ${describeValue(scale)}`,
      );
    super(qNetwork(network).values);
    this.scale = Math.fround(scale);
  }

  /**
   * Returns the actions' values [n, actions] for n observations. It multiplies the observations by
   * `scale` first.
   *
   * @param options `mask`: legal actions, as for MlpPolicy.values()
   * @throws as MlpPolicy.values()
   */
  override values(obs: Float32Array, n: number, options?: ActOptions): Float32Array {
    if (this.scale === 1 || !(obs instanceof Float32Array)) return super.values(obs, n, options);
    if (this.#scaledObs.length !== obs.length) this.#scaledObs = new Float32Array(obs.length);
    // The product in float32 is what the learner's `convert` and ONNX's Mul compute, so all three
    // give the same values.
    const end = Math.min(obs.length, n * this.network.inputs);
    for (let at = 0; at < end; at++) this.#scaledObs[at] = (obs[at] as number) * this.scale;
    return super.values(this.#scaledObs, n, options);
  }
}
