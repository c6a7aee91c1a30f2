/** Compares SAC updates, scalar and distributional, with the same updates in PyTorch. */

import { SacLearner, type SacOptions } from '../src/entries/learner.ts';
import { type Device, Random } from '../src/index.ts';
import { beside, inTurn, median, type Report } from './harness.ts';
import { nameOf, Peer, threadsOf } from './peers/peer.ts';

const cases = [
  { name: 'SAC', obs: 17, actions: 6, actor: [256, 256], critic: [256, 256], batch: 256, atoms: 1 },
  {
    name: 'FastSAC',
    obs: 98,
    actions: 29,
    actor: [512, 256, 128],
    critic: [512, 256, 128],
    batch: 2048,
    atoms: 101,
  },
];

/**
 * `large` is for GPUs only, because the CPU is too slow. `small` replaces the large cases with
 * --quick.
 */
const large = { ...cases[1]!, batch: 8192 };
const small = { ...cases[1]!, batch: 128 };

export async function sac(
  device: Device,
  report: Report,
  quick: boolean,
  { accelerator, tf32, kind }: { accelerator: boolean; tf32: boolean; kind: string },
): Promise<void> {
  const chosen = !accelerator ? cases : quick ? [cases[0]!, small] : [...cases, large];
  for (const task of chosen) {
    const { name, obs, actions, actor, critic, batch, atoms } = task;
    const peer = new Peer('torch_sac.py', 'torch', { ...task, accelerator, tf32 });
    const said = await peer.said();
    const fast: Partial<SacOptions> = {
      layerNorm: true,
      activation: 'silu',
      critic: { kind: 'categorical', atoms, min: -20, max: 20 },
    };
    const shape = {
      obsDim: obs,
      actionDim: actions,
      batchSize: batch,
      actorHidden: actor,
      criticHidden: critic,
    };
    using learner = new SacLearner(device, { ...shape, ...(atoms > 1 ? fast : {}) });
    await learner.ready;
    const stream = device.createStream();
    const random = new Random(1);
    const some = (...sizes: number[]) => {
      const made = device.allocate({ shape: sizes });
      return made.write(Float32Array.from({ length: made.size }, () => random.between(-0.5, 0.5)));
    };
    const batches = {
      obs: some(batch, obs),
      nextObs: some(batch, obs),
      actions: some(batch, actions),
      rewards: some(batch),
      discounts: some(batch),
    };
    const out = some(learner.scalars.length);
    await device.currentStream.synchronize();
    stream.beginCapture();
    learner.update(stream, batches, out);
    const graph = stream.endCapture();
    const exec = graph.instantiate();
    const [ours, theirs]: [number[], number[]] = [[], []];
    for (let round = 0; round < (quick ? 3 : accelerator ? 5 : 9); round++) {
      const contenders = { replay: () => stream.replay(exec) };
      const { replay } = await inTurn(atoms > 1 && !accelerator ? 2 : 40, contenders, () =>
        stream.synchronize(),
      );
      ours.push(median(replay.done));
      theirs.push(await peer.time('update'));
    }
    const sizes = `obs ${obs}, actions ${actions}, hidden ${actor.join('-')}${atoms > 1 ? `, ${atoms} atoms` : ''}`;
    report({
      case: `${name}, the update alone, ${batch} rows, ${sizes}; ${nameOf(said)}, ${threadsOf(said.threads)}${kind}`,
      metric: 'time per update',
      ...beside(ours, theirs),
      unit: 'µs',
    });
    for (const part of [exec, graph, out, ...Object.values(batches), stream]) part.close();
    peer.close();
  }
}
