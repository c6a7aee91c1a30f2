/** The network of a DQN, from the options that say what it is; and acting by it, on the calling thread and without a device. */
import { checkCount, checkFlag, checkKeys, shown } from '../../checks.ts';
import { rangeError, typeError } from '../../errors.ts';
import { type Activation, checkActivation } from '../activation.ts';
import { checkKind } from '../distribution.ts';
import { hiddenLayers } from '../mlp.ts';
import { dueling as duelingLayer, expectation } from '../network/heads.ts';
import { type Layer, linear } from '../network/layers.ts';
import { Network } from '../network/network.ts';
import { MlpPolicy } from '../policy.ts';
import type { QHead } from './heads.ts';

/** Of the options of a DqnLearner, those of its network. */
export interface QNetworkOptions {
  /** floats of an observation */
  obsDim: number;
  /** number of actions; the batch stores an action as its index */
  actions: number;
  /** neurons of the hidden layers, e.g. [120, 84] */
  hidden?: readonly number[];
  /** between them; default 'relu' */
  activation?: Activation;
  /** instead of `hidden`: layers from an observation to what a last linear layer reads, such as convolutions */
  body?: readonly Layer[];
  /** the last layer makes a state's value and each action's advantage (Wang et al., 2016); default false */
  dueling?: boolean;
  /** what is said of an action: one number, or a distribution over atoms (Bellemare et al., 2017); default scalar */
  head?: QHead;
}

export const qNetworkKeys = ['obsDim', 'actions', 'hidden', 'activation', 'body', 'dueling', 'head'] as const;

/** From observations to what the head takes; with `values`, to a value of each action. */
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

/** The layers before the last linear one, and how many numbers they make of an observation. */
function bodyOf({ obsDim, hidden, activation, body }: QNetworkOptions): { layers: readonly Layer[]; outputs: number } {
  if (body === undefined) {
    if (!Array.isArray(hidden)) throw typeError(`hidden must be an array of layer sizes, got ${shown(hidden)}`);
    for (const [i, size] of hidden.entries()) checkCount(`hidden[${i}]`, size, 1, 2 ** 20);
    const layers = hiddenLayers([obsDim, ...hidden], checkActivation('activation', activation ?? 'relu'));
    return { layers, outputs: hidden.at(-1) ?? obsDim };
  }
  if (hidden !== undefined) throw rangeError('DqnLearner: give hidden or body, not both');
  if (activation !== undefined) throw rangeError('DqnLearner: activation is for hidden; a body has its own');
  if (!Array.isArray(body)) throw typeError(`body must be an array of layers, got ${shown(body)}`);
  const { inputs, outputs } = new Network(body);
  if (inputs !== obsDim) throw rangeError(`body takes ${inputs} numbers a row, obsDim is ${obsDim}`);
  return { layers: body, outputs };
}

/** Greedy actions by what a DqnLearner publishes: in a collector's thread, where there is no learner. */
export class DqnPolicy extends MlpPolicy {
  constructor(network: QNetworkOptions) {
    checkKeys('DqnPolicy', network, qNetworkKeys);
    super(qNetwork(network).values);
  }
}
