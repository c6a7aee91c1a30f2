/** Builds fail_shim.cpp, and is the door to it in a process that was started with it. */
import { fileURLToPath } from 'node:url';
import { buildLibrary } from '../drivers/build.ts';

/** The library's path, up to date. */
export const buildShim = (): string =>
  buildLibrary('libfail_shim.so', [{ source: 'test/faults/fail_shim.cpp', defines: [] }], '');

/** See fail_shim.cpp. */
interface Door {
  record(on: 'on' | null): void;
  sites(): string;
  arm(id: string | null): void;
  struck(): string;
  force(kind: string | null): void;
}

/** A place that calls of Hotslot's binaries are made from. */
export interface Site {
  id: string;
  /** what is called */
  kind: string;
  calls: number;
  /** what they gave and was not given back */
  live: number;
  /** addresses in our binaries, the innermost first */
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
  /** The next call of this site fails; null: none does. */
  arm(id: string | null): void {
    this.#door.arm(id);
  }
  struck(): boolean {
    return this.#door.struck() !== '';
  }
  /** Every call of this kind fails from now on; null: none does. */
  force(kind: string | null): void {
    this.#door.force(kind);
  }
}

export const repository = fileURLToPath(new URL('../../../', import.meta.url));
