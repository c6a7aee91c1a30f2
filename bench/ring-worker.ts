/**
 * One of two threads that pass a turn to each other. Side 0 records the time of each round trip.
 */
import { workerData } from 'node:worker_threads';
import { BELL_WORDS, Bell } from '../src/shm/bell.ts';

export interface Exchange {
  how: 'spinning' | 'parked' | 'bare';
  rounds: number;
  side: number;
  words: Int32Array;
  times: Float64Array;
}

const { how, rounds, side, words, times } = workerData as Exchange;
const turn = 2 * BELL_WORDS;
const mine = new Bell(words, side);
const other = new Bell(words, 1 - side);
const lookMs = how === 'spinning' ? 1000 : 0;

/** Waits until the turn word has this value. */
function waitFor(value: number): void {
  if (how === 'bare') {
    for (;;) {
      const now = Atomics.load(words, turn);
      if (now === value) return;
      Atomics.wait(words, turn, now, 1000);
    }
  }
  for (;;) {
    const seen = mine.read();
    if (Atomics.load(words, turn) === value) return;
    mine.park(seen, 1000, lookMs);
  }
}

function pass(value: number): void {
  Atomics.store(words, turn, value);
  if (how === 'bare') Atomics.notify(words, turn);
  else other.ring();
}

for (let round = 0; round < rounds; round++) {
  if (side === 0) {
    const begin = performance.now();
    pass(2 * round + 1);
    waitFor(2 * round + 2);
    times[round] = (performance.now() - begin) * 1000;
  } else {
    waitFor(2 * round + 1);
    pass(2 * round + 2);
  }
}
