/**
 * A wall clock that is wrong, of a process and all of its threads, and that jumps when it is told
 * to.
 */
import { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads';

const NAME = 'hotslot test wall clock';
const { now } = Date;
/** ms that it is ahead */
const ahead = (getEnvironmentData(NAME) ??
  new Float64Array(new SharedArrayBuffer(8))) as unknown as Float64Array;
Date.now = () => now() + (ahead[0] as number);

if (isMainThread) {
  setEnvironmentData(NAME, ahead as never);
  // Threads that are started from here on have it too.
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --import ${import.meta.url}`;
}

export function jump(ms: number): void {
  ahead[0] = ms;
}
