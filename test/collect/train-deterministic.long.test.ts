/** Tests that train() with `deterministic` has equal bits in two runs, and works with the other options. */
import { cpSync } from 'node:fs';
import { expect } from 'chai';
import {
  type CurvePoint,
  type LearnerContext,
  type TrainOptions,
  type TrainParts,
  type TrainResult,
  train,
} from '../../src/entries/collect.ts';
import { QrDqnLearner } from '../../src/entries/learner.ts';
import { tensorBoard } from '../../src/entries/monitor.ts';
import type { Checkpoint } from '../../src/index.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import type { TargetOptions } from './target.ts';

const small = { actorHidden: [16], criticHidden: [16], batchSize: 32 };
const discrete = { environmentOptions: { discrete: true } };
const dqn = { algorithm: 'dqn', hidden: [16], batchSize: 32 } as const;
const ways: Record<string, object> = {
  dqn: { learner: dqn, ...discrete },
  sac: { learner: { algorithm: 'sac', ...small } },
  td3: { learner: { algorithm: 'td3', ...small } },
  'a learner of the caller': {
    ...discrete,
    learner: ({ device, obsDim, seed }: LearnerContext) =>
      new QrDqnLearner(device, {
        obsDim,
        seed,
        actions: 2,
        hidden: [16],
        quantiles: 4,
        batchSize: 32,
      }),
    policy: { network: 'q' },
  },
  'prioritized returns of 3 steps of 8 environments, with 4 updates for each step': {
    learner: dqn,
    ...discrete,
    nStep: 3,
    prioritized: true,
    environments: 8,
    updatesPerStep: 4,
    minibatches: 2,
    steps: 600,
  },
  'asynchronous environments': { learner: dqn, environmentOptions: { discrete: true, late: 0 } },
};
const words = () => new Int32Array(new SharedArrayBuffer(8));

const training = (change: object = {}): TrainOptions => ({
  environment: new URL('./target.js', import.meta.url),
  environmentOptions: {},
  learner: dqn,
  device: TESTED,
  deterministic: true,
  steps: 800,
  warmUp: 200,
  environments: 2,
  evaluation: { every: 300, episodes: 5, confirm: 5 },
  ...change,
});
/** Returns everything that must be equal in two runs: all but times. */
const exact = ({ weights, curve, steps, updates, best, meanReturn }: TrainResult) => ({
  weights: [...new Int32Array(weights.buffer)],
  curve: curve.map(({ seconds: _, ...point }) => point),
  best: best && [best.point.steps, ...new Int32Array(best.weights.slice().buffer)],
  steps,
  updates,
  meanReturn,
});

