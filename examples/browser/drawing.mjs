/** Draws the cart, its pole and the track in the page's current colors. */
import { LENGTH, THETA_LIMIT, X_LIMIT } from '/cart-pole-physics.js';

/** Width of the visible range in meters: the track and a margin. */
const WIDE = 2 * X_LIMIT + 0.8;
const CART = { wide: 0.5, high: 0.26 };

export class Drawing {
  #canvas;
  #context;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext('2d');
  }

  /**
   * Draws one frame. `state` is x, x', θ, θ'. `action` is 1 for a push to the right, 0 for a push
   * to the left, and null for none. `shove` is the push of the viewer: −1, 0 or 1.
   */
  draw(state, action, shove) {
    const { scale, ground } = this.#prepare();
    const [x, , theta] = state;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.#track(scale, ground, colour('line'));
    this.#limits(x * scale, ground - CART.high * scale, scale, colour('line'));
    this.#cart(x * scale, ground, scale, colour('cart'));
    this.#pole(x * scale, ground - CART.high * scale, theta, scale, colour('pole'));
    if (action !== null)
      this.#arrow(
        x * scale,
        ground - (CART.high / 2) * scale,
        action === 1 ? 1 : -1,
        scale,
        colour('card'),
        0.16,
      );
    if (shove !== 0)
      this.#arrow(
        (x - shove * 0.5) * scale,
        ground - (CART.high / 2) * scale,
        shove,
        scale,
        colour('good'),
        0.34,
      );
  }

  /**
   * Sizes and clears the canvas for the screen's pixels, with x = 0 at the middle of the track.
   * Returns the scale in pixels per meter and the y of the ground.
   */
  #prepare() {
    const { clientWidth: wide, clientHeight: high } = this.#canvas;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(wide * ratio), Math.round(high * ratio)];
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    this.#context.setTransform(ratio, 0, 0, ratio, (wide * ratio) / 2, 0);
    this.#context.clearRect(-wide / 2, 0, wide, high);
    return { scale: wide / WIDE, ground: high * 0.82 };
  }

  #line(points, colour, width) {
    const context = this.#context;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineCap = 'round';
    context.beginPath();
    for (const [x, y] of points) context.lineTo(x, y);
    context.stroke();
  }

  #track(scale, ground, colour) {
    const end = X_LIMIT * scale;
    this.#line(
      [
        [-end, ground],
        [end, ground],
      ],
      colour,
      3,
    );
    for (const x of [-end, end])
      this.#line(
        [
          [x, ground - 0.12 * scale],
          [x, ground + 0.12 * scale],
        ],
        colour,
        3,
      );
    for (let x = -2; x <= 2; x++)
      this.#line(
        [
          [x * scale, ground],
          [x * scale, ground + 0.06 * scale],
        ],
        colour,
        2,
      );
  }

  /** Draws the two angles at which the pole counts as fallen. */
  #limits(x, y, scale, colour) {
    const context = this.#context;
    context.setLineDash([4, 6]);
    for (const lean of [-THETA_LIMIT, THETA_LIMIT]) {
      const long = 2.3 * LENGTH * scale;
      this.#line(
        [
          [x, y],
          [x + long * Math.sin(lean), y - long * Math.cos(lean)],
        ],
        colour,
        1.5,
      );
    }
    context.setLineDash([]);
  }

  #cart(x, ground, scale, colour) {
    const context = this.#context;
    const [wide, high] = [CART.wide * scale, CART.high * scale];
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(x - wide / 2, ground - high, wide, high - 0.05 * scale, 0.05 * scale);
    context.fill();
    for (const side of [-0.3, 0.3]) {
      context.beginPath();
      context.arc(x + side * wide, ground - 0.06 * scale, 0.06 * scale, 0, 2 * Math.PI);
      context.fill();
    }
  }

  /** Draws the pole from its joint. Its length is that of the physics. */
  #pole(x, y, theta, scale, colour) {
    const long = 2 * LENGTH * scale;
    const tip = [x + long * Math.sin(theta), y - long * Math.cos(theta)];
    this.#line([[x, y], tip], colour, Math.max(4, 0.07 * scale));
    this.#context.fillStyle = colour;
    this.#context.beginPath();
    this.#context.arc(x, y, Math.max(3, 0.055 * scale), 0, 2 * Math.PI);
    this.#context.fill();
  }

  #arrow(x, y, way, scale, colour, size) {
    const long = size * scale * way;
    const head = 0.35 * Math.abs(long);
    this.#line(
      [
        [x - long / 2, y],
        [x + long / 2, y],
      ],
      colour,
      3,
    );
    this.#line(
      [
        [x + long / 2 - way * head, y - head],
        [x + long / 2, y],
        [x + long / 2 - way * head, y + head],
      ],
      colour,
      3,
    );
  }
}
