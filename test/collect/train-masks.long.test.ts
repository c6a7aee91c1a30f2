/**
 * Tests train() on an environment that throws at an illegal action, from the warm-up to the last
 * evaluation, with each buffer and exploration.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { maskedDoubleDqn } from '../../examples/learners/masked-double-dqn.ts';
import { type DiscreteActions, type TrainOptions, train } from '../../src/entries/collect.ts';
import { encodeOnnx } from '../../src/entries/formats.ts';
import { Checkpoint } from '../../src/index.ts';
import { inFolder } from '../formats/tensors.ts';
import { itAll, itShort } from '../rig/setting.ts';

const environment = new URL('./forbidding.js', import.meta.url);

/** Returns the options of a training, and the words in which its environments count. */
function setUp(environmentOptions: object = {}) {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const options = {
    environment,
    environmentOptions: { words, ...environmentOptions },
    learner: { algorithm: 'dqn', hidden: [32], learningRate: 3e-3, batchSize: 32, gamma: 0.5 },
    device: 'host:0',
    steps: 2_000,
    warmUp: 300,
    environments: 4,
    evaluation: { every: 700, episodes: 20, confirm: 40 },
    seed: 1,
  } satisfies TrainOptions;
  return { words, options };
}

/** Trains, and returns the result with the counts of the environments. */
async function trained(options: Partial<TrainOptions>, environmentOptions: object = {}) {
  const { words, options: usual } = setUp(environmentOptions);
  const result = await train({ ...usual, ...options });
  return { ...result, played: words[0]!, forced: words[1]! };
}

const ways: Readonly<Record<string, Partial<TrainOptions>>> = {
  'a ReplayBuffer': {},
  'a TrajectoryBuffer of n-step returns by priority, and two workers': {
    nStep: 3,
    prioritized: true,
    workers: 2,
  },
  'stacked observations, and random actions that are repeated': {
    stack: 2,
    explore: { hold: 3, epsilon: { from: 1, to: 0.3, steps: 1_500 } },
  },
  'lock-step': { deterministic: true },
};

const isShort = (name: string, results: boolean) =>
  !results && ['a ReplayBuffer', 'lock-step'].includes(name);

describe('train() with illegal actions', () => {
  for (const [name, options] of Object.entries(ways))
    for (const results of [false, true])
      (isShort(name, results) ? itShort : itAll)(
        `plays legal actions only, with ${name} and masks from ${results ? 'results' : 'actionMask()'}`,
        async () => {
          const { steps, played, forced, curve, meanReturn } = await trained(options, { results });
          expect(played).to.be.greaterThan(steps + 100);
          expect(forced).to.be.greaterThan(100);
          expect(curve.length).to.be.greaterThan(1);
          // Random legal actions get about 4.5 in an episode of 6 to 9 steps.
          expect(meanReturn).to.be.greaterThan(5);
        },
      );

  itAll('save() of onPoint writes an ONNX model that takes masks', () =>
    inFolder(
      async (folder) => {
        const path = join(folder, 'masked.onnx');
        const { policy } = await trained({ steps: 400, onPoint: (_, { save }) => save(path) });
        const model = encodeOnnx(policy, { mask: true });
        expect(readFileSync(path).equals(model)).to.equal(true);
      },
      ['masked.onnx'],
    ),
  );

  itAll('gives masks to a learner of the caller, and to its policy', async () => {
    let masked: boolean | null = null;
    const { words, options } = setUp();
    const { learner: _, ...others } = options;
    const { steps, meanReturn } = await train({
      ...others,
      learner({ device, obsDim, spaces, actionMask }) {
        masked = actionMask;
        const actions = (spaces.action as DiscreteActions).n;
        const optimizer = { learningRate: 3e-3 };
        const sizes = { obsDim, actions, hidden: [32], rows: 32 };
        return maskedDoubleDqn(device, { ...sizes, gamma: 0.5, tau: 0.05, optimizer });
      },
      policy: { network: 'q' },
      deterministic: true,
    });
    expect(masked).to.equal(true);
    expect(words[0]).to.be.greaterThan(steps + 100);
    expect(meanReturn).to.be.greaterThan(5);
  });

  itAll('saves masks with the buffer and the learner, and resumes', async () => {
    await inFolder(async (folder) => {
      await trained({ checkpoint: { folder }, steps: 1_000 }, { actions: 70 });
      const { parts } = (await Checkpoint.inspect(folder))!;
      const { fields } = parts.buffer!.is as { fields: Record<string, string> };
      expect([fields.actionMask, fields.nextActionMask]).to.deep.equal(['mask[70]', 'mask[70]']);
      const { settings } = parts.learner!.is as { settings: { actionMask?: boolean } };
      expect(settings.actionMask).to.equal(true);
      const { steps } = await trained({ checkpoint: { folder }, steps: 2_000 }, { actions: 70 });
      expect(steps).to.be.at.least(2_000);
    });
  });
});
