/**
 * Learner for batches of pixels. It converts bytes to floats on the device, and trains a DQN with
 * convolutions on them.
 */

import { convert, DqnLearner } from '../../src/entries/learner.ts';
import type { Device, Stream, Tensor } from '../../src/index.ts';
import { FRAME } from '../environments/catch.ts';
import { network, type Settings } from './settings.ts';

/** A batch of the view, which contains stacks of frames as bytes. */
export interface PixelBatch {
  /** [rows, stack, SIDE, SIDE] */
  readonly obs: Tensor<'uint8'>;
  readonly nextObs: Tensor<'uint8'>;
  readonly actions: Tensor;
  readonly rewards: Tensor<'float32'>;
  readonly discounts: Tensor<'float32'>;
}

export class PixelLearner {
  readonly dqn: DqnLearner;
  /** stacks as floats from 0 to 1, [rows, stack × FRAME]. They are the network's input */
  readonly now: Tensor<'float32'>;
  readonly next: Tensor<'float32'>;

  constructor(device: Device, settings: Settings, seed: number) {
    const { rows, stack, learningRate } = settings;
    this.now = device.allocate({ shape: [rows, stack * FRAME] });
    this.next = device.allocate({ shape: [rows, stack * FRAME] });
    this.dqn = new DqnLearner(device, {
      ...network(settings),
      batchSize: rows,
      learningRate,
      seed,
      tau: 0.01,
      maxGradNorm: 10,
    });
  }

  /** Enqueues an update. It only launches kernels, so a graph can capture it. */
  update(stream: Stream, batch: PixelBatch, out: Tensor<'float32'>): void {
    convert(stream, this.now, batch.obs, { scale: 1 / 255 });
    convert(stream, this.next, batch.nextObs, { scale: 1 / 255 });
    const { actions, rewards, discounts } = batch;
    this.dqn.update(
      stream,
      { obs: this.now, nextObs: this.next, actions, rewards, discounts },
      out,
    );
  }

  close(): void {
    this.dqn.close();
    this.now.close();
    this.next.close();
  }
}
