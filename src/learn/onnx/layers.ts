/** Converts the layers of a network to ONNX nodes. */
import { typeError } from '../../base/errors.ts';
import type { ActivationName } from '../network/host.ts';
import { type Conv2dSizes, kindOf, type LayerKind } from '../network/kinds.ts';
import type { Network } from '../network/network.ts';
import type { OnnxGraph } from './model.ts';

/**
 * Output of a layer: rows [n, width], or the same elements as images [n, channels, height, width].
 */
interface Value {
  name: string;
  width: number;
  image: string | null;
}

/** Throws a TypeError that names the first layer without ONNX nodes. */
export function checkLayers(network: Network): void {
  for (const [i, layer] of network.layers.entries())
    if (kindOf(layer) === undefined)
      throw typeError(
        `encodeOnnx: layers[${i}], ${layer.name}, is not a layer of hotslot/learner, so it has no ONNX nodes; build the network from linear, conv2d, layerNorm, activations, dueling and expectation`,
      );
}

/**
 * Adds the nodes of all layers to the graph. Returns the name of the network's output [n, outputs].
 * `parameters` is the network's flat vector. `mask` names a bool input [n, outputs] of legal
 * actions, over which a dueling layer takes its mean.
 */
export function addLayers(
  graph: OnnxGraph,
  network: Network,
  parameters: Float32Array,
  input: string,
  mask?: string,
): string {
  const named = new Map(network.parameters.map((parameter) => [parameter.name, parameter]));
  let value: Value = { name: input, width: network.inputs, image: null };
  for (const [i, layer] of network.layers.entries()) {
    /** Names of the constants that contain the layer's parameters. */
    const constants = layer.parameters(value.width).map(({ name }) => {
      const called = `${i}.${name}`;
      const { shape, offset } = named.get(called) as { shape: readonly number[]; offset: number };
      const end = offset + shape.reduce((product, size) => product * size, 1);
      return graph.floats(called, parameters.subarray(offset, end), shape);
    });
    const kind = kindOf(layer) as LayerKind;
    const width = layer.outputs(value.width);
    value =
      mask !== undefined && kind.kind === 'dueling' && kind.actions === network.outputs
        ? maskedDueling(graph, kind, flat(graph, value), i, mask)
        : addLayer(graph, kind, value, constants, i, width);
  }
  return flat(graph, value).name;
}

function addLayer(
  graph: OnnxGraph,
  kind: LayerKind,
  value: Value,
  constants: readonly string[],
  i: number,
  width: number,
): Value {
  // Activations are elementwise, so they accept images as well as rows.
  if (kind.kind === 'activation')
    return { ...value, name: activation(graph, kind.name, value.name) };
  if (kind.kind === 'conv2d') return convolution(graph, kind.sizes, value, constants, i);
  const { name } = flat(graph, value);
  const made = (output: string): Value => ({ name: output, width, image: null });
  const reshaped = (x: string, called: string, ...shape: number[]) =>
    graph.node('Reshape', [x, graph.wholes(`${i}.${called}`, [0, ...shape])]);
  switch (kind.kind) {
    case 'flatten':
      return made(name);
    case 'linear':
      return made(graph.node('Gemm', [name, ...constants], { transB: { int: 1 } }));
    case 'layerNorm':
      return made(
        graph.node('LayerNormalization', [name, ...constants], {
          axis: { int: -1 },
          epsilon: { float: kind.epsilon },
        }),
      );
    case 'dueling': {
      const { actions, atoms } = kind;
      const [state, advantages] = duelingParts(graph, kind, name, i);
      const mean = graph.node('ReduceMean', [advantages], {
        axes: { ints: [1] },
        keepdims: { int: 1 },
      });
      const base = graph.node('Sub', [state, mean]);
      return made(reshaped(graph.node('Add', [advantages, base]), 'joined', actions * atoms));
    }
    case 'quantileMean': {
      const parts = reshaped(name, 'quantiles', kind.quantiles, kind.actions);
      const how = { axes: { ints: [1] }, keepdims: { int: 0 } };
      return made(graph.node('ReduceMean', [parts], how));
    }
    case 'expectation': {
      const { count, atoms, min, max } = kind;
      const gap = (max - min) / (atoms - 1);
      const places = Array.from({ length: atoms }, (_, k) => min + k * gap);
      const shares = graph.node('Softmax', [reshaped(name, 'logits', count, atoms)], {
        axis: { int: -1 },
      });
      return made(graph.node('MatMul', [shares, graph.floats(`${i}.atoms`, places)]));
    }
  }
}

