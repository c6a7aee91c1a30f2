/** Tests train() with an evaluation of the caller, onPoint with weights, and the best weights. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import {
  type CurvePoint,
  type EvaluateContext,
  type TrainOptions,
  train,
} from '../../src/entries/collect.ts';
import { encodeOnnx, readSafetensors } from '../../src/entries/formats.ts';
import type { DqnPolicy } from '../../src/entries/learner.ts';
import { withFolder } from '../checkpoint/killed.ts';
import { inFolder } from '../formats/tensors.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';

const shape = { hidden: [16] };
const training = (change: Partial<TrainOptions> = {}, words?: Int32Array): TrainOptions => ({
  environment: new URL('./target.js', import.meta.url),
  environmentOptions: { discrete: true, ...(words && { words }) },
  learner: { algorithm: 'dqn', ...shape, batchSize: 32, gamma: 0, learningRate: 3e-3 },
  device: TESTED,
  steps: 1000,
  warmUp: 200,
  environments: 2,
  // So the evaluations come at fixed numbers of steps.
  deterministic: true,
  evaluation: { every: 300, episodes: 5, confirm: 20 },
  ...change,
});
const words = () => new Int32Array(new SharedArrayBuffer(8));
/** Returns the given mean returns, one at each call, then the last one. */
const scores = (...values: readonly number[]) => {
  let call = 0;
  return () => values[Math.min(call++, values.length - 1)]!;
};

describe('evaluations of train()', () => {
  it('evaluate() replaces greedy episodes, and gets weights, policy, episodes, seed and steps', async () => {
    const seen: EvaluateContext[] = [];
    const count = words();
    const evaluate = async (context: EvaluateContext) => {
      seen.push(context);
      await new Promise(setImmediate);
      return { meanReturn: seen.length, deviation: 2 };
    };
    const evaluation = { every: 300, episodes: 3, confirm: 7, evaluate };
    const { curve, solved, meanReturn, policy, weights } = await train(
      training({ evaluation, goal: 2 }, count),
    );
    expect([solved, meanReturn]).to.deep.equal([true, 3]);
    expect(seen.map(({ episodes }) => episodes)).to.deep.equal([3, 3, 7]);
    expect(new Set(seen.map(({ seed }) => seed)).size).to.equal(3);
    expect(seen.map(({ steps }) => steps)).to.deep.equal([300, 600, 600]);
    // The confirmation has the weights of the evaluation before it.
    expect(seen[2]!.weights).to.deep.equal(seen[1]!.weights);
    expect(seen[0]!.weights).to.not.deep.equal(seen[1]!.weights);
    expect(seen[2]!.weights).to.deep.equal(weights);
    expect(curve.map((point) => [point.episodes, point.meanReturn, point.deviation])).to.deep.equal(
      [
        [3, 1, 2],
        [7, 3, 2],
      ],
    );
    expect(encodeOnnx(policy).length).to.be.greaterThan(100);
    // Two environments of the collectors, and one that says the spaces.
    expect([...count]).to.deep.equal([3, 3]);
  });

  itAll(
    'a function as `evaluation` is evaluated at the default times, and its number counts',
    async () => {
      const { curve } = await train(training({ steps: 400, evaluation: scores(4, 5) }));
      expect(curve.at(-1)).to.include({ meanReturn: 5, episodes: 100 });
      expect(curve.at(-1)!.deviation).to.be.NaN;
    },
  );

  it('evaluate() that throws, rejects or returns no number rejects train(), which closes everything', async () => {
    const count = words();
    const failing = (evaluate: unknown) =>
      rejection(train(training({ evaluation: { every: 250, evaluate } as never }, count)));
    const broken = await failing(() => {
      throw new Error('no opponent today');
    });
    expect(broken.message).to.equal('no opponent today');
    expect(broken.stack).to.include('train-evaluations');
    expect((await failing(() => Promise.reject(new Error('later')))).message).to.equal('later');
    for (const [returned, says] of [
      [undefined, /^evaluation\.evaluate must return the mean return, .*; got undefined$/],
      [Number.NaN, /got NaN$/],
      [{ mean: 3 }, /or \{ meanReturn, deviation\? \}; got an object with meanReturn undefined$/],
      [{ meanReturn: '3' }, /got an object with meanReturn '3'$/],
      [
        { meanReturn: 3, deviation: -1 },
        /^evaluation\.evaluate must return a deviation .* with deviation -1$/,
      ],
    ] as const)
      expect((await failing(() => returned)).message).to.match(says);
    expect((await failing(3)).message).to.equal('evaluation.evaluate must be a function, got 3');
    expect(count[0], 'environments that were made and closed').to.equal(count[1]);
  });

  itAll('ends when its signal aborts while evaluate() never resolves', async () => {
    const stop = new AbortController();
    const evaluate = ({ signal }: EvaluateContext) => {
      stop.abort();
      expect(signal.aborted).to.equal(true);
      return new Promise<number>(() => {});
    };
    const result = await train(training({ evaluation: { evaluate }, signal: stop.signal }));
    expect(result).to.deep.include({ interrupted: true, curve: [], meanReturn: null, best: null });
  });

  it('onPoint is awaited, and gets a copy of the weights and a policy of its own', async () => {
    const kept: { point: CurvePoint; weights: Float32Array; policy: DqnPolicy }[] = [];
    let running = 0;
    const { curve, policy, weights } = await train(
      training({
        onPoint: async (point, given) => {
          expect(++running).to.equal(1);
          await new Promise(setImmediate);
          kept.push({ point, ...given, policy: given.policy as DqnPolicy });
          running--;
        },
      }),
    );
    expect(kept.map(({ point }) => point)).to.include.members([...curve]);
    for (const each of kept) expect(each.policy.parameters).to.deep.equal(each.weights);
    expect(new Set([policy, ...kept.map((each) => each.policy)]).size).to.equal(kept.length + 1);
    expect(kept.at(-1)!.weights).to.deep.equal(weights);
    expect(kept[0]!.weights).to.not.deep.equal(weights);
    const count = words();
    const error = await rejection(
      train(training({ onPoint: async () => Promise.reject(new Error('disk full')) }, count)),
    );
    expect([error.message, count[0]]).to.deep.equal(['disk full', count[1]]);
  });

  it('save() of onPoint writes .safetensors and .onnx, and rejects other names', () =>
    inFolder(
      async (folder) => {
        const file = (name: string) => join(folder, name);
        const refused: string[] = [];
        const { weights, policy } = await train(
          training({
            steps: 400,
            evaluation: { every: 1000, confirm: 1 },
            onPoint: async (_, { save }) => {
              await save(file('a.safetensors'));
              await save(pathToFileURL(file('b.onnx')));
              for (const path of ['a.pt', '', file('no/a.onnx')])
                refused.push((await rejection(save(path))).message);
            },
          }),
        );
        const { tensors } = await readSafetensors(file('a.safetensors'));
        expect(Object.keys(tensors)).to.have.members(['0.weight', '0.bias', '2.weight', '2.bias']);
        const whole = ['0.weight', '0.bias', '2.weight', '2.bias'].flatMap((name) => [
          ...(tensors[name]!.data as Float32Array),
        ]);
        expect(whole).to.deep.equal([...weights]);
        expect(readFileSync(file('b.onnx')).equals(encodeOnnx(policy))).to.equal(true);
        expect(refused[0]).to.match(
          /^save: the name of a file must end with \.safetensors or \.onnx, got '.*a\.pt'$/,
        );
        expect(refused[1]).to.equal("save takes a path or a file: URL, got ''");
        expect(refused[2]).to.match(/^save: '.*a\.onnx': ENOENT/);
        expect(existsSync(file('a.pt'))).to.equal(false);
      },
      ['a.safetensors', 'b.onnx'],
    ));

  itAll('save() of SAC with a normalizer names its means and factors', () =>
    inFolder(
      async (folder) => {
        const path = join(folder, 'sac.safetensors');
        const small = { actorHidden: [16], criticHidden: [16], batchSize: 32 };
        await train(
          training({
            environmentOptions: {},
            learner: { algorithm: 'sac', ...small, normalizer: true },
            steps: 300,
            evaluation: { every: 1000, confirm: 1 },
            onPoint: (_, { save }) => save(path),
          }),
        );
        const { tensors } = await readSafetensors(path);
        expect(tensors['normaliser.factor']!.shape).to.deep.equal([2]);
        expect(tensors['0.weight']!.shape).to.deep.equal([16, 2]);
      },
      ['sac.safetensors'],
    ),
  );
});

