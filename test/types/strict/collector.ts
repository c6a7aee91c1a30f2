/** A module of collectors: what it is told and what it brings are typed. */
import { defineCollector } from 'hotslot';

export interface Options {
  environments: number;
}

export default defineCollector<Options>()(({ worker, options, report }) => {
  const n = options.environments;
  // @ts-expect-error no such option
  options.environmants;
  report.steps(worker);
  return {
    collect: () => ({ obs: new Float32Array(n * 4), action: new BigInt64Array(n) }),
    load: (weights, version) => {
      report.episode(weights[0] ?? 0, version);
    },
  };
});
