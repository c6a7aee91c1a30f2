/** Draws a timeline as text and as SVG: one row per stream, and one span per batch. */

export interface Span {
  /** number of the batch */
  batch: number;
  /** milliseconds from the start */
  from: number;
  to: number;
}

export interface Row {
  name: string;
  spans: readonly Span[];
}

const lengthOf = (rows: readonly Row[]) =>
  Math.max(...rows.flatMap(({ spans }) => spans.map(({ to }) => to)));

/** Returns a round number of milliseconds that gives about `ticks` ticks. */
function step(length: number, ticks: number): number {
  const rough = length / ticks;
  const ten = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5, 10].find((n) => n * ten >= rough) as number) * ten;
}

/** Formats milliseconds without rounding errors of sums. */
const told = (ms: number) => String(Number(ms.toPrecision(6)));

/** The character that stands for a batch, by the batch's number. */
const SIGNS = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

/**
 * Returns rows under a scale in milliseconds, `columns` wide in total. Each batch has its own
 * character. Draws at most as many batches as there are characters, and as fit at two columns each.
 * If batches are left out, the last line says so.
 */
export function drawText(all: readonly Row[], columns = 80): string {
  const margin = Math.max(...all.map(({ name }) => name.length)) + 2;
  const width = columns - margin;
  const batches = Math.max(...all.flatMap(({ spans }) => spans.map(({ batch }) => batch))) + 1;
  const drawn = Math.min(batches, SIGNS.length, Math.floor(width / 2));
  const rows = all.map(({ name, spans }) => ({
    name,
    spans: spans.filter(({ batch }) => batch < drawn),
  }));
  const length = lengthOf(rows);
  const at = (ms: number) => Math.floor((ms / length) * width);
  const scale = Array<string>(width).fill(' ');
  const every = step(length, Math.min(8, width / 6));
  for (let i = 0; i * every < length; i++) {
    const text = told(i * every);
    if (at(i * every) + text.length <= width) scale.splice(at(i * every), text.length, ...text);
  }
  const lines = rows.map(({ name, spans }) => {
    const cells = Array<string>(width).fill('·');
    for (const { batch, from, to } of spans)
      cells.fill(SIGNS[batch] as string, at(from), Math.max(at(to), at(from) + 1));
    return name.padEnd(margin) + cells.join('');
  });
  if (drawn < batches) lines.push(`drawn: the first ${drawn} of ${batches} batches`);
  return [`${'ms'.padEnd(margin)}${scale.join('').trimEnd()}`, ...lines].join('\n');
}

/** Returns the timeline as an SVG picture that is 1000 wide. */
export function drawSvg(rows: readonly Row[]): string {
  const [left, top, tall, width] = [190, 46, 40, 780];
  const length = lengthOf(rows);
  const x = (ms: number) => (left + (ms / length) * width).toFixed(1);
  const height = top + rows.length * (tall + 12) + 12;
  const parts: string[] = [];
  const every = step(length, 10);
  for (let i = 0; i * every <= length; i++) {
    const at = x(i * every);
    parts.push(`<line x1="${at}" x2="${at}" y1="${top - 8}" y2="${height - 8}" stroke="#ddd"/>`);
    parts.push(`<text x="${at}" y="${top - 14}" text-anchor="middle">${told(i * every)}</text>`);
  }
  parts.push(`<text x="16" y="${top - 14}">ms</text>`);
  rows.forEach(({ name, spans }, row) => {
    const y = top + row * (tall + 12);
    parts.push(
      `<text x="16" y="${y + tall / 2 + 5}">${name.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`,
    );
    for (const { batch, from, to } of spans) {
      const wide = Math.max(1, ((to - from) / length) * width - 1);
      const colour = `hsl(${(batch * 67) % 360} 60% 68%)`;
      const title = `batch ${batch}: ${from.toFixed(2)} to ${to.toFixed(2)} ms`;
      const size = `width="${wide.toFixed(1)}" height="${tall}"`;
      parts.push(
        `<rect x="${x(from)}" y="${y}" ${size} fill="${colour}"><title>${title}</title></rect>`,
      );
      if (wide > 16)
        parts.push(
          `<text x="${x((from + to) / 2)}" y="${y + tall / 2 + 5}" text-anchor="middle">${batch}</text>`,
        );
    }
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 ${height}" width="1000" height="${height}" ` +
      'font-family="sans-serif" font-size="14">',
    `<rect width="1000" height="${height}" fill="white"/>`,
    ...parts,
    '</svg>',
    '',
  ].join('\n');
}
