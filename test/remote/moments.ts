/**
 * Stops the learner's thread at a chosen moment: before or after a native call or a change of the
 * session offsets. The thread then blocks until the test terminates it.
 */
import { loadAddon } from '../../src/base/addon.ts';
import type { RemoteThreadTask } from '../../src/net/remote/remote-thread.ts';
import { SessionOffsets } from '../../src/net/remote/session-offsets.ts';

/**
 * Indices of `words`: the number of moments so far, 1 if the thread has stopped, the number of
 * calls that added rows, and the word on which the thread blocks.
 */
export const EndWord = { moments: 0, still: 1, adds: 2, never: 3 } as const;

export interface EndedTask extends RemoteThreadTask {
  readonly words: Int32Array;
  /** number of the moment at which the thread stops, or −1 for none */
  readonly endAt: number;
}

function moment({ words, endAt }: EndedTask): void {
  if (Atomics.add(words, EndWord.moments, 1) !== endAt) return;
  Atomics.store(words, EndWord.still, 1);
  Atomics.notify(words, EndWord.still);
  Atomics.wait(words, EndWord.never, 0);
}

type Functions = Record<string, (this: unknown, ...how: unknown[]) => unknown>;
const isPlain = (each: unknown): each is Functions =>
  typeof each === 'object' && Object.getPrototypeOf(each) === Object.prototype;

function stopAt(task: EndedTask, owner: Functions, names: readonly string[]): void {
  for (const name of names) {
    const whole = owner[name]!;
    owner[name] = function (...how) {
      moment(task);
      const answer = whole.apply(this, how);
      if (name.startsWith('addPacked')) Atomics.add(task.words, EndWord.adds, 1);
      moment(task);
      return answer;
    };
  }
}

/** Wraps the native calls. The thread calls it before anything else. */
export function standStill(task: EndedTask): void {
  for (const name of ['system', 'device', 'rows']) {
    const addon = loadAddon<Functions>(name);
    // An addon has its functions directly or in an object for their subject. Names of classes begin
    // with a capital.
    for (const owner of [addon, ...Object.values(addon as Record<string, unknown>).filter(isPlain)])
      stopAt(
        task,
        owner,
        Object.keys(owner).filter(
          (key) => /^[a-z]/.test(key) && key !== 'link' && typeof owner[key] === 'function',
        ),
      );
  }
  stopAt(task, SessionOffsets.prototype as unknown as Functions, [
    'admit',
    'end',
    'live',
    'move',
    'nak',
    'cut',
  ]);
}
