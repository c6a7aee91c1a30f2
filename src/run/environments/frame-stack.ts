/**
 * Provides the observations for a policy: the latest ones of each environment, as float32. A policy
 * may write into them, for example to scale them in place. So frames that are shown again are
 * stored in another array.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { SteppedSet } from './environment-set.ts';
import { Narrowing } from './narrow.ts';

export class FrameStack {
  /**
   * observations for the policy, [count, stack, size], oldest first. If the stack is one float32
   * observation, it is the environments' own array
   */
  readonly obs: Float32Array;
  readonly #set: SteppedSet;
  readonly #stack: number;
  /** frames of the current stacks, [count, stack, size], empty if the stack is one */
  readonly #frames: Float32Array;
  readonly #narrowing = new Narrowing('an observation');
  /**
   * the newest observations as float32, null if the stack is one or the environments' dtype is
   * float32
   */
  readonly #floats: Float32Array | null;

  constructor(set: SteppedSet, stack: number) {
    this.#set = set;
    this.#stack = stack;
    const { obs } = set;
    this.obs =
      stack === 1 && obs instanceof Float32Array ? obs : new Float32Array(stack * obs.length);
    this.#frames = new Float32Array(stack === 1 ? 0 : this.obs.length);
    this.#floats = stack === 1 || obs instanceof Float32Array ? null : new Float32Array(obs.length);
  }

  /** Begins all stacks. Call it after begin() of the set. */
  begin(): void {
    this.#push(() => true);
  }

  /** Adds the newest observations to the stacks. Call it after each step of the set. */
  push(): void {
    const { skipped, terminated, truncated } = this.#set;
    // An observation begins an episode in two cases: the step ended the previous episode, or the
    // set skipped the step.
    this.#push(
      skipped ? (i) => skipped[i] === 1 : (i) => terminated[i] === 1 || truncated[i] === 1,
    );
  }

  /**
   * Adds the newest observations to the stacks. The first observation of an episode fills its whole
   * stack, as in a view of a TrajectoryBuffer.
   */
  #push(isFirst: (environment: number) => boolean): void {
    const { count } = this.#set;
    let obs: TypedArray = this.#set.obs;
    if (this.obs === obs) return;
    const size = obs.length / count;
    if (this.#stack === 1) {
      this.#narrowing.copy(obs, this.obs, size);
      return;
    }
    if (this.#floats) {
      this.#narrowing.copy(obs, this.#floats, size);
      obs = this.#floats;
    }
    const all = size * this.#stack;
    const frames = this.#frames;
    for (let i = 0; i < count; i++) {
      const newest = obs.subarray(i * size, (i + 1) * size) as never;
      const from = i * all;
      if (isFirst(i))
        for (let frame = 0; frame < this.#stack; frame++) frames.set(newest, from + frame * size);
      else {
        frames.copyWithin(from, from + size, from + all);
        frames.set(newest, from + all - size);
      }
    }
    this.obs.set(frames);
  }
}
