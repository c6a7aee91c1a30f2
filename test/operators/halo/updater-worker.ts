/** One rank of a plane in a thread of its own: exchanges and checks, and ends as it is told. */
import { parentPort, workerData } from 'node:worker_threads';
import { openDevice } from '../../../src/index.ts';
import { HaloUpdater } from '../../../src/operators/halo/updater.ts';
import { Part, type Plane } from './plane.ts';

export interface RankWork {
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
   * What it does after the last exchange: closes; fails; throws without a word; says so in words[0] and sleeps, or computes;
   * sends its part of another exchange, says so, and waits; or goes on until it cannot.
   */
  ending: 'close' | 'fail' | 'throw' | 'sleep' | 'spin' | 'wait' | 'goOn';
  words: Int32Array;
}

export interface RankAnswer {
  /** what was wrong with the first halo that was */
  wrong: string | null;
  error?: { code: unknown; message: string; cause: string };
}

const { plane, shortLived = [], rank, exchanges, device: name, async, ending, words } = workerData as RankWork;

const here = () => {
  Atomics.add(words, 0, 1);
  Atomics.notify(words, 0);
};

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
      throw new Error('left without a word');
    case 'sleep':
      here();
      Atomics.wait(words, 1, 0);
      break;
    case 'spin':
      here();
      for (;;) Atomics.load(words, 1);
    case 'wait':
      updater.start(part.fill(exchanges + 1).quantities);
      while (!updater.progress());
      here();
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

let answer: RankAnswer;
try {
  answer = { wrong: await work() };
} catch (error) {
  if (ending === 'throw' && (error as Error).message === 'left without a word') throw error;
  const { code, message, cause } = error as Error & { code?: unknown };
  answer = { wrong: null, error: { code, message, cause: cause instanceof Error ? cause.message : '' } };
}
parentPort!.postMessage(answer);