type Dueling = Extract<LayerKind, { kind: 'dueling' }>;

/** Returns the state's value [n, 1, atoms] and the advantages [n, actions, atoms]. */
function duelingParts(
  graph: OnnxGraph,
  { actions, atoms }: Dueling,
  name: string,
  i: number,
): [string, string] {
  const shape = graph.wholes(`${i}.parts`, [0, 1 + actions, atoms]);
  const parts = graph.node('Reshape', [name, shape]);
  const [state, advantages] = [`${i}.value`, `${i}.advantages`];
  const sizes = graph.wholes(`${i}.sizes`, [1, actions]);
  graph.node('Split', [parts, sizes], { axis: { int: 1 } }, [state, advantages]);
  return [state, advantages];
}

/** Adds a dueling layer whose mean is over legal actions. A row without one has the mean 0. */
function maskedDueling(
  graph: OnnxGraph,
  kind: Dueling,
  { name }: Value,
  i: number,
  mask: string,
): Value {
  const { actions, atoms } = kind;
  const [state, advantages] = duelingParts(graph, kind, name, i);
  const number = (called: string, value: number) => graph.floats(`${i}.${called}`, [value], []);
  const axis = graph.wholes(`${i}.axis`, [1]);
  const sum = (x: string) => graph.node('ReduceSum', [x, axis], { keepdims: { int: 1 } });
  const shape = graph.wholes(`${i}.legal`, [0, actions, 1]);
  const legal = graph.node('Reshape', [mask, shape]);
  const count = sum(graph.node('Where', [legal, number('one', 1), number('none', 0)]));
  const least = graph.node('Max', [count, number('least', 1)]);
  const shown = graph.node('Where', [legal, advantages, number('zero', 0)]);
  const base = graph.node('Sub', [state, graph.node('Div', [sum(shown), least])]);
  const joined = graph.wholes(`${i}.joined`, [0, actions * atoms]);
  const values = graph.node('Reshape', [graph.node('Add', [advantages, base]), joined]);
  return { name: values, width: actions * atoms, image: null };
}

function convolution(
  graph: OnnxGraph,
  sizes: Conv2dSizes,
  value: Value,
  constants: readonly string[],
  i: number,
): Value {
  const {
    channels,
    height,
    width,
    kernelHeight,
    kernelWidth,
    stride,
    padding,
    filters,
    high,
    wide,
  } = sizes;
  const [from, to] = [`${[channels, height, width]}`, `${[filters, high, wide]}`];
  // If the value is already an image of this convolution's input shape, no Reshape is needed.
  const images =
    value.image === from
      ? value.name
      : graph.node('Reshape', [
          flat(graph, value).name,
          graph.wholes(`${i}.images`, [0, channels, height, width]),
        ]);
  const name = graph.node('Conv', [images, ...constants], {
    kernel_shape: { ints: [kernelHeight, kernelWidth] },
    strides: { ints: [stride, stride] },
    pads: { ints: [padding, padding, padding, padding] },
  });
  return { name, width: filters * high * wide, image: to };
}

/** Returns a value as rows. Adds a Flatten node if the value is images. */
function flat(graph: OnnxGraph, value: Value): Value {
  if (value.image === null) return value;
  return { ...value, name: graph.node('Flatten', [value.name], { axis: { int: 1 } }), image: null };
}

const alone = { relu: 'Relu', tanh: 'Tanh', sigmoid: 'Sigmoid', elu: 'Elu' } as const;

function activation(graph: OnnxGraph, name: ActivationName, x: string): string {
  if (name !== 'silu' && name !== 'gelu' && name !== 'geluTanh')
    return graph.node(alone[name], [x]);
  const number = (called: string, value: number) => graph.floats(`${x}.${called}`, [value], []);
  const times = (a: string, b: string) => graph.node('Mul', [a, b]);
  if (name === 'silu') return times(x, graph.node('Sigmoid', [x]));
  if (name === 'gelu') {
    const share = graph.node('Erf', [times(x, number('root', Math.SQRT1_2))]);
    return times(times(x, number('half', 0.5)), graph.node('Add', [share, number('one', 1)]));
  }
  // 0.5 · (1 + tanh z) equals the sigmoid of 2 z.
  const twice = 2 * Math.sqrt(2 / Math.PI);
  const square = times(times(x, x), number('cubic', twice * 0.044715));
  const bent = times(x, graph.node('Add', [square, number('linear', twice)]));
  return times(x, graph.node('Sigmoid', [bent]));
}
