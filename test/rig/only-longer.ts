/**
 * Loaded by `npm run test:all`: takes out the tests that `npm test` has run as they are. What is
 * longer there is marked by how it was made (setting.ts): a test whose body or title takes a value
 * of `setting` is made by `itLonger`.
 */
import type { Context, RootHookObject, Runnable, Suite } from 'mocha';
import { isLonger } from './setting.ts';

function thin(suite: Suite, longer: boolean): void {
  const here = longer || isLonger(suite);
  suite.tests = suite.tests.filter((test) => here || isLonger(test));
  for (const each of suite.suites) thin(each, here);
}

export const mochaHooks: RootHookObject = {
  beforeAll(this: Context) {
    thin((this.test as Runnable).parent as Suite, false);
  },
};
