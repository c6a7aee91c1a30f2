/**
 * Explicit-state model checker. It visits every state that a model can reach, and reports the first
 * violation. The checker knows no rings or bells: a model is a start state of a few bytes, and
 * moves that change the bytes.
 */
import { Visited } from './visited.ts';

export type State = Uint8Array;

export interface Move {
  /**
   * true for a fault, which may or may not happen: a run may end in a state with only optional
   * moves
   */
  readonly optional: boolean;
  /** describes, for traces, what the move will do in `state` */
  says(state: State): string;
  /**
   * Makes the move in place. Returns false and leaves `state` unchanged if the move is not enabled.
   */
  apply(state: State): boolean;
}

export interface Model {
  /** bytes of one state, a multiple of 4 */
  readonly width: number;
  /** the moves, at most 31 */
  readonly moves: readonly Move[];
  start(state: State): void;
  /** Returns null if a run may end in `state`, else the reason why it may not. */
  unfinished(state: State): string | null;
}

/** Thrown by a move that breaks a rule. */
export class Violation extends Error {
  readonly rule: string;

  constructor(rule: string, text: string) {
    super(text);
    this.rule = rule;
  }
}

export interface Outcome {
  states: number;
  /** number of distinct states in which a run ended as allowed */
  ends: number;
  violation?: { rule: string; text: string; trace: string[] };
}

/**
 * Explores every reachable state, depth first. A run that can return to one of its earlier states
 * is a violation (livelock). So if there is no violation, every run ends in an allowed state under
 * every scheduler.
 */
export function explore(model: Model): Outcome {
  const visited = new Visited(model.width / 4);
  const bytes = new Uint8Array(model.width);
  const words = new Uint32Array(bytes.buffer);
  const path: number[] = [];
  const untried: number[] = [];
  const taken: number[] = [];
  const progressed: boolean[] = [];
  let onPath = new Uint8Array(1 << 15);
  const all = 2 ** model.moves.length - 1;
  let ends = 0;

  const enter = (index: number): void => {
    path.push(index);
    untried.push(all);
    taken.push(-1);
    progressed.push(false);
    if (index >= onPath.length) {
      const longer = new Uint8Array(index * 2);
      longer.set(onPath);
      onPath = longer;
    }
    onPath[index] = 1;
  };
  const fail = (error: unknown): Outcome => {
    if (!(error instanceof Violation)) throw error;
    const trace = path.map((index, i) => {
      visited.read(index, words);
      return taken[i]! < 0 ? '' : model.moves[taken[i]!]!.says(bytes);
    });
    return {
      states: visited.count,
      ends,
      violation: { rule: error.rule, text: error.message, trace },
    };
  };

  model.start(bytes);
  enter(visited.add(words));
  // index of the state in `bytes`, which a move that is not enabled leaves unchanged
  let held = 0;
  while (path.length > 0) {
    const top = path.length - 1;
    if (held !== path[top]) visited.read(path[top]!, words);
    held = path[top]!;
    const left = untried[top]!;
    if (left === 0) {
      if (!progressed[top]) {
        taken[top] = -1;
        const why = model.unfinished(bytes);
        if (why !== null) return fail(new Violation('deadlock', why));
        ends++;
      }
      onPath[path.pop()!] = 0;
      untried.pop();
      taken.pop();
      progressed.pop();
      continue;
    }
    const k = 31 - Math.clz32(left);
    untried[top] = left ^ (1 << k);
    taken[top] = k;
    const move = model.moves[k]!;
    try {
      if (!move.apply(bytes)) continue;
    } catch (error) {
      return fail(error);
    }
    if (!move.optional) progressed[top] = true;
    const index = visited.add(words);
    held = index >= 0 ? index : ~index;
    if (index >= 0) enter(index);
    else if (onPath[~index] === 1)
      return fail(new Violation('livelock', 'the run can go round in a circle'));
  }
  return { states: visited.count, ends };
}

/**
 * Returns the shortest run that ends in a violation (breadth first), or null if there is none.
 * People read its trace. `explore` is cheaper.
 */
export function shortest(model: Model): string[] | null {
  const visited = new Visited(model.width / 4);
  const bytes = new Uint8Array(model.width);
  const words = new Uint32Array(bytes.buffer);
  const cameFrom: number[] = [-1];
  const cameBy: number[] = [-1];

  const trace = (index: number, last: string): string[] => {
    const lines = [last];
    for (let at = index; at > 0; at = cameFrom[at]!) {
      visited.read(cameFrom[at]!, words);
      lines.unshift(model.moves[cameBy[at]!]!.says(bytes));
    }
    return lines;
  };

  model.start(bytes);
  visited.add(words);
  for (let index = 0; index < visited.count; index++) {
    let progressed = false;
    visited.read(index, words);
    for (let left = 2 ** model.moves.length - 1; left !== 0; ) {
      const k = 31 - Math.clz32(left);
      left ^= 1 << k;
      const move = model.moves[k]!;
      visited.read(index, words);
      const says = move.says(bytes);
      try {
        if (!move.apply(bytes)) continue;
      } catch (error) {
        if (error instanceof Violation)
          return trace(index, `${says}: ${error.message} (${error.rule})`);
        throw error;
      }
      if (!move.optional) progressed = true;
      if (visited.add(words) < 0) continue;
      cameFrom.push(index);
      cameBy.push(k);
    }
    visited.read(index, words);
    const why = progressed ? null : model.unfinished(bytes);
    if (why !== null) return trace(index, `${why} (deadlock)`);
  }
  return null;
}
