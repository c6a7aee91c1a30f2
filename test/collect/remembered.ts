/**
 * An environment that needs the last two images. The right action is the side on which the bright
 * column was one image earlier.
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
  /** the side that is shown now, and the side that was shown before */
  #now = 0;
  #before = 0;

  /** @param shape overrides the declared shape, for tests that never read an image. */
  constructor({ options }: EnvironmentContext<{ shape?: number[] } | undefined>) {
    this.observationSpace = { shape: options?.shape ?? [SIDE, SIDE], dtype: 'uint8' };
  }

  reset(seed: number): Uint8Array {
    this.#random = new Random(seed);
    this.#step = 0;
    return this.#look();
  }

  /**
   * The reward is 1 for the right action. In the first step it is 0, because no earlier image
   * exists.
   */
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
