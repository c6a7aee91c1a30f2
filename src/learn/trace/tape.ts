/** Records the ops of a trace in program order, with the line of the user's program. */
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeValue } from '../../base/checks.ts';
import type { DType } from '../../base/dtype.ts';
import { type CodedError, rangeError, stateError, typeError } from '../../base/errors.ts';
import type { Tensor } from '../../device/device.ts';
import type { Network } from '../network/network.ts';
import type { binaries, unaries } from '../ops/elementwise.ts';
import type { Refuse, Shape } from './shapes.ts';

export type UnaryName = keyof typeof unaries;
export type BinaryName = keyof typeof binaries;
/** Reductions over the last axis. */
export type ReductionName = 'sum' | 'max' | 'min' | 'logSumExp' | 'argmax' | 'argmin';

/** A custom gradient: returns one gradient for each input after the first, or null for none. */
export type CustomRule = (dy: Node, y: Node, inputs: readonly Node[]) => readonly (Node | null)[];

/**
 * Each op of a trace, and its attributes. The comment says what it computes from its inputs. Ops
 * whose names end in `Slope` belong to backward passes: dy is the gradient that arrives.
 */
export interface Ops {
  /** scale · x + shift of a tensor x that is bound when the plan is emitted. Defaults 1 and 0 */
  input: { name: string; dtype: DType; contiguous: boolean; scale?: number; shift?: number };
  /** contiguous memory that the plan does not own: parameters, or words of an optimizer */
  memory: { tensor: Tensor; name: string };
  /** values that the user gave */
  constant: { values: Float32Array };
  /** one number in every element */
  full: { value: number };
  /** random numbers, which are drawn in program order */
  draw: { kind: 'normal' | 'uniform'; first: number; second: number };
  /** f(x) */
  unary: { f: UnaryName };
  /** dy · f′(x) */
  unarySlope: { f: UnaryName };
  /** f(a, b), both broadcast to the shape */
  binary: { f: BinaryName };
  /** dy · ∂f/∂a at (a, b), or ∂f/∂b for div */
  binarySlope: { f: 'min' | 'max' | 'div' | 'huber' };
  /** condition ≠ 0 ? a : b */
  where: object;
  clamp: { low: number; high: number };
  /** low ≤ x ≤ high ? dy : 0 */
  clampSlope: { low: number; high: number };
  /** scale · f(x) over the last axis */
  reduce: { f: ReductionName; scale: number };
  /** softmax over the last axis, or its logarithm */
  softmax: { logarithm: 0 | 1 };
  /** dy, y */
  softmaxSlope: { logarithm: 0 | 1 };
  cumsum: { axis: number; reverse: 0 | 1 };
  /** position of each element in its sorted row */
  ranks: object;
  /** y[…, index[…, j]] = x[…, j] */
  scatterAlong: object;
  /** y[…, j] = x[…, index[…, j]] */
  gatherAlong: object;
  reshape: object;
  transpose: { axes: readonly number[] };
  slice: { axis: number; from: number };
  broadcast: object;
  flip: { axis: number };
  /** x among zeros: the inverse of a slice */
  pad: { axis: number; before: number };
  concat: { axis: number };
  /** [m, k] · [k, n], or [b, m, k] · [b, k, n] */
  matmul: object;
  /** x[i, index[i], …] */
  pick: object;
  /** dy[i, …] at index[i] of n, and 0 elsewhere */
  pickSlope: object;
  /** rows of a table */
  take: object;
  /** sum of the rows of dy that have the same index */
  takeSlope: object;
  /** index drawn from logits, by a uniform number for each row */
  categorical: object;
  /** the first input, without a gradient */
  detach: object;
  /** the first input, with a gradient of its own for the others */
  custom: { rule: CustomRule };
  /** a + b, where both are parts of one gradient */
  accumulate: object;
  /** an op with a kernel of its own, which has several results */
  fused: { name: FusedName; options: FusedOptions; shapes: readonly Shape[] };
  /**
   * the outputs [members, rows, outputs] of networks with one description. Its inputs are x [rows,
   * inputs], and the parameters of all members
   */
  network: NetworkAttributes;
  /** dy, the network op, x and the parameters: the gradients of x and of the parameters */
  networkSlope: NetworkAttributes;
  /** one result of a fused op or a networkSlope */
  part: { index: number };
}

