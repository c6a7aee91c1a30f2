/**
 * Tests views whose steps are stored on the device. The batches have the bits of batches from the
 * host, next to writers at full speed, and when actors are terminated.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { DqnLearner, ops } from '../../src/entries/learner.ts';
import {
  Checkpoint,
  hindsight,
  openDevice,
  prioritized,
  ReplayPipeline,
  type Tensor,
  TrajectoryBuffer,
  type TrajectoryPipelineOptions,
} from '../../src/index.ts';
import { SPREAD } from '../pipeline/fixture.ts';
import { workersOf } from '../pipeline/inside.ts';
import { addSteps, stepsBuffer, VIEW } from '../pipeline/steps.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { TestThread } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';
import {
  addNumbered,
  LANES,
  LENGTH,
  type NumberedBuffer,
  numberedBuffer,
} from './numbered-steps.ts';
import type { StepWriting } from './steps-writer.ts';

const ROWS = 16;

const opened = (options: object) =>
  ReplayPipeline.open({
    device: TESTED,
    sampleCount: ROWS,
    depth: 3,
    baseSeed: 5,
    rows: 'device',
    ...options,
  } as TrajectoryPipelineOptions) as Promise<ReplayPipeline>;

/** Runs `act` while a thread adds steps. */
async function beside(
  buffer: NumberedBuffer,
  from: number,
  act: () => Promise<void>,
): Promise<number> {
  const control = new SharedArrayBuffer(4);
  const work: StepWriting = { shared: buffer.share() as StepWriting['shared'], control, from };
  const writer = new TestThread<StepWriting>(new URL('./steps-writer.js', import.meta.url), work);
  try {
    while (buffer.ptr === LANES * from) await new Promise((resolve) => setImmediate(resolve));
    await act();
  } finally {
    Atomics.store(new Int32Array(control), 0, 1);
  }
  return writer.result<number>();
}

const arrays = async (batch: object) =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(batch).map(async ([key, each]) => [key, await (each as Tensor).toArray()]),
    ),
  ) as Record<string, ArrayLike<number>>;

