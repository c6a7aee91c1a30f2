/**
 * Trains CartPole by several learners that keep their parameters equal. They run in this process,
 * or in the processes of an MPI launcher.
 */

import { deviceNamed, runExample } from '../../../examples/command-line.ts';
import { LearnerGroup, openMpi, shareLearnerGroup } from '../../../src/entries/ranks.ts';
import { type Came, PARAMETERS, type Plan, train } from './member.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';

/**
 * Returns the result of each learner in order of ranks, or null in processes that print nothing.
 */
async function trainAll(
  plan: Plan,
  { learners, mpi: byLauncher }: CommandLine,
): Promise<Came[] | null> {
  if (!byLauncher) {
    const shared = shareLearnerGroup({ ranks: learners, parameters: PARAMETERS });
    return Promise.all(
      Array.from({ length: learners }, (_, rank) => member(plan, { shared, rank })),
    );
  }
  await using mpi = await openMpi();
  const came = await member(plan, { mpi, parameters: PARAMETERS });
  const { ticks, steps, finalReturn, solved, equal, looks } = came;
  const all = await mpi.allGather(
    Float64Array.of(ticks, steps, finalReturn ?? Number.NaN, +solved, +equal, looks),
  );
  return mpi.rank > 0 ? null : all.map((each) => fromNumbers(each));
}

async function member(plan: Plan, how: Parameters<typeof LearnerGroup.join>[0]): Promise<Came> {
  using group = await LearnerGroup.join(how);
  try {
    return await train(group, plan);
  } catch (error) {
    // Passes the error to the other learners.
    group.fail(error);
    throw error;
  }
}

function fromNumbers([ticks, steps, last, solved, equal, looks]: Float64Array): Came {
  const finalReturn = Number.isNaN(last) ? null : (last as number);
  return {
    ticks: ticks!,
    steps: steps!,
    finalReturn,
    solved: solved === 1,
    equal: equal === 1,
    looks: looks!,
  };
}

async function main(options: CommandLine): Promise<number> {
  using device = deviceNamed(options.device);
  const begin = performance.now();
  const all = await trainAll({ ...options, device }, options);
  if (all === null) return 0;
  const [{ ticks, looks, finalReturn, solved }] = all as [Came, ...Came[]];
  const equal = all.every((each) => each.equal && each.ticks === ticks);
  const steps = all.reduce((sum, each) => sum + each.steps, 0);
  const seconds = (performance.now() - begin) / 1000;
  const summary = {
    learners: all.length,
    solved,
    equal,
    finalReturn,
    ticks,
    steps,
    looks,
    seconds,
  };
  const outcome = solved ? `solved: ${finalReturn} over 100 greedy episodes` : 'not solved';
  const alike = equal ? 'equal' : 'not equal';
  console.log(
    options.json
      ? JSON.stringify(summary)
      : `${outcome}, by ${all.length} learners in ${ticks} ticks, ${steps} steps of their poles, ${seconds.toFixed(1)} s\n` +
          `parameters of all learners: ${alike}, bit for bit, at ${looks} looks`,
  );
  return solved && equal ? 0 : 1;
}

await runExample({ name: 'learners', help, parse: parseCommandLine, main });
