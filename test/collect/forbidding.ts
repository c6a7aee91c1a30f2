/**
 * A game that throws at an illegal action. It counts the steps of all threads in shared words, so a
 * test sees that collectors and evaluations have played.
 */
import type { Environment, EnvironmentContext, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

export interface ForbiddingOptions {
  /** Int32 words: number of steps, and number of states with one legal action only */
  words: Int32Array;
  /** whether the masks are in the results of reset() and step() instead of a method */
  results?: boolean;
  /** number of actions, default 40 */
  actions?: number;
}

/** Each state has one to three legal actions. The greatest one of them gives the reward 1. */
export default class Forbidding implements Environment<number> {
  readonly observationSpace;
  readonly actionSpace;
  readonly maxEpisodeSteps = 9;
  readonly actionMask?: () => number[];
  readonly #options: ForbiddingOptions;
  #random = new Random(0);
  #legal: number[] = [];
  #steps = 0;

  constructor({ options }: EnvironmentContext<ForbiddingOptions>) {
    const { actions = 40, results = false } = options;
    this.#options = options;
    this.observationSpace = { shape: [actions] };
    this.actionSpace = { n: actions };
    if (!results) this.actionMask = () => this.#mask();
  }

  reset(seed: number) {
    this.#random = new Random(seed);
    this.#steps = 0;
    this.#draw();
    return this.#withMask({ obs: this.#mask() });
  }

  step(action: number): Step {
    const { words } = this.#options;
    if (!this.#legal.includes(action))
      throw new Error(`action ${action} is illegal, ${this.#legal} are legal`);
    Atomics.add(words, 0, 1);
    if (this.#legal.length === 1) Atomics.add(words, 1, 1);
    const reward = action === Math.max(...this.#legal) ? 1 : 0;
    // Every second episode terminates after six steps, and the others are truncated after nine.
    const terminated = ++this.#steps === 6 && this.#random.below(2) === 0;
    this.#draw();
    if (terminated) this.#legal = [];
    return this.#withMask({ obs: this.#mask(), reward, terminated });
  }

  #draw(): void {
    const { n } = this.actionSpace;
    const count = 1 + this.#random.below(3);
    this.#legal = Array.from({ length: count }, () => this.#random.below(n));
  }
  #mask(): number[] {
    return Array.from({ length: this.actionSpace.n }, (_, i) => Number(this.#legal.includes(i)));
  }
  #withMask<T extends object>(result: T): T & { actionMask?: number[] } {
    return this.#options.results ? { ...result, actionMask: this.#mask() } : result;
  }
}
