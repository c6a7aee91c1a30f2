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
 * `parameters` is the network's flat vector.
 */
export function addLayers(
  graph: OnnxGraph,
  network: Network,
  parameters: Float32Array,
  input: string,
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
    value = addLayer(
      graph,
      kindOf(layer) as LayerKind,
      value,
      constants,
      i,
      layer.outputs(value.width),
    );
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
      const parts = reshaped(name, 'parts', 1 + actions, atoms);
      const [state, advantages] = [`${i}.value`, `${i}.advantages`];
      const sizes = graph.wholes(`${i}.sizes`, [1, actions]);
      graph.node('Split', [parts, sizes], { axis: { int: 1 } }, [state, advantages]);
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
