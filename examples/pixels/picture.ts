/**
 * Draws a stack of frames as text. The newest frame is in full brightness, and older frames are
 * shades that show what moved.
 */
import { SIDE } from '../environments/catch.ts';

/** Width and height in pixels of the area that becomes one character. */
const WIDE = 2;
const HIGH = 4;
const BRIGHT = 128;

/** Returns lines of SIDE / 2 characters. `frames` contains the oldest frame first. */
export function drawStack(frames: Uint8Array): string[] {
  const count = frames.length / (SIDE * SIDE);
  const shades = [' ', '░', '▒', '▓', '█'];
  const lit = (frame: number, row: number, column: number) => {
    let sum = 0;
    for (let y = row; y < row + HIGH; y++)
      for (let x = column; x < column + WIDE; x++) sum += frames[(frame * SIDE + y) * SIDE + x]!;
    return sum / (WIDE * HIGH) >= BRIGHT;
  };
  return Array.from({ length: SIDE / HIGH }, (_, line) =>
    Array.from({ length: SIDE / WIDE }, (_, column) => {
      for (let frame = count - 1; frame >= 0; frame--) {
        const age = Math.min(count - 1 - frame, shades.length - 2);
        if (lit(frame, line * HIGH, column * WIDE)) return shades[shades.length - 1 - age];
      }
      return shades[0];
    }).join(''),
  );
}

/** Returns the lines with a border around them, as one text. */
export function framed(lines: readonly string[]): string {
  const width = lines[0]?.length ?? 0;
  const edge = '─'.repeat(width);
  return [`┌${edge}┐`, ...lines.map((line) => `│${line}│`), `└${edge}┘`].join('\n');
}
