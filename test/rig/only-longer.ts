/**
 * Loaded by `npm run test:all`: takes out the tests that `npm test` has run as they are. What is longer there is marked by how it was
 * made (setting.ts). A file that asks for `setting` values and marks nothing as longer is run whole.
 */
import { readFileSync } from 'node:fs';
import type { Context, RootHookObject, Runnable, Suite } from 'mocha';
import { isLonger } from './setting.ts';

/** Whether every test of a file may be longer: what it takes from setting.ts tells. */
function wholly(file: string): boolean {
  const names = /import \{([^}]*)\} from '[^']*rig\/setting\.js'/.exec(readFileSync(file, 'utf8'))?.[1] ?? '';
  return /\b(setting|SETTING)\b/.test(names) && !/\bitLonger\b/.test(names);
}

function thin(suite: Suite, longer: boolean): void {
  const here = longer || isLonger(suite);
  suite.tests = suite.tests.filter((test) => here || isLonger(test) || (test.file !== undefined && wholly(test.file)));
  for (const each of suite.suites) thin(each, here);
}

export const mochaHooks: RootHookObject = {
  beforeAll(this: Context) {
    thin((this.test as Runnable).parent as Suite, false);
  },
};
