/** Makes a trace: runs a function once on expressions, and plans its launches. */
import { describeValue } from '../../base/checks.ts';
import { type DType, dtypes } from '../../base/dtype.ts';
import { stateError } from '../../base/errors.ts';
import { checkDevice, checkFunction, checkStream } from '../../device/checks.ts';
import { type Device, type Stream, Tensor } from '../../device/device.ts';
import { DeviceGenerator } from '../../device/graph/generator.ts';
import { captures } from '../../device/stream.ts';
import { Expression, expressionOf, nodeFrom, nodeOf } from './expression.ts';
import { Plan, type PlanOptions } from './plan/plan.ts';
import { checkedShape, type Shape } from './shapes.ts';
import { checkOptions, type Node, recording, refuseRange, refuseType, Tape } from './tape.ts';

/** An input of a trace: a shape, an object with a shape, or a tensor like those that run() gets. */
export type InputOf = Shape | InputDescription | Tensor;
export interface InputDescription {
  readonly shape: Shape;
  /** default float32. Other dtypes are converted to float32 */
  readonly dtype?: DType;
  /**
   * whether run() gets contiguous tensors, as parameters are. Default: false, because the rows of a
   * batch are strided. A tensor says it itself
   */
  readonly contiguous?: boolean;
}
type InputShape<I> = I extends Tensor
  ? Shape
  : I extends Shape
    ? I
    : I extends { shape: infer S extends Shape }
      ? S
      : Shape;
/** The expressions of the inputs, which the function of a trace takes. */
export type InputExpressions<I> = { readonly [K in keyof I]: Expression<InputShape<I[K]>> };

/** Results of the function of a trace: an expression, or a list or object of them. */
export type Results = Expression | readonly Results[] | { readonly [name: string]: Results };
/** The same with the tensors of the results. */
export type ResultTensors<R> = R extends Expression
  ? Tensor<'float32'>
  : { readonly [K in keyof R]: ResultTensors<R[K]> };

export interface TracedOptions {
  /** seed of the random numbers that the trace draws, default 0 */
  readonly seed?: number | bigint;
}

/** Facts about a plan, for people. */
export interface PlanSummary {
  /** number of kernel launches, fills and draws of one run */
  readonly launches: number;
  /** number of nodes that one run adds to a graph */
  readonly nodes: number;
  /** number of nodes in the longest chain of launches that depend on each other */
  readonly depth: number;
  /** bytes of device memory */
  readonly bytes: number;
  /** Returns the launches as a table, with their memory and the lines of your program. */
  toString(): string;
}

/** A trace with its plan and memory. */
export interface Traced<I, R> extends Disposable {
  /** the function's results, with tensors in place of expressions. Each run overwrites them */
  readonly outputs: ResultTensors<R>;
  /** `String(plan)` shows the launches as a table, with the lines of your program */
  readonly plan: PlanSummary;
  /**
   * Enqueues one run. It only launches kernels, so a graph can capture it. Runs share one memory, so
   * enqueue them on one stream, or wait between streams.
   *
   * @param inputs a tensor for each input
   */
  run(stream: Stream, inputs: { readonly [K in keyof I]: Tensor }): void;
  /** Frees the memory. Idempotent. */
  close(): void;
}

/** Options that only tests set. */
export interface InternalOptions extends TracedOptions, PlanOptions {}

/**
 * Runs a function once on expressions, and plans the launches that compute what it returns. It
 * enqueues writes of constants on the device's current stream.
 *
 * @param inputs shape, and dtype if it is not float32, of each input by name. Inputs of another
 *   dtype are converted to float32
 * @param fn returns an expression, or a list or object of expressions
 * @returns the trace, which the caller must close
 * @throws {TypeError|RangeError} for wrong inputs, options or results, and the errors of `fn`. They
 *   name a line of your program
 * @throws {ERR_HOTSLOT_STATE_CAPTURE} inside a capture
 * @throws {ERR_HOTSLOT_MEMORY} if the device has too little memory
 * @example
 * const step = trace(device, { x: [128, 4], w: [4] }, ({ x, w }) => {
 *   const loss = x.mul(w).sum({ axis: 1 }).square().mean();
 *   const { value, gradients } = grad(loss, [w]);
 *   return { loss: value, dw: gradients[0] };
 * });
 * step.run(device.currentStream, { x, w });
 * console.log(await step.outputs.dw.toArray());
 * step.close();
 */
