/** Calls the functions that the software driver of this process exports for tests (addon.hpp). */
import { readFileSync } from 'node:fs';
import { openDevice } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

export interface Software {
  /** makes a driver call fail: 'name:nth:status[:forever]', or null for no failure */
  fail(spec: string | null): void;
  /** number of calls of each driver function, as lines 'name count' */
  calls(): string;
  /** number of live objects of each kind, as lines 'kind count' */
  live(): string;
  /**
   * longest time that a call blocked the main thread, and any other thread, as lines 'name µs µs'
   */
  waits(): string;
  /**
   * bytes of the requested copies, as lines 'to_device bytes' and 'to_host bytes' (not for Level
   * Zero)
   */
  moved(): string;
}

export async function software(): Promise<Software> {
  // openDevice() makes the core load the library, so dlopen() below finds the same one.
  openDevice(TESTED);
  const maps = readFileSync('/proc/self/maps', 'utf8');
  // The test cuBLAS and NVRTC are in the same folder, and their order in the process's map varies.
  const path = maps
    .match(/\S+\/build\/drivers\/\S+/g)
    ?.find((each) => !/libcublas|rtc\.so/.test(each));
  if (path === undefined) throw new Error(`${TESTED} runs on no software driver`);
  const module = { exports: {} as Software };
  process.dlopen(module, path);
  return module.exports;
}

export const counts = (text: string): Record<string, number> =>
  Object.fromEntries(
    text
      .trim()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(' '))
      .map(([name, count]) => [name, Number(count)]),
  );

/**
 * Makes calls that let the device return closed memory to the driver. Memory that was in use when
 * it was closed returns at a later call.
 */
export function settle(): void {
  for (let i = 0; i < 20; i++) {
    openDevice(TESTED).createEvent().close();
    openDevice(TESTED).memoryInfo();
  }
}
