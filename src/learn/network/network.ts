/**
 * A network: a sequence of layers whose parameters are in one flat float32 vector. It creates
 * initial values and enqueues passes on a device.
 */
import { checkCount, checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { arrayOf, elementCount } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { Random } from '../../base/random.ts';
import { checkDevice, checkStream } from '../../device/checks.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { checkMatrix, checkVector } from '../checks.ts';
import { kindOf } from './kinds.ts';
import { LastPass } from './last-pass.ts';
import type { Layer, ParameterShape } from './layers.ts';

type Floats = Tensor<'float32'>;

/** Shape of a parameter and its offset in the flat vector. */
export interface NetworkParameter {
  /** layer's index and parameter's name, as in the state_dict of torch.nn.Sequential: '0.weight' */
  readonly name: string;
  readonly shape: readonly number[];
  /** offset from the start of the vector, in floats */
  readonly offset: number;
}

/** One layer, or several layers that fuse() made one. */
export interface Stage {
  /** index of the layer, or of the first of several fused layers */
  readonly index: number;
  readonly layer: Layer;
  readonly inputs: number;
  readonly outputs: number;
  readonly parameters: readonly (ParameterShape & {
    readonly called: string;
    readonly offset: number;
  })[];
}

/** Returns the stages of a network. A trace launches them one by one. */
export let stagesOf: (network: Network) => readonly Stage[];

/**
 * Describes a sequence of layers with one flat float32 vector of parameters. It owns no device
 * memory.
 * @example
 * const net = new Network([linear(3, 64), layerNorm(64), silu(), linear(64, 1)]);
 * const weights = device.allocate({ shape: [net.parameterCount] }).write(net.initialize(1));
 * const pass = net.workspace(device, rows, { backward: true });
 * const y = net.forward(stream, net.over(weights), x, pass);
 */
export class Network {
  readonly layers: readonly Layer[];
  /** number of elements of an input row */
  readonly inputs: number;
  /** number of elements of an output row */
  readonly outputs: number;
  /**
   * number of floats in the flat vector, which contains the parameters in order and without gaps
   */
  readonly parameterCount: number;
  readonly parameters: readonly NetworkParameter[];
  readonly #stages: readonly Stage[];

  static {
    stagesOf = (network) => network.#stages;
  }

  /**
   * Checks that each layer fits the one before it, and fuses layers that can run as one kernel.
   *
   * @param layers layers in the order of the forward pass. At least one of them must have `inputs`
   * @throws {TypeError} for anything but layers
   * @throws {RangeError} if a layer's inputs differ from the outputs of the layer before it, naming
   *   both, or if no layer has `inputs`
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
   * Returns the initial parameters that the layers specify. Those of linear layers are uniform
   * within ±1/√inputs, as in torch.
   *
   * @param seed integer from 0 to 2⁵³ − 1
   * @returns float32 [parameterCount]
   * @throws {TypeError|RangeError} for another seed
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

  /**
   * Returns initialize(seed).
   *
   * @deprecated Use `initialize`. This name is removed in 0.5.
   */
  initialise(seed: number): Float32Array {
    return this.initialize(seed);
  }

  /**
   * Returns the layers' parameters as views of a vector. Pass the result to forward() and
   * backward().
   *
   * @param flat contiguous float32 of parameterCount elements, which are weights or their gradient
   * @throws {TypeError|RangeError} for another tensor
   */
  over(flat: Floats): Floats[][] {
    checkVector('parameters', flat, this.parameterCount);
    return this.#stages.map(({ parameters }) =>
      parameters.map(({ shape, offset }) => flat.view({ shape: [...shape], offset })),
    );
  }

  /**
   * Allocates the memory of a pass over `rows` rows. The caller must close it.
   *
   * @param options `backward`: whether to allocate memory for gradients, default false
   * @throws {TypeError|RangeError} for a wrong device, count or option
   * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
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
   * Enqueues a forward pass over `input` in the workspace. It only launches kernels, so a graph can
   * capture it.
   *
   * @param parameters a result of over()
   * @param input float32 [rows, inputs] with adjacent columns
   * @param workspace a result of workspace() with as many rows as `input`
   * @returns the output [rows, outputs], a view of the workspace's memory
   * @throws {TypeError|RangeError} for other tensors, parameters or workspaces
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
   * Enqueues the gradients of the workspace's last forward pass, starting from
   * workspace.outputGradient. It overwrites outputGradient, `gradient` and `inputGradient`.
   *
   * @param parameters the parameters of the last forward()
   * @param input the input of the last forward()
   * @param workspace a workspace that was created with `backward: true`
   * @param gradient output, a result of over(), or null if you only need the input's gradient
   * @param inputGradient output, float32 [rows, inputs]. Default: backward() does not compute it
   * @throws {TypeError|RangeError} for other tensors, parameters or workspaces
   * @throws {ERR_HOTSLOT_STATE_EMPTY} if the workspace's last pass had another input or other
   *   parameters, or for a workspace without `backward: true`
   * @throws {ERR_HOTSLOT_STATE_EMPTY} for a second backward() after one forward(), unless you read
   *   outputGradient between the two calls
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
   * Returns a function that runs the forward pass on the calling thread.
   *
   * @param flat parameterCount weights. The function reads them at each call, so you may change
   *   them
   * @returns a function from x [rows, inputs] to outputs [rows, outputs]. Its array is valid until
   *   the next call. Its third argument, a mask of legal actions [rows, outputs], is optional. Only
   *   dueling layers read it
   * @throws {RangeError} for another array or length
   * @throws {TypeError} if a layer has no run()
   * @example
   * const run = net.onHost(net.initialize(1));
   * const y = run(Float32Array.of(1, 2, 3), 1);
   */
  onHost(flat: Float32Array): (x: Float32Array, rows: number, mask?: Uint8Array) => Float32Array {
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
      // A dueling layer of another number of actions is not the last one, so masks are not its own.
      const kind = kindOf(layer);
      const masked = kind?.kind !== 'dueling' || kind.actions === this.outputs;
      return { layer, inputs, outputs, views, masked, y: new Float32Array(0) };
    });
    return (x, rows, mask) => {
      let from = x;
      for (const step of steps) {
        if (step.y.length < rows * step.outputs) step.y = new Float32Array(rows * step.outputs);
        const legal = step.masked ? mask : undefined;
        step.layer.run?.(from, rows, step.y, step.views, step.inputs, legal);
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

/**
 * Memory of one pass. It contains each layer's output and the values that the layer keeps. With
 * `backward` it also contains the gradient at each output. A linear layer and the activation after it
 * share one output.
 */
export class NetworkWorkspace implements Disposable {
  readonly network: Network;
  readonly rows: number;
  /** [rows, outputs] of each layer */
  readonly outputs: readonly Floats[];
  /** gradients at `outputs`, in the same order. Empty without `backward` */
  readonly gradients: readonly Floats[];
  /** [rows, keeps] of each layer, or undefined for a layer that keeps no values for backward */
  readonly kept: readonly (Floats | undefined)[];
  readonly scratch: Floats | undefined;
  readonly #memory: Floats;
  readonly #last = new LastPass();

  static {
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
    // Each tensor begins at a multiple of 16 floats, which is one cache line.
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
    this.outputs = tensors.slice(0, n) as Floats[];
    this.gradients = backward ? (tensors.slice(n, 2 * n) as Floats[]) : [];
    this.kept = tensors.slice(-n - 1, -1);
    this.scratch = tensors.at(-1);
  }

  /** Returns the last layer's output [rows, outputs]. */
  get output(): Floats {
    return this.outputs.at(-1) as Floats;
  }
  /**
   * Returns the tensor to which you write the loss's gradient at the output, [rows, outputs]. Each
   * backward() overwrites it. Read this property again before the next backward().
   *
   * @throws {ERR_HOTSLOT_STATE_EMPTY} for a workspace without `backward: true`
   */
  get outputGradient(): Floats {
    const last = this.gradients.at(-1);
    if (!last) throw stateError('EMPTY', 'this workspace was made without backward: true');
    this.#last.renew();
    return last;
  }
  /** Frees the memory. Idempotent. */
  close(): void {
    this.#memory.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }
}
