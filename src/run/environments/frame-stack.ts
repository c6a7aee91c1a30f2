/**
 * What a policy sees of environments: the last observations of each, as floats. A policy may write
 * into what it sees, as one does that scales in place: frames that are shown again are kept apart
 * from it.
 */
import type { TypedArray } from '../../base/dtype.ts';
import type { SteppedSet } from './environment-set.ts';
import { Narrowing } from './narrow.ts';

export class FrameStack {
  /**
   * [count, stack, size]: oldest first. With one float32 observation each, the environments' own
   * array.
   */
  readonly obs: Float32Array;
  readonly #set: SteppedSet;
  readonly #stack: number;
  /** [count, stack, size], where the stack is more than one */
  readonly #frames: Float32Array;
  readonly #narrowing = new Narrowing('an observation');
  /** the newest observations as float32, where those are stacked and of another dtype */
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

  /** Behind begin(). */
  begin(): void {
    this.#look(() => true);
  }

  /** Behind a step. */
  look(): void {
    const { skipped, terminated, truncated } = this.#set;
    // An episode begins with the step that ended the one before, or with one that does nothing
    // else.
    this.#look(
      skipped ? (i) => skipped[i] === 1 : (i) => terminated[i] === 1 || truncated[i] === 1,
    );
  }

  /**
   * Before an episode's first observation stands that one, as a view of a TrajectoryBuffer has it.
   */
  #look(isFirst: (environment: number) => boolean): void {
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
