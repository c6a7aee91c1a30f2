/** Compiles files in a temporary project, as a strict consumer of the package would. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../../', import.meta.url));
export const strict = join(root, 'test/types/strict');

/**
 * Compiles `files` by name. Returns the compiler's messages, or '' if there are none. `strict`
 * gives the compiler options.
 */
export function compiled(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-types-'));
  try {
    mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
    symlinkSync(root, join(folder, 'node_modules/hotslot'));
    symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
    cpSync(join(strict, 'tsconfig.json'), join(folder, 'tsconfig.json'));
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(join(folder, dirname(name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const { stdout, stderr } = spawnSync(process.execPath, [tsc, '-p', '.', '--pretty', 'false'], {
      cwd: folder,
      encoding: 'utf8',
    });
    return stdout + stderr;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
