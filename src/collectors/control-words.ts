/** The pool's control words: stop, and how far each worker is. Written by one side each, as said; meaning lives here. */

/** 1: every collector leaves; written by the opener, before it rings the collectors' bells */
export const STOP = 0;
/** how many collectors were made; added to by workers, before they ring the opener's bell */
export const READY = 1;
/** odd: collectors that say where they are stand still behind doing so, until it changes; added to by the opener */
export const HOLD = 2;
/** where the opener's bell begins, on a cache line of its own */
export const OPENER_BELL = 16;
export const CONTROL_WORDS = 32;
