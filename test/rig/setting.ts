/**
 * How long tests go on. `npm test` is short; `npm run test:all` runs whatever has a longer form, at full length; `npm run
 * test:long` runs everything, for as long as it may find something. A test file imports this itself: that is how
 * `test:all` knows that it has more to do than `npm test` did.
 */
const settings = ['short', 'all', 'long'] as const;
export type Setting = (typeof settings)[number];

const name = process.env.HOTSLOT_TEST_SETTING ?? 'short';
const level = settings.indexOf(name as Setting);
if (level < 0) throw new Error(`HOTSLOT_TEST_SETTING is '${name}': it can be ${settings.join(', ')}`);
export const SETTING = name as Setting;

/** The value for this run; what `long` does not name is as in `all`. */
export function setting<T>(values: { short: T; all: T; long?: T }): T {
  if (SETTING === 'long') return values.long ?? values.all;
  return values[SETTING];
}

/** A suite that a short run leaves out; the run then names it in one line. */
export function describeAll(title: string, body: (this: Mocha.Suite) => void): void {
  if (SETTING === 'short') it.skip(`${title} (npm run test:all)`);
  else describe(title, body);
}

/** A test that is the same in every setting: `npm test` has run it, and `test:all` has no more to show by it. */
export function itShort(title: string, body: ((this: Mocha.Context) => void) | Mocha.AsyncFunc): void {
  if (SETTING !== 'all') it(title, body as Mocha.AsyncFunc);
}

/** A test of minutes, for the longest runs alone; the others name it. */
export function itLong(title: string, body: ((this: Mocha.Context) => void) | Mocha.AsyncFunc): void {
  if (SETTING === 'long') it(title, body as Mocha.AsyncFunc);
  else it.skip(`${title} (npm run test:long)`);
}

/** A test that a short run leaves out; the run then names it. */
export function itAll(title: string, body: ((this: Mocha.Context) => void) | Mocha.AsyncFunc): void {
  if (SETTING === 'short') it.skip(`${title} (npm run test:all)`);
  else it(title, body as Mocha.AsyncFunc);
}
