/** Why a run ends, as a number that threads and processes store for each other. */
export const Ending = {
  none: 0,
  /** its ticks are through */
  ticks: 1,
  /** its signal was aborted */
  aborted: 2,
  /** its pipeline or its learner's rank was closed, or a listener threw */
  stopped: 3,
} as const;
export type Ending = (typeof Ending)[keyof typeof Ending];

/** The same as a word, for people. */
export type EndingName = 'ticks' | 'aborted' | 'stopped';
const names = Object.keys(Ending) as EndingName[];
export const endingName = (why: Ending): EndingName => names[why] as EndingName;
