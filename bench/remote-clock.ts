/**
 * Moments that processes of one machine agree on, small enough for a float32: µs, which begin anew
 * every 16 s.
 */
const SPAN = 2 ** 24;

export const stampNow = (): number => Number((process.hrtime.bigint() / 1000n) % BigInt(SPAN));
/** ms since a moment, less than 16 s ago. */
export const sinceStamp = (stamp: number): number => ((stampNow() - stamp + SPAN) % SPAN) / 1000;
/** ms of the same clock. */
export const monotonic = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;
