/**
 * Layers in a row over one flat float32 vector: description, initial values, and passes on a
 * device.
 */
import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { arrayOf, elementCount } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import { checkDevice, checkStream } from '../../device/checks.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { checkMatrix, checkVector } from '../checks.ts';
import { LastPass } from './last-pass.ts';
import type { Layer, ParameterShape } from './layers.ts';

type Floats = Tensor<'float32'>;

/** A parameter's place in the flat vector. */
export interface NetworkParameter {
  /** layer and name, as torch.nn.Sequential's state_dict has it: '0.weight' */
  readonly name: string;
  readonly shape: readonly number[];
  /** floats from the start of the vector */
  readonly offset: number;
}

/** A layer, or a layer with the layers after it fused into it. */
interface Stage {
  /** the layer's number, or the first one's of several */
  readonly index: number;
  readonly layer: Layer;
  readonly inputs: number;
  readonly outputs: number;
  readonly parameters: readonly (ParameterShape & {
    readonly called: string;
    readonly offset: number;
  })[];
}

export class Network {
  readonly layers: readonly Layer[];
  readonly inputs: number;
  readonly outputs: number;
  /** floats in the flat vector: the parameters in order, without gaps */
  readonly parameterCount: number;
  readonly parameters: readonly NetworkParameter[];
  readonly #stages: readonly Stage[];

  /**
   * Throws a RangeError naming both layers if a layer's inputs differ from the outputs of the one
   * before.
   */
  constructor(layers: readonly Layer[]) {
    if (!Array.isArray(layers))
      throw typeError(`a Network takes an array of layers, got ${describeValue(layers)}`);
    for (const [i, layer] of layers.entries())
      if (typeof (layer as Layer | undefined)?.forward !== 'function')
        throw typeError(
          `layers[${i}] must be a layer such as linear(4, 8), got ${describeValue(layer)}`,
        );
    const first = layers.find((layer: Layer) => layer.inputs !== undefined) as Layer | undefined;
    if (first === undefined)
      throw rangeError('a Network needs a layer with a number of inputs, such as linear(4, 8)');
    this.layers = Object.freeze([...layers]);
    this.inputs = first.inputs as number;
    const stages: Stage[] = [];
    let [width, at] = [this.inputs, 0];
    const enter = (i: number) => {
      const layer = this.layers[i] as Layer;
      if (layer.inputs !== undefined && layer.inputs !== width)
        throw rangeError(
          `layers[${i}], ${layer.name}, takes ${layer.inputs} numbers a row, layers[${i - 1}], ${this.layers[i - 1]?.name}, makes ${width}`,
        );
      const parameters = layer.parameters(width).map((parameter) => {
        const offset = at;
        at += elementCount(parameter.shape);
        return { ...parameter, called: `${i}.${parameter.name}`, offset };
      });
      width = layer.outputs(width);
      return parameters;
    };
    for (let i = 0; i < this.layers.length; i++) {
      let layer = this.layers[i] as Layer;
      if (layer.passes) continue;
      const [index, inputs, parameters] = [i, width, enter(i)];
      for (let next = this.layers[i + 1]; next; next = this.layers[i + 1]) {
        const both = layer.fuse?.(next);
        if (!both) break;
        layer = both;
        parameters.push(...enter(++i));
      }
      stages.push({ index, layer, inputs, outputs: width, parameters });
    }
    this.outputs = width;
    this.parameterCount = at;
    this.#stages = stages;
    this.parameters = stages.flatMap(({ parameters }) =>
      parameters.map(({ called, shape, offset }) => ({ name: called, shape, offset })),
    );
    if (new.target === Network) Object.freeze(this);
  }

  /**
   * Returns initial values by `seed`, as each layer specifies: linear layers within ±1/√inputs, as
   * torch draws them.
   */
  initialize(seed: number): Float32Array {
    const random = new Random(seed);
    const flat = arrayOf('float32', this.parameterCount);
    for (const { parameters } of this.#stages)
      for (const { shape, offset, initial } of parameters)
        for (let i = offset; i < offset + elementCount(shape); i++)
          flat[i] = 'bound' in initial ? random.between(-1, 1) * initial.bound : initial.value;
    return flat;
  }

  /** @deprecated `initialize`, until 0.5 */
  initialise(seed: number): Float32Array {
    return this.initialize(seed);
  }

  /**
   * Returns the layers' parameters as views of a contiguous float32 vector of parameterCount, for
   * forward and backward.
   */
  over(flat: Floats): Floats[][] {
    checkVector('parameters', flat, this.parameterCount);
    return this.#stages.map(({ parameters }) =>
      parameters.map(({ shape, offset }) => flat.view({ shape: [...shape], offset })),
    );
  }

