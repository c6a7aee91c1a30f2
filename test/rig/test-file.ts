/** Names of compiled test files, for a mocha that a test or a command starts. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * The path of a test file from the package's folder: of `ring/slot`, `dist/test/ring/slot.test.js`,
 * or `slot.long.test.js` where that file has a longer form. `ring/*` is every file of the folder.
 * Throws Error when there is no such file.
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
