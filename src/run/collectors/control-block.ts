/**
 * The pool's control words: stop, and how far each worker is. Written by one side each, as said;
 * meaning lives here.
 *
 * Pool-1  Who is told to leave leaves: a collector reads its bell, then the stop word, then the
 *     hold word, then what the limiter says, and parks behind the value of its bell. Who stops
 *     writes first and rings behind it.
 * Pool-2  A collector that has said where it is neither collects nor adds until the hold word
 *     changes from what it answered to. Answers have its number: a late one is not one to the next
 *     hold.
 * Pool-3  Nobody stands still for ever: a release changes the hold word, and so does a stop, behind
 *     the stop word; both tell behind that. It sleeps by a compare, so a change between its look
 *     and its sleep is seen.
 * Pool-4  A hold comes to an end: each collector answers, or its thread is over and has no
 *     successor, or it is named as late. One made anew answers for itself. One without a state()
 *     answers once and goes on.
 *
 * test/model/pool.ts goes through every interleaving of small cases, with each rule broken in turn.
 */

/** 1: every collector leaves; written by the opener, before it rings the collectors' bells */
export const STOP = 0;
/** how many collectors were made; added to by workers, before they ring the opener's bell */
export const READY = 1;
/**
 * odd: collectors that say where they are stand still behind doing so, until it changes; added to
 * by the opener: 1 to hold and to release, 2 to stop
 */
export const HOLD = 2;
/** where the opener's bell begins, on a cache line of its own */
export const OPENER_BELL = 16;
export const CONTROL_WORDS = 32;
