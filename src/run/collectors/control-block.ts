/**
 * Control words of a pool in shared memory: stop, hold and ready. Only the opener writes stop and
 * hold. Only the workers write ready.
 *
 * Pool-1  A stopped collector leaves. It reads its bell, the stop word, the hold word and the
 *     limiter in this order. Then it parks on the value of its bell that it read. The opener writes
 *     the stop word before it rings the bells.
 * Pool-2  A collector that has reported its state neither collects nor adds until the hold word
 *     differs from the value that it answered to. Its answer contains this value, so the opener
 *     never takes a late answer for one to the next hold.
 * Pool-3  No collector stands still forever. A release changes the hold word. A stop changes the
 *     hold word after the stop word. Both notify after the change. A collector sleeps only if the
 *     hold word still has the value that it read, so it misses no change between its read and its
 *     sleep.
 * Pool-4  A hold ends. Each collector answers, or its thread is over and has no successor, or the
 *     opener names it as late. A restarted collector answers for itself. A collector without
 *     state() answers once and continues.
 *
 * test/model/pool.ts checks every interleaving of small cases, and breaks each rule in turn.
 */

/**
 * Index of the stop word. If it is 1, every collector leaves. The opener writes it before it rings
 * the collectors' bells.
 */
export const STOP = 0;
/**
 * Index of the ready word: the number of collectors created. A worker adds 1 before it rings the
 * opener's bell.
 */
export const READY = 1;
/**
 * Index of the hold word. If it is odd, each collector with state() reports its state and stands
 * still until the word changes. The opener adds 1 to hold, 1 to release, and 2 to stop.
 */
export const HOLD = 2;
/** index of the first word of the opener's bell, which has its own cache line */
export const OPENER_BELL = 16;
export const CONTROL_WORDS = 32;
