// Draws one curve on a canvas, again when its points, its size or the colors change. The pointer
// and the arrow keys select the point whose value the caption shows.

/** @typedef {[seconds: number, step: number, value: number | null]} Point */

const LEFT = 52;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

/** @param {number | null | undefined} value */
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(1).replace('e+', 'e');
  for (const [least, unit] of /** @type {const} */ ([
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e4, 'k'],
  ]))
    if (size >= least)
      return `${Number((value / (unit === 'k' ? 1e3 : least)).toPrecision(3))}${unit}`;
  return size >= 1000 ? `${Math.round(value)}` : `${Number(value.toPrecision(3))}`;
}

/** @param {number} seconds */
export function clock(seconds) {
  if (seconds < 120) return `${Number(seconds.toPrecision(seconds < 10 ? 2 : 3))} s`;
  const minutes = seconds / 60;
  return minutes < 120
    ? `${Number(minutes.toPrecision(3))} min`
    : `${Number((minutes / 60).toPrecision(3))} h`;
}

/**
 * Returns about `count` round numbers from `low` to `high`, for the labels of an axis.
 * @param {number} low @param {number} high @param {number} count
 */
function ticksOf(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    power * /** @type {number} */ ([1, 2, 5, 10].find((each) => each * power >= rough) || 10);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

export class Chart {
  /** @param {string} name the curve's name for users */
  constructor(name) {
    this.name = name;
    /** @type {Point[]} */
    this.points = [];
    /** @type {number | null} index of the point that the user has selected, or null */
    this.at = null;
    this.element = document.createElement('figure');
    const caption = this.element.appendChild(document.createElement('figcaption'));
    caption.appendChild(document.createElement('b')).textContent = name;
    this.readout = caption.appendChild(document.createElement('span'));
    this.canvas = this.element.appendChild(document.createElement('canvas'));
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.addEventListener('pointermove', (event) => this.read(this.nearest(event.offsetX)));
    this.canvas.addEventListener('pointerleave', () => this.read(null));
    this.canvas.addEventListener('blur', () => this.read(null));
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.drawing = 0;
  }

  /**
   * Replaces the points from index `from` on. If the user has selected a point, this selects the
   * new point that is closest in time, because the server may have thinned the curve.
   * @param {number} from @param {Point[]} points
   */
  put(from, points) {
    const read = this.at === null ? undefined : this.points[this.at];
    this.points.length = Math.min(this.points.length, from);
    this.points.push(...points);
    this.at = read ? this.closest(([seconds]) => Math.abs(seconds - read[0])) : null;
    this.told();
    this.draw();
  }

  /** Returns the ranges of seconds and values that are shown, and functions from them to pixels. */
  scales() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const values = this.points.flatMap(([, , value]) => (value === null ? [] : [value]));
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (values.length === 0) [low, high] = [0, 1];
    // The axis of positive values begins at 0 if that leaves at least half of the height to the
    // curve.
    if (low > 0 && low < 0.5 * high) low = 0;
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    if (low !== 0) low -= room;
    high += room;
    const first = this.points[0]?.[0] ?? 0;
    const last = Math.max(this.points.at(-1)?.[0] ?? 1, first + 1);
    return {
      width,
      height,
      low,
      high,
      first,
      last,
      x: (/** @type {number} */ seconds) =>
        LEFT + ((seconds - first) / (last - first)) * (width - LEFT - RIGHT),
      y: (/** @type {number} */ value) =>
        TOP + ((high - value) / (high - low)) * (height - TOP - BOTTOM),
    };
  }

  /** Paints the chart in the next frame, once for any number of calls. */
  draw() {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      this.paint();
    });
  }

  paint() {
    const context = this.canvas.getContext('2d');
    const { width, height, low, high, first, last, x, y } = this.scales();
    if (!context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const [wide, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== tall)
      Object.assign(this.canvas, { width: wide, height: tall });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.canvas);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    context.font = `11px ${style.fontFamily}`;
    context.lineWidth = 1;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const value of ticksOf(low, high, 4)) {
      context.strokeStyle = colour('line');
      context.beginPath();
      context.moveTo(LEFT, Math.round(y(value)) + 0.5);
      context.lineTo(width - RIGHT, Math.round(y(value)) + 0.5);
      context.stroke();
      context.fillStyle = colour('quiet');
      context.fillText(short(value), LEFT - 7, y(value));
    }
    context.textBaseline = 'alphabetic';
    context.textAlign = 'center';
    for (const seconds of ticksOf(first, last, width / 80)) {
      if (x(seconds) < LEFT + 8 || x(seconds) > width - 22) continue;
      context.fillText(clock(seconds), x(seconds), height - 5);
    }
    context.strokeStyle = colour('hot');
    context.lineWidth = 1.75;
    context.lineJoin = 'round';
    context.beginPath();
    let open = false;
    for (const [seconds, , value] of this.points) {
      if (value === null) open = false;
      else if (open) context.lineTo(x(seconds), y(value));
      else {
        context.moveTo(x(seconds), y(value));
        open = true;
      }
    }
    context.stroke();
    const read = this.at === null ? this.points.at(-1) : this.points[this.at];
    if (!read || read[2] === null) return;
    if (this.at !== null) {
      context.strokeStyle = colour('quiet');
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(x(read[0]), TOP);
      context.lineTo(x(read[0]), height - BOTTOM);
      context.stroke();
    }
    context.fillStyle = colour('hot');
    context.beginPath();
    context.arc(x(read[0]), y(read[2]), 3, 0, 7);
    context.fill();
  }

  /**
   * Returns the index of the point that is closest to `offset`, or null without points.
   * @param {number} offset pixels from the left
   */
  nearest(offset) {
    const { x } = this.scales();
    return this.closest(([seconds]) => Math.abs(x(seconds) - offset));
  }

  /**
   * Returns the index of the point with the smallest distance, the first of equal ones, or null
   * without points.
   * @param {(point: Point) => number} distance
   */
  closest(distance) {
    let best = null;
    let least = Number.POSITIVE_INFINITY;
    for (const [i, point] of this.points.entries()) {
      const far = distance(point);
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  /** @param {number | null} at */
  read(at) {
    if (this.at === at) return;
    this.at = at;
    this.told();
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const end = this.points.length - 1;
    if (end < 0) return;
    const at = this.at ?? end;
    const by = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: at - by, ArrowRight: at + by, Home: 0, End: end, Escape: null }[
      event.key
    ];
    if (to === undefined) return;
    event.preventDefault();
    this.read(to === null ? null : Math.min(end, Math.max(0, to)));
  }

  /**
   * Shows the selected point, or the latest one, in the caption, and describes it for screen
   * readers.
   */
  told() {
    const [seconds = 0, step = 0, value = null] =
      (this.at === null ? this.points.at(-1) : this.points[this.at]) ?? [];
    const where = ` at step ${step.toLocaleString('en')}, ${clock(seconds)}`;
    this.readout.textContent = this.at === null ? short(value) : short(value) + where;
    const begin = this.points.find(([, , each]) => each !== null)?.[2];
    const from = this.at === null && begin !== undefined ? `, began at ${short(begin)}` : '';
    this.canvas.setAttribute(
      'aria-label',
      `${this.name}: ${short(value)}${where}${from}; arrow keys read points`,
    );
  }
}
