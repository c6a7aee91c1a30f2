/** What a learner's action space has, for data that comes from elsewhere. */
import { highEnd, lowEnd, neighbour } from './float32.ts';

/** What is wrong with number `j` of an action, in words; undefined where the space has it. */
export type ActionSpace = (value: number, j: number) => string | undefined;

/** The indices from 0 to n − 1. */
export const indices =
  (n: number): ActionSpace =>
  (value) =>
    Number.isInteger(value) && value >= 0 && value < n
      ? undefined
      : `is ${value}: an action is an index from 0 to ${n - 1}`;

/** A box by its ends, of which float32 may make a neighbour without the box. */
export function box(low: readonly number[], high: readonly number[]): ActionSpace {
  const least = low.map((each) => neighbour(lowEnd(each), -1));
  const most = high.map((each) => neighbour(highEnd(each), 1));
  return (value, j) =>
    value >= least[j]! && value <= most[j]!
      ? undefined
      : `holds ${value} as number ${j}: the box is ${low[j]} to ${high[j]}. Scale the actions, or give the learner their box`;
}
