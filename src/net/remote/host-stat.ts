/**
 * The statistics that a host reports once a second, as JSON. They come off the wire, so a reader
 * checks everything in them.
 */
import type { Fields } from './link.ts';
import { reader } from './status.ts';

export interface HostStat {
  readonly host: string;
  readonly pid: number;
  readonly workers: number;
  readonly steps: number;
  readonly episodes: number;
  /** mean return of its latest episodes, or null before the first */
  readonly meanReturn: number | null;
  /** episodes in that mean */
  readonly recent: number;
  /** how often a collector had to wait for the outbox */
  readonly waits: number;
  /** rows that no message has taken yet */
  readonly waiting: number;
  /** bytes that it has sent and that are not acknowledged */
  readonly underWay: number;
  /** the learner's version that its collectors act by */
  readonly version: number;
  /** share of the last second that its window was full */
  readonly full: number;
  /** error that ended it, or '' if it has not failed */
  readonly failed: string;
}

/** Interval of the reports, and the time after which the last one expires. */
export const STAT_MS = 1000;
export const STAT_LIFE_MS = 10_000;
const MAX_CHARACTERS = 8192;
/** The field that holds the report: access rules let a host write fields, but not values. */
export const SAID = 'said';

export const writeStat = (stat: HostStat): Fields => ({ [SAID]: JSON.stringify(stat) });

/** Returns null for a text that is not a HostStat. */
export function readStat(reported: string): HostStat | null {
  if (reported.length > MAX_CHARACTERS) return null;
  try {
    const { number, numberOrNull, text } = reader(JSON.parse(reported), 'stat.');
    return {
      host: text('host'),
      pid: number('pid'),
      workers: number('workers'),
      steps: number('steps'),
      episodes: number('episodes'),
      meanReturn: numberOrNull('meanReturn', Number.NEGATIVE_INFINITY),
      recent: number('recent'),
      waits: number('waits'),
      waiting: number('waiting'),
      underWay: number('underWay'),
      version: number('version'),
      full: number('full', 1),
      failed: text('failed'),
    };
  } catch {
    return null;
  }
}
