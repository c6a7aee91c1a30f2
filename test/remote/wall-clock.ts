/** Makes the wall clock of a process and all of its threads wrong. The clock can jump on demand. */
import { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads';

const NAME = 'hotslot test wall clock';
const { now } = Date;
/** milliseconds by which the clock is ahead */
const ahead = (getEnvironmentData(NAME) ??
  new Float64Array(new SharedArrayBuffer(8))) as unknown as Float64Array;
Date.now = () => now() + (ahead[0] as number);

if (isMainThread) {
  setEnvironmentData(NAME, ahead as never);
  // Threads that start from here on import this module too.
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --import ${import.meta.url}`;
}

export function jump(ms: number): void {
  ahead[0] = ms;
}
