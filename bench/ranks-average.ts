/**
 * Measures the microseconds per tick of two learners at the same time, alone or with an average of
 * the parameters after each tick. It runs as one of two processes of an MPI launcher, or with both
 * learners in this process.
 */

import { DqnLearner } from '../src/entries/learner.ts';
import { LearnerGroup, type MpiProcess, openMpi, shareLearnerGroup } from '../src/entries/ranks.ts';
import { openDevice, ReplayBuffer, ReplayPipeline } from '../src/index.ts';

/**
 * where: 'mpi' or 'threads'. averaging: 'none', 'one' (each learner in a group of one) or 'group'.
 */
const [where = '', averaging = 'none', ticks = '0'] = process.argv.slice(2);

/** These layers have 10,934 parameters. */
const hidden = [120, 84];

async function timed(group: LearnerGroup | null): Promise<number> {
  using device = openDevice('host:0');
  using learner = new DqnLearner(device, {
    obsDim: 4,
    actions: 2,
    hidden,
    batchSize: 128,
    gamma: 0.99,
    seed: 1,
  });
  await learner.ready;
  using buffer = ReplayBuffer.offPolicy({ capacity: 10_000, obsDim: 4, actionDim: 1 });
  const rows = (width: number) =>
    Float32Array.from({ length: 10_000 * width }, (_, i) => (i % 7) / 7);
  buffer.add({
    obs: rows(4),
    nextObs: rows(4),
    actions: new Float32Array(10_000),
    rewards: rows(1),
    dones: new Float32Array(10_000),
    truncated: new Float32Array(10_000),
  });
  await using pipeline = await ReplayPipeline.open({
    buffer,
    device: device.name,
    sampleCount: 128,
    ...(group ? { group } : {}),
  });
  pipeline.capture((batch, { stream, out }) => learner.update(stream, batch, out), {
    scalars: learner.scalars,
    ...(group ? { sync: 'parameters', parameters: [learner.parameters] } : {}),
  });
  await pipeline.run({ ticks: 200 });
  const { ticksPerSecond } = await pipeline.run({ ticks: Number(ticks) });
  return 1e6 / ticksPerSecond;
}

async function inProcess(mpi: MpiProcess): Promise<number> {
  const parameters = 10_934;
  // Both processes start together, although each may run alone.
  await mpi.allGather(Float64Array.of(0));
  if (averaging === 'none') return timed(null);
  if (averaging === 'one')
    return await timed(
      await LearnerGroup.join({ shared: shareLearnerGroup({ ranks: 1, parameters }), rank: 0 }),
    );
  using group = await LearnerGroup.join({ mpi, parameters });
  return await timed(group);
}

if (where === 'mpi') {
  await using mpi = await openMpi();
  const mine = await inProcess(mpi);
  const all = await mpi.allGather(Float64Array.of(mine));
  if (mpi.rank === 0) console.log(String(Math.max(...all.map(([us]) => us as number))));
} else {
  const shared = shareLearnerGroup({ ranks: 2, parameters: 10_934 });
  const groups =
    averaging === 'group'
      ? await Promise.all([0, 1].map((rank) => LearnerGroup.join({ shared, rank })))
      : [null, null];
  console.log(String(Math.max(...(await Promise.all(groups.map((group) => timed(group)))))));
  for (const group of groups) group?.close();
}
