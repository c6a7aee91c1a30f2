/**
 * Layers of a network. Each layer enqueues its forward and its backward pass as launches on memory
 * that the workspace allocated.
 */
import { checkCount, checkKeys } from '../../base/checks.ts';
import type { Stream, Tensor } from '../../device/device.ts';
import { checkWithin, rowStride } from '../checks.ts';
import { slopeReadsInput, unaries } from '../ops/elementwise.ts';
import { ops } from '../ops/index.ts';
import { type ActivationName, activate, normalize, dense as onHost } from './host.ts';
import { kindOf, ofKind, ofLinear } from './kinds.ts';
import { activationBackward, linearForward, linearGradients, sumColumns } from './linear.ts';

type Floats = Tensor<'float32'>;

/**
 * Shape of a layer's parameter and its initial values: uniform within ±bound, or all equal to
 * `value`.
 */
export interface ParameterShape {
  /** torch's name: 'weight', 'bias' */
  readonly name: string;
  readonly shape: readonly number[];
  readonly initial: { readonly bound: number } | { readonly value: number };
}

/** Tensors of a layer's forward pass, all float32. */
export interface LayerPass {
  /** the layer's parameters, in the order of Layer.parameters() */
  readonly parameters: readonly Floats[];
  /** [rows, inputs] */
  readonly x: Floats;
  /** [rows, outputs] */
  readonly y: Floats;
  /** [rows, keeps]: values that forward stores for backward */
  readonly kept: Floats | undefined;
}

/** Tensors of a layer's backward pass, all float32. */
export interface LayerReturn extends LayerPass {
  /** [rows, outputs]: gradient at the output. backward may overwrite `dy` and `kept` */
  readonly dy: Floats;
  /** output, [rows, inputs]: gradient at the input, or undefined if the caller does not need it */
  readonly dx: Floats | undefined;
  /** outputs: gradients of the parameters, or undefined if the caller does not need them */
  readonly gradients: readonly Floats[] | undefined;
  /** [rows, scratch]: scratch memory for backward, with arbitrary content */
  readonly scratch: Floats | undefined;
}

/**
 * A layer of a Network. You can write your own layers. Both passes may only launch kernels, because
 * graphs capture them.
 */
export interface Layer {
  /** name of the layer in errors: 'linear(17, 256)' */
  readonly name: string;
  /** number of elements of an input row, or undefined if any number is valid */
  readonly inputs?: number;
  /** returns the number of elements of an output row, for input rows of `inputs` elements */
  outputs(inputs: number): number;
  /** returns the parameters with their initial values, for input rows of `inputs` elements */
  parameters(inputs: number): readonly ParameterShape[];
  /** returns the number of floats per row that forward stores for backward */
  keeps?(inputs: number): number;
  /** returns the number of floats per row that backward needs as scratch memory */
  scratch?(inputs: number): number;
  /** enqueues the computation of y from x */
  forward(stream: Stream, pass: LayerPass): void;
  /** enqueues the computation of dx and gradients from dy, except those that are undefined */
  backward(stream: Stream, pass: LayerReturn): void;
  /**
   * true if the output is the unchanged input. Passes skip such a layer. It still counts as a
   * layer, so it changes the indices in the names of later layers' parameters
   */
  readonly passes?: true;
  /**
   * returns one layer that computes this layer and then `next`, or undefined if that would not be
   * faster. Its parameters are this layer's, followed by those of `next`
   */
  fuse?(next: Layer): Layer | undefined;
  /**
   * computes y [rows, outputs] from x [rows, inputs], both row-major, on the calling thread. It
   * does not change x. Both arrays may be longer. Policies need this method. `mask` has the legal
   * actions of a policy's call, [rows, outputs of the network], in which 0 is illegal. dueling()
   * takes its mean over them
   */
  run?(
    x: Float32Array,
    rows: number,
    y: Float32Array,
    parameters: readonly Float32Array[],
    inputs: number,
    mask?: Uint8Array,
  ): void;
}

/**
 * Returns a layer that computes y = x · weightᵀ + bias, as torch.nn.Linear. Its parameters are
 * weight [outputs, inputs] and bias [outputs]. Initial values are uniform within ±1/√inputs.
 *
 * @param inputs number of elements of an input row
 * @param outputs number of elements of an output row
 * @throws {TypeError|RangeError} for a wrong count
 */
