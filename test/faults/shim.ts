/** Builds fail_shim.cpp, and gives access to it in a process that was started with it. */
import { fileURLToPath } from 'node:url';
import { buildLibrary } from '../drivers/build.ts';

/** Builds the library if it is older than its source. Returns its path. */
export const buildShim = (): string =>
  buildLibrary('libfail_shim.so', [{ source: 'test/faults/fail_shim.cpp', defines: [] }], '');

/** The functions of the library: see fail_shim.cpp. */
interface Door {
  record(on: 'on' | null): void;
  sites(): string;
  arm(id: string | null): void;
  struck(): string;
  force(kind: string | null): void;
}

/** A place in Hotslot's binaries that makes calls. */
export interface Site {
  id: string;
  /** the function that is called */
  kind: string;
  calls: number;
  /** number of results of the calls that were not released */
  live: number;
  /** return addresses in our binaries, the innermost first */
  frames: string[];
}

export class Shim {
  readonly #door: Door;
  constructor() {
    const path = process.env.LD_PRELOAD;
    if (!path) throw new Error('the shim is not there');
    const module = { exports: {} as Door };
    process.dlopen(module, path);
    this.#door = module.exports;
  }
  record(): void {
    this.#door.record('on');
  }
  sites(): Site[] {
    const lines = this.#door.sites().split('\n').slice(0, -1);
    return lines.map((line) => {
      const [id, kind, calls, live, ...frames] = line.split(' ') as [
        string,
        string,
        string,
        string,
        ...string[],
      ];
      return { id, kind, calls: Number(calls), live: Number(live), frames };
    });
  }
  /** Makes the next call of this site fail. With null, none does. */
  arm(id: string | null): void {
    this.#door.arm(id);
  }
  struck(): boolean {
    return this.#door.struck() !== '';
  }
  /** Makes every call of this kind fail from now on. With null, none does. */
  force(kind: string | null): void {
    this.#door.force(kind);
  }
}

export const repository = fileURLToPath(new URL('../../../', import.meta.url));
