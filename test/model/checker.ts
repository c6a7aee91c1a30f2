/**
 * Explicit-state model checker: visits every state a model can reach and reports the first thing
 * that must not be. It knows nothing of rings and bells; a model is a start state and moves over a
 * few bytes.
 */
import { Visited } from './visited.ts';

export type State = Uint8Array;

export interface Move {
  /** a fault that may or may not happen: a state where only these are left counts as an end */
  readonly optional: boolean;
  /** what the move is about to do in `state`, for traces */
  says(state: State): string;
  /**
   * Makes the move in place, or returns false and leaves the state alone when it is not enabled.
   */
  apply(state: State): boolean;
}

export interface Model {
  /** bytes of one state, a multiple of 4 */
  readonly width: number;
  /** at most 31 */
  readonly moves: readonly Move[];
  start(state: State): void;
  /** Null when `state` may be the end of a run, else why it may not. */
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
  /** distinct states in which a run ended as it may */
  ends: number;
  violation?: { rule: string; text: string; trace: string[] };
}

/**
 * Depth first over every reachable state. A run that can go round in a circle is a violation too,
 * so an outcome without one says that every run, under every scheduler, comes to an allowed end.
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
  // the state that `bytes` holds; a move that is not enabled leaves it there
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
 * The shortest run into a violation (breadth first), or null when there is none. For people;
 * `explore` is cheaper.
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
