/**
 * The frames that a thread and its Python process exchange, as hotslot_gymnasium.py describes them.
 * All requests have one size, and all answers have another. Each part of a frame begins at a
 * multiple of 8 bytes.
 */
import { arrayOf, type DType, dtypes, type TypedArray } from '../../../base/dtype.ts';
import type { Spaces } from '../spaces.ts';

export const RESET = 1;
export const STEP = 2;
/** Byte of each action of an environment that gave no mask. hotslot_masks.py has the same number. */
const NO_MASK = 255;

/** The first message of the process. It describes the environments. */
export interface Greeting {
  readonly count: number;
  readonly observation: { readonly shape: number[]; readonly dtype: string };
  /**
   * `low` and `high` apply to all values, and null means unbounded on that side. If they are
   * missing, the bounds of each value follow the greeting as bytes.
   */
  readonly action: { n: number } | { shape: number[]; low?: number | null; high?: number | null };
  readonly autoreset: 'disabled' | 'same-step' | 'next-step';
}

/** A value that environments returned and that their spaces do not contain. */
export interface Fault {
  readonly gave: string;
  /** number of the environment, null if the value concerns all of them */
  readonly environment: number | null;
}

/**
 * Returns the greeting's spaces in the form of an environment's spaces, which spacesOf() checks.
 * `ends` contains all lower bounds as float64, then all upper bounds.
 */
export function spacesIn(
  greeting: Greeting,
  ends: Uint8Array,
): { observationSpace: object; actionSpace: object } {
  const { observation, action } = greeting;
  if ('n' in action) return { observationSpace: observation, actionSpace: action };
  const { shape, low, high } = action;
  const each = new Float64Array(ends.slice().buffer);
  const half = each.length / 2;
  const box =
    half > 0
      ? { shape, low: each.subarray(0, half), high: each.subarray(half) }
      : { shape, low: low ?? -Infinity, high: high ?? Infinity };
  return { observationSpace: observation, actionSpace: box };
}

class Frame {
  readonly bytes: Uint8Array;
  readonly #views: TypedArray[];

  constructor(parts: readonly (readonly [dtype: DType, length: number])[]) {
    let end = 0;
    const places = parts.map(([dtype, length]) => {
      const at = end;
      end += Math.ceil((length * dtypes[dtype].bytes) / 8) * 8;
      return { dtype, length, at };
    });
    this.bytes = arrayOf('uint8', end);
    const memory = this.bytes.buffer as ArrayBuffer;
    this.#views = places.map(
      ({ dtype, length, at }) => new dtypes[dtype].array(memory, at, length) as TypedArray,
    );
  }

  part<T extends TypedArray>(i: number): T {
    return this.#views[i] as T;
  }
}

export class Request extends Frame {
  readonly operation: Uint32Array;
  readonly seeds: Uint32Array;
  readonly mask: Uint8Array;
  readonly actions: Int32Array | Float32Array;

  constructor({ action }: Spaces, count: number) {
    const actions =
      action.kind === 'discrete'
        ? (['int32', count] as const)
        : (['float32', count * action.size] as const);
    super([['uint32', 1], ['uint32', count], ['uint8', count], actions]);
    this.operation = this.part(0);
    this.seeds = this.part(1);
    this.mask = this.part(2);
    this.actions = this.part(3);
  }
}

export class Answer extends Frame {
  /**
   * length of the Fault that follows the answer as JSON, 0 without a fault, and length of the action
   * masks that follow it, 0 without masks
   */
  readonly lengths: Uint32Array;
  readonly obs: TypedArray;
  /**
   * last observations of episodes that ended, only in same-step mode. In this mode the step that
   * ends an episode also begins the next one. Null in other modes
   */
  readonly finals: TypedArray | null;
  readonly rewards: Float64Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  /**
   * bytes of the action masks after the answer, null until the environments have given masks: n for
   * each environment, then with same-step those before an automatic reset
   */
  maskBytes: Uint8Array | null = null;

  constructor({ observation: { dtype, size } }: Spaces, count: number, sameStep: boolean) {
    const shown = [dtype, count * size] as const;
    const finals = sameStep ? [shown] : [];
    super([
      ['uint32', 2],
      shown,
      ...finals,
      ['float64', count],
      ['uint8', count],
      ['uint8', count],
    ]);
    const more = sameStep ? 3 : 2;
    this.lengths = this.part(0);
    this.obs = this.part(1);
    this.finals = sameStep ? this.part(2) : null;
    this.rewards = this.part(more);
    this.terminated = this.part(more + 1);
    this.truncated = this.part(more + 2);
  }

  /** Returns the array into which masks of `length` bytes are read. */
  masksOf(length: number): Uint8Array {
    this.maskBytes ??= new Uint8Array(length);
    return this.maskBytes;
  }

  /**
   * Returns the mask of the current state of environment i, or of `count` environments the one
   * before an automatic reset. Undefined: the environment gave none.
   */
  mask(i: number, count: number, before: boolean): Uint8Array | undefined {
    if (this.maskBytes === null) return undefined;
    const isBoth = this.finals !== null;
    const n = this.maskBytes.length / count / (isBoth ? 2 : 1);
    const at = (isBoth && before ? count + i : i) * n;
    return this.maskBytes[at] === NO_MASK ? undefined : this.maskBytes.subarray(at, at + n);
  }
}
