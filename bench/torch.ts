/** Learners against the same written in PyTorch: double DQN, whole steps with their draws and updates alone; SAC's updates. */
import { type Device, openDevice, Random, ReplayBuffer, ReplayPipeline } from '../src/index.ts';
import { DqnLearner } from '../src/learner/index.ts';
import { type Benchmark, beside, inTurn, median } from './harness.ts';
import { Peer } from './peers/peer.ts';
import { sac } from './torch-sac.ts';

const cases = [
  { obs: 4, actions: 2, hidden: [120, 84], batch: 128, rows: 100_000 },
  { obs: 98, actions: 29, hidden: [256, 256], batch: 256, rows: 100_000 },
];
/** minibatches of a tick */
const PER_TICK = 4;

/** Rows as a collector brings them. */
function transitions(rows: number, obs: number, actions: number) {
  const random = new Random(1);
  const column = (width: number, next = () => random.between(-0.5, 0.5)) =>
    Float32Array.from({ length: rows * width }, next);
  return {
    obs: column(obs),
    nextObs: column(obs),
    actions: column(1, () => random.below(actions)),
    rewards: column(1),
    dones: new Float32Array(rows),
    truncated: new Float32Array(rows),
  };
}

/** One update on rows that are on the device, as a graph. */
async function captured(device: Device, learner: DqnLearner, rows: ReturnType<typeof transitions>) {
  const stream = device.createStream();
  const count = rows.rewards.length;
  const there = (values: Float32Array) =>
    device.allocate({ shape: [count, values.length / count] }).write(values, stream);
  const { obs, nextObs, actions, rewards, dones, truncated } = rows;
  const batch = {
    obs: there(obs),
    nextObs: there(nextObs),
    actions: there(actions),
    rewards: there(rewards),
    dones: there(dones),
    truncated: there(truncated),
  };
  const out = device.allocate({ shape: [learner.scalars.length] });
  await stream.synchronize();
  stream.beginCapture();
  learner.update(stream, batch, out);
  const graph = stream.endCapture();
  const exec = graph.instantiate();
  const close = () => {
    for (const part of [exec, graph, out, ...Object.values(batch), stream]) part.close();
  };
  return { replay: () => stream.replay(exec), drain: () => stream.synchronize(), close };
}

export const run: Benchmark = async (report, { device: name, quick }) => {
  // One thread each, unless the caller says otherwise.
  process.env.HOTSLOT_CORES ??= '1';
  if (!Peer.has('torch, numpy')) {
    console.error(
      'torch: python3 has no torch and numpy (apt-get install python3-torch python3-numpy): nothing to compare with',
    );
    return;
  }
  const device = openDevice(name);
  for (const task of cases) {
    const { obs, actions, hidden, batch, rows } = task;
    const peer = new Peer('torch_dqn.py', 'torch, numpy', task);
    const { torch, threads } = JSON.parse(await peer.line()) as { torch: string; threads: number };
    const buffer = ReplayBuffer.offPolicy({ capacity: rows, obsDim: obs, actionDim: 1 });
    buffer.add(transitions(rows, obs, actions));
    const learner = new DqnLearner(device, { obsDim: obs, actions, hidden, batchSize: batch, seed: 1 });
    await learner.ready;
    const pipeline = await ReplayPipeline.open({ buffer, device: name, sampleCount: PER_TICK * batch });
    pipeline.capture((each, { stream, out }) => learner.update(stream, each, out));
    const ticks = quick ? 50 : 250;
    await pipeline.run({ ticks });
    const steps = { ours: [] as number[], theirs: [] as number[] };
    const updates = { ours: [] as number[], theirs: [] as number[] };
    const alone = await captured(device, learner, transitions(batch, obs, actions));
    for (let round = 0; round < (quick ? 3 : 9); round++) {
      const { seconds } = await pipeline.run({ ticks });
      steps.ours.push((seconds * 1e6) / (ticks * PER_TICK));
      steps.theirs.push(await peer.time('step'));
      const { times } = await inTurn(quick ? 50 : 200, { times: alone.replay }, alone.drain);
      updates.ours.push(median(times.done));
      updates.theirs.push(await peer.time('update'));
    }
    const shape = `${batch} rows, ${[obs, ...hidden, actions].join('-')}`;
    const other = `PyTorch ${torch}, ${threads} thread${threads === 1 ? '' : 's'}`;
    report({
      case: `double DQN, ${shape}, drawn from ${rows}; ${other}`,
      metric: 'time per step',
      ...beside(steps.ours, steps.theirs),
      unit: 'µs',
    });
    report({
      case: `the update alone, ${shape}; ${other}`,
      metric: 'time per update',
      ...beside(updates.ours, updates.theirs),
      unit: 'µs',
    });
    await pipeline.close();
    alone.close();
    learner.close();
    peer.close();
    buffer.close();
  }
  await sac(device, report, quick);
  device.close();
};
