/**
 * How long tests run. `npm test` is short. `npm run test:all` runs every test that has a longer
 * form, at full length. `npm run test:long` runs everything, for as long as that may find a fault.
 * A file with tests that `test:all` adds or lengthens is named *.long.test.ts. All other files run
 * completely in `npm test`.
 */
const settings = ['short', 'all', 'long'] as const;
export type Setting = (typeof settings)[number];

const name = process.env.HOTSLOT_TEST_SETTING ?? 'short';
const level = settings.indexOf(name as Setting);
if (level < 0)
  throw new Error(`HOTSLOT_TEST_SETTING is '${name}': it can be ${settings.join(', ')}`);
export const SETTING = name as Setting;

/** Returns the value for this run. Without a value for `long`, the value for `all` applies. */
export function setting<T>(values: { short: T; all: T; long?: T }): T {
  if (SETTING === 'long') return values.long ?? values.all;
  return values[SETTING];
}

type Body = ((this: Mocha.Context) => void) | Mocha.AsyncFunc;

/** Tests and suites that are longer in `all` than in `short`. */
const longer = new WeakSet<object>();
export const isLonger = (made: object): boolean => longer.has(made);

let leftOut = false;

/** Declares a suite that a short run leaves out. The run then prints one line with its title. */
export function describeAll(title: string, body: (this: Mocha.Suite) => void): void {
  if (SETTING === 'short') it.skip(`${title} (npm run test:all)`);
  else {
    leftOut = true;
    longer.add(describe(title, body));
    leftOut = false;
  }
}

/**
 * Declares a test that is the same in every setting. `test:all` leaves it out, because `npm test`
 * has run it.
 */
export function itShort(title: string, body: Body): void {
  if (leftOut)
    throw new Error(`'${title}': a short run leaves its suite out, so neither run would have it`);
  if (SETTING !== 'all') it(title, body as Mocha.AsyncFunc);
}

/**
 * Declares a test that takes minutes. Only the longest runs have it, and others print its title.
 */
export function itLong(title: string, body: Body): Mocha.Test {
  return SETTING === 'long'
    ? it(title, body as Mocha.AsyncFunc)
    : it.skip(`${title} (npm run test:long)`);
}

/** Declares a test that a short run leaves out. The run then prints its title. */
export function itAll(title: string, body: Body): Mocha.Test {
  return SETTING === 'short' ? it.skip(`${title} (npm run test:all)`) : itLonger(title, body);
}

/**
 * Declares a test that runs longer in longer settings. `test:all` leaves out every test that is not
 * declared by this function, `itAll` or `describeAll`.
 */
export function itLonger(title: string, body: Body): Mocha.Test {
  const made = it(title, body as Mocha.AsyncFunc);
  longer.add(made);
  return made;
}
