/** The reason why a run ends, as a number that threads and processes share. */
export const Ending = {
  none: 0,
  /** the run's ticks are all done */
  ticks: 1,
  /** the run's signal was aborted */
  aborted: 2,
  /** the run's pipeline or its learner's rank was closed, or a listener threw */
  stopped: 3,
} as const;
export type Ending = (typeof Ending)[keyof typeof Ending];

/** The name of an Ending, for users. */
export type EndingName = 'ticks' | 'aborted' | 'stopped';
const names = Object.keys(Ending) as EndingName[];
export const endingName = (why: Ending): EndingName => names[why] as EndingName;
