/**
 * Tests whether an action lies in a learner's action space. Used for actions that the learner's
 * policy did not choose.
 */
import { highEnd, lowEnd, nextFloat32 } from './float32.ts';

/**
 * Explains why number `j` of an action lies outside of the action space. Undefined if it lies
 * within.
 */
export type ExplainOutside = (value: number, j: number) => string | undefined;

/** For the indices from 0 to n − 1. */
export const outsideIndices =
  (n: number): ExplainOutside =>
  (value) =>
    Number.isInteger(value) && value >= 0 && value < n
      ? undefined
      : `is ${value}: an action is an index from 0 to ${n - 1}`;

/** For a box. The float32 next to an end lies within: the end itself may round to it. */
export function outsideBox(low: readonly number[], high: readonly number[]): ExplainOutside {
  const least = low.map((each) => nextFloat32(lowEnd(each), -1));
  const most = high.map((each) => nextFloat32(highEnd(each), 1));
  return (value, j) =>
    value >= least[j]! && value <= most[j]!
      ? undefined
      : `holds ${value} as number ${j}: the box is ${low[j]} to ${high[j]}. Scale the actions, or give the learner their box`;
}
