/**
 * What a host says of itself once a second, as JSON. It comes off the wire: nothing in it is
 * believed before it is looked at.
 */
import type { Fields } from './link.ts';
import { reader } from './status.ts';

export interface HostStat {
  readonly host: string;
  readonly pid: number;
  readonly workers: number;
  readonly steps: number;
  readonly episodes: number;
  /** of its latest episodes; null before the first */
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
  /** why it ended; '' while it has not */
  readonly failed: string;
}

/** It is said so often, and is gone so long after the host. */
export const STAT_MS = 1000;
export const STAT_LIFE_MS = 10_000;
const MAX_CHARACTERS = 8192;
/** The field that it stands in: rules of access let a host write fields, and no values. */
export const SAID = 'said';

export const writeStat = (stat: HostStat): Fields => ({ [SAID]: JSON.stringify(stat) });

/** Null for what is none. */
export function readStat(said: string): HostStat | null {
  if (said.length > MAX_CHARACTERS) return null;
  try {
    const { number, numberOrNull, text } = reader(JSON.parse(said), 'stat.');
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
