/** Parts of training runs with a pipeline, or a checkpoint of one. */
import { openParts } from '../../examples/cartpole-dqn/parts.ts';
import { defaults } from '../../examples/cartpole-dqn/settings.ts';
import {
  Checkpoint,
  type Device,
  openDevice,
  type Placement,
  prioritized,
  ReplayBuffer,
  ReplayPipeline,
  type Tensor,
  WeightMailbox,
} from '../../src/index.ts';
import { change, make } from '../checkpoint/rig.ts';
import { rows, SAMPLE } from '../pipeline/fixture.ts';
import { addSteps, stepsBuffer, VIEW } from '../pipeline/steps.ts';
import { TESTED } from '../rig/tested-device.ts';
import { Bits } from './bits.ts';
import type { Closing } from './closing.ts';

/** A part of a run. It returns a text for its result, and gives `closing` whatever it opens. */
export type Part = (closing: Closing, folder: string) => Promise<string>;

export function opened(closing: Closing): Device {
  const device = openDevice(TESTED);
  closing.add(() => device.close());
  return device;
}

export const byRows = (placement: Placement, more: object = {}): Part =>
  async function rowsThere(closing) {
    const bits = new Bits();
    const device = opened(closing);
    const buffer = ReplayBuffer.offPolicy({ capacity: 64, obsDim: 4, actionDim: 1 });
    buffer.add(rows(64));
    const mailbox = WeightMailbox.create({ length: 1 });
    const pipeline = await ReplayPipeline.open({
      buffer,
      device: TESTED,
      sampleCount: SAMPLE,
      depth: 2,
      placement,
      mailbox,
      transfer: 'immediate',
      ...more,
    } as never);
    closing.add(() => pipeline.close());
    pipeline.on('error', () => {}); // the next call throws it too
    const count = device.allocate({ shape: [1] });
    const one = device.allocate({ shape: [1] }).write(Float32Array.of(1));
    closing.add(() => count.close());
    closing.add(() => one.close());
    pipeline.capture(
      (batch, { stream, out }) => {
        stream.launch('axpby', { tensors: [count, one], wholes: [1], reals: [1, 1] });
        stream.launch('axpby', {
          tensors: [count, (batch as { rewards: Tensor }).rewards],
          wholes: [1],
          reals: [1, 1],
        });
        stream.copy(out.view({ shape: [1] }), count);
      },
      { scalars: ['count'], weights: count } as never,
    );
    await pipeline.run({ ticks: 4, publishEvery: 2 });
    const batch = (await pipeline.sampleLargeBatch(4, SAMPLE)) as unknown as Record<string, Tensor>;
    bits.add((await batch.obs!.toArray()) as Float32Array);
    pipeline.afterTick();
    bits.add((await count.toArray()) as Float32Array);
    return bits.print();
  };

export const bySteps = (placement: Placement, more: object = {}): Part =>
  async function stepsThere(closing) {
    const bits = new Bits();
    const { buffer, writer } = stepsBuffer(20, 80);
    closing.add(() => writer.close());
    const sampler = prioritized();
    const pipeline = await ReplayPipeline.open({
      buffer,
      view: buffer.transitions(VIEW),
      sampler,
      device: TESTED,
      sampleCount: 8,
      depth: 2,
      placement,
      ...more,
    } as never);
    closing.add(() => pipeline.close());
    pipeline.on('error', () => {});
    pipeline.capture((batch, { stream, priorities }) =>
      stream.copy(priorities!, (batch as { rewards: Tensor }).rewards),
    );
    await pipeline.run({ ticks: 3 });
    addSteps(writer, 5, 20);
    const batch = (await pipeline.sampleLargeBatch(3, 8)) as unknown as Record<string, Tensor>;
    bits.add((await batch.pixels!.toArray()) as Uint8Array);
    pipeline.afterTick();
    await pipeline.close();
    bits.add(sampler.inspect().leaves);
    return bits.print();
  };

export async function dqn(closing: Closing): Promise<string> {
  const parts = await openParts({
    seed: 1,
    device: TESTED,
    placement: 'inline',
    trace: undefined,
    settings: { ...defaults, capacity: 256, batchSize: 16, minibatches: 2, hidden: [8] },
    limited: false,
  });
  closing.add(() => parts[Symbol.asyncDispose]());
  const { buffer, pipeline, learner } = parts;
  pipeline.on('error', () => {});
  if (buffer instanceof ReplayBuffer) buffer.add(rows(64));
  await pipeline.run({ ticks: 4, publishEvery: 2 });
  return new Bits().add((await learner.parameters.toArray()) as Float32Array).print();
}

export const checkpointed = (kind: 'rows' | 'steps'): Part =>
  async function saved(closing, folder) {
    const run = await make(kind);
    closing.add(() => run.close());
    await change(run, 1);
    const checkpoint = await Checkpoint.open(folder, run.parts);
    closing.add(() => checkpoint.close());
    await checkpoint.save();
    await checkpoint.close();
    const fresh = await make(kind);
    closing.add(() => fresh.close());
    await Checkpoint.restore(folder, fresh.parts);
    return fresh.print();
  };
