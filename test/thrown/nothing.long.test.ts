/**
 * Tests every function that runs the caller's code, with code that throws null or undefined. It
 * must fail as for an error.
 */
import { expect } from 'chai';
import { errorOf } from '../../src/base/plain-error.ts';
import { evaluate, type TrainOptions, train } from '../../src/entries/collect.ts';
import { LearnerGroup, shareLearnerGroup } from '../../src/entries/ranks.ts';
import {
  Checkpoint,
  CollectorPool,
  type CollectorPoolOptions,
  openDevice,
  ReplayBuffer,
} from '../../src/index.ts';
import { emptyHeader } from '../../src/net/remote/message.ts';
import { RetransmitQueue } from '../../src/net/remote/retransmit-queue.ts';
import { closeAll } from '../../src/run/environments/vector-environment.ts';
import { Target } from '../collect/target.ts';
import type { PlainOptions } from '../collectors/plain-collector.ts';
import { inFolder } from '../formats/tensors.ts';
import { filled, pipeline } from '../pipeline/fixture.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLonger } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';

const nothings = [
  ['null', null],
  ['undefined', undefined],
] as const;

/** Returns what `act` throws or rejects with, in an object. Fails if it throws nothing. */
async function thrownBy(act: () => unknown): Promise<{ thrown: unknown }> {
  try {
    await act();
  } catch (thrown) {
    return { thrown };
  }
  throw new Error('nothing was thrown');
}

const plain = (options: PlainOptions): CollectorPoolOptions => ({
  entry: new URL('../collectors/plain-collector.js', import.meta.url),
  buffer: ReplayBuffer.create({ capacity: 64, fields: { value: { shape: [2] } } }),
  options,
});

