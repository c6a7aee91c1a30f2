/** The clock of every record and deadline: native code and all threads count its milliseconds alike. Everyone may know it. */
import { answered, loadAddon } from './addon.ts';

interface Clock {
  nowMs(): number;
}

let clock: Clock | undefined;

export function nowMs(): number {
  clock ??= loadAddon<Clock>('device');
  return answered(clock.nowMs());
}
