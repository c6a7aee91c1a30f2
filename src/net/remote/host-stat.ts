/**
 * The statistics that a host reports once a second, as JSON. They come from the network, so
 * readStat() checks all of them.
 */
import type { Fields } from './link.ts';
import { reader } from './status.ts';

export interface HostStat {
  readonly host: string;
  readonly pid: number;
  readonly workers: number;
  readonly steps: number;
  readonly episodes: number;
  /** mean return of the host's latest episodes, or null before the first episode */
  readonly meanReturn: number | null;
  /** number of episodes in that mean */
  readonly recent: number;
  /** how often a collector had to wait for the outbox */
  readonly waits: number;
  /** rows that are not in a message yet */
  readonly waiting: number;
  /** bytes that the host has sent and that are not acknowledged */
  readonly underWay: number;
  /** version of the learner's weights with which the host's collectors act */
  readonly version: number;
  /** share of the last second in which the host's window was full */
  readonly full: number;
  /** error that ended the host, or '' if it has not failed */
  readonly failed: string;
}

/** Milliseconds between two reports, and after which the last report expires. */
export const STAT_MS = 1000;
export const STAT_LIFE_MS = 10_000;
const MAX_CHARACTERS = 8192;
/**
 * Name of the field with the report. Access rules let a host store fields (HSET), but not values
 * (SET).
 */
export const SAID = 'said';

export const writeStat = (stat: HostStat): Fields => ({ [SAID]: JSON.stringify(stat) });

/** Reads a HostStat. Returns null for any other text. */
export function readStat(json: string): HostStat | null {
  if (json.length > MAX_CHARACTERS) return null;
  try {
    const { number, numberOrNull, text } = reader(JSON.parse(json), 'stat.');
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
