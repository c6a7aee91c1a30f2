/** A stack of frames as text: the newest in full, the older ones as shades of what moved. */
import { SIDE } from '../environments/catch.ts';

/** Pixels that become one character. */
const WIDE = 2;
const HIGH = 4;
const BRIGHT = 128;

/** Lines of SIDE / 2 characters. `frames`: oldest first. */
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

/** The same in a frame of lines. */
export function framed(lines: readonly string[]): string {
  const width = lines[0]?.length ?? 0;
  const edge = '─'.repeat(width);
  return [`┌${edge}┐`, ...lines.map((line) => `│${line}│`), `└${edge}┘`].join('\n');
}
