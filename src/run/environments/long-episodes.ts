/**
 * Warns of an episode that has not ended after `LONG_STEPS` steps. An evaluation waits for the ends
 * of its episodes.
 */
const LONG_STEPS = 100_000;

/**
 * Counts the steps that environments take together. Calls `warn` once, with the first environment
 * whose episode has `LONG_STEPS` steps.
 */
export class LongEpisodes {
  readonly #warn: (environment: number) => void;
  /** number of steps before each environment's episode began, Infinity without an episode */
  readonly #begun: Float64Array;
  #steps = 0;
  /** value of `#steps` at which step() looks for a long episode */
  #due = LONG_STEPS;

  constructor(environments: number, warn: (environment: number) => void) {
    this.#warn = warn;
    this.#begun = new Float64Array(environments);
  }

  begins(environment: number): void {
    this.#begun[environment] = this.#steps;
  }
  rests(environment: number): void {
    this.#begun[environment] = Number.POSITIVE_INFINITY;
  }

  /** Counts a step. Call it after each step of all environments. */
  step(): void {
    if (++this.#steps < this.#due) return;
    const oldest = this.#begun.reduce((least, at) => Math.min(least, at));
    this.#due = oldest + LONG_STEPS;
    if (this.#steps < this.#due) return;
    this.#due = Number.POSITIVE_INFINITY;
    this.#warn(this.#begun.indexOf(oldest));
  }
}

/** Returns the text of the warning. `environment` is the environment's name in it. */
export const longEpisode = (environment: string): string =>
  `${environment} has taken ${LONG_STEPS.toLocaleString('en-US')} steps in one episode, which has not ended: ` +
  'set maxEpisodeSteps of the environment, so that its episodes are truncated';
