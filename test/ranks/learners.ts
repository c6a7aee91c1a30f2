/**
 * Learners with known values, for tests of groups. The update of rank r halves the parameters and
 * adds 8 r + 1.
 */

import { LearnerGroup, shareLearnerGroup } from '../../src/entries/ranks.ts';
import { openDevice, type Tensor } from '../../src/index.ts';
import { pipeline } from '../pipeline/fixture.ts';
import { TESTED } from '../rig/tested-device.ts';

export const PARAMETERS = 5;

const groups: LearnerGroup[] = [];
const tensors: Tensor[] = [];
/** Closes groups and tensors. Call it in afterEach, after the pipelines are closed. */
export function closeGroups(): void {
  for (const group of groups.splice(0)) group.close();
  for (const tensor of tensors.splice(0)) tensor.close();
}

/** Registers groups, which closeGroups() closes. */
export function keep(...made: LearnerGroup[]): void {
  groups.push(...made);
}

export async function join(ranks: number, parameters = PARAMETERS): Promise<LearnerGroup[]> {
  const shared = shareLearnerGroup({ ranks, parameters });
  const made = await Promise.all(
    Array.from({ length: ranks }, (_, rank) => LearnerGroup.join({ shared, rank })),
  );
  keep(...made);
  return made;
}

/** Returns initial parameters. The values are exact in float32 and differ from each other. */
export const vector = (rank: number, length = PARAMETERS) =>
  Float32Array.from({ length }, (_, i) => 64 * rank + i);

/**
 * Opens a pipeline that averages after every `every`-th tick. The values are exact for a few ticks.
 */
export async function learner(
  group: LearnerGroup,
  every: number,
  more: Parameters<typeof pipeline>[0] = {},
) {
  const on = openDevice(TESTED);
  const parameters = on.allocate({ shape: [PARAMETERS] }).write(vector(0));
  const step = on
    .allocate({ shape: [PARAMETERS] })
    .write(new Float32Array(PARAMETERS).fill(8 * group.rank + 1));
  tensors.push(parameters, step);
  await on.currentStream.synchronize();
  const made = await pipeline({ group, ...more });
  made.capture(
    (_, { stream, out }) => {
      stream.launch('axpby', {
        tensors: [parameters, step],
        wholes: [PARAMETERS],
        reals: [1, 0.5],
      });
      stream.copy(out.view({ shape: [1] }), parameters.view({ shape: [1] }));
    },
    {
      sync: 'parameters',
      parameters: [parameters],
      every,
      ...(more?.mailbox ? { weights: parameters } : {}),
    },
  );
  return { made, parameters, group };
}

/** Applies one update of a rank. */
export function update(rank: number, values: Float32Array): void {
  for (let i = 0; i < values.length; i++) values[i] = values[i]! / 2 + 8 * rank + 1;
}
export function average(all: readonly Float32Array[]): void {
  const mean = all[0]!.map((_, i) => all.reduce((sum, each) => sum + each[i]!, 0) / all.length);
  for (const each of all) each.set(mean);
}

/**
 * Returns the parameters of every rank after `ticks` ticks, with an average after every `every`-th.
 */
export function expected(ranks: number, ticks: number, every: number): Float32Array[] {
  const all = Array.from({ length: ranks }, () => vector(0));
  for (let tick = 1; tick <= ticks; tick++) {
    for (const [rank, each] of all.entries()) update(rank, each);
    if (tick % every === 0) average(all);
  }
  return all;
}

export const read = (learners: readonly { parameters: Tensor<'float32'> }[]) =>
  Promise.all(learners.map(({ parameters }) => parameters.toArray()));
