/**
 * Draws the kept fields: a row per mode, and a panel per field. Two views of the sphere fill the
 * free corners of its net.
 */
import type { Mode } from './domain.ts';
import { drawGlobe, type View } from './globe.ts';
import { layouts } from './layout.ts';
import { frame, framesAt, type Plan } from './plan.ts';
import { type Colour, Image, mixed } from './png.ts';
import { cylinderAt, sum } from './sphere.ts';

const PAGE: Colour = [13, 13, 20];
const LINE: Colour = [112, 108, 140];
/** Colors of the values from 0 to 1 at equal distances, from dark to light. */
const STOPS: readonly Colour[] = [
  [32, 28, 60],
  [86, 34, 112],
  [154, 48, 112],
  [215, 84, 86],
  [245, 146, 88],
  [253, 244, 196],
];
const GAP = 24;
/** Approximate width of a panel in pixels. */
const WIDE = 576;

function colourOf(value: number): Colour {
  const at = Math.max(0, Math.min(1, value)) * (STOPS.length - 1);
  const below = Math.min(STOPS.length - 2, Math.floor(at));
  return mixed(STOPS[below]!, STOPS[below + 1]!, at - below);
}

/** Draws plans of one size. */
export function draw(plans: readonly Plan[]): Image {
  const { size } = plans[0]!;
  // The plane is 2 parts wide and the net of the sphere 4, so the plane's cells are drawn twice as
  // large.
  const scaleOf = (mode: Mode) =>
    Math.max(1, Math.round(WIDE / (4 * size))) * (mode === 'plane' ? 2 : 1);
  const width = 4 * size * scaleOf('sphere');
  const heights = plans.map(({ mode }) => layouts[mode].rows * size * scaleOf(mode));
  const height = heights.reduce((all, each) => all + each + GAP, GAP);
  const image = new Image(GAP + 3 * (width + GAP), height, PAGE);
  let top = GAP;
  for (const [row, plan] of plans.entries()) {
    const side = size * scaleOf(plan.mode);
    for (const [index, step] of framesAt(plan.steps).entries()) {
      const field = frame(plan, plan.parts, index);
      const left = GAP + index * (width + GAP);
      drawParts(image, plan, field, left, top, side);
      if (plan.mode === 'sphere')
        for (const view of globes(step, size, left, top, side))
          drawGlobe(image, size, view, PAGE, (cell) => (cell < 0 ? LINE : colourOf(field[cell]!)));
    }
    top += heights[row]! + GAP;
  }
  return image;
}

/** Draws the parts of a field. `side` is the side of a part in pixels. */
function drawParts(
  image: Image,
  { mode, size }: Plan,
  field: Float64Array,
  left: number,
  top: number,
  side: number,
) {
  const { rows, positions } = layouts[mode];
  const scale = side / size;
  const corner = ([column, row]: readonly [number, number]) =>
    [left + column * side, top + (rows - 1 - row) * side] as const;
  for (const [rank, position] of positions.entries()) {
    const [x, y] = corner(position);
    for (let j = 0; j < size; j++) {
      for (let i = 0; i < size; i++) {
        const colour = colourOf(field[(rank * size + j) * size + i]!);
        image.fill(x + i * scale, y + (size - 1 - j) * scale, scale, scale, colour);
      }
    }
  }
  for (const [x, y] of positions.map(corner)) {
    for (const far of [0, side]) {
      image.fill(x, y + far, side + 1, 1, LINE);
      image.fill(x + far, y, 1, side + 1, LINE);
    }
  }
}

/**
 * Returns two views. In the upper left is the side of the sphere where the cylinder must be at this
 * step. In the lower right is the opposite side.
 */
function globes(step: number, size: number, left: number, top: number, side: number): View[] {
  const { centre, right } = cylinderAt(step, size);
  // The largest circle that fits next to the staircase, and below it a slightly smaller radius.
  const room = (Math.SQRT2 / (1 + Math.SQRT2)) * side;
  const radius = 0.94 * room;
  return [
    { towards: centre, right, x: left + room, y: top + room, radius },
    {
      towards: sum([-1, centre]),
      right: sum([-1, right]),
      x: left + 4 * side - room,
      y: top + 3 * side - room,
      radius,
    },
  ];
}
