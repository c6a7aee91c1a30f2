/** The environments that evaluations of a training step, beside its collectors'. */
import type { AnyEnvironment } from '../environments/environment.ts';
import { type EnvironmentSet, opensSets } from '../environments/environment-set.ts';
import type { EnvironmentMaker } from '../environments/load-environment.ts';
import { closeAll, MadeSet } from '../environments/vector-environment.ts';
import type { TrainOptions } from './train-options.ts';

/** Stepped together, at most. */
const TESTERS = 10;

export async function openTesters(make: EnvironmentMaker, given: TrainOptions): Promise<EnvironmentSet> {
  const { environmentOptions: options, workers = 1, environments = 1, evaluation, signal } = given;
  const { episodes = 10, confirm = 100 } = evaluation ?? {};
  const count = Math.min(TESTERS, Math.max(episodes, confirm));
  if (opensSets(make)) return make.open({ count, options });
  const made: AnyEnvironment[] = [];
  try {
    // Collectors' are counted from 0. One at least says what the spaces are.
    while (made.length === 0 || (made.length < count && !signal?.aborted))
      made.push(await make({ index: workers * environments + made.length, options }));
    return new MadeSet(made, (i) => `environment ${i} of those that evaluate`);
  } catch (error) {
    await closeAll(made).catch(() => {});
    throw error;
  }
}
