/**
 * One rank of a plane in a thread of its own. It makes exchanges, checks what arrives, and ends as
 * its task says.
 */
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { openDevice } from '../../src/index.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';
import { Part, type Plane } from './plane.ts';

export interface RankTask {
  plane: Plane;
  /** planes on which the thread first makes one exchange each, and closes */
  shortLived?: readonly Plane[];
  rank: number;
  exchanges: number;
  /** default 'cpu' */
  device?: string;
  /** whether it calls wait() instead of waitSync() */
  async?: boolean;
  /**
   * What the thread does after the last exchange:
   * - `close`, `fail`: closes or fails its rank.
   * - `throw`: throws an uncaught error.
   * - `sleep`, `spin`: sends 'here', then sleeps or computes for ever.
   * - `wait`: sends its part of another exchange, then 'here', then waits.
   * - `goOn`: makes exchanges until one throws.
   */
  ending: 'close' | 'fail' | 'throw' | 'sleep' | 'spin' | 'wait' | 'goOn';
}

const {
  plane,
  shortLived = [],
  rank,
  exchanges,
  device: name,
  async,
  ending,
} = givenTask<RankTask>();

const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Returns what was wrong with the first wrong halo, or null. */
async function work(): Promise<string | null> {
  const device = name === undefined || name === 'cpu' ? null : openDevice(name);
  for (const each of shortLived) {
    using updater = new HaloUpdater(each.shared, rank, device ? { device } : {});
    const part = new Part(each, rank, device);
    updater.start(part.fill(1).quantities);
    updater.waitSync();
    const wrong = device ? await part.wrong(1) : part.wrongHere(1);
    part.close();
    if (wrong) return wrong;
  }
  const part = new Part(plane, rank, device);
  const updater = new HaloUpdater(plane.shared, rank, device ? { device } : {});
  const exchange = async (n: number): Promise<string | null> => {
    updater.start(part.fill(n).quantities);
    part.spoil();
    const done = async ? await updater.wait() : updater.waitSync();
    if (!done) return `exchange ${n} of rank ${rank} is not done`;
    return device ? part.wrong(n) : part.wrongHere(n);
  };
  for (let n = 1; n <= exchanges; n++) {
    const wrong = await exchange(n);
    if (wrong) return wrong;
  }
  switch (ending) {
    case 'close':
      updater.close();
      break;
    case 'fail':
      updater.fail(Object.assign(new RangeError('the sea is dry'), { code: 'ERR_HOTSLOT_RANGE' }));
      break;
    case 'throw':
      // Throws after perform() has returned to the event loop, so that the error is uncaught.
      setImmediate(() => {
        throw new Error('left without a word');
      });
      return new Promise(() => {});
    case 'sleep':
      say('here');
      Atomics.wait(asleep, 0, 0);
      break;
    case 'spin':
      say('here');
      for (;;) Atomics.load(asleep, 0);
    case 'wait':
      updater.start(part.fill(exchanges + 1).quantities);
      while (!updater.progress());
      say('here');
      if (async) await updater.wait();
      else updater.waitSync();
      break;
    case 'goOn':
      for (let n = exchanges + 1; ; n++) {
        const wrong = await exchange(n);
        if (wrong) return wrong;
      }
  }
  updater.close();
  part.close();
  device?.close();
  return null;
}

await perform(work);
