/**
 * The network of a DQN, made from its options, and a policy that acts with it on the calling
 * thread, without a device.
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
import { MlpPolicy } from '../policy.ts';
import type { QHead } from './heads.ts';

/** The options of a DqnLearner that define its network. */
export interface QNetworkOptions {
  /** floats of an observation */
  obsDim: number;
  /** number of actions, which a batch stores as indices */
  actions: number;
  /** neurons of the hidden layers, such as [120, 84]. Needed without `body` */
  hidden?: readonly number[];
  /** activation after each hidden layer, default 'relu' */
  activation?: Activation;
  /**
   * convolutions over `image` before the hidden layers, each followed by the activation, default
   * none. Mnih et al. (2015) have three
   */
  convolutions?: readonly (Conv2dOptions & { filters: number })[];
  /** shape of an observation for the convolutions, whose product is obsDim */
  image?: ImageShape;
  /**
   * layers from an observation to the input of a last linear layer, such as convolutions, instead
   * of `hidden` and `activation`
   */
  body?: readonly Layer[];
  /**
   * true: the last layer computes a state's value and each action's advantage (Wang et al., 2016).
   * Default false
   */
  dueling?: boolean;
  /**
   * output for an action: one number, or a distribution over atoms (Bellemare et al., 2017),
   * default { kind: 'scalar' }
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
 * Returns the network from observations to the head's input, and `values`, the network to each
 * action's value.
 */
export function qNetwork(options: QNetworkOptions): { network: Network; values: Network } {
  const { actions, dueling = false, head = { kind: 'scalar' } } = options;
  checkFlag('dueling', dueling);
  checkCount('obsDim', options.obsDim);
  checkCount('actions', actions);
  const body = bodyOf(options);
  const atoms = checkKind('head', head, 51);
  const width = atoms?.atoms ?? 1;
  const outputs = (dueling ? 1 + actions : actions) * width;
  const ends = dueling ? [duelingLayer(actions, { atoms: width })] : [];
  const network = new Network([...body.layers, linear(body.outputs, outputs), ...ends]);
  const values = atoms ? new Network([...network.layers, expectation(actions, atoms)]) : network;
  return { network, values };
}

/** Returns the layers before the last linear one, and the count of numbers that they make. */
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

/**
 * Returns the convolutions and the count of numbers that they make, or null without convolutions.
 */
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

/** Options of a DqnPolicy: plain data, which can be posted to a thread. */
export interface DqnPolicyOptions extends QNetworkOptions {
  /**
   * factor of an observation's numbers, applied first, in float32, default 1. Use 1/255 if the
   * learner scales the bytes of images by it
   */
  scale?: number;
}

/**
 * Acts greedily with the weights that a DqnLearner publishes, in a collector's thread without a
 * learner.
 * @example
 * const policy = new DqnPolicy({ obsDim: 4, actions: 2, hidden: [64] });
 * const weights = new Float32Array(mailbox.length);
 * mailbox.read(weights);
 * const actions = policy.load(weights).act(obs, 8);
 */
export class DqnPolicy extends MlpPolicy {
  /** factor of an observation's numbers, a float32 */
  readonly scale: number;
  #scaledObs = new Float32Array(0);

  /**
   * Creates a policy without weights.
   *
   * @param options the learner's network options, and `scale`
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
   * Returns the actions' values [n, actions] for n observations times `scale`.
   *
   * @throws as MlpPolicy.values()
   */
  override values(obs: Float32Array, n: number): Float32Array {
    if (this.scale === 1 || !(obs instanceof Float32Array)) return super.values(obs, n);
    if (this.#scaledObs.length !== obs.length) this.#scaledObs = new Float32Array(obs.length);
    // One product of two float32, as in the learner's `convert` and in ONNX's Mul.
    const end = Math.min(obs.length, n * this.network.inputs);
    for (let at = 0; at < end; at++) this.#scaledObs[at] = (obs[at] as number) * this.scale;
    return super.values(this.#scaledObs, n);
  }
}