export interface NetworkAttributes {
  readonly network: Network;
  readonly members: number;
  /** name in the description of a learner */
  readonly name: string;
}

export type OpName = keyof Ops;

interface NodeOf<K extends OpName> {
  readonly op: K;
  readonly attributes: Readonly<Ops[K]>;
  readonly inputs: readonly Node[];
  readonly shape: Shape;
  /** position in the trace */
  readonly id: number;
  readonly tape: Tape;
  /** whether grad() made this op */
  readonly derived: boolean;
  /** its stack has the user's line */
  readonly made: Error;
}

/** An op of a trace. */
export type Node = { [K in OpName]: NodeOf<K> }[OpName];
/** An op of one kind. */
export type NodeOfKind<K extends OpName> = NodeOf<K>;

/** Names of the fused ops. */
export type FusedName =
  | 'squashedGaussian'
  | 'squashedGaussianSlope'
  | 'categoricalProject'
  | 'categoricalLoss'
  | 'categoricalMean'
  | 'categoricalMeanSlope'
  | 'tdTarget'
  | 'tdLoss';
export type FusedOptions = Readonly<Record<string, number>>;

/** Largest number of ops in a trace. A loop that never ends would otherwise use all memory. */
const MAX_OPS = 20_000;

/** Folders whose frames are not the user's: the compiled library, and its sources by source maps. */
const own = new URL('../../', import.meta.url).href;
const ownFolders = [own, own.replace(/\/dist\/src\/$/, '/src/')].flatMap((url) => [
  url,
  fileURLToPath(url),
]);

/** Frames that an op keeps. At most ten frames of the package are above the user's frame. */
const FRAMES = 16;
/** Frames of a refusal. A check of learner() has up to twenty frames above the user's frame. */
const FRAMES_OF_REFUSAL = 32;

/** Returns an error whose stack reaches the user's frames, also from deep inside of the package. */
function stackError(frames = FRAMES): Error {
  const before = Error.stackTraceLimit;
  Error.stackTraceLimit = frames;
  const error = new Error();
  Error.stackTraceLimit = before;
  return error;
}

/**
 * Returns file, line and column of the first stack frame outside of the package, such as
 * `train.ts:12:30`. Node maps the frames to TypeScript if it runs with --enable-source-maps.
 */
export function userLine(made: Error): string {
  for (const line of (made.stack ?? '').split('\n').slice(1)) {
    const at = /\(?([^()\s]+:\d+:\d+)\)?$/.exec(line.trim())?.[1];
    if (at === undefined || ownFolders.some((folder) => at.startsWith(folder))) continue;
    if (at.startsWith('node:')) continue;
    const path = at.startsWith('file:')
      ? fileURLToPath(at.replace(/:\d+:\d+$/, '')) + /:\d+:\d+$/.exec(at)![0]
      : at;
    const near = relative(process.cwd(), path);
    return near.startsWith('..') ? path : near;
  }
  return 'an unknown line';
}

/** Adds the user's line to the text of an error. */
const located = (text: string): string => `${text} (${userLine(stackError(FRAMES_OF_REFUSAL))})`;

/** Throws a TypeError with the user's line. */
export const refuseType: Refuse = (text) => {
  throw typeError(located(text));
};
/** Throws a RangeError with the user's line. */
export const refuseRange: Refuse = (text) => {
  throw rangeError(located(text));
};
/** Returns the error of a call at the wrong time, with the user's line. */
export const misplaced = (text: string): CodedError => stateError('EMPTY', located(text));

/** Runs a check of another module, and adds the op and the user's line to its error. */
export function withLine<T>(op: string, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    const text = `${op}: ${(error as Error).message}`;
    if (error instanceof RangeError) return refuseRange(text);
    if (error instanceof TypeError) return refuseType(text);
    throw error;
  }
}

