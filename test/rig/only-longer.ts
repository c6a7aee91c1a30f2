/**
 * Loaded by `npm run test:all`: removes the tests that `npm test` has already run in the same form.
 * A longer test is marked by the function that declares it (setting.ts). So a test whose body or
 * title uses a value of `setting` is declared with `itLonger`.
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
