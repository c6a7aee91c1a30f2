/**
 * How long tests go on. `npm test` is short; `npm run test:all` runs whatever has a longer form, at
 * full length; `npm run test:long` runs everything, for as long as it may find something. A file
 * with tests that `test:all` makes or lengthens is named *.long.test.ts: of the others, `npm test`
 * has run all.
 */
const settings = ['short', 'all', 'long'] as const;
export type Setting = (typeof settings)[number];

const name = process.env.HOTSLOT_TEST_SETTING ?? 'short';
const level = settings.indexOf(name as Setting);
if (level < 0)
  throw new Error(`HOTSLOT_TEST_SETTING is '${name}': it can be ${settings.join(', ')}`);
export const SETTING = name as Setting;

/** The value for this run; what `long` does not name is as in `all`. */
export function setting<T>(values: { short: T; all: T; long?: T }): T {
  if (SETTING === 'long') return values.long ?? values.all;
  return values[SETTING];
}

type Body = ((this: Mocha.Context) => void) | Mocha.AsyncFunc;

/** Tests and suites that are longer in `all` than in `short`. */
const longer = new WeakSet<object>();
export const isLonger = (made: object): boolean => longer.has(made);

let leftOut = false;

/** A suite that a short run leaves out; the run then names it in one line. */
export function describeAll(title: string, body: (this: Mocha.Suite) => void): void {
  if (SETTING === 'short') it.skip(`${title} (npm run test:all)`);
  else {
    leftOut = true;
    longer.add(describe(title, body));
    leftOut = false;
  }
}

/**
 * A test that is the same in every setting: `npm test` has run it, and `test:all` has no more to
 * show by it.
 */
export function itShort(title: string, body: Body): void {
  if (leftOut)
    throw new Error(`'${title}': a short run leaves its suite out, so neither run would have it`);
  if (SETTING !== 'all') it(title, body as Mocha.AsyncFunc);
}

/** A test of minutes, for the longest runs alone; the others name it. */
export function itLong(title: string, body: Body): Mocha.Test {
  return SETTING === 'long'
    ? it(title, body as Mocha.AsyncFunc)
    : it.skip(`${title} (npm run test:long)`);
}

/** A test that a short run leaves out; the run then names it. */
export function itAll(title: string, body: Body): Mocha.Test {
  return SETTING === 'short' ? it.skip(`${title} (npm run test:all)`) : itLonger(title, body);
}

/**
 * A test that goes on for longer in longer settings. `test:all` leaves out what is not made by
 * this, `itAll` or `describeAll`.
 */
export function itLonger(title: string, body: Body): Mocha.Test {
  const made = it(title, body as Mocha.AsyncFunc);
  longer.add(made);
  return made;
}
