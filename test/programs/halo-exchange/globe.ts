/** Draws the sphere as seen from far away. */
import { type Colour, type Image, mixed } from './png.ts';
import { axis, dot, faces, sum, type Vector } from './sphere.ts';

/** Number of samples per pixel along each axis. */
const FINE = 2;

export interface View {
  /**
   * directions of the point in the middle of the disc, and of what is to the right of it. The axis
   * points up
   */
  towards: Vector;
  right: Vector;
  /** center of the disc and its radius, in pixels */
  x: number;
  y: number;
  radius: number;
}

/** Draws the globe. `colour` receives a cell's index, or −1 for a line between faces. */
export function drawGlobe(
  image: Image,
  size: number,
  view: View,
  page: Colour,
  colour: (cell: number) => Colour,
): void {
  const { towards, right, x: x0, y: y0, radius } = view;
  for (let y = Math.floor(y0 - radius); y <= y0 + radius; y++) {
    for (let x = Math.floor(x0 - radius); x <= x0 + radius; x++) {
      const all = [0, 0, 0] as [number, number, number];
      let hits = 0;
      for (let look = 0; look < FINE ** 2; look++) {
        const a = (x + ((look % FINE) + 0.5) / FINE - x0) / radius;
        const b = (y0 - y - (Math.floor(look / FINE) + 0.5) / FINE) / radius;
        const rest = 1 - a * a - b * b;
        const height = rest > 0 ? Math.sqrt(rest) : 0;
        if (rest > 0) hits++;
        const point = sum([a, right], [b, axis], [height, towards]);
        // The globe is darker towards its edge. Samples outside of it show the page.
        const seen =
          rest > 0 ? mixed(page, colour(cellAt(size, point, radius)), 0.5 + 0.5 * height) : page;
        for (let k = 0; k < 3; k++) all[k]! += seen[k]! / FINE ** 2;
      }
      if (hits > 0) image.fill(x, y, 1, 1, all);
    }
  }
}

/** Returns the index of the cell at the point, or −1 within a pixel of a face's edge. */
function cellAt(size: number, point: Vector, radius: number): number {
  let face = 0;
  for (let k = 1; k < faces.length; k++)
    if (dot(point, faces[k]!.normal) > dot(point, faces[face]!.normal)) face = k;
  const { normal, i, j } = faces[face]!;
  const out = dot(point, normal);
  const [x, y] = [dot(point, i) / out, dot(point, j) / out];
  if ((1 - Math.max(Math.abs(x), Math.abs(y))) * out * radius < 1) return -1;
  const [column, row] = [x, y].map((at) =>
    Math.floor(((Math.atan(at) * 4) / Math.PI + 1) * (size / 2)),
  );
  return (face * size + row!) * size + column!;
}
