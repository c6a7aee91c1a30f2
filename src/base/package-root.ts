/** Finds the folder of the package. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Returns the folder of a module's package, with a slash at its end. This is the nearest folder
 * above the module that has a package.json. Bundling moves a module to another folder depth, so a
 * fixed relative path would not work.
 */
export function packageRoot(module: string): string {
  const start = dirname(fileURLToPath(module));
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return join(folder, '/');
    if (folder === dirname(folder)) throw new Error(`no folder above ${start} has a package.json`);
  }
}
