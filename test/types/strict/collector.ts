/**
 * A module of collectors, to test the types of their context and of the rows and steps that they
 * return. Only compiled, never run.
 */
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

export const fields = {
  obs: { shape: [4], observation: true },
  actions: { shape: [], dtype: 'int32' },
} as const;

/** The types of the steps follow from the fields. */
export const stepping = defineCollector<Options, typeof fields>()(({ writer, options }) => {
  const { lanes, firstLane } = writer;
  const terminated = new Uint8Array(lanes);
  return {
    collect: () => {
      const obs = new Float32Array(lanes * 4).fill(firstLane + options.environments);
      const step = {
        obs,
        actions: new Int32Array(lanes),
        rewards: new Float32Array(lanes),
        finalObs: obs,
      };
      // @ts-expect-error truncated is missing
      writer.add({ ...step, terminated });
      return writer.add({ ...step, terminated, truncated: terminated }) > 0
        ? null
        : { ...step, terminated, truncated: terminated };
    },
  };
});
defineCollector<Options, typeof fields>()(() => ({
  collect: () => ({
    obs: new Float32Array(4),
    // @ts-expect-error actions of another dtype, and no flags
    actions: new Float32Array(1),
    rewards: new Float32Array(1),
  }),
}));
defineCollector<Options>()(({ writer }) => {
  // @ts-expect-error there is none for rows
  writer.lanes;
  return { collect: () => null };
});
