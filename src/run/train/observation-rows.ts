/**
 * Converts a batch's observations for the learner, on the device. Stacks of observations and bytes
 * become rows of floats.
 */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { convert } from '../../learn/convert.ts';
import type { TrainPlan } from './plan.ts';

type Batch = Readonly<Record<string, unknown>>;

export class ObservationRows {
  readonly #scale: number;
  /** converted observations, [rows, stack × size], null if the batch already has this form */
  readonly #rows: Readonly<Record<'obs' | 'nextObs', Tensor<'float32'>>> | null;

  constructor(device: Device, { converted, sampleCount, learner }: TrainPlan) {
    const { policy } = learner;
    this.#scale = 'scale' in policy ? policy.scale : 1;
    const shape = [sampleCount, learner.obsDim];
    this.#rows = converted
      ? { obs: device.allocate({ shape }), nextObs: device.allocate({ shape }) }
      : null;
  }

  /**
   * Enqueues the conversion, and returns the batch with converted observations. It only launches
   * kernels, because it runs during a capture.
   */
  of<B extends Batch>(batch: B, stream: Stream): B {
    const rows = this.#rows;
    if (!rows) return batch;
    for (const name of ['obs', 'nextObs'] as const)
      convert(stream, rows[name], batch[name] as Tensor, { scale: this.#scale });
    return { ...batch, ...rows };
  }

  [Symbol.dispose](): void {
    this.#rows?.obs.close();
    this.#rows?.nextObs.close();
  }
}
