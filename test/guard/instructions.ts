/**
 * Counts the instructions of pieces of native code with callgrind. The counts are the same in every
 * run of one build.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildDriverProgram } from '../drivers/build.ts';
import { unitsOfPieces } from '../native/harnesses.ts';

/** Number of repetitions of each piece, as in pieces.cpp. */
const TIMES = 16;
const compiler = process.env.CXX ?? 'g++';
const said = (program: string, ...args: string[]) =>
  spawnSync(program, args, { encoding: 'utf8' }).stdout?.trim() ?? '';

/** Returns why callgrind cannot count here, or null. */
export function missingCallgrind(): string | null {
  if (spawnSync(compiler, ['--version']).error) return `${compiler} is not installed`;
  if (spawnSync('valgrind', ['--version']).error)
    return 'valgrind is not installed (Debian: valgrind)';
  const probe = spawnSync(compiler, ['-fsyntax-only', '-x', 'c++', '-'], {
    input: '#include <valgrind/callgrind.h>\n',
  });
  return probe.status === 0 ? null : "valgrind's headers are not installed (Debian: valgrind)";
}

/**
 * Names the compiler, because another compiler generates other instructions. The CPU does not
 * matter: valgrind always shows programs a CPU with AVX2 and without AVX-512, so the same loops
 * run.
 */
export const compiled = (): string =>
  `${compiler} ${said(compiler, '-dumpfullversion')} for ${process.arch}`;

/** Returns the instructions of one repetition of each piece. */
export function countInstructions(): Record<string, number> {
  const program = buildDriverProgram(unitsOfPieces(), []);
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-callgrind-'));
  try {
    const file = `--callgrind-out-file=${join(folder, 'counts')}`;
    const done = spawnSync('valgrind', ['--tool=callgrind', file, program], { encoding: 'utf8' });
    if (done.status !== 0)
      throw new Error(`the pieces ended with ${done.status ?? done.signal}:\n${done.stderr}`);
    const counts: Record<string, number> = {};
    for (const name of readdirSync(folder).sort()) {
      const text = readFileSync(join(folder, name), 'utf8');
      const piece = /^desc: Trigger: Client Request: (\S+)/m.exec(text)?.[1];
      // The count of one piece is called `totals`, or `summary` in newer versions.
      const total = /^(?:totals|summary): (\d+)/m.exec(text)?.[1];
      if (piece && total) counts[piece] = Math.round(Number(total) / TIMES);
    }
    return counts;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
