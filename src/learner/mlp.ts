/** A multilayer perceptron on a device: forward and backward as kernel launches over preallocated tensors, capture-safe. */

import { checkCount, checkFlag, checkKeys, shown } from '../checks.ts';
import { checkDevice, checkStream } from '../device/checks.ts';
import type { Device, Stream, Tensor } from '../device/device.ts';
import { stateError, typeError } from '../errors.ts';
import { activations } from './activation.ts';
import { checkMatrix, checkVector, rowStride } from './checks.ts';
import { MlpLayout } from './mlp-layout.ts';

/** One layer's W [inputs, outputs] and b [outputs] inside a flat vector (parameters or their gradient). */
export interface LayerTensors {
  readonly weight: Tensor<'float32'>;
  readonly bias: Tensor<'float32'>;
}

export class Mlp extends MlpLayout {
  /** Views of each layer in `flat`, a contiguous float32 vector of parameterCount. */
  over(flat: Tensor<'float32'>): LayerTensors[] {
    checkVector('parameters', flat, this.parameterCount);
    return this.layers.map(({ inputs, outputs, weight, bias }) => ({
      weight: flat.view({ shape: [inputs, outputs], offset: weight }),
      bias: flat.view({ shape: [outputs], offset: bias }),
    }));
  }

  /** Memory for one pass of `rows` rows; with `backward` also for the gradients. The caller closes it. */
  workspace(device: Device, rows: number, options: { backward?: boolean } = {}): MlpWorkspace {
    checkKeys('workspace', options, ['backward']);
    const { backward = false } = options;
    checkFlag('backward', backward);
    return new MlpWorkspace(this, checkDevice('workspace', device), rows, backward);
  }

  /** y = net(input [rows, inputs]) into the workspace; returns its output [rows, outputs]. */
  forward(
    stream: Stream,
    parameters: readonly LayerTensors[],
    input: Tensor<'float32'>,
    workspace: MlpWorkspace,
  ): Tensor<'float32'> {
    checkStream('forward', stream);
    const { rows } = checkPass('forward', parameters, workspace);
    let x = checkMatrix('input', input, rows, this.inputs);
    this.layers.forEach(({ inputs, outputs, activation }, i) => {
      const { weight, bias } = parameters[i] as LayerTensors;
      const y = workspace.outputs[i] as Tensor<'float32'>;
      product(stream, y, x, weight, [0, 0, rows, outputs, inputs]);
      stream.launch('bias_act', {
        tensors: [y, y, bias],
        wholes: [rows, outputs, outputs, outputs, activations[activation]],
      });
      x = y;
    });
    return x;
  }

  /**
   * Gradients of the pass last run in `workspace`, from workspace.outputGradient [rows, outputs] (which it overwrites)
   * into `gradient` (overwritten, not added to) and, when given, `inputGradient` [rows, inputs].
   */
  backward(
    stream: Stream,
    parameters: readonly LayerTensors[],
    input: Tensor<'float32'>,
    workspace: MlpWorkspace,
    gradient: readonly LayerTensors[],
    inputGradient?: Tensor<'float32'>,
  ): void {
    checkStream('backward', stream);
    const { rows, gradients, outputs: ys } = checkPass('backward', parameters, workspace);
    if (!Array.isArray(gradient)) throw typeError(`gradient must be what over() gives, got ${shown(gradient)}`);
    if (gradients.length === 0) throw stateError('EMPTY', 'this workspace was made without backward: true');
    checkMatrix('input', input, rows, this.inputs);
    if (inputGradient) checkMatrix('inputGradient', inputGradient, rows, this.inputs);
    for (let i = this.layers.length - 1; i >= 0; i--) {
      const { inputs, outputs, activation } = this.layers[i] as MlpLayout['layers'][number];
      const dz = gradients[i] as Tensor<'float32'>;
      const into = gradient[i] as LayerTensors;
      if (activation !== 'none') {
        const wholes = [rows, outputs, outputs, outputs, outputs, activations[activation]] as const;
        stream.launch('act_backward', { tensors: [dz, dz, ys[i] as Tensor<'float32'>], wholes });
      }
      stream.launch('column_sums', { tensors: [into.bias, dz], wholes: [rows, outputs, outputs], reals: [1, 0] });
      const x = i > 0 ? (ys[i - 1] as Tensor<'float32'>) : input;
      product(stream, into.weight, x, dz, [1, 0, inputs, outputs, rows]);
      const dx = i > 0 ? gradients[i - 1] : inputGradient;
      if (dx) product(stream, dx, dz, (parameters[i] as LayerTensors).weight, [0, 1, rows, inputs, outputs]);
    }
  }
}

function checkPass(what: string, parameters: readonly LayerTensors[], workspace: MlpWorkspace): MlpWorkspace {
  if (!Array.isArray(parameters))
    throw typeError(`${what}: parameters must be what over() gives, got ${shown(parameters)}`);
  if (!(workspace instanceof MlpWorkspace))
    throw typeError(`${what} needs a workspace, got ${shown(workspace)}: mlp.workspace() makes one`);
  return workspace;
}

type ProductSizes = readonly [transA: 0 | 1, transB: 0 | 1, m: number, n: number, k: number];

/** c = op(a)·op(b). */
function product(
  stream: Stream,
  c: Tensor<'float32'>,
  a: Tensor<'float32'>,
  b: Tensor<'float32'>,
  sizes: ProductSizes,
): void {
  stream.launch('gemm', {
    tensors: [c, a, b],
    wholes: [...sizes, rowStride(a), rowStride(b), rowStride(c)],
    reals: [1, 0],
  });
}

/** What one pass writes: each layer's output and, for backward, the gradient at each layer's output. */
export class MlpWorkspace implements Disposable {
  readonly rows: number;
  /** per layer [rows, outputs] */
  readonly outputs: readonly Tensor<'float32'>[];
  /** per layer [rows, outputs]; empty when the workspace is for forward only */
  readonly gradients: readonly Tensor<'float32'>[];
  readonly #memory: Tensor<'float32'>;

  constructor(layout: MlpLayout, device: Device, rows: number, backward: boolean) {
    this.rows = checkCount('rows', rows);
    const lengths = layout.layers.map(({ outputs }) => rows * outputs);
    // Tensors start on cache lines of their own: 16 floats.
    const starts: number[] = [];
    let at = 0;
    for (const length of backward ? [...lengths, ...lengths] : lengths) {
      starts.push(at);
      at += Math.ceil(length / 16) * 16;
    }
    this.#memory = device.allocate({ shape: [at] });
    const tensors = starts.map((offset, i) => {
      const { outputs } = layout.layers[i % lengths.length] as MlpLayout['layers'][number];
      return this.#memory.view({ shape: [rows, outputs], offset });
    });
    this.outputs = tensors.slice(0, lengths.length);
    this.gradients = tensors.slice(lengths.length);
  }

  /** [rows, outputs] of the last layer. */
  get output(): Tensor<'float32'> {
    return this.outputs[this.outputs.length - 1] as Tensor<'float32'>;
  }
  /** Where the loss's gradient at the output belongs before backward. */
  get outputGradient(): Tensor<'float32'> {
    const last = this.gradients[this.gradients.length - 1];
    if (!last) throw stateError('EMPTY', 'this workspace was made without backward: true');
    return last;
  }
  close(): void {
    this.#memory.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
