/** The folder in which the package lies. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Returns the folder of a module's package, with a slash at its end: the nearest one above the
 * module that has a package.json. Modules are also bundled into files of other folders, so no
 * number of folders is right for all.
 */
export function packageRoot(module: string): string {
  const start = dirname(fileURLToPath(module));
  for (let folder = start; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return join(folder, '/');
    if (folder === dirname(folder)) throw new Error(`no folder above ${start} has a package.json`);
  }
}
