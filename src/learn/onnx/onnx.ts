/**
 * Exports policies and networks as ONNX models. Runtimes for other languages, browsers and robots
 * read these models.
 */
import { checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { ActorPolicy, greedyActor } from '../actor-critic/policies.ts';
import { DqnPolicy } from '../dqn/policy.ts';
import { Network } from '../network/network.ts';
import { MlpPolicy, weightsOf } from '../policy.ts';
import { addLayers, checkLayers } from './layers.ts';
import { OnnxGraph } from './model.ts';

export interface OnnxOptions {
  /** flat vector of parameterCount weights, which only a Network needs */
  parameters?: Float32Array;
  /**
   * whether the model has the input `mask` bool [n, actions], in which true is a legal action.
   * Default false. Only for a MlpPolicy, DqnPolicy or CategoricalPolicy
   */
  mask?: boolean;
}

/**
 * Largest number of weights of a model. A Protocol Buffers message is at most 2 GiB, and all fields
 * except the weights are small.
 */
const MAX_FLOATS = 2 ** 29 - 2 ** 20;

/**
 * Returns the bytes of an .onnx file with the current weights of a policy or a network. It has IR
 * version 8, opset 17, and the input `obs` float32 [n, obsDim] for any n. The outputs depend on the
 * model:
 *
 * - MlpPolicy or DqnPolicy: `action` int64 [n], which is greedy, and `values` float32 [n, actions].
 * - SacPolicy or Td3Policy: `action` float32 [n, actionDim], inside the box of actions. It has no
 *   noise, even if the policy explores. The model normalizes observations if the policy does.
 * - Network: `values` float32 [n, outputs].
 *
 * With the option `mask`, the values of illegal actions are −Infinity, the action is a legal one, and
 * a dueling layer takes its mean over legal actions. A row without a legal action has the action 0.
 *
 * @param options `parameters`: the weights of a Network. `mask`: an input for legal actions
 * @throws {TypeError} for another model, for a Network without `parameters`, for `mask` with a model
 *   whose actions are not indices, or for a layer that does not come from hotslot/learner. The error
 *   names the first such layer
 * @throws {RangeError} for `parameters` of a wrong length, for `parameters` of a policy, or for
 *   more than 2 GiB of weights
 * @throws {ERR_HOTSLOT_STATE_EMPTY} for a policy without weights
 * @example
 * const policy = learner.policy().load(await learner.parameters.toArray());
 * writeFileSync('policy.onnx', encodeOnnx(policy));
 */
export function encodeOnnx(
  model: MlpPolicy | ActorPolicy | Network,
  options: OnnxOptions = {},
): Uint8Array {
  const network =
    model instanceof Network ? model : (model as { network?: unknown } | null | undefined)?.network;
  const known =
    model instanceof Network || model instanceof MlpPolicy || model instanceof ActorPolicy;
  if (!known || !(network instanceof Network))
    throw typeError(
      `encodeOnnx takes a policy or a Network of hotslot/learner, got ${describeValue(model)}`,
    );
  checkKeys('encodeOnnx', options, ['parameters', 'mask']);
  const { mask = false } = options;
  checkFlag('encodeOnnx: mask', mask);
  if (mask && !(model instanceof MlpPolicy))
    throw typeError(
      `encodeOnnx: mask is for a policy whose actions are indices, got ${describeValue(model)}`,
    );
  checkLayers(network);
  if (network.parameterCount > MAX_FLOATS)
    throw rangeError(
      `an ONNX model holds at most ${MAX_FLOATS} weights, this network has ${network.parameterCount}`,
    );
  const graph = new OnnxGraph();
  const obs = graph.input('obs', network.inputs);
  if (model instanceof Network) {
    addValues(graph, network, parametersOf(network, options), obs);
    return graph.encode();
  }
  if (options.parameters !== undefined)
    throw rangeError(
      'encodeOnnx: parameters are for a Network; a policy has its own: load() them into it first',
    );
  if (model instanceof MlpPolicy) {
    const scale = model instanceof DqnPolicy ? model.scale : 1;
    const seen =
      scale === 1 ? obs : graph.node('Mul', [obs, graph.floats('obs.scale', [scale], [])]);
    const legal = mask ? graph.input('mask', network.outputs, 'bool') : undefined;
    const values = addValues(graph, network, weightsOf(model, 'encodeOnnx'), seen, legal);
    // select_last_index 0 chooses the first of equal values, as act() does.
    const first = { axis: { int: 1 }, keepdims: { int: 0 }, select_last_index: { int: 0 } };
    graph.node('ArgMax', [values], first, ['action']);
    graph.output('action', 'int64');
  } else addActor(graph, model, obs);
  return graph.encode();
}

/** Returns the option `parameters` after checking it for a Network. */
function parametersOf(network: Network, { parameters }: OnnxOptions): Float32Array {
  if (!(parameters instanceof Float32Array))
    throw typeError(
      `encodeOnnx: a Network has no weights; give them as parameters, a Float32Array; got ${describeValue(parameters)}`,
    );
  if (parameters.length !== network.parameterCount)
    throw rangeError(
      `encodeOnnx: parameters must be ${network.parameterCount} floats for this network, got ${parameters.length}`,
    );
  return parameters;
}

function addValues(
  graph: OnnxGraph,
  network: Network,
  parameters: Float32Array,
  obs: string,
  mask?: string,
): string {
  const outputs = addLayers(graph, network, parameters, obs, mask);
  if (mask === undefined) graph.node('Identity', [outputs], {}, ['values']);
  else {
    const never = graph.floats('mask.never', [Number.NEGATIVE_INFINITY], []);
    graph.node('Where', [mask, outputs, never], {}, ['values']);
  }
  graph.output('values', 'float32', network.outputs);
  return 'values';
}

/** Adds the nodes that compute ActorPolicy.act() without noise. */
function addActor(graph: OnnxGraph, policy: ActorPolicy, obs: string): void {
  const { network, actionDim } = policy;
  const { vector, clip, box, meanClamp } = greedyActor(policy);
  const limits = (name: string, low: number, high: number) => [
    graph.floats(`${name}.low`, [low], []),
    graph.floats(`${name}.high`, [high], []),
  ];
  let seen = obs;
  if (clip !== undefined) {
    const [begin, middle] = [network.parameterCount, network.parameterCount + network.inputs];
    const mean = graph.floats('normalizer.mean', vector.subarray(begin, middle));
    const factor = graph.floats('normalizer.factor', vector.subarray(middle));
    seen = graph.node('Mul', [graph.node('Sub', [obs, mean]), factor]);
    if (clip < Number.POSITIVE_INFINITY)
      seen = graph.node('Clip', [seen, ...limits('normalizer', -clip, clip)]);
  }
  let x = addLayers(graph, network, vector.subarray(0, network.parameterCount), seen);
  if (meanClamp !== undefined) {
    // The outputs are means, followed by log deviations. A greedy action only needs the means.
    const [from, to, axis] = [
      graph.wholes('means.from', [0]),
      graph.wholes('means.to', [actionDim]),
      graph.wholes('means.axis', [1]),
    ];
    x = graph.node('Slice', [x, from, to, axis]);
    if (meanClamp < 1e30) x = graph.node('Clip', [x, ...limits('means', -meanClamp, meanClamp)]);
    x = graph.node('Tanh', [x]);
  }
  const scaled = graph.node('Mul', [x, graph.floats('action.scale', box.scale)]);
  const moved = graph.node('Add', [scaled, graph.floats('action.bias', box.bias)]);
  const above = graph.node('Max', [moved, graph.floats('action.low', box.low)]);
  graph.node('Min', [above, graph.floats('action.high', box.high)], {}, ['action']);
  graph.output('action', 'float32', actionDim);
}
