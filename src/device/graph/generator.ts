/**
 * Random numbers for captured graphs, which draw new numbers at every replay. The generator is
 * counter-based (Philox4x32-10). Its seed and offset are in device memory, and the graph itself
 * advances the offset. Equal seeds give equal numbers on every family, eager or replayed.
 */

import { checkKeys, describeValue } from '../../base/checks.ts';
import { closedError, rangeError, typeError } from '../../base/errors.ts';
import { checkDevice, checkStream } from '../checks.ts';
import { type Device, type Stream, Tensor } from '../device.ts';

/**
 * The state that a checkpoint stores. `offset` is the number of blocks of four values drawn so far.
 */
export interface GeneratorState {
  seed: bigint;
  offset: bigint;
}

const UINT64_RANGE = 2n ** 64n;

type Draw = 'random_uniform' | 'random_normal';

/**
 * Enqueues a draw without advancing the generator, and returns the number of blocks that it drew.
 *
 * @internal
 */
export let drawOnly: (
  generator: DeviceGenerator,
  stream: Stream,
  kernel: Draw,
  out: Tensor<'float32'>,
  reals: readonly [number, number],
) => number;
/**
 * Returns the state in device memory, int32 [4]: seed low, seed high, offset low, offset high.
 *
 * @internal
 */
export let generatorState: (generator: DeviceGenerator) => Tensor<'int32'>;

/**
 * Draws random numbers on a device with Philox4x32-10. Seed and offset are in device memory, and a
 * graph advances the offset, so launches of one graph draw different numbers.
 * @example
 * const generator = new DeviceGenerator(device, { seed: 7 });
 * generator.normal(device.currentStream, noise, { deviation: 0.1 });
 */
export class DeviceGenerator implements Disposable {
  readonly device: Device;
  /** int32 [4]: seed low, seed high, offset low, offset high */
  readonly #state: Tensor<'int32'>;

  static {
    drawOnly = (generator, stream, kernel, out, reals) =>
      generator.#launch(stream, kernel, out, reals);
    generatorState = (generator) => generator.#state;
  }

  /**
   * `seed`: a whole number from 0 to 2⁶⁴ − 1. The constructor writes it in the order of the
   * device's current stream.
   */
  constructor(device: Device, options: { seed?: number | bigint } = {}) {
    this.device = checkDevice('DeviceGenerator', device);
    checkKeys('DeviceGenerator', options, ['seed']);
    const { seed = 0 } = options;
    const start = { seed: checkWord('seed', seed), offset: 0n };
    this.#state = device.allocate({ shape: [4], dtype: 'int32' });
    this.restore(start);
  }

  /**
   * Enqueues a draw of numbers that are uniform in [low, high), with 24 random bits each.
   *
   * @param out contiguous float32
   * @param options `low` (default 0) and `high` (default 1)
   * @throws {TypeError|RangeError} for another tensor, or an empty interval
   */
  uniform(
    stream: Stream,
    out: Tensor<'float32'>,
    options: { low?: number; high?: number } = {},
  ): void {
    checkKeys('uniform', options, ['low', 'high']);
    const { low = 0, high = 1 } = options;
    this.#draw(stream, 'random_uniform', out, [low, high]);
  }

  /**
   * Enqueues a draw of normally distributed numbers.
   *
   * @param out contiguous float32
   * @param options `mean` (default 0) and `deviation` (default 1)
   * @throws {TypeError|RangeError} for another tensor, or an invalid deviation
   */
  normal(
    stream: Stream,
    out: Tensor<'float32'>,
    options: { mean?: number; deviation?: number } = {},
  ): void {
    checkKeys('normal', options, ['mean', 'deviation']);
    const { mean = 0, deviation = 1 } = options;
    this.#draw(stream, 'random_normal', out, [mean, deviation]);
  }

  /**
   * Reads the state after all work that is enqueued on `stream` so far.
   *
   * @returns seed and offset
   */
  async state(stream: Stream = this.device.currentStream): Promise<GeneratorState> {
    this.#checkOpen();
    const words = new Uint32Array((await this.#state.toArray(stream)).buffer);
    const [seedLow, seedHigh, low, high] = [...words].map(BigInt) as [
      bigint,
      bigint,
      bigint,
      bigint,
    ];
    return { seed: (seedHigh << 32n) | seedLow, offset: (high << 32n) | low };
  }

  /**
   * Enqueues a write of `state` on `stream`. Later draws continue from this state, also those of
   * captured graphs that use this generator.
   *
   * @throws {TypeError|RangeError} if `state` is not a result of state()
   */
  restore(state: GeneratorState, stream: Stream = this.device.currentStream): void {
    this.#checkOpen();
    const words = new BigUint64Array([
      checkWord('seed', state?.seed),
      checkWord('offset', state?.offset),
    ]);
    this.#state.write(new Int32Array(words.buffer), stream);
  }

  /** Frees the state. Close the graphs that use the generator first. Idempotent. */
  close(): void {
    this.#state.close();
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #draw(
    stream: Stream,
    kernel: Draw,
    out: Tensor<'float32'>,
    reals: readonly [number, number],
  ): void {
    const blocks = this.#launch(stream, kernel, out, reals);
    if (blocks > 0) stream.launch('random_advance', { tensors: [this.#state], wholes: [blocks] });
  }

  #launch(
    stream: Stream,
    kernel: Draw,
    out: Tensor<'float32'>,
    reals: readonly [number, number],
  ): number {
    this.#checkOpen();
    checkStream('a generator', stream);
    if (!(out instanceof Tensor))
      throw typeError(`out must be a tensor for the random numbers, got ${describeValue(out)}`);
    if (out.dtype !== 'float32' || !out.contiguous)
      throw typeError(
        `random numbers need a contiguous float32 tensor, got ${out.dtype} with strides [${out.strides}]`,
      );
    if (out.size === 0) return 0;
    stream.launch(kernel, { tensors: [out, this.#state], wholes: [out.size], reals });
    return Math.ceil(out.size / 4);
  }

  #checkOpen(): void {
    if (this.#state.closed) throw closedError('this generator');
  }
}

function checkWord(name: string, value: unknown): bigint {
  if (typeof value !== 'bigint' && typeof value !== 'number')
    throw typeError(
      `${name} must be a whole number, got ${typeof value} (${describeValue(value)})`,
    );
  if (typeof value === 'number' && !Number.isSafeInteger(value))
    throw rangeError(`${name} must be a whole number, got ${value}`);
  const word = BigInt(value);
  if (word < 0n || word >= UINT64_RANGE)
    throw rangeError(`${name} must be from 0 to 2^64 - 1, got ${word}`);
  return word;
}
