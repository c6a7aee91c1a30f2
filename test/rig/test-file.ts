/** Finds the names of compiled test files, for tests and commands that start mocha. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * Returns the path of a test file relative to the package's folder. For `ring/slot` it is
 * `dist/test/ring/slot.test.js`, or `slot.long.test.js` if the file has that name. `ring/*` means
 * every file of the folder. Throws an Error if there is no such file.
 */
export function testFile(name: string): string {
  if (name.endsWith('/*')) return `dist/test/${name}.test.js`;
  const ending = ['.test', '.long.test'].find((each) =>
    existsSync(`${root}test/${name}${each}.ts`),
  );
  if (ending === undefined)
    throw new Error(`there is no test/${name}.test.ts, and no test/${name}.long.test.ts`);
  return `dist/test/${name}${ending}.js`;
}
