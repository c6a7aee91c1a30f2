/** One rank of a plane in a thread of its own: exchanges and checks, and ends as it is told. */
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { openDevice } from '../../src/index.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';
import { Part, type Plane } from './plane.ts';

export interface RankTask {
  plane: Plane;
  /** makes one exchange on each of these first, and closes at once */
  shortLived?: readonly Plane[];
  rank: number;
  exchanges: number;
  /** 'cpu' when left out */
  device?: string;
  /** wait() instead of waitSync() */
  async?: boolean;
  /**
   * What it does after the last exchange: closes; fails; throws without a word; says so and sleeps,
   * or computes; sends its part of another exchange, says so, and waits; or goes on until it
   * cannot.
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

/** What was wrong with the first halo that was, or null. */
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
      // Behind perform(), so that nothing catches it.
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