export function linear(inputs: number, outputs: number): Layer {
  checkCount('linear: inputs', inputs);
  checkCount('linear: outputs', outputs);
  return dense(inputs, outputs, null);
}

/**
 * Returns a linear layer followed by the activation `act`. One launch computes both, unless a
 * vendor's library multiplies the matrices. If the slope of the activation needs its input, the layer
 * keeps this input for backward.
 */
function dense(inputs: number, outputs: number, act: ActivationName | null): Layer {
  const initial = { bound: 1 / Math.sqrt(inputs) };
  const shapes = [
    { name: 'weight', shape: [outputs, inputs], initial },
    { name: 'bias', shape: [outputs], initial },
  ];
  const op = act === null ? -1 : unaries[act];
  const keepsInput = slopeReadsInput(op);
  const layer: Layer = {
    name: `linear(${inputs}, ${outputs})`,
    inputs,
    outputs: () => outputs,
    parameters: () => shapes,
    ...(keepsInput && { keeps: () => outputs }),
    forward(stream, { parameters: [weight, bias], x, y, kept }) {
      linearForward(stream, [y, keepsInput ? kept! : y], x, [weight!, bias!], op);
    },
    backward(stream, { parameters: [weight], x, y, kept, dy, dx, gradients }) {
      activationBackward(stream, dy, { y, z: kept ?? y }, op);
      if (gradients) linearGradients(stream, gradients as [Floats, Floats], dy, x);
      if (dx) ops.matmul(stream, dx, dy, weight!);
    },
    run(x, rows, y, [weight, bias]) {
      onHost(x, rows, y, weight!, bias!, inputs);
      if (act !== null) activate(act, y, rows * outputs, y);
    },
  };
  const kind = { op, epsilon: null };
  if (act !== null) return ofLinear(kind, layer);
  const fuse = (next: Layer) => {
    const following = kindOf(next);
    if (following?.kind === 'layerNorm') return denseNorm(layer, following.epsilon, null);
    return following?.kind === 'activation' ? dense(inputs, outputs, following.name) : undefined;
  };
  return ofLinear(kind, ofKind({ kind: 'linear' }, { ...layer, fuse }));
}

/**
 * Returns a linear layer, layer normalization and the activation `act` as one layer. If `act` is
 * null, the layer has no activation. After the matrix product, one kernel adds the bias, normalizes
 * and applies the activation. The layer keeps the matrix product for backward.
 */
function denseNorm(linear: Layer, epsilon: number, act: ActivationName | null): Layer {
  const n = linear.outputs(0);
  const op = act === null ? -1 : unaries[act];
  const parts = (kept: Floats, rows: number) => ({
    product: kept.view({ shape: [rows, n] }),
    statistics: kept.view({ shape: [rows, 2], offset: rows * n }),
  });
  const layer: Layer = {
    ...linear,
    keeps: () => n + 2,
    scratch: () => n,
    forward(stream, { parameters: [weight, bias, scale, shift], x, y, kept }) {
      const { product, statistics } = parts(kept!, y.shape[0]!);
      ops.matmul(stream, product, x, weight!, { transB: true });
      stream.launch('norm_act', {
        tensors: [y, statistics, product, bias!, scale!, shift!],
        wholes: [y.shape[0]!, n, rowStride(y), n, op],
        reals: [epsilon],
      });
    },
    backward(
      stream,
      { parameters: [weight, bias, scale, shift], x, kept, dy, dx, gradients, scratch },
    ) {
      const { product: d, statistics } = parts(kept!, dy.shape[0]!);
      stream.launch('norm_act_backward', {
        tensors: [d, scratch!, dy, d, statistics, bias!, scale!, shift!],
        wholes: [dy.shape[0]!, n, n, rowStride(scratch!), rowStride(dy), n, op],
      });
      if (gradients) {
        sumColumns(stream, gradients[3]!, dy);
        sumColumns(stream, gradients[2]!, scratch!);
        sumColumns(stream, gradients[1]!, d);
        ops.matmul(stream, gradients[0]!, d, x, { transA: true });
      }
      if (dx) ops.matmul(stream, dx, d, weight!);
    },
    run(x, rows, y, [weight, bias, scale, shift], inputs) {
      linear.run?.(x, rows, y, [weight!, bias!], inputs);
      normalize(y, rows, y, scale!, shift!, epsilon);
      if (act !== null) activate(act, y, rows * n, y);
    },
  };
  if (act !== null) return ofLinear({ op, epsilon }, layer);
  return ofLinear(
    { op, epsilon },
    {
      ...layer,
      fuse(next) {
        const following = kindOf(next);
        return following?.kind === 'activation'
          ? denseNorm(linear, epsilon, following.name)
          : undefined;
      },
    },
  );
}

