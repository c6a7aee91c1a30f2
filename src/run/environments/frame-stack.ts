/**
 * The observations for a policy: the last ones of each environment, as floats. A policy may write
 * into them, for example to scale them in place. Frames that are shown again are therefore kept
 * elsewhere.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { SteppedSet } from './environment-set.ts';
import { Narrowing } from './narrow.ts';

export class FrameStack {
  /**
   * [count, stack, size], oldest first, or the environments' own array if the stack is one float32
   * observation
   */
  readonly obs: Float32Array;
  readonly #set: SteppedSet;
  readonly #stack: number;
  /** [count, stack, size], empty if the stack is one */
  readonly #frames: Float32Array;
  readonly #narrowing = new Narrowing('an observation');
  /**
   * the newest observations as float32, if the stack is more than one and they have another dtype
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

  /** Call after begin(). */
  begin(): void {
    this.#push(() => true);
  }

  /** Call after a step. */
  push(): void {
    const { skipped, terminated, truncated } = this.#set;
    // An episode begins with the step that ended the previous one, or with a skipped step.
    this.#push(
      skipped ? (i) => skipped[i] === 1 : (i) => terminated[i] === 1 || truncated[i] === 1,
    );
  }

  /**
   * Fills the frames before an episode's first observation with that observation, as a view of a
   * TrajectoryBuffer does.
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
