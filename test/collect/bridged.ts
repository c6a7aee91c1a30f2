/** A collector of environments that Python counts. */
import { spawnSync } from 'node:child_process';
import { type GymnasiumOptions, gymnasium, vectorCollector } from '../../src/collect/index.ts';
import type { CollectorContext } from '../../src/index.ts';

/** Debian's has numpy as a package; whatever is called python3 may have none. Another one can be named, such as one with Gymnasium. */
export const PYTHON = process.env.HOTSLOT_TEST_PYTHON ?? '/usr/bin/python3';

/** Leaves the tests out where it has no numpy, and says so. */
export function needNumpy(context: Mocha.Context): void {
  if (spawnSync(PYTHON, ['-c', 'import numpy']).status === 0) return;
  console.log(`      left out: ${PYTHON} has no numpy (apt-get install python3-numpy)`);
  context.skip();
}

export const counted = (options: GymnasiumOptions) =>
  gymnasium({ python: PYTHON, path: new URL('../../../test/collect/', import.meta.url), timeout: 100, ...options });

/** For a pool. */
export default (context: CollectorContext<{ entry: string; kwargs?: object; environments?: number }>) => {
  const { entry, kwargs, environments } = context.options;
  const make = counted({ entry: `counting_envs:${entry}` });
  return vectorCollector<typeof context.options>({
    make: { open: ({ count }) => make.open({ count, options: kwargs }) },
    ...(environments !== undefined && { environments }),
  })(context);
};
