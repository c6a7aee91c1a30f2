/**
 * Time stamps that all processes of a machine share and that fit in a float32. They count µs and
 * start again at 0 every 16.8 s.
 */
const SPAN = 2 ** 24;

export const stampNow = (): number => Number((process.hrtime.bigint() / 1000n) % BigInt(SPAN));
/** Returns the ms since a stamp, which must be less than 16 s old. */
export const sinceStamp = (stamp: number): number => ((stampNow() - stamp + SPAN) % SPAN) / 1000;
/** Returns ms of the same clock, without the restart. */
export const monotonic = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;
