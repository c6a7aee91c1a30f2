/**
 * The pool's control words: stop, hold, and the number of workers that are ready. Only the named
 * side writes each of them.
 *
 * Pool-1  A stopped collector leaves: it reads its bell, then the stop word, then the hold word,
 *     then the limiter, and parks on the value of its bell that it read. The stopper writes first
 *     and rings after it.
 * Pool-2  A collector that has reported its state neither collects nor adds until the hold word
 *     changes from the value that it answered to. Answers contain this value: a late one is not one
 *     to the next hold.
 * Pool-3  No collector stands still indefinitely: a release changes the hold word, and so does a
 *     stop, after the stop word. Both notify after that. A collector sleeps by a compare, so a
 *     change between its read and its sleep is seen.
 * Pool-4  A hold ends: each collector answers, or its thread is over and has no successor, or it is
 *     named as late. One made anew answers for itself. One without a state() answers once and
 *     continues.
 *
 * test/model/pool.ts goes through every interleaving of small cases, with each rule broken in turn.
 */

/** 1: every collector leaves. The opener writes it before it rings the collectors' bells. */
export const STOP = 0;
/** The number of collectors made. Workers add to it before they ring the opener's bell. */
export const READY = 1;
/**
 * Odd: collectors with a state() stand still after they have reported it, until the word changes.
 * The opener adds 1 to hold and to release, and 2 to stop.
 */
export const HOLD = 2;
/** the first word of the opener's bell, on its own cache line */
export const OPENER_BELL = 16;
export const CONTROL_WORDS = 32;
