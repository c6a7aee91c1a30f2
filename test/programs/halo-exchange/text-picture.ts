/** Draws fields side by side with characters. */
import type { Mode } from './domain.ts';
import { layouts } from './layout.ts';

const SHADES = '·░▒▓█';
const GAP = 3;
/** Maximum number of character rows of a part. */
const MAX_CELLS = 9;

export interface Panel {
  title: string;
  /** values in order of parts and rows */
  field: Float64Array;
}

/** Draws the panels as large as fits into `columns`. A character is twice as high as wide. */
export function drawText(
  mode: Mode,
  size: number,
  panels: readonly Panel[],
  columns: number,
): string {
  const { columns: across, rows, positions, stride } = layouts[mode];
  const parts = across + (panels.length - 1) * stride;
  const high = Math.min(
    MAX_CELLS,
    size,
    Math.floor((columns - GAP * (panels.length - 1)) / parts / 2),
  );
  const wide = 2 * high;
  const lines = Array.from({ length: 1 + rows * high }, () => Array<string>(columns).fill(' '));
  for (const [index, { title, field }] of panels.entries()) {
    const left = index * (stride * wide + GAP);
    const top = Math.min(
      ...positions.filter(([, row]) => row === rows - 1).map(([column]) => column),
    );
    lines[0]!.splice(left + top * wide, title.length, ...title);
    for (const [rank, [column, row]] of positions.entries()) {
      for (let y = 0; y < high; y++) {
        const line = lines[(rows - row) * high - y]!;
        for (let x = 0; x < wide; x++) {
          const mean = meanOf(
            field,
            size,
            rank,
            [x / wide, (x + 1) / wide],
            [y / high, (y + 1) / high],
          );
          line[left + column * wide + x] =
            SHADES[Math.round(Math.max(0, Math.min(1, mean)) * (SHADES.length - 1))]!;
        }
      }
    }
  }
  return lines.map((line) => line.join('').trimEnd()).join('\n');
}

type Range = readonly [from: number, to: number];

/** Returns the mean of a part's cells in these ranges, in which 1 is the whole side. */
function meanOf(field: Float64Array, size: number, rank: number, across: Range, up: Range): number {
  const [[i0, i1], [j0, j1]] = [across, up].map(([from, to]) => {
    const first = Math.floor(from * size);
    return [first, Math.max(first + 1, Math.floor(to * size))] as const;
  }) as [Range, Range];
  let sum = 0;
  for (let j = j0; j < j1; j++)
    for (let i = i0; i < i1; i++) sum += field[(rank * size + j) * size + i]!;
  return sum / ((i1 - i0) * (j1 - j0));
}