  /**
   * Allocates memory for a pass of `rows` rows, and with `backward` also for the gradients. The
   * caller closes it.
   */
  workspace(device: Device, rows: number, options: { backward?: boolean } = {}): NetworkWorkspace {
    checkKeys('workspace', options, ['backward']);
    const { backward = false } = options;
    checkFlag('backward', backward);
    return new NetworkWorkspace(
      this,
      this.#stages,
      checkDevice('workspace', device),
      rows,
      backward,
    );
  }

  /**
   * Writes the network's output for `input` [rows, inputs] into the workspace, and returns it,
   * [rows, outputs]. `parameters` come from over().
   */
  forward(
    stream: Stream,
    parameters: readonly (readonly Floats[])[],
    input: Floats,
    workspace: NetworkWorkspace,
  ): Floats {
    checkStream('forward', stream);
    this.#check('forward', parameters, workspace);
    let x = checkMatrix('input', input, workspace.rows, this.inputs);
    lastPass(workspace).forget();
    this.#stages.forEach(({ layer }, i) => {
      const y = workspace.outputs[i] as Floats;
      layer.forward(stream, {
        parameters: parameters[i] as Floats[],
        x,
        y,
        kept: workspace.kept[i],
      });
      x = y;
    });
    lastPass(workspace).forward(input, parameters);
    return x;
  }

  /**
   * Computes the gradients of the last pass in `workspace`, from workspace.outputGradient [rows,
   * outputs], which it overwrites. It overwrites `gradient` (from over(), or null if only the
   * input's gradient is wanted) and `inputGradient` [rows, inputs] if given. Throws
   * ERR_HOTSLOT_STATE_EMPTY unless that pass had this input and these parameters, and for a second
   * call without a new pass or a new read of outputGradient.
   */
  backward(
    stream: Stream,
    parameters: readonly (readonly Floats[])[],
    input: Floats,
    workspace: NetworkWorkspace,
    gradient: readonly (readonly Floats[])[] | null,
    inputGradient?: Floats,
  ): void {
    checkStream('backward', stream);
    this.#check('backward', parameters, workspace);
    if (gradient !== null && (!Array.isArray(gradient) || gradient.length !== this.#stages.length))
      throw typeError(
        `backward: gradient must be a result of over(), got ${describeValue(gradient)}`,
      );
    const { gradients, outputs, kept, scratch, rows } = workspace;
    if (gradients.length === 0)
      throw stateError('EMPTY', 'this workspace was made without backward: true');
    checkMatrix('input', input, rows, this.inputs);
    if (inputGradient) checkMatrix('inputGradient', inputGradient, rows, this.inputs);
    lastPass(workspace).backward(input, parameters);
    for (let i = this.#stages.length - 1; i >= 0; i--) {
      const { layer, inputs } = this.#stages[i] as Stage;
      layer.backward(stream, {
        parameters: parameters[i] as Floats[],
        gradients: gradient?.[i] as Floats[] | undefined,
        kept: kept[i],
        x: i > 0 ? (outputs[i - 1] as Floats) : input,
        y: outputs[i] as Floats,
        dy: gradients[i] as Floats,
        dx: i > 0 ? gradients[i - 1] : inputGradient,
        scratch: scratch?.view({ shape: [rows, layer.scratch?.(inputs) ?? 0] }),
      });
    }
  }

  /**
   * Returns the forward pass without a device: a function of rows over a flat vector, which it
   * reads at every call. Its array is valid until the next call.
   */
  onHost(flat: Float32Array): (x: Float32Array, rows: number) => Float32Array {
    if (!(flat instanceof Float32Array) || flat.length !== this.parameterCount)
      throw rangeError(
        `onHost needs ${this.parameterCount} floats in a Float32Array, got ${describeValue(flat)}`,
      );
    const steps = this.#stages.map(({ layer, inputs, outputs, parameters }) => {
      if (!layer.run)
        throw typeError(`${layer.name} has no run(): it cannot be used without a device`);
      const views = parameters.map(({ shape, offset }) =>
        flat.subarray(offset, offset + elementCount(shape)),
      );
      return { layer, inputs, outputs, views, y: new Float32Array(0) };
    });
    return (x, rows) => {
      let from = x;
      for (const step of steps) {
        if (step.y.length < rows * step.outputs) step.y = new Float32Array(rows * step.outputs);
        step.layer.run?.(from, rows, step.y, step.views, step.inputs);
        from = step.y;
      }
      return from.subarray(0, rows * this.outputs);
    };
  }

  #check(what: string, parameters: unknown, workspace: NetworkWorkspace): void {
    if (!Array.isArray(parameters) || parameters.length !== this.#stages.length)
      throw typeError(
        `${what}: parameters must be a result of over(), got ${describeValue(parameters)}`,
      );
    if (!(workspace instanceof NetworkWorkspace) || workspace.network !== this)
      throw typeError(
        `${what}: the workspace must be this network's, got ${describeValue(workspace)}`,
      );
  }
}

