/**
 * Compares learners with the same learners in PyTorch: double DQN, as whole steps with their draws
 * and as updates alone, and SAC updates. On the CPU device, both sides have one thread. On a GPU,
 * PyTorch replays its updates as CUDA graphs (bench/peers/best.py). In a rehearsal on a software
 * driver, PyTorch has no GPU and runs on the CPU.
 */

import { DqnLearner } from '../src/entries/learner.ts';
import { type Device, openDevice, Random, ReplayBuffer, ReplayPipeline } from '../src/index.ts';
import { type Benchmark, beside, inTurn, median } from './harness.ts';
import { nameOf, Peer, threadsOf } from './peers/peer.ts';
import { sac } from './torch-sac.ts';

const cases = [
  { obs: 4, actions: 2, hidden: [120, 84], batch: 128, rows: 100_000 },
  { obs: 98, actions: 29, hidden: [256, 256], batch: 256, rows: 100_000 },
];
/** minibatches of a tick */
const PER_TICK = 4;

/** Returns random transitions as a collector would add them. */
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

/** Captures one update on rows that are already on the device. */
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
  const accelerator = !name.startsWith('host');
  // Each side has one thread, unless the caller sets HOTSLOT_CORES.
  if (!accelerator) process.env.HOTSLOT_CORES ??= '1';
  // NVIDIA's libraries on both sides read this variable. With 1, their products keep 10 bits of
  // mantissa.
  const tf32 = process.env.NVIDIA_TF32_OVERRIDE === '1';
  const kind = tf32 ? ', TF32 products' : '';
  if (!Peer.has('torch, numpy')) {
    console.error(
      'torch: python3 has no torch and numpy (apt-get install python3-torch python3-numpy): nothing to compare with',
    );
    return;
  }
  const device = openDevice(name);
  for (const task of cases) {
    const { obs, actions, hidden, batch, rows } = task;
    const peer = new Peer('torch_dqn.py', 'torch, numpy', { ...task, accelerator, tf32 });
    const said = await peer.said();
    const buffer = ReplayBuffer.offPolicy({ capacity: rows, obsDim: obs, actionDim: 1 });
    buffer.add(transitions(rows, obs, actions));
    const learner = new DqnLearner(device, {
      obsDim: obs,
      actions,
      hidden,
      batchSize: batch,
      seed: 1,
    });
    await learner.ready;
    const open = async (kept: 'host' | 'device') => {
      const pipeline = await ReplayPipeline.open({
        buffer,
        device: name,
        sampleCount: PER_TICK * batch,
        rows: kept,
      });
      pipeline.capture((each, { stream, out }) => learner.update(stream, each, out));
      return pipeline;
    };
    const pipeline = await open('host');
    const ticks = quick ? 50 : 250;
    await pipeline.run({ ticks });
    const alone = await captured(device, learner, transitions(batch, obs, actions));
    const rounds = quick ? 3 : accelerator ? 5 : 9;
    const step = async (of: ReplayPipeline) =>
      ((await of.run({ ticks })).seconds * 1e6) / (ticks * PER_TICK);
    const update = async () => {
      const { times } = await inTurn(quick ? 50 : 200, { times: alone.replay }, alone.drain);
      return median(times.done);
    };
    const shape = `${batch} rows, ${[obs, ...hidden, actions].join('-')}`;
    const other = `${nameOf(said)}, ${threadsOf(said.threads)}${kind}`;
    const inRounds = async (
      ways: readonly { what: string; metric: string; ours(): Promise<number>; theirs: string }[],
    ) => {
      const times = ways.map(() => ({ ours: [] as number[], theirs: [] as number[] }));
      for (let round = 0; round < rounds; round++)
        for (const [i, { ours, theirs }] of ways.entries()) {
          times[i]!.ours.push(await ours());
          times[i]!.theirs.push(await peer.time(theirs));
        }
      for (const [i, { what, metric }] of ways.entries())
        report({
          case: `${what}; ${other}`,
          metric,
          ...beside(times[i]!.ours, times[i]!.theirs),
          unit: 'µs',
        });
    };
    const drawn = `double DQN, ${shape}, drawn from ${rows}`;
    await inRounds([
      { what: drawn, metric: 'time per step', ours: () => step(pipeline), theirs: 'step' },
      {
        what: `the update alone, ${shape}`,
        metric: 'time per update',
        ours: update,
        theirs: 'update',
      },
    ]);
    await pipeline.close();
    if (said.graphs) {
      const kept = await open('device');
      await kept.run({ ticks });
      const what = `${drawn} of the GPU's memory`;
      await inRounds([
        { what, metric: 'time per step', ours: () => step(kept), theirs: 'resident' },
      ]);
      await kept.close();
    }
    alone.close();
    learner.close();
    peer.close();
    buffer.close();
  }
  await sac(device, report, quick, { accelerator, tf32, kind });
  device.close();
};
