/**
 * Checks actions that load() added to a buffer. load() does not know the learner's action space, so
 * it records the extremes of each action element with their rows. A learner compares the extremes
 * with its action space at the first update whose batch is drawn from that buffer.
 */
import type { ExplainOutside } from './action-space.ts';

interface Extreme {
  readonly value: number;
  readonly j: number;
  readonly row: string;
}

/**
 * Records the least value, the greatest value and the first fraction of each element of one
 * buffer's actions.
 */
class Extremes {
  readonly #least: (Extreme | undefined)[] = [];
  readonly #most: (Extreme | undefined)[] = [];
  readonly #fraction: (Extreme | undefined)[] = [];

  readonly note = (
    values: ArrayLike<number | bigint>,
    size: number,
    name: (row: number) => string,
  ): void => {
    for (let at = 0; at < values.length; at++) {
      const value = Number(values[at]);
      const j = at % size;
      const [least, most] = [this.#least[j], this.#most[j]];
      const lesser = least === undefined || value < least.value;
      const greater = most === undefined || value > most.value;
      const fraction = this.#fraction[j] === undefined && !Number.isInteger(value);
      // Ignores NaN, which a user allows by `nonFinite: 'keep'`.
      if (!(lesser || greater || fraction) || Number.isNaN(value)) continue;
      const extreme = { value, j, row: name(Math.floor(at / size)) };
      if (lesser) this.#least[j] = extreme;
      if (greater) this.#most[j] = extreme;
      if (fraction) this.#fraction[j] = extreme;
    }
  };

  outside(explain: ExplainOutside): string | undefined {
    for (const extreme of [...this.#least, ...this.#most, ...this.#fraction]) {
      if (extreme === undefined) continue;
      const { value, j, row } = extreme;
      const why = explain(value, j);
      if (why !== undefined) return `actions of ${row} ${why}`;
    }
    return undefined;
  }
}

const extremes = new WeakMap<object, Extremes>();
/** the buffer from which a batch is drawn, by the batch's tensor of actions */
const buffers = new WeakMap<object, object>();

/** Returns the function with which load() records the actions that it adds to the buffer. */
export function noteActions(buffer: object): Extremes['note'] {
  const known = extremes.get(buffer) ?? new Extremes();
  extremes.set(buffer, known);
  return known.note;
}

/** Records the buffer from which a pipeline draws a batch's tensor of actions. */
export function drawnFrom(actions: object, buffer: object): void {
  buffers.set(actions, buffer);
}

/**
 * Returns a function with which one learner checks a batch's tensor of actions. The function finds
 * the buffer of the batch. If a loaded action of that buffer is outside the learner's action space,
 * it returns a text about this action, else undefined. It checks each buffer only once.
 */
export function loadedActionsCheck(
  explain: ExplainOutside,
): (actions: object | undefined) => string | undefined {
  const compared = new WeakSet<object>();
  return (actions) => {
    const buffer = actions && buffers.get(actions);
    if (buffer === undefined || compared.has(buffer)) return undefined;
    compared.add(buffer);
    return extremes.get(buffer)?.outside(explain);
  };
}