let lastPass: (workspace: NetworkWorkspace) => LastPass;

/** Returns a pass's memory, and where each layer's output and the gradient at it end there. */
export let passParts: (pass: NetworkWorkspace) => {
  memory: Tensor<'float32'>;
  parts: readonly { layer: number; what: string; end: number }[];
};

/**
 * The memory of one pass: each layer's output and kept numbers, and for backward the gradient at
 * each output. A linear layer and the `relu` or `tanh` after it have one output.
 */
export class NetworkWorkspace implements Disposable {
  readonly network: Network;
  readonly rows: number;
  /** per layer [rows, outputs] */
  readonly outputs: readonly Floats[];
  /** likewise, empty if the workspace is for forward only */
  readonly gradients: readonly Floats[];
  readonly kept: readonly (Floats | undefined)[];
  readonly scratch: Floats | undefined;
  readonly #memory: Floats;
  readonly #parts: readonly { layer: number; what: string; end: number }[];
  readonly #last = new LastPass();

  static {
    passParts = (pass) => ({ memory: pass.#memory, parts: pass.#parts });
    lastPass = (workspace) => workspace.#last;
  }

  constructor(
    network: Network,
    stages: readonly Stage[],
    device: Device,
    rows: number,
    backward: boolean,
  ) {
    this.network = network;
    this.rows = checkCount('rows', rows);
    const widths = stages.map(({ outputs }) => outputs);
    const keeps = stages.map(({ layer, inputs }) => layer.keeps?.(inputs) ?? 0);
    const most = backward
      ? Math.max(0, ...stages.map(({ layer, inputs }) => layer.scratch?.(inputs) ?? 0))
      : 0;
    // Each tensor starts on its own cache line of 16 floats.
    let at = 0;
    const places = [...widths, ...(backward ? widths : []), ...keeps, most].map((width) => {
      const place = { width, offset: at };
      at += Math.ceil((rows * width) / 16) * 16;
      return place;
    });
    this.#memory = device.allocate({ shape: [Math.max(at, 1)] });
    const tensors = places.map(({ width, offset }) =>
      width === 0 ? undefined : this.#memory.view({ shape: [rows, width], offset }),
    );
    const n = widths.length;
    // Tensors are padded to whole lines, and the padding stays 0.
    this.#parts = places.slice(0, backward ? 2 * n : n).map(({ width, offset }, i) => ({
      layer: (stages[i % n] as Stage).index,
      what: i < n ? 'output' : 'gradient at the output',
      end: offset + rows * width,
    }));
    this.outputs = tensors.slice(0, n) as Floats[];
    this.gradients = backward ? (tensors.slice(n, 2 * n) as Floats[]) : [];
    this.kept = tensors.slice(-n - 1, -1);
    this.scratch = tensors.at(-1);
  }

  /** [rows, outputs] of the last layer. */
  get output(): Floats {
    return this.outputs.at(-1) as Floats;
  }
  /**
   * Returns the tensor for the loss's gradient at the output. Each backward overwrites it: read
   * this property again before the next one.
   */
  get outputGradient(): Floats {
    const last = this.gradients.at(-1);
    if (!last) throw stateError('EMPTY', 'this workspace was made without backward: true');
    this.#last.renew();
    return last;
  }
  close(): void {
    this.#memory.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
