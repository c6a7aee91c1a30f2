/**
 * Catch, drawn as pixels. Balls fall and bounce off the walls, and the player moves a paddle at the
 * bottom under each of them.
 */
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

/** Width and height of a frame in pixels. A pixel is one byte. */
export const SIDE = 84;
export const FRAME = SIDE * SIDE;
export const ACTIONS = 3;
/** number of caught balls after which a game is truncated */
export const ENOUGH = 8;

const BALL = 7;
const PADDLE = 14;
const SPEED = 4;
const FALL = 3;
const BALL_GREY = 255;
const PADDLE_GREY = 160;

export default class Catch implements Environment<number> {
  /** one frame. The direction of the ball is only visible in several frames */
  readonly observationSpace = { shape: [SIDE, SIDE], low: 0, high: 255, dtype: 'uint8' } as const;
  /** the paddle moves left, stays, or moves right */
  readonly actionSpace = { n: ACTIONS } as const;
  /** number of balls caught in the current game */
  caught = 0;
  readonly #frame = new Uint8Array(FRAME);
  /**
   * left edge of the paddle. The next three are the ball's left and upper edge and its speed to the
   * right
   */
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

  /** Returns a reward of 1 for a caught ball. A missed ball earns −1 and ends the game. */
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
