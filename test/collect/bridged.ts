/** A collector of environments that Python counts. */
import { spawnSync } from 'node:child_process';
import { type GymnasiumOptions, gymnasium, vectorCollector } from '../../src/entries/collect.ts';
import type { CollectorContext } from '../../src/index.ts';

/**
 * Debian's has numpy as a package; whatever is called python3 may have none. Another one can be
 * named, such as one with Gymnasium.
 */
export const PYTHON = process.env.HOTSLOT_TEST_PYTHON ?? '/usr/bin/python3';

/** Skips the tests, with the reason, if this Python has no such package. */
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

/** For a pool. */
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
