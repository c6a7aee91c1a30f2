/** SAC's temperature: learned, so that entropy stays near a target, or constant. */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { ACTOR_CRITIC_RATE, Adam, type AdamOptions } from '../adam.ts';
import { ops } from '../ops/index.ts';

type Floats = Tensor<'float32'>;

export class Temperature extends Owner {
  /** float32 [1] each: ln alpha, which is learned, and alpha */
  readonly log: Floats;
  readonly alpha: Floats;
  /**
   * float32 [1]: the loss of the last step, −alpha · mean(logProb + target), which is its gradient
   * at ln alpha too
   */
  readonly loss: Floats;
  readonly optimizer: Adam | undefined;
  readonly #target: Floats;
  readonly #even: Floats;

  /**
   * Begins with `first`, and stays there without `target`. `words`, float32 [2], holds loss and
   * alpha, and belongs to the caller.
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
   * Replaces each NaN of log-probabilities [rows], of a row without a next observation, by −target,
   * which adds 0 to the loss. `known`, of the same shape, is overwritten.
   */
  skipNaN(stream: Stream, logProb: Floats, known: Floats): void {
    ops.eq(stream, known, logProb, logProb);
    ops.where(stream, logProb, known, logProb, this.#even);
  }

  /** Computes the loss for log-probabilities [rows]. */
  measure(stream: Stream, logProb: Floats): void {
    const { loss } = this;
    ops.mean(stream, loss, logProb);
    ops.add(stream, loss, loss, this.#target);
    ops.mul(stream, loss, loss, this.alpha);
    ops.neg(stream, loss, loss);
  }

  /** Takes one step by the loss last measured. */
  step(stream: Stream): void {
    this.optimizer?.step(stream, this.loss);
    this.derive(stream);
  }

  /** Sets alpha = e^(ln alpha) if the temperature is learned. */
  derive(stream: Stream): void {
    if (this.optimizer) ops.exp(stream, this.alpha, this.log);
  }
}