describe('best weights of train()', () => {
  it('are those of the greatest mean return, the later of equals, with a policy of their own', async () => {
    const points: [CurvePoint, Float32Array][] = [];
    const { best, weights, policy, curve } = await train(
      training({
        evaluation: { every: 200, evaluate: scores(3, 7, 7, 1) },
        onPoint: (point, given) => points.push([point, given.weights]),
      }),
    );
    const [point, kept] = points[2]!;
    expect(points.map(([{ steps }]) => steps)).to.deep.equal([400, 600, 800, 1000, 1000]);
    expect(best!.point).to.deep.equal(point);
    expect(best!.weights).to.deep.equal(kept);
    expect(best!.weights).to.not.deep.equal(weights);
    expect((best!.policy as DqnPolicy).parameters).to.deep.equal(kept);
    expect(best!.policy).to.not.equal(policy);
    expect(curve).to.include(best!.point);
  });

  it('lose their place when the evaluation that should confirm them is lower', async () => {
    // The second point reaches the goal, and its confirmation does not. So the first point is best.
    const { best, curve } = await train(
      training({
        goal: 9,
        evaluation: { every: 250, evaluate: scores(5, 9, 2, 4) },
      }),
    );
    expect(best!.point).to.equal(curve[0]);
    expect(curve.map(({ meanReturn }) => meanReturn).slice(0, 3)).to.deep.equal([5, 2, 4]);
  });

  itAll('are restored by a resumed training', () =>
    withFolder(async (folder) => {
      const checkpoint = { folder };
      const short = { every: 200 };
      const first = await train(
        training({ checkpoint, evaluation: { ...short, evaluate: scores(3, 8, 1) } }),
      );
      expect(first.best!.point.meanReturn).to.equal(8);
      const again = await train(training({ checkpoint }));
      expect(again.best!.point).to.deep.equal(first.best!.point);
      expect(again.best!.weights).to.deep.equal(first.best!.weights);
      expect((again.best!.policy as DqnPolicy).parameters).to.deep.equal(first.best!.weights);
      const more = await train(
        training({ checkpoint, steps: 1400, evaluation: { ...short, evaluate: scores(6) } }),
      );
      expect(more.best!.point).to.deep.equal(first.best!.point);
      const higher = await train(
        training({ checkpoint, steps: 1800, evaluation: { ...short, evaluate: scores(8) } }),
      );
      expect(higher.best!.point).to.equal(higher.curve.at(-1));
    }),
  );
});
