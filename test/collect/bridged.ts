/** A collector of the counting environments that Python runs (counting_envs.py). */
import { spawnSync } from 'node:child_process';
import { type GymnasiumOptions, gymnasium, vectorCollector } from '../../src/entries/collect.ts';
import type { CollectorContext } from '../../src/index.ts';

/**
 * Debian's Python has numpy as a package, and other Pythons may have none. The variable can name
 * another Python, such as one with Gymnasium.
 */
export const PYTHON = process.env.HOTSLOT_TEST_PYTHON ?? '/usr/bin/python3';

/** Skips the tests and prints the reason if this Python does not have the package. */
function need(context: Mocha.Context, name: string, remedy: string): void {
  if (spawnSync(PYTHON, ['-c', `import ${name}`]).status === 0) return;
  console.log(`      left out: ${PYTHON} has no ${name} (${remedy})`);
  context.skip();
}
export const needNumpy = (context: Mocha.Context) =>
  need(context, 'numpy', 'apt-get install python3-numpy');
export const needGymnasium = (context: Mocha.Context) =>
  need(context, 'gymnasium', 'HOTSLOT_TEST_PYTHON names one that has it');

export const counted = (options: GymnasiumOptions) =>
  gymnasium({
    python: PYTHON,
    path: new URL('../../../test/collect/', import.meta.url),
    timeout: 100,
    ...options,
  });

/** The default export creates the collector in a pool's worker. */
export default (
  context: CollectorContext<{ entry: string; kwargs?: object; environments?: number }>,
) => {
  const { entry, kwargs, environments } = context.options;
  const make = counted({ entry: `counting_envs:${entry}` });
  return vectorCollector<typeof context.options>({
    make: { open: ({ count }) => make.open({ count, options: kwargs }) },
    ...(environments !== undefined && { environments }),
  })(context);
};
