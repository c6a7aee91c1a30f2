/**
 * Tests whether an action is inside a learner's action space. This test is for actions that the
 * learner's own policy did not choose.
 */
import { highEnd, lowEnd, nextFloat32 } from './float32.ts';

/**
 * Returns why element `j` of an action is outside the action space, or undefined if it is inside.
 */
export type ExplainOutside = (value: number, j: number) => string | undefined;

/** Returns the test for a discrete space, whose actions are the indices from 0 to n − 1. */
export const outsideIndices =
  (n: number): ExplainOutside =>
  (value) =>
    Number.isInteger(value) && value >= 0 && value < n
      ? undefined
      : `is ${value}: an action is an index from 0 to ${n - 1}`;

/**
 * Returns the test for a box. The float32 values next to its ends count as inside, because an end
 * may round to them.
 */
export function outsideBox(low: readonly number[], high: readonly number[]): ExplainOutside {
  const least = low.map((each) => nextFloat32(lowEnd(each), -1));
  const most = high.map((each) => nextFloat32(highEnd(each), 1));
  return (value, j) =>
    value >= least[j]! && value <= most[j]!
      ? undefined
      : `holds ${value} as number ${j}: the box is ${low[j]} to ${high[j]}. Scale the actions, or give the learner their box`;
}
