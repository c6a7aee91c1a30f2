/**
 * The frames that go between a collector and its Python, as hotslot_gymnasium.py says: requests of one size, answers of another
 * one, each part from a multiple of 8 on.
 */
import { shown } from '../../checks.ts';
import { type DType, dtypes, type TypedArray } from '../../dtype.ts';
import type { Spaces } from '../spaces.ts';

export const RESET = 1;
export const STEP = 2;

/** What the process says when it begins, a line of JSON. */
export interface Greeting {
  readonly count: number;
  readonly observation: { readonly shape: number[]; readonly dtype: string };
  /** null: no end on that side */
  readonly action: { n: number } | { shape: number[]; low: (number | null)[]; high: (number | null)[] };
  readonly autoreset: 'disabled' | 'same-step' | 'next-step';
}

/** The greeting's spaces, as an environment has them; spacesOf() checks them. */
export function spacesIn({ observation, action }: Greeting): { observationSpace: object; actionSpace: object } {
  const ends = (values: (number | null)[], otherwise: number) => values.map((value) => value ?? otherwise);
  const { shape, dtype } = observation;
  if ('n' in action) return { observationSpace: { shape, dtype }, actionSpace: action };
  const { low, high } = action;
  const box = { shape: action.shape, low: ends(low, -Infinity), high: ends(high, Infinity) };
  return { observationSpace: { shape, dtype }, actionSpace: box };
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
    const memory = new ArrayBuffer(end);
    this.bytes = new Uint8Array(memory);
    this.#views = places.map(({ dtype, length, at }) => new dtypes[dtype].array(memory, at, length) as TypedArray);
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
      action.kind === 'discrete' ? (['int32', count] as const) : (['float32', count * action.size] as const);
    super([['uint32', 1], ['uint32', count], ['uint8', count], actions]);
    this.operation = this.part(0);
    this.seeds = this.part(1);
    this.mask = this.part(2);
    this.actions = this.part(3);
  }
}

export class Answer extends Frame {
  readonly obs: TypedArray;
  /** of environments that began anew in the same step what they showed last; null where they do not */
  readonly finals: TypedArray | null;
  readonly rewards: Float64Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;

  constructor({ observation: { dtype, size } }: Spaces, count: number, sameStep: boolean) {
    const shown = [dtype, count * size] as const;
    super([shown, ...(sameStep ? [shown] : []), ['float64', count], ['uint8', count], ['uint8', count]]);
    const more = sameStep ? 2 : 1;
    this.obs = this.part(0);
    this.finals = sameStep ? this.part(1) : null;
    this.rewards = this.part(more);
    this.terminated = this.part(more + 1);
    this.truncated = this.part(more + 2);
  }
}

/** Throws for a line that is no greeting. */
export function greetingOf(line: string): Greeting {
  try {
    const greeting = JSON.parse(line) as Greeting;
    if (Number.isInteger(greeting.count) && greeting.observation && greeting.action) return greeting;
  } catch {}
  throw new Error(`a greeting was expected, not ${shown(line)}`);
}
