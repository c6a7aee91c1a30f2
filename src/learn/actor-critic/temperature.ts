/**
 * SAC's temperature alpha. It is constant, or it is learned so that the entropy stays close to a
 * target.
 */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { ACTOR_CRITIC_RATE, Adam, type AdamOptions } from '../adam.ts';
import { ops } from '../ops/index.ts';

type Floats = Tensor<'float32'>;

export class Temperature extends Owner {
  /** float32 [1] each. `log` is ln alpha, which the optimizer changes, and `alpha` is e^log */
  readonly log: Floats;
  readonly alpha: Floats;
  /**
   * float32 [1]: loss of the last step, −alpha · mean(logProb + target). The gradient of this loss
   * at ln alpha has the same value
   */
  readonly loss: Floats;
  readonly optimizer: Adam | undefined;
  readonly #target: Floats;
  readonly #even: Floats;

  /**
   * Sets alpha to `first`. Without `target`, alpha is constant. `words` is float32 [2] for loss and
   * alpha, and the caller must close it.
   */
  constructor(
    device: Device,
    first: number,
    target: number | undefined,
    words: Floats,
    options: AdamOptions,
  ) {
    super('this temperature');
    const word = (value: number) =>
      own(this, device.allocate({ shape: [1] })).write(Float32Array.of(value));
    using construction = guardConstruction(this);
    this.log = word(Math.log(first));
    this.loss = words.view({ shape: [1] });
    this.alpha = words.view({ shape: [1], offset: 1 }).write(Float32Array.of(first));
    this.#target = word(target ?? 0);
    this.#even = word(-(target ?? 0));
    this.optimizer =
      target === undefined
        ? undefined
        : own(this, new Adam(device, this.log, options, ACTOR_CRITIC_RATE));
    this.derive(device.currentStream);
    construction.done();
  }

  /**
   * Replaces NaN in the log-probabilities [rows] by −target, which adds 0 to the loss. Rows without
   * a next observation have NaN. `known` has the same shape, and the ops overwrite it.
   */
  skipNaN(stream: Stream, logProb: Floats, known: Floats): void {
    ops.eq(stream, known, logProb, logProb);
    ops.where(stream, logProb, known, logProb, this.#even);
  }

  /** Enqueues the computation of the loss from log-probabilities [rows]. */
  measure(stream: Stream, logProb: Floats): void {
    const { loss } = this;
    ops.mean(stream, loss, logProb);
    ops.add(stream, loss, loss, this.#target);
    ops.mul(stream, loss, loss, this.alpha);
    ops.neg(stream, loss, loss);
  }

  /** Enqueues one gradient step with the loss of the last measure(). */
  step(stream: Stream): void {
    this.optimizer?.step(stream, this.loss);
    this.derive(stream);
  }

  /** Enqueues alpha = e^(ln alpha), unless the temperature is constant. */
  derive(stream: Stream): void {
    if (this.optimizer) ops.exp(stream, this.alpha, this.log);
  }
}
