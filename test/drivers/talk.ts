/** Talking to the software driver that this process runs on; see addon.hpp. */
import { readFileSync } from 'node:fs';
import { openDevice } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

export interface Software {
  /** 'name:nth:status[:forever]'; null: no call fails */
  fail(spec: string | null): void;
  /** lines 'name count' */
  calls(): string;
  /** lines 'kind count' */
  live(): string;
  /** lines 'name µs µs': the longest that a call kept the main thread waiting, and any other */
  waits(): string;
  /** lines 'to_device bytes' and 'to_host bytes', of what calls asked for; nothing of Level Zero */
  moved(): string;
}

export async function software(): Promise<Software> {
  // The core opens the library; this finds the same one.
  openDevice(TESTED);
  const maps = readFileSync('/proc/self/maps', 'utf8');
  // A cuBLAS of the tests' lies there too, above or below it as the system happened to place them.
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

/** What was let go while it was in use is given back by a later call that looks. */
export function settle(): void {
  for (let i = 0; i < 20; i++) {
    openDevice(TESTED).createEvent().close();
    openDevice(TESTED).memoryInfo();
  }
}