describe('train() with deterministic: true', () => {
  for (const [name, change] of Object.entries(ways))
    (name === 'dqn' ? it : itAll)(
      `has equal bits in two runs with one seed, and others with another seed (${name})`,
      async () => {
        const first = exact(await train(training(change)));
        expect(first.updates).to.be.greaterThan(500);
        expect(exact(await train(training(change)))).to.deep.equal(first);
        const other = exact(await train(training({ ...change, seed: 1 })));
        expect(other.weights).to.not.deep.equal(first.weights);
        expect(other.curve.map(({ steps }) => steps)).to.deep.equal(
          first.curve.map(({ steps }) => steps),
        );
      },
    );

  it('evaluates and updates at fixed numbers of steps, and saves do not change the bits', () =>
    withFolder(async (folder) => {
      const change = ways.dqn as object;
      const plain = await train(training(change));
      const points = plain.curve.map(({ steps, updates }) => [steps, updates]);
      expect(points).to.deep.equal([
        [300, 100],
        [600, 400],
        [800, 600],
      ]);
      let saves = 0;
      const saved = await train(
        training({
          ...change,
          checkpoint: { folder, every: '10 ms' },
          display: false,
          onOpen: ({ checkpoint }: TrainParts) => checkpoint?.on('saved', () => saves++),
        }),
      );
      expect(saves).to.be.greaterThan(0);
      expect(exact(saved)).to.deep.equal(exact(plain));
    }));

  itAll('two runs that resume copies of one checkpoint have equal bits', () =>
    withFolder(async (folder) => {
      const change =
        ways['prioritized returns of 3 steps of 8 environments, with 4 updates for each step'];
      const enough = new AbortController();
      let checkpoint: Checkpoint | undefined;
      await train(
        training({
          ...change,
          checkpoint: { folder },
          signal: enough.signal,
          onOpen: (parts: TrainParts) => {
            checkpoint = parts.checkpoint;
          },
          onPoint: async () => {
            // A copy of the folder is what a kill at this moment leaves.
            await checkpoint!.save();
            for (const copy of ['a', 'b']) cpSync(folder, `${folder}-${copy}`, { recursive: true });
            enough.abort();
          },
        }),
      );
      const resumed = async (copy: string) =>
        await train(training({ ...change, checkpoint: { folder: `${folder}-${copy}` } }));
      const first = await resumed('a');
      expect(first.updates).to.equal(1600);
      expect(first.curve[0]!.steps).to.equal(304);
      expect(exact(await resumed('b'))).to.deep.equal(exact(first));
      const free = await rejection(
        train(training({ ...change, deterministic: false, checkpoint: { folder } })),
      );
      expect(free.message).to.match(
        /^deterministic is false here, and true in the checkpoint of '.*'; omit the option/,
      );
      // The saved value counts if the option is omitted.
      const { deterministic: _, ...omitted } = training({ ...change, checkpoint: { folder } });
      expect((await train(omitted)).updates).to.equal(1600);
    }),
  );

  itAll(
    'onOpen gets collectors that a monitor can watch and whose episodes can be read',
    async () =>
      withFolder(async (folder) => {
        const episodes: number[] = [];
        let reading: Promise<void> | undefined;
        let workers = 0;
        const curves = tensorBoard(folder);
        const { steps } = await train(
          training({
            ...ways.dqn,
            onOpen: ({ collectors }: TrainParts) => {
              workers = collectors.workers;
              curves.listen({ collectors });
              reading = (async () => {
                for await (const episode of collectors.episodes()) episodes.push(episode.length!);
              })();
            },
          }),
        );
        await reading;
        await curves.close();
        expect([workers, new Set(episodes)]).to.deep.equal([1, new Set([5])]);
        expect(episodes.length).to.be.within(100, steps / 5);
      }),
  );

  itAll(
    'ends at its seconds and by its signal, also while an environment never answers',
    async () => {
      const endless = { ...ways.dqn, steps: 10_000_000 };
      const timed = await train(training({ ...endless, seconds: 0.3 }));
      expect(timed).to.include({ interrupted: false, solved: false });
      const stop = new AbortController();
      const onPoint = (_: CurvePoint) => stop.abort();
      const stopped = await train(training({ ...endless, signal: stop.signal, onPoint }));
      expect(stopped).to.include({ interrupted: true, steps: 300, updates: 100 });
      const never: TargetOptions = { late: Number.POSITIVE_INFINITY, discrete: true };
      const silent = await train(
        training({ environmentOptions: never, signal: AbortSignal.timeout(100) }),
      );
      expect(silent).to.include({ interrupted: true, steps: 0 });
    },
  );

  itAll(
    'closes its environments at the end, and rejects with the error of one that throws',
    async () => {
      const count = words();
      const environmentOptions = { discrete: true, words: count };
      await train(training({ environmentOptions }));
      expect([...count]).to.deep.equal([7, 7]);
      const error = await rejection(
        train(training({ environmentOptions: { ...environmentOptions, failAt: 250 } })),
      );
      expect([error.message, error.stack!.includes('target')]).to.deep.equal([
        'environment 0 broke',
        true,
      ]);
      expect(count[0]).to.equal(count[1]);
    },
  );

  it('rejects several workers and a value that is no boolean', async () => {
    const refused = async (change: object) =>
      (await rejection(train(training({ ...ways.dqn, ...change })))).message;
    expect(await refused({ workers: 2 })).to.equal(
      'deterministic: true collects in one thread; omit workers (2), and raise environments',
    );
    expect(await refused({ deterministic: 1 })).to.match(
      /^deterministic must be a boolean|deterministic/,
    );
  });
});