/**
 * Returns a layer that normalizes each row of `n` elements, as torch.nn.LayerNorm. It computes
 * `y = (x − mean) / √(variance + epsilon) · weight + bias`. Initial weights are 1 and initial
 * biases 0.
 *
 * @param n number of elements of a row
 * @param options `epsilon`, above 0 and at most 1, default 1e-5
 * @throws {TypeError|RangeError} for a wrong number
 */
export function layerNorm(n: number, options: { epsilon?: number } = {}): Layer {
  checkCount('layerNorm: n', n);
  checkKeys('layerNorm', options, ['epsilon']);
  const { epsilon = 1e-5 } = options;
  checkWithin('layerNorm: epsilon', epsilon, Number.MIN_VALUE, 1);
  const shapes = [
    { name: 'weight', shape: [n], initial: { value: 1 } },
    { name: 'bias', shape: [n], initial: { value: 0 } },
  ];
  const layer: Layer = {
    name: `layerNorm(${n})`,
    inputs: n,
    outputs: () => n,
    parameters: () => shapes,
    keeps: () => 2,
    scratch: () => n,
    forward(stream, { parameters: [weight, bias], x, y, kept }) {
      stream.launch('layer_norm', {
        tensors: [y, kept!, x, weight!, bias!],
        wholes: [y.shape[0]!, n, rowStride(y), rowStride(x)],
        reals: [epsilon],
      });
    },
    backward(stream, { parameters: [weight], x, kept, dy, dx, gradients, scratch }) {
      if (gradients) sumColumns(stream, gradients[1]!, dy);
      const into = dx ?? dy;
      stream.launch('layer_norm_backward', {
        tensors: [into, scratch!, dy, x, kept!, weight!],
        wholes: [
          dy.shape[0]!,
          n,
          rowStride(into),
          rowStride(scratch!),
          rowStride(dy),
          rowStride(x),
        ],
      });
      if (gradients) sumColumns(stream, gradients[0]!, scratch!);
    },
    run: (x, rows, y, [weight, bias]) => normalize(x, rows, y, weight!, bias!, epsilon),
  };
  return ofKind({ kind: 'layerNorm', epsilon }, layer);
}

function activation(name: ActivationName): () => Layer {
  const layer: Layer = {
    name: `${name}()`,
    outputs: (inputs) => inputs,
    parameters: () => [],
    forward: (stream, { x, y }) => ops[name](stream, y, x),
    backward(stream, { x, dy, dx }) {
      if (dx) ops.backward[name](stream, dx, dy, x);
    },
    run: (x, rows, y, _parameters, inputs) => activate(name, x, rows * inputs, y),
  };
  ofKind({ kind: 'activation', name }, layer);
  return () => layer;
}

const asItIs: Layer = ofKind(
  { kind: 'flatten' },
  {
    name: 'flatten()',
    passes: true,
    outputs: (inputs: number) => inputs,
    parameters: () => [],
    forward() {},
    backward() {},
  },
);

/**
 * Returns a layer that does nothing. Images need no flattening, because each is already one row of
 * numbers. The layer takes the index of torch.nn.Flatten, so that names of parameters match
 * torch's.
 */
export const flatten = (): Layer => asItIs;

/** Returns the activation max(x, 0). */
export const relu = activation('relu');
/** Returns the activation tanh(x). */
export const tanh = activation('tanh');
/** Returns the activation 1 / (1 + e⁻ˣ). */
export const sigmoid = activation('sigmoid');
/** Returns the activation x · sigmoid(x). */
export const silu = activation('silu');
/** Returns the activation GELU, computed with the error function, as torch.nn.GELU. */
export const gelu = activation('gelu');
/** Returns the approximation of GELU by tanh, as torch.nn.GELU with `approximate='tanh'`. */
export const geluTanh = activation('geluTanh');
/** Returns the activation ELU with alpha 1: x if x > 0, else eˣ − 1. */
export const elu = activation('elu');
