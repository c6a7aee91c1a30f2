/**
 * Steps that interfere between two lines of a rank's code, and steps that need a thread that may
 * block. step-worker.ts runs them in such a thread.
 */
import { systemThreads } from '../../src/base/system-addon.ts';
import { failHaloExchange, wordsOf } from '../../src/extras/halo/shared-exchange.ts';
import { HaloUpdater } from '../../src/extras/halo/updater.ts';
import { Bell } from '../../src/shm/bell.ts';
import { ExchangeControlBlock, RankState } from '../../src/shm/exchange-control.ts';
import { refusal } from '../rig/refusal.ts';
import { Part, type Plane, plane } from './plane.ts';

interface Pair {
  plane: Plane;
  parts: [Part, Part];
  first: HaloUpdater;
  second: HaloUpdater;
}

/** Creates two ranks in this thread and starts an exchange of the second rank. */
async function pair(then: (pair: Pair) => unknown): Promise<void> {
  const all = plane(2, 1);
  const parts: [Part, Part] = [new Part(all, 0).fill(1), new Part(all, 1).fill(1)];
  using first = new HaloUpdater(all.shared, 0);
  using second = new HaloUpdater(all.shared, 1);
  second.start(parts[1].quantities);
  await then({ plane: all, parts, first, second });
}

/**
 * Calls `then` right after the second rank next reads a control word. `holds` says what has
 * arrived, and `failed` whether a rank failed.
 */
export async function behind(
  what: 'holds' | 'failed',
  then: (pair: Pair) => void,
  check: (pair: Pair) => unknown,
): Promise<void> {
  const own = Object.getOwnPropertyDescriptor(
    ExchangeControlBlock.prototype,
    what,
  ) as PropertyDescriptor;
  const restore = () => Object.defineProperty(ExchangeControlBlock.prototype, what, own);
  await pair(async (both) => {
    const read = own.get ?? own.value;
    function hooked(this: ExchangeControlBlock, ...given: number[]) {
      const answer = read.apply(this, given);
      restore();
      then(both);
      return answer;
    }
    Object.defineProperty(ExchangeControlBlock.prototype, what, {
      ...own,
      [own.get ? 'get' : 'value']: hooked,
    });
    try {
      await check(both);
    } finally {
      restore();
    }
  });
}

/**
 * Lets the state change right after a wait has read it. Returns how each park of the wait ended:
 * true if the bell had rung before.
 */
export async function parksBehind(
  what: 'holds' | 'failed',
  how: 'park' | 'parkAsync',
): Promise<boolean[]> {
  const own = Bell.prototype[how] as (...given: number[]) => boolean | Promise<boolean>;
  const ends: (boolean | Promise<boolean>)[] = [];
  const spy = function (this: Bell, ...given: number[]) {
    const end = own.apply(this, given);
    ends.push(end);
    return end;
  };
  Object.assign(Bell.prototype, { [how]: spy });
  try {
    await behind(
      what,
      ({ plane, parts, first }) => {
        if (what === 'holds') first.start(parts[0].quantities);
        else failHaloExchange(plane.shared, new Error('no'));
      },
      async ({ second }) => {
        try {
          if (how === 'park') second.waitSync({ timeoutMs: 60_000 });
          else await second.wait({ timeoutMs: 60_000 });
        } catch {
          // the failure, which is expected
        }
      },
    );
  } finally {
    Object.assign(Bell.prototype, { [how]: own });
  }
  return Promise.all(ends);
}

/** Waits for a rank of the same thread that has not started, before and after the rank starts. */
async function notStarted(): Promise<unknown[]> {
  const answers: unknown[] = [];
  await pair(({ parts, first, second }) => {
    answers.push(second.waitSync({ timeoutMs: 5 }));
    const { code, message } = refusal(() => second.waitSync());
    answers.push(code, message);
    first.start(parts[0].quantities);
    answers.push(second.waitSync(), first.waitSync(), parts[1].wrongHere(1));
  });
  return answers;
}

/**
 * Claims a rank that is claimed already. Then creates a rank while the thread is being terminated,
 * which must leave the rank unclaimed.
 */
function claims({ shared }: Plane): unknown[] {
  const words = wordsOf(shared);
  const taken = words.claim(0);
  const addon = systemThreads();
  const { watchThread } = addon;
  addon.watchThread = () => undefined as unknown as number;
  const { name } = refusal(() => new HaloUpdater(shared, 1));
  addon.watchThread = watchThread;
  return [taken, name, words.state(1), words.claim(1) === RankState.absent && words.state(1)];
}

export const steps = {
  rungHolds: () => parksBehind('holds', 'park'),
  rungFailed: () => parksBehind('failed', 'park'),
  notStarted,
  claims,
};
export type Step = keyof typeof steps;
