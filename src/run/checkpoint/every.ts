/** Parses intervals such as '60 s'. */
import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, min: 60_000, h: 3_600_000 };
const MIN_MS = 10;
const MAX_MS = 2 ** 31 - 1;

/**
 * Converts a number with a unit, such as '500 ms', '60 s', '5min' or '1 h', to milliseconds. Throws
 * if the text has another form or the interval is out of range.
 */
export function parseEvery(every: unknown): number {
  if (typeof every !== 'string')
    throw typeError(`every must be a text such as '60 s', got ${describeValue(every)}`);
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*$/.exec(every) ?? [];
  const ms = Number(number) * (units[unit ?? ''] ?? Number.NaN);
  if (Number.isNaN(ms))
    throw rangeError(`every must be a number of ms, s, min or h, such as '60 s', got '${every}'`);
  if (ms < MIN_MS || ms > MAX_MS)
    throw rangeError(`every must be from 10 ms to 24 days, got '${every}'`);
  return ms;
}