describe('user code that throws null or undefined', function () {
  this.timeout(60_000);

  for (const [nothing, value] of nothings) {
    (value === null ? it : itAll)(
      `CollectorPool.open() rejects when a factory throws ${nothing}`,
      async () => {
        const error = await rejection(CollectorPool.open(plain({ fault: 'factory', nothing })));
        expect(error).to.include({
          code: 'ERR_HOTSLOT_THREAD_LOST',
          message: `collector 0 failed: ${nothing}`,
        });
      },
    );

    (value === null ? it : itAll)(
      `done and episodes() reject with one error when a collector throws ${nothing}`,
      async () => {
        const words = new Int32Array(new SharedArrayBuffer(12));
        const pool = await CollectorPool.open({
          ...plain({ fault: 'collect', faulty: 0, nothing, words }),
          workers: 2,
        });
        const reading = rejection(async () => {
          for await (const _ of pool.episodes());
        });
        Atomics.store(words, 2, 1);
        const error = await rejection(pool.done);
        expect(error).to.include({
          code: 'ERR_HOTSLOT_THREAD_LOST',
          message: `collector 0 failed: ${nothing}`,
        });
        expect(await reading).to.equal(error);
        await pool.close();
      },
    );

    it(`evaluate() rejects with the value when step() or reset() throws or rejects with ${nothing}`, async () => {
      const policy = { act: (_: unknown, n: number) => new Float32Array(n) };
      for (const throws of [
        () => {
          throw value;
        },
        () => Promise.reject(value),
      ]) {
        for (const method of ['step', 'reset'] as const) {
          const environment = Object.assign(new Target(0, {}), { [method]: throws });
          const outcome = thrownBy(() =>
            evaluate({ environments: [environment], policy, episodes: 1 }),
          );
          expect(await outcome).to.deep.equal({ thrown: value });
        }
      }
    });

    it(`evaluate() rejects with the reason of its signal after abort(${nothing})`, async () => {
      const [policy, controller] = [
        { act: (_: unknown, n: number) => new Float32Array(n) },
        new AbortController(),
      ];
      const endless = new Target(0, { length: Number.POSITIVE_INFINITY });
      const evaluating = thrownBy(() =>
        evaluate({ environments: [endless], policy, episodes: 1, signal: controller.signal }),
      );
      // After abort(undefined), the signal has a reason of its own.
      controller.abort(value);
      expect(await evaluating).to.deep.equal({
        thrown: value === null ? null : controller.signal.reason,
      });
    });

    it(`closeAll() rejects with the value when close() of an environment throws ${nothing}`, async () => {
      const environment = Object.assign(new Target(0, {}), {
        close() {
          throw value;
        },
      });
      expect(await thrownBy(() => closeAll([environment]))).to.deep.equal({ thrown: value });
    });

    itLonger(`run() rejects with the value when a tick listener throws ${nothing}`, async () => {
      await using made = await pipeline({ buffer: filled() });
      made.capture(() => {});
      made.on('tick', () => {
        throw value;
      });
      expect(await thrownBy(() => made.run({ ticks: 8 }))).to.deep.equal({ thrown: value });
    });

    it(`Checkpoint.save() rejects with the value when extra() throws ${nothing}`, () =>
      inFolder(async (folder) => {
        const buffer = ReplayBuffer.create({ capacity: 8, fields: { value: { shape: [2] } } });
        const { checkpoint } = await opened(folder, buffer, value);
        expect(await thrownBy(() => checkpoint.save())).to.deep.equal({ thrown: value });
        await checkpoint.close();
      }));

    it(`a checkpoint emits an error when extra() throws ${nothing} in an automatic save`, () =>
      inFolder(async (folder) => {
        const buffer = ReplayBuffer.create({ capacity: 8, fields: { value: { shape: [2] } } });
        const { checkpoint } = await opened(folder, buffer, value, '10 ms');
        const error = await new Promise<Error>((resolve) => checkpoint.once('error', resolve));
        expect(error.message).to.equal(nothing);
        await checkpoint.close();
      }));

    it(`LearnerGroup.fail(${nothing}) makes average() of another rank reject with that cause`, async () => {
      using _ = openDevice(TESTED);
      const shared = shareLearnerGroup({ ranks: 2, parameters: 4 });
      using first = await LearnerGroup.join({ shared, rank: 0 });
      using second = await LearnerGroup.join({ shared, rank: 1 });
      first.fail(value);
      const error = await rejection(second.average(new Float32Array(4)));
      expect((error.cause as Error).message).to.equal(nothing);
    });

    it(`RetransmitQueue calls settled() with an error when append() rejects with ${nothing}`, async () => {
      const settled = new Promise<Error | null>((resolve) => {
        const kept = new RetransmitQueue({
          rowBytes: 8,
          rowsPerMessage: 1,
          now: () => 0,
          settled: resolve,
          append: () => Promise.reject(value),
        });
        kept.send(() => 1, 1, emptyHeader());
      });
      expect(await settled).to.include({ message: nothing });
    });

    it(`errorOf() returns an error with the message ${nothing}, and keeps a RangeError`, () => {
      expect(errorOf(value)).to.include({ message: nothing });
      expect(errorOf(new RangeError('mine'))).to.include({ message: 'mine', name: 'RangeError' });
    });
  }

  for (const [where, change] of [
    [
      'a collector thread',
      { environmentOptions: { failAt: 100, nothing: true }, evaluation: { every: 4000 } },
    ],
    [
      'an evaluation',
      {
        environmentOptions: { failAt: 30, nothing: true },
        evaluation: { every: 15, episodes: 10 },
      },
    ],
  ] as const)
    itAll(
      `train() rejects and closes environments when an environment in ${where} throws null`,
      async () => {
        const words = new Int32Array(new SharedArrayBuffer(8));
        const options: TrainOptions = {
          environment: new URL('../collect/target.js', import.meta.url),
          learner: {
            algorithm: 'sac',
            actorHidden: [16],
            criticHidden: [16],
            batchSize: 32,
            gamma: 0,
          },
          device: TESTED,
          steps: 4000,
          warmUp: 10,
          environments: 2,
          ...change,
          environmentOptions: { ...change.environmentOptions, words },
        };
        const { thrown } = await thrownBy(() => train(options));
        if (thrown !== null) expect((thrown as Error).message).to.equal('collector 0 failed: null');
        expect(words[0], 'every environment is closed').to.equal(words[1]);
      },
    );
});

const opened = async (folder: string, buffer: ReplayBuffer, value: unknown, every?: string) => {
  const extra = () => {
    throw value;
  };
  return {
    checkpoint: await Checkpoint.open(folder, {
      buffer,
      extra,
      ...(every !== undefined && { every }),
    }),
  };
};
