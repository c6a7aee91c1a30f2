/**
 * Measures a vector step of Python environments that do nothing. The time is that of the way to
 * Python and back, with Hotslot's checks.
 */
import { gymnasium } from '../src/entries/collect.ts';
import { type Benchmark, middle, percentile } from './harness.ts';
import { PROGRAMS as path, pythonWith } from './peers/peer.ts';

const sizes = [
  { count: 1, width: 4, actions: 1 },
  { count: 16, width: 17, actions: 6 },
  { count: 64, width: 348, actions: 17 },
];

export const run: Benchmark = async (report, { quick }) => {
  const python = pythonWith('numpy');
  if (python === null) {
    console.error(
      'bridge: python3 has no numpy (apt-get install python3-numpy), so there is no Python to step',
    );
    return;
  }
  for (const { count, width, actions } of sizes) {
    const set = await gymnasium({ entry: 'idle_envs:make', path, python }).open({
      count,
      options: { width, actions },
    });
    const steps = set.play({ nextSeed: () => 1 });
    steps.begin();
    const action = new Float32Array(count * actions);
    const each: number[][] = [];
    for (let round = -1; round < (quick ? 5 : 15); round++) {
      const times: number[] = [];
      for (let i = 0; i < 4000; i++) {
        const begin = performance.now();
        steps.step(action);
        times.push((performance.now() - begin) * 1000);
      }
      if (round >= 0) each.push(times);
    }
    await set.close();
    for (const [metric, p] of [
      ['p50', 0.5],
      ['p99', 0.99],
    ] as const)
      report({
        case: `${count} environments in Python that show ${width} numbers`,
        metric: `${metric} of a vector step`,
        unit: 'µs',
        ...middle(each.map((times) => percentile(times, p))),
      });
  }
};
