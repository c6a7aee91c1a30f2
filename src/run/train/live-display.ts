/**
 * Displays progress. On a terminal, lines are redrawn in place. A pipe, a file or a terminal of
 * unknown width gets permanent lines, or no lines.
 */
import { checkKeys, describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';

/** Functions that return the lines of showProgress(). */
export interface Display {
  /**
   * function that returns the lines for a terminal. Each line is cut to its width. Default: none
   */
  live?: () => readonly string[];
  /** function that returns a line for a pipe or a file, called once a second, default: none */
  line?: () => string;
}

const LIVE_MS = 150;
const LINE_MS = 1000;

/**
 * Cuts a line so that it does not reach the terminal's last column, where it would wrap. It leaves
 * two more columns for the ^C that a terminal writes after the line.
 */
export function cut(line: string, columns: number): string {
  const most = columns - 3;
  return line.length <= most ? line : `${line.slice(0, Math.max(0, most - 1))}…`;
}

/**
 * Shows progress until the work ends, then removes the live lines. If `live` or `line` throws, the
 * display ends with a process warning, and the work continues.
 *
 * @param work promise to wait for. showProgress() returns its result, or rejects with its error
 * @param display functions that return the lines
 * @param out stream to write to, default: standard output
 * @throws {TypeError} for a display or a stream of a wrong type
 * @example
 * const line = () => `${limiter.inserts} rows`;
 * await showProgress(pipeline.run({ ticks: 1000 }), { line });
 */
export async function showProgress<T>(
  work: Promise<T>,
  display: Display,
  out = process.stdout,
): Promise<T> {
  checkKeys('showProgress', display, ['live', 'line']);
  const { live, line } = display;
  for (const [name, made] of Object.entries({ live, line }))
    if (made !== undefined && typeof made !== 'function')
      throw typeError(`showProgress: ${name} is a function, got ${describeValue(made)}`);
  if (typeof (out as { write?: unknown } | null)?.write !== 'function')
    throw typeError(`showProgress writes to a stream, got ${describeValue(out)}`);
  let height = 0;
  const toFirstLine = () => (height > 1 ? `\r\x1b[${height - 1}A` : '\r');
  const redraw = (lines: readonly string[]) => {
    const drawn = lines.map((each) => `${cut(each, out.columns)}\x1b[K`).join('\n');
    out.write(`${toFirstLine()}${drawn}`);
    height = lines.length;
  };
  // The terminals of some containers and CI systems do not know their width. Lines cannot be
  // redrawn on such terminals.
  const terminal = live !== undefined && out.isTTY === true && out.columns > 0;
  const show = terminal ? () => redraw(live()) : line && (() => out.write(`${line()}\n`));
  const tick = () => {
    try {
      show?.();
    } catch (error) {
      clearInterval(timer);
      process.emitWarning(`showProgress: the display stops, the work continues: ${error}`);
    }
  };
  const timer = show && setInterval(tick, terminal ? LIVE_MS : LINE_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    if (height > 0) out.write(`${toFirstLine()}\x1b[J`);
  }
}