/** The ops of one trace. */
export class Tape {
  readonly nodes: Node[] = [];
  /** the call of grad() that derives a gradient now, whose line all of its ops have, or null */
  #deriving: Error | null = null;
  readonly #made: Error | null;

  /**
   * `made` has the line of all ops of a built-in learner, whose number its options limit. Default: each
   * op has its own line.
   */
  constructor(made: Error | null = null) {
    this.#made = made;
  }

  /** Derives a gradient: the ops that `fn` adds belong to a backward pass. */
  derive<T>(fn: () => T): T {
    this.#deriving = stackError();
    try {
      return fn();
    } finally {
      this.#deriving = null;
    }
  }

  add<K extends OpName>(
    op: K,
    attributes: Ops[K],
    inputs: readonly Node[],
    shape: Shape,
  ): NodeOf<K> {
    if (this.nodes.length >= MAX_OPS && !this.#made)
      refuseRange(
        `a trace has at most ${MAX_OPS} ops; does a loop add ops to it without an end? Trace a part of it`,
      );
    for (const input of inputs)
      if (input.tape !== this)
        refuseType(
          `${'f' in attributes ? attributes.f : op}: an expression of another trace, made at ${userLine(input.made)}; an expression is valid only in the trace that made it`,
        );
    const node = {
      op,
      attributes,
      inputs,
      shape: Object.freeze([...shape]),
      id: this.nodes.length,
      tape: this,
      derived: this.#deriving !== null,
      made: this.#made ?? this.#deriving ?? stackError(),
    };
    this.nodes.push(node as unknown as Node);
    return node;
  }
}

/** Ops that only rearrange the elements of their first input. */
const viewing: ReadonlySet<OpName> = new Set([
  'reshape',
  'transpose',
  'slice',
  'broadcast',
  'detach',
]);

/** Whether an op only rearranges elements. */
export const isView = ({ op }: Node): boolean => viewing.has(op);

/** Returns the memory of which an op is a view, or null for an op that computes a value. */
export function memoryOf(node: Node): Node | null {
  if (node.op === 'memory') return node;
  return isView(node) ? memoryOf(node.inputs[0]!) : null;
}

/** The trace whose function runs now. */
let current: Tape | null = null;

/** Runs the function of a trace. */
export function recording<T>(tape: Tape, fn: () => T): T {
  if (current !== null)
    throw misplaced('trace: the function of a trace runs now, and traces cannot be nested');
  current = tape;
  try {
    return fn();
  } finally {
    current = null;
  }
}

/** Returns the trace whose function runs now. Throws ERR_HOTSLOT_STATE_EMPTY if none runs. */
export function currentTape(what: string): Tape {
  if (current === null)
    throw misplaced(`${what}: call it in the function that trace() runs; there is no trace here`);
  return current;
}

/**
 * Returns a number that an op takes. Throws for one that overflows float32. `kinds` names the
 * values that the op accepts.
 */
export function checkedNumber(name: string, value: unknown, kinds = 'a number'): number {
  if (typeof value !== 'number')
    refuseType(`${name} must be ${kinds}, got ${describeValue(value)}`);
  if (Number.isFinite(value) && !Number.isFinite(Math.fround(value as number)))
    refuseRange(`${name} is ${value}, which float32 does not hold: its largest is about 3.4e38`);
  return value as number;
}

/**
 * Throws a TypeError unless `options` is an object with known keys. `form` says how to pass the
 * options.
 */
export function checkOptions(
  name: string,
  options: unknown,
  known: readonly string[],
  form = `pass options as in ${name}(…, { ${known[0]}: … })`,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    refuseType(`${name}: ${form}, got ${describeValue(options)}`);
  for (const key of Object.keys(options as object))
    if (!known.includes(key))
      refuseType(
        `${name}: unknown option '${key}'; it takes ${known.length > 2 ? known.join(', ') : known.join(' and ')}`,
      );
}
