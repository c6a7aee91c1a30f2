/** Games of catch, drawn as pixels: balls fall and bounce off the walls, a paddle at the bottom is to be under each of them. */
import type { Random } from '../../src/index.ts';

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

export class CatchGames {
  readonly count: number;
  /** of all games, one frame behind the other */
  readonly frames: Uint8Array;
  readonly rewards: Float32Array;
  /** of the last step: a ball was missed */
  readonly terminated: Uint8Array;
  /** of the last step: the last ball was caught */
  readonly truncated: Uint8Array;
  /** balls caught in the game under way */
  readonly caught: Int32Array;
  /** left edge of each paddle; left and upper edge of each ball, and its speed to the right */
  readonly #paddle: Int32Array;
  readonly #x: Int32Array;
  readonly #y: Int32Array;
  readonly #drift: Int32Array;
  readonly #random: Random;

  /** Every game begins. */
  constructor(count: number, random: Random) {
    this.count = count;
    this.frames = new Uint8Array(count * FRAME);
    this.rewards = new Float32Array(count);
    this.terminated = new Uint8Array(count);
    this.truncated = new Uint8Array(count);
    this.caught = new Int32Array(count);
    this.#paddle = new Int32Array(count);
    this.#x = new Int32Array(count);
    this.#y = new Int32Array(count);
    this.#drift = new Int32Array(count);
    this.#random = random;
    for (let game = 0; game < count; game++) this.reset(game);
  }

  frame(game: number): Uint8Array {
    return this.frames.subarray(game * FRAME, (game + 1) * FRAME);
  }

  /** Begins another game. */
  reset(game: number): void {
    this.caught[game] = 0;
    this.terminated[game] = 0;
    this.truncated[game] = 0;
    this.#paddle[game] = this.#random.below(SIDE - PADDLE + 1);
    this.#throw(game);
    this.#draw(game);
  }

  /** Moves a paddle: 0 left, 1 not at all, 2 right. A ball that reaches the bottom pays 1 if it is caught, else −1. */
  step(game: number, action: number): void {
    const paddle = Math.min(SIDE - PADDLE, Math.max(0, this.#paddle[game]! + (action - 1) * SPEED));
    this.#paddle[game] = paddle;
    let x = this.#x[game]! + this.#drift[game]!;
    if (x < 0 || x > SIDE - BALL) {
      this.#drift[game] = -this.#drift[game]!;
      x = x < 0 ? -x : 2 * (SIDE - BALL) - x;
    }
    this.#x[game] = x;
    this.#y[game] = this.#y[game]! + FALL;
    this.rewards[game] = 0;
    if (this.#y[game]! >= SIDE - 2 * BALL) {
      const isCaught = x + BALL > paddle && x < paddle + PADDLE;
      this.rewards[game] = isCaught ? 1 : -1;
      if (isCaught) this.caught[game]!++;
      this.terminated[game] = isCaught ? 0 : 1;
      this.truncated[game] = this.caught[game]! >= ENOUGH ? 1 : 0;
      if (isCaught) this.#throw(game);
    }
    this.#draw(game);
  }

  over(game: number): boolean {
    return this.terminated[game] === 1 || this.truncated[game] === 1;
  }

  #throw(game: number): void {
    this.#x[game] = this.#random.below(SIDE - BALL + 1);
    this.#y[game] = 0;
    this.#drift[game] = this.#random.below(7) - 3;
  }

  #draw(game: number): void {
    const frame = this.frame(game).fill(0);
    const box = (left: number, top: number, width: number, height: number, grey: number) => {
      for (let row = top; row < top + height; row++) frame.fill(grey, row * SIDE + left, row * SIDE + left + width);
    };
    box(this.#paddle[game]!, SIDE - BALL, PADDLE, BALL, PADDLE_GREY);
    box(this.#x[game]!, this.#y[game]!, BALL, Math.min(BALL, SIDE - this.#y[game]!), BALL_GREY);
  }
}
