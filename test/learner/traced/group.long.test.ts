/**
 * Tests traced learners in a group of learners: parameters of all kinds become the mean of what the
 * members would have alone.
 */
import { expect } from 'chai';
import { LearnerGroup, shareLearnerGroup } from '../../../src/entries/ranks.ts';
import {
  adam,
  bootstrap,
  concat,
  type DescribedLearner,
  huber,
  learner,
  mse,
  normal,
  parameter,
  polyak,
} from '../../../src/entries/trace.ts';
import type { Device } from '../../../src/index.ts';
import { openDevice, ReplayBuffer, type ReplayPipeline } from '../../../src/index.ts';
import { closeAll, pipeline, SAMPLE } from '../../pipeline/fixture.ts';
import { onlyOn, placements } from '../../pipeline/placements.ts';
import { setting } from '../../rig/setting.ts';
import { TESTED } from '../../rig/tested-device.ts';
import { net, numbers } from './rig.ts';

const [OBS, ACTIONS, STORED] = [3, 2, 90];
const PARTS = ['actor', 'critic', 'target', 'logScale'];

/** Makes a learner with two networks, a follower and a loose parameter. */
const described = (device: Device, rank: number): DescribedLearner =>
  learner(device, {
    name: 'member',
    rows: SAMPLE,
    seed: rank,
    batch: {
      obs: [OBS],
      nextObs: [OBS],
      actions: [ACTIONS],
      rewards: [],
      discounts: { gamma: 0.9 },
    },
    networks: {
      actor: net(OBS, ACTIONS),
      critic: net(OBS + ACTIONS, 1),
      target: polyak('critic', 0.1),
    },
    parameters: { logScale: parameter({ shape: [ACTIONS] }) },
    optimizers: {
      actor: adam({ learningRate: 1e-2 }),
      critic: adam({ learningRate: 1e-2 }),
      logScale: adam({ learningRate: 1e-2 }),
    },
    update({ actor, critic, target }, batch, { logScale }) {
      const { obs, nextObs, actions, rewards, discounts } = batch;
      const noisy = (x: typeof obs) =>
        actor(x)
          .tanh()
          .add(normal([SAMPLE, ACTIONS]).mul(logScale.exp()));
      const next = target(concat(1, nextObs, noisy(nextObs))).reshape([SAMPLE]);
      const goal = bootstrap(rewards, discounts, next).detach();
      const error = critic(concat(1, obs, actions))
        .reshape([SAMPLE])
        .sub(goal);
      const value = critic(concat(1, obs, noisy(obs))).mean();
      return [
        { minimize: { critic: huber(error).mean() }, scalars: { loss: mse(error).mean() } },
        { minimize: { actor: value.neg(), logScale: value.neg() } },
      ];
    },
  });

/** Returns the rows of a rank. The ranks have different rows. */
function stored(rank: number): ReplayBuffer {
  const buffer = ReplayBuffer.offPolicy({ capacity: STORED, obsDim: OBS, actionDim: ACTIONS });
  const field = (width: number, seed: number) => numbers(STORED * width, 10 * rank + seed);
  const ends = field(1, 5).map((x) => (x < -0.8 ? 1 : 0));
  buffer.add({
    obs: field(OBS, 1),
    nextObs: field(OBS, 2),
    actions: field(ACTIONS, 3),
    rewards: field(1, 4),
    dones: ends,
    truncated: new Float32Array(STORED),
  });
  return buffer;
}

describe('traced learners in a group', function () {
  this.timeout(setting({ short: 60_000, all: 300_000 }));
  const open: { close(): void }[] = [];
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };
  afterEach(async () => {
    await closeAll();
    for (const made of open.splice(0).reverse()) made.close();
  });

  /** Opens the pipeline of a rank and captures the update of its learner, in a group or alone. */
  async function member(
    rank: number,
    { group, ...more }: Parameters<typeof pipeline>[0] & object,
    every = 1,
  ): Promise<{ made: ReplayPipeline; traced: DescribedLearner }> {
    const traced = keep(described(openDevice(TESTED), rank));
    await traced.ready;
    const made = await pipeline({
      buffer: stored(rank),
      baseSeed: 100 * rank,
      ...(group && { group }),
      ...more,
    });
    made.capture((batch, { stream, out }) => traced.update(stream, batch, out), {
      scalars: traced.scalars,
      ...(group && { sync: 'parameters' as const, parameters: [traced.parameters], every }),
    });
    return { made, traced };
  }
  const valuesOf = (members: readonly { traced: DescribedLearner }[]) =>
    Promise.all(members.map(({ traced }) => traced.parameters.toArray()));

  /**
   * Returns the parameters of two learners without a group. They run `every` ticks at a time, and
   * the test overwrites the parameters of both with their mean.
   */
  async function averaged(ticks: number, every: number): Promise<Float32Array> {
    const members = await Promise.all([0, 1].map((rank) => member(rank, { placement: 'inline' })));
    let mean = new Float32Array();
    for (let tick = 0; tick < ticks; tick += every) {
      for (const { made } of members) await made.run({ ticks: every });
      const [a, b] = (await valuesOf(members)) as [Float32Array, Float32Array];
      for (const part of PARTS) {
        const [x, y] = await Promise.all(
          members.map(({ traced }) => traced.weights(part).toArray()),
        );
        expect(x, part).to.not.deep.equal(y);
      }
      mean = a.map((x, i) => (x + b[i]!) / 2);
      for (const { traced } of members) {
        traced.parameters.write(mean);
        await traced.parameters.device.currentStream.synchronize();
      }
    }
    return mean;
  }

  for (const [name, placement] of Object.entries(placements))
    for (const every of [1, 2])
      onlyOn('inline', placement)(
        `two members have equal parameters, the mean of both, every ${every} ticks (${name})`,
        async () => {
          const size = described(openDevice(TESTED), 0);
          const shared = shareLearnerGroup({ ranks: 2, parameters: size.parameters.size });
          size.close();
          const members = await Promise.all(
            [0, 1].map(async (rank) => {
              const group = keep(await LearnerGroup.join({ shared, rank }));
              return member(rank, { placement, group }, every);
            }),
          );
          // The second run begins between two means if `every` is 2.
          for (const ticks of [3, 5])
            await Promise.all(members.map(({ made }) => made.run({ ticks })));
          const [a, b] = await valuesOf(members);
          expect(a).to.deep.equal(b);
          expect(a).to.deep.equal(await averaged(8, every));
        },
      );
});
