/**
 * Shared by tests of HaloUpdater: ranks of this thread and of others on planes. All are closed
 * after each test.
 */

import { expect } from 'chai';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { type Device, openDevice } from '../../src/index.ts';
import { TestThread } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Part, type Plane, plane } from './plane.ts';
import type { RankTask } from './updater-worker.ts';

/**
 * Starts a rank in a thread of its own. By default it makes no exchange and closes. The thread's
 * result is null, or what was wrong.
 */
export const rankThread = (plane: Plane, rank: number, more: Partial<RankTask> = {}) =>
  new TestThread<RankTask>(new URL('./updater-worker.js', import.meta.url), {
    plane,
    rank,
    exchanges: 0,
    ending: 'close',
    ...more,
  });

/** Ranks with arrays on one device or on the CPU. Create the rig inside of a describe(). */
export class UpdaterRig {
  /** 'cpu' or the name of the tested device */
  readonly name: string;
  readonly onDevice: boolean;
  #device: Device | null = null;
  readonly #parts: Part[] = [];
  readonly #updaters: HaloUpdater[] = [];

  constructor(name: string) {
    this.name = name;
    this.onDevice = name !== 'cpu';
    beforeEach(() => {
      this.#device = this.onDevice ? openDevice(name) : null;
    });
    afterEach(() => {
      for (const each of [...this.#updaters.splice(0), ...this.#parts.splice(0)]) each.close();
      this.#device?.close();
    });
  }

  part(plane: Plane, rank: number): Part {
    const made = new Part(plane, rank, this.#device);
    this.#parts.push(made);
    return made;
  }

  updater({ shared }: Plane, rank: number): HaloUpdater {
    const made = new HaloUpdater(shared, rank, this.#device ? { device: this.#device } : {});
    this.#updaters.push(made);
    return made;
  }

  /** Creates all ranks of a plane in this thread. */
  together(
    columns: number,
    rows: number,
  ): { plane: Plane; parts: Part[]; updaters: HaloUpdater[] } {
    const all = plane(columns, rows);
    const ranks = Array.from({ length: columns * rows }, (_, rank) => rank);
    return {
      plane: all,
      parts: ranks.map((rank) => this.part(all, rank)),
      updaters: ranks.map((rank) => this.updater(all, rank)),
    };
  }

  /** Starts a rank in a thread of its own, with arrays on the same device. */
  thread(plane: Plane, rank: number, more: Partial<RankTask> = {}): TestThread<RankTask> {
    return rankThread(plane, rank, { device: this.name, ...more });
  }
}

/** Makes exchange `n` on every rank and checks what arrived. */
export async function exchange(parts: Part[], updaters: HaloUpdater[], n: number): Promise<void> {
  for (const [rank, each] of updaters.entries()) each.start(parts[rank]!.fill(n).quantities);
  for (const each of updaters) expect(await each.wait({ timeoutMs: 60_000 })).to.equal(true);
  for (const each of parts) expect(await each.wrong(n)).to.equal(null);
}

/** Declares the same tests for arrays on the CPU and on the tested device. */
export function onBoth(tests: (rig: UpdaterRig) => void): void {
  for (const name of new Set(['cpu', TESTED]))
    describe(`halo/updater on ${name}`, () => tests(new UpdaterRig(name)));
}