export function trace<const I extends Readonly<Record<string, InputOf>>, R extends Results>(
  device: Device,
  inputs: I,
  fn: (inputs: InputExpressions<I>) => R,
  options: TracedOptions = {},
): Traced<I, R> {
  checkDevice('trace', device);
  checkFunction('trace', fn);
  checkOptions('trace', options, ['seed', 'poison', 'chains', 'heads', 'lanes']);
  if (captures() || device.currentStream.capturing)
    throw stateError(
      'CAPTURE',
      'trace: a capture runs now, and it records only launches; make the trace before the capture, and call its run() inside',
    );
  if (typeof inputs !== 'object' || inputs === null || Array.isArray(inputs))
    refuseType(`trace takes its inputs as an object by name, got ${describeValue(inputs)}`);
  const tape = new Tape();
  const given = Object.fromEntries(
    Object.entries(inputs).map(([name, input]) => [name, inputNode(tape, name, input)]),
  );
  const results = recording(tape, () => fn(given as unknown as InputExpressions<I>));
  const outputs: Node[] = [];
  collect('the function of trace() returned', results, outputs, tape);
  if (outputs.length === 0)
    refuseType('trace: the function returned no expression; return what the trace computes');
  const { seed = 0, ...planned } = options as InternalOptions;
  const draws = tape.nodes.some(({ op }) => op === 'draw');
  const generator = draws ? new DeviceGenerator(device, { seed }) : null;
  let plan: Plan;
  try {
    const section = { outputs: outputs.map((node) => ({ node })) };
    plan = new Plan(device, [section], generator, planned);
  } catch (error) {
    generator?.close();
    throw error;
  }
  const close = () => {
    plan.close();
    generator?.close();
  };
  let at = 0;
  return {
    outputs: replaced(results, () => plan.outputs[at++] as Tensor<'float32'>) as ResultTensors<R>,
    plan,
    run(stream, tensors) {
      checkStream('run', stream);
      plan.emit(stream, tensors);
    },
    close,
    [Symbol.dispose]: close,
  };
}

/** Largest number of rows of a strided input. A plan computes offsets of more rows inexactly. */
const MAX_ROWS = 2 ** 20;

function inputNode(tape: Tape, name: string, input: InputOf): Expression {
  const described: { shape?: unknown; dtype?: unknown; contiguous?: unknown } =
    input instanceof Tensor ||
    (typeof input === 'object' && input !== null && !Array.isArray(input))
      ? (input as object)
      : { shape: input };
  if (!(input instanceof Tensor))
    for (const key of Object.keys(described))
      if (!['shape', 'dtype', 'contiguous'].includes(key))
        refuseType(
          `trace: input '${name}' has an unknown field '${key}'; it takes shape, dtype and contiguous`,
        );
  const shape = checkedShape(`trace: input '${name}'`, described.shape, refuseRange);
  const dtype = (described.dtype ?? 'float32') as DType;
  if (!Object.hasOwn(dtypes, dtype))
    refuseType(
      `trace: input '${name}' has an unknown dtype ${describeValue(dtype)}; known: ${Object.keys(dtypes).join(', ')}`,
    );
  const { contiguous = false } = described;
  if (typeof contiguous !== 'boolean')
    refuseType(
      `trace: input '${name}': contiguous must be a boolean, got ${describeValue(contiguous)}`,
    );
  if (!contiguous && (shape[0] ?? 1) > MAX_ROWS)
    refuseRange(
      `trace: input '${name}' has ${shape[0]} rows, and strided inputs have at most ${MAX_ROWS}; declare it contiguous if it is`,
    );
  return expressionOf(
    tape.add('input', { name, dtype, contiguous: contiguous as boolean }, [], shape) as Node,
  );
}

/** Largest depth of lists and objects of results. A list that contains itself has no end. */
const MAX_DEPTH = 8;

/** Adds the ops of all expressions in `results` to `outputs`. */
function collect(what: string, results: unknown, outputs: Node[], tape: Tape, depth = 0): void {
  if (typeof (results as { then?: unknown } | null)?.then === 'function')
    refuseType('trace: the function must return expressions at once, so it cannot be async');
  if (depth > MAX_DEPTH) refuseType(`trace: results are nested more than ${MAX_DEPTH} deep`);
  if (results instanceof Expression) {
    const node = nodeFrom(results);
    if (node.tape !== tape) refuseType(`${what} an expression of another trace`);
    outputs.push(node);
  } else if (typeof results === 'object' && results !== null && isPlain(results)) {
    for (const [name, each] of Object.entries(results))
      collect(`${what}, at '${name}',`, each, outputs, tape, depth + 1);
  } else nodeOf(`${what} ${describeValue(results)}, which`, results);
}
const isPlain = (value: object): boolean =>
  Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;

/** Returns `results` with each expression replaced. */
function replaced(results: unknown, next: () => Tensor): unknown {
  if (results instanceof Expression) return next();
  if (Array.isArray(results)) return results.map((each) => replaced(each, next));
  const entries = Object.entries(results as object);
  return Object.fromEntries(entries.map(([name, each]) => [name, replaced(each, next)]));
}
