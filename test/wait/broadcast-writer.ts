/**
 * Writes entries of a broadcast ring as fast as possible. All values of an entry are the entry's
 * number.
 */
import type { Place } from '../../src/shm/memory.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';
import { NumbersRing } from './numbers-ring.ts';

const { place, capacity, entries } = givenTask<{
  place: Place;
  capacity: number;
  entries: number;
}>();

await perform(() => {
  const ring = new NumbersRing(place, capacity);
  say('begins');
  for (let n = 0; n < entries; n++) ring.write(n);
});
