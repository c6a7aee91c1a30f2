/** What a policy sees of environments: the last observations of each, as floats. */
import type { SteppedSet } from './environment-set.ts';

export class Seen {
  /** [count, stack, size]: oldest first. With one float32 observation each, the environments' own array. */
  readonly obs: Float32Array;
  readonly #set: SteppedSet;
  readonly #stack: number;

  constructor(set: SteppedSet, stack: number) {
    this.#set = set;
    this.#stack = stack;
    const { obs } = set;
    this.obs = stack === 1 && obs instanceof Float32Array ? obs : new Float32Array(stack * obs.length);
  }

  /** Behind begin(). */
  begin(): void {
    this.#look(() => true);
  }

  /** Behind a step. */
  look(): void {
    const { skipped, terminated, truncated } = this.#set;
    // An episode begins with the step that ended the one before, or with one that does nothing else.
    this.#look(skipped ? (i) => skipped[i] === 1 : (i) => terminated[i] === 1 || truncated[i] === 1);
  }

  /** Before an episode's first observation stands that one, as a view of a TrajectoryBuffer has it. */
  #look(isFirst: (environment: number) => boolean): void {
    const { obs, count } = this.#set;
    if (this.obs === obs) return;
    if (this.#stack === 1) {
      this.obs.set(obs as never);
      return;
    }
    const size = obs.length / count;
    const all = size * this.#stack;
    for (let i = 0; i < count; i++) {
      const newest = obs.subarray(i * size, (i + 1) * size) as never;
      const from = i * all;
      if (isFirst(i)) for (let frame = 0; frame < this.#stack; frame++) this.obs.set(newest, from + frame * size);
      else {
        this.obs.copyWithin(from, from + size, from + all);
        this.obs.set(newest, from + all - size);
      }
    }
  }
}
