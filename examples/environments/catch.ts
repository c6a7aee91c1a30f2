/**
 * Catch, drawn as pixels: balls fall and bounce off the walls, a paddle at the bottom is to be
 * under each of them.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

/** Pixels of a frame's side, of which each is a byte. */
export const SIDE = 84;
export const FRAME = SIDE * SIDE;
export const ACTIONS = 3;
/** balls caught in a row end a game by being enough */
export const ENOUGH = 8;

const BALL = 7;
const PADDLE = 14;
const SPEED = 4;
const FALL = 3;
const BALL_GREY = 255;
const PADDLE_GREY = 160;

export default class Catch implements Environment<number> {
  /** a frame; where the ball goes is seen in several of them */
  readonly observationSpace = { shape: [SIDE, SIDE], low: 0, high: 255, dtype: 'uint8' } as const;
  /** left, not at all, right */
  readonly actionSpace = { n: ACTIONS } as const;
  /** balls caught in the game under way */
  caught = 0;
  readonly #frame = new Uint8Array(FRAME);
  /** left edge of the paddle; left and upper edge of the ball, and its speed to the right */
  #paddle = 0;
  #x = 0;
  #y = 0;
  #drift = 0;
  #random = new Random(0);

  reset(seed: number): Uint8Array {
    this.#random = new Random(seed);
    this.caught = 0;
    this.#paddle = this.#random.below(SIDE - PADDLE + 1);
    this.#throw();
    return this.#drawn();
  }

  /** A ball that reaches the bottom pays 1 if it is caught; else −1, and the game is over. */
  step(action: number): Step {
    this.#paddle = Math.min(SIDE - PADDLE, Math.max(0, this.#paddle + (action - 1) * SPEED));
    this.#move();
    let reward = 0;
    if (this.#y >= SIDE - 2 * BALL) {
      reward = this.#x + BALL > this.#paddle && this.#x < this.#paddle + PADDLE ? 1 : -1;
      if (reward === 1) {
        this.caught++;
        this.#throw();
      }
    }
    return {
      obs: this.#drawn(),
      reward,
      terminated: reward === -1,
      truncated: this.caught >= ENOUGH,
    };
  }

  #move(): void {
    this.#y += FALL;
    this.#x += this.#drift;
    if (this.#x >= 0 && this.#x <= SIDE - BALL) return;
    this.#drift = -this.#drift;
    this.#x = this.#x < 0 ? -this.#x : 2 * (SIDE - BALL) - this.#x;
  }

  #throw(): void {
    this.#x = this.#random.below(SIDE - BALL + 1);
    this.#y = 0;
    this.#drift = this.#random.below(7) - 3;
  }

  #drawn(): Uint8Array {
    const frame = this.#frame.fill(0);
    const box = (left: number, top: number, width: number, height: number, grey: number) => {
      for (let row = top; row < top + height; row++)
        frame.fill(grey, row * SIDE + left, row * SIDE + left + width);
    };
    box(this.#paddle, SIDE - BALL, PADDLE, BALL, PADDLE_GREY);
    box(this.#x, this.#y, BALL, Math.min(BALL, SIDE - this.#y), BALL_GREY);
    return frame;
  }
}