describe('device-rows/steps', function () {
  this.timeout(setting({ short: 120_000, all: 300_000, long: 1_200_000 }));

  const goals = () => {
    const fields = {
      obs: { shape: [5], observation: true },
      wanted: { shape: [2], observation: true },
      reached: { shape: [2], observation: true },
    } as const;
    const buffer = TrajectoryBuffer.create({ capacity: 240, lanes: 2, fields });
    const writer = buffer.writer();
    const numbers = new Random(3);
    const some = (n: number) => Float32Array.from({ length: 2 * n }, () => numbers.between(-1, 1));
    const add = (ticks: number, from: number) => {
      for (let t = from; t < from + ticks; t++) {
        const now = { obs: some(5), wanted: some(2), reached: some(2) };
        const final = { finalObs: some(5), finalWanted: some(2), finalReached: some(2) };
        const ends = new Uint8Array(2).fill(Number(t % 10 === 9));
        writer.add({
          ...now,
          ...final,
          rewards: some(1),
          terminated: ends,
          truncated: new Uint8Array(2),
        });
      }
    };
    add(100, 0);
    const relabel = hindsight({ goal: 'wanted', achieved: 'reached', ratio: 0.5 });
    return { buffer, view: buffer.transitions({ nStep: 3, relabel }), add };
  };
  const plain = (make: (buffer: ReturnType<typeof stepsBuffer>['buffer']) => unknown) => () => {
    const { buffer, writer } = stepsBuffer();
    return {
      buffer,
      view: make(buffer),
      add: (ticks: number, from: number) => addSteps(writer, ticks, 20 + from),
    };
  };
  const views: Record<
    string,
    () => { buffer: object; view: unknown; add(ticks: number, from: number): void }
  > = {
    'n-step 2, 3 stacked frames': plain((buffer) => buffer.transitions(VIEW)),
    'n-step 3, frames padded with zeros': plain((buffer) =>
      buffer.transitions({ nStep: 3, gamma: 0.9, stack: { obs: 2 }, pad: 'zero' }),
    ),
    'windows with burn-in': plain((buffer) =>
      buffer.windows({ length: 4, burnIn: 2, edges: 'anchor' }),
    ),
    'windows of stacked frames': plain((buffer) =>
      buffer.windows({ length: 3, edges: 'tail', stack: { pixels: 2 } }),
    ),
    'hindsight goals': goals,
  };
  for (const [name, make] of Object.entries(views))
    for (const sampler of [undefined, prioritized] as const)
      itLonger(
        `samples the same batches as packing on the host: ${name}, ${sampler ? 'by priorities' : 'uniformly'}`,
        async () => {
          for (const placement of setting<readonly unknown[]>({
            short: ['inline'],
            all: ['inline', SPREAD],
            long: ['inline', 'auto', SPREAD],
          })) {
            const [host, device] = [make(), make()];
            const of = ({ buffer, view }: typeof host, rows: string) =>
              opened({ buffer, view, sampler: sampler?.(), placement, rows });
            await using one = await of(host, 'host');
            await using other = await of(device, 'device');
            for (let tick = 0; tick < 30; tick++) {
              const [want, got] = await Promise.all(
                [one, other].map(async (made) => {
                  const batch = (await made.sampleLargeBatch(tick, ROWS)) as Record<string, Tensor>;
                  const values = await arrays(batch);
                  const errors = Float32Array.from(
                    { length: ROWS },
                    (_, i) => 1 + ((i * 7 + tick) % 5),
                  );
                  if (sampler) batch.priorities!.write(errors);
                  made.afterTick();
                  return values;
                }),
              );
              expect(Object.keys(got!)).to.deep.equal(Object.keys(want!));
              for (const [key, values] of Object.entries(want!))
                expect(got![key], `${key} of tick ${tick}`).to.deep.equal(values);
              for (const { add } of [host, device]) add(4, 100 + 4 * tick);
            }
          }
        },
      );

  for (const sampler of [undefined, prioritized] as const)
    itAll(
      `trains to the same bits as with rows on the host: n-step 3, 4 stacked frames, ${sampler ? 'by priorities' : 'uniformly'}`,
      async () => {
        const ticks = setting({ short: 150, all: 150, long: 500 });
        const learned = async (rows: string) => {
          const { buffer, writer } = stepsBuffer();
          const view = buffer.transitions({ nStep: 3, stack: { obs: 4 } });
          const drawn = sampler?.();
          await using made = await opened({ buffer, view, sampler: drawn, rows });
          using device = openDevice(TESTED);
          const settings = {
            obsDim: 12,
            actions: 300,
            hidden: [8],
            batchSize: ROWS,
            learningRate: 1e-4,
            seed: 4,
          };
          using learner = new DqnLearner(device, settings);
          await learner.ready;
          made.capture((batch, { stream, out }) => {
            const { obs, nextObs, action, ...rest } = batch as Record<string, Tensor<'float32'>>;
            const shape = [ROWS, 12];
            const flat = { obs: obs!.view({ shape }), nextObs: nextObs!.view({ shape }) };
            learner.update(stream, { ...rest, ...flat, actions: action } as never, out);
          });
          await made.run({ ticks });
          addSteps(writer, 30, 120);
          await made.run({ ticks });
          const weights = await learner.parameters.toArray();
          expect(weights.every(Number.isFinite)).to.equal(true);
          await made.close();
          return [weights, drawn?.inspect()];
        };
        expect(await learned('device')).to.deep.equal(await learned('host'));
      },
    );

  // A buffer that has places for all steps.
  const roomy = () => {
    const { buffer, writer } = stepsBuffer(60);
    return {
      buffer,
      view: buffer.transitions(VIEW),
      add: (ticks: number, from: number) => addSteps(writer, ticks, from - 40),
    };
  };
  for (const [name, make] of Object.entries({ goals, steps: roomy }))
    (name === 'goals' ? it : itAll)(
      `Checkpoint.restore() returns the same prepared tick, and the same next tick: ${name}`,
      async () => {
        const folder = mkdtempSync(join(tmpdir(), 'hotslot-steps-'));
        const next = async (made: ReplayPipeline, tick: number) => {
          const batch = (await made.sampleLargeBatch(tick, ROWS)) as Record<string, Tensor>;
          const values = await arrays(batch);
          batch.priorities!.write(Float32Array.from({ length: ROWS }, (_, i) => 1 + i));
          made.afterTick();
          return values;
        };
        try {
          const { buffer, view, add } = make();
          await using made = await opened({ buffer, view, sampler: prioritized() });
          // The checkpoint also stores the number of places.
          expect(made.transferManifest).to.include({
            ringRows: buffer.capacity,
            guardRows: 0,
            rowStride: made.transferManifest.ringBytes! / buffer.capacity,
          });
          for (let tick = 0; tick < 5; tick++) await next(made, tick);
          made.startPrepare(5, ROWS);
          expect(await made.waitUntilReady(5, ROWS, { timeoutMs: 60_000 })).to.equal(true);
          // Tick 5 was drawn before these steps are added.
          add(4, 100);
          {
            await using checkpoint = await Checkpoint.open(folder, {
              buffer,
              pipeline: made,
            } as never);
            await checkpoint.save();
          }
          const want = [await next(made, 5), await next(made, 6)];
          const empty = make().buffer as ReturnType<typeof stepsBuffer>['buffer'];
          const { capacity, lanes, layout } = empty;
          const fields = Object.fromEntries(
            layout.fields.map(({ key, shape, dtype, observation }) => [
              key,
              { shape, dtype, observation },
            ]),
          );
          const again = TrajectoryBuffer.create({ capacity, lanes, fields });
          const same =
            name === 'goals'
              ? {
                  nStep: 3,
                  relabel: hindsight({ goal: 'wanted', achieved: 'reached', ratio: 0.5 }),
                }
              : VIEW;
          await using other = await opened({
            buffer: again,
            view: again.transitions(same),
            sampler: prioritized(),
          });
          await Checkpoint.restore(folder, { buffer: again, pipeline: other } as never);
          expect([await next(other, 5), await next(other, 6)]).to.deep.equal(want);
        } finally {
          rmSync(folder, { recursive: true });
        }
      },
    );

  for (const perLane of [48, 600])
    (perLane === 48 ? itLonger : itAll)(
      `samples no wrong element while a writer adds at full speed, ${perLane} places per lane`,
      async () => {
        const buffer = numberedBuffer(perLane);
        {
          using writer = buffer.writer();
          addNumbered(writer, 0, 40);
        }
        const view = buffer.transitions({ nStep: 3, stack: { obs: 4 } });
        await using made = await opened({ buffer, view, sampler: prioritized() });
        await beside(buffer, 40, async () => {
          for (let tick = 0; tick < setting({ short: 100, all: 200, long: 20_000 }); tick++) {
            const batch = await arrays(await made.sampleLargeBatch(tick, ROWS));
            made.afterTick();
            const { ids, obs, nextObs, pixels, nextPixels, action, steps } = batch as Record<
              string,
              Float32Array
            >;
            for (let i = 0; i < ROWS; i++) {
              const id = ids![i]!;
              const of = Math.floor(id / LANES) % (LENGTH + 1);
              const next = id + steps![i]! * LANES;
              const frames = (last: number, at: number) =>
                [3, 2, 1, 0].flatMap((back) => {
                  const frame = last - LANES * Math.min(back, at);
                  return [frame, -frame];
                });
              expect([...obs!.subarray(8 * i, 8 * i + 8)], `obs of ${id}`).to.deep.equal(
                frames(id, of),
              );
              expect([...nextObs!.subarray(8 * i, 8 * i + 8)]).to.deep.equal(
                frames(next, of + steps![i]!),
              );
              const bytes = (of: number) => [of & 255, (of >> 8) & 255, (of >> 16) & 255];
              expect([...pixels!.subarray(3 * i, 3 * i + 3)]).to.deep.equal(bytes(id));
              expect([...nextPixels!.subarray(3 * i, 3 * i + 3)]).to.deep.equal(bytes(next));
              expect(action![i]).to.equal(id);
            }
          }
        });
      },
    );

  itAll(
    'applies every update once, to whole steps, when actors are terminated at random times',
    async () => {
      const buffer = numberedBuffer(200);
      {
        using writer = buffer.writer();
        addNumbered(writer, 0, 100);
      }
      const view = buffer.transitions({ nStep: 3, stack: { pixels: 4 } });
      await using made = await opened({
        buffer,
        view,
        sampler: prioritized(),
        placement: SPREAD,
        restart: 1000,
      });
      using device = openDevice(TESTED);
      const number = (shape: readonly number[], ...values: number[]) => {
        const made = device.allocate({ shape });
        return values.length > 0 ? made.write(Float32Array.from(values)) : made;
      };
      const [total, one, ids, wrong] = [
        number([1]),
        number([1], 1),
        number([ROWS, 1]),
        number([ROWS, 1]),
      ];
      const captured = made.capture(
        (batch, { stream, out, priorities }) => {
          const columns = batch as Record<string, Tensor<'float32'>>;
          ops.convert(stream, ids, (columns.ids as Tensor).view({ shape: [ROWS, 1] }));
          // The gathered observation equals the step's id, and the priority is computed from the
          // observation.
          const first = columns.obs!.view({ shape: [ROWS, 1], strides: [2, 1] });
          ops.ne(stream, wrong, first, ids);
          ops.sum(stream, out.view({ shape: [1] }), wrong.view({ shape: [1, ROWS] }));
          ops.square(stream, priorities!.view({ shape: [ROWS, 1] }), first);
          stream.launch('axpby', { tensors: [total, one], wholes: [1], reals: [1, 1] });
          stream.copy(out.view({ shape: [1], offset: 1 }), total);
        },
        { scalars: ['wrong', 'ticks'] },
      );
      const seen: number[] = [];
      const wrongs = new Set<number>();
      captured.on('tick', ({ scalars }) => {
        seen.push(scalars.ticks as number);
        wrongs.add(scalars.wrong as number);
      });
      const numbers = new Random(3);
      let over = false;
      await beside(buffer, 100, async () => {
        const run = captured
          .run({ ticks: setting({ short: 1000, all: 2000, long: 10_000 }) })
          .finally(() => (over = true));
        for (let death = 0; !over && death < setting({ short: 3, all: 5, long: 40 }); death++) {
          const before = seen.length;
          await workersOf(made)[numbers.below(4)]?.terminate();
          while (!over && seen.length < before + 20)
            await new Promise((resolve) => setImmediate(resolve));
        }
        const { ticks } = await run;
        expect(seen).to.deep.equal(Array.from({ length: ticks }, (_, i) => i + 1));
        expect([...wrongs]).to.deep.equal([0]);
      });
      await made.close();
      for (const each of [total, one, ids, wrong]) each.close();
    },
  );
});
