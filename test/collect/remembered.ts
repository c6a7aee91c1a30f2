/**
 * Images of which the last two say what to do: the right action is where the bright column was one
 * image earlier.
 */
import type { Environment, EnvironmentContext, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

const SIDE = 4;
const LENGTH = 6;

export default class Remembered implements Environment<number> {
  readonly observationSpace: { shape: number[]; dtype: 'uint8' };
  readonly actionSpace = { n: 2 } as const;
  readonly #image = new Uint8Array(SIDE * SIDE);
  #random = new Random(0);
  #step = 0;
  /** what is shown, and what was shown before */
  #now = 0;
  #before = 0;

  /** `shape`: what is claimed of images that are never asked for. */
  constructor({ options }: EnvironmentContext<{ shape?: number[] } | undefined>) {
    this.observationSpace = { shape: options?.shape ?? [SIDE, SIDE], dtype: 'uint8' };
  }

  reset(seed: number): Uint8Array {
    this.#random = new Random(seed);
    this.#step = 0;
    return this.#look();
  }

  /** 1 for the right action; the first one cannot be known, and counts nothing. */
  step(action: number): Step {
    const reward = this.#step > 0 && action === this.#before ? 1 : 0;
    return { obs: this.#look(), reward, terminated: ++this.#step === LENGTH };
  }

  #look(): Uint8Array {
    this.#before = this.#now;
    this.#now = this.#random.below(2);
    for (let row = 0; row < SIDE; row++) {
      this.#image.fill(0, row * SIDE, (row + 1) * SIDE);
      this.#image[row * SIDE + 3 * this.#now] = 255;
    }
    return this.#image;
  }
}
