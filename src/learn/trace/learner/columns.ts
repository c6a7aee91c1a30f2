/** Inputs of a built-in learner's program, which are made of the checked columns of a batch. */
import type { Device, Stream, Tensor } from '../../../device/device.ts';
import { guardConstruction, Owner, own } from '../../../device/owner.ts';
import { type Columns, DiscountColumn } from '../../batch.ts';
import { convert } from '../../convert.ts';

type Floats = Tensor<'float32'>;

/** Converts the columns of a minibatch to the inputs of a program. */
export class InputColumns extends Owner {
  readonly #rows: number;
  readonly #discounts: DiscountColumn;
  /** importance weights of a batch that has none */
  readonly #ones: Floats;
  /** indices of actions, for batches that store them in another dtype than float32 */
  readonly #indices: Floats;

  readonly #indexed: boolean;

  constructor(device: Device, how: { rows: number; gamma: number | undefined; indexed: boolean }) {
    super('these columns');
    const { rows, gamma, indexed } = how;
    this.#indexed = indexed;
    this.#rows = rows;
    const column = () => own(this, device.allocate({ shape: [rows, 1] }));
    using construction = guardConstruction(this);
    this.#discounts = own(this, new DiscountColumn(device, rows, gamma));
    this.#ones = column().write(new Float32Array(rows).fill(1));
    this.#indices = column();
    construction.done();
  }

  /**
   * Returns the inputs of a minibatch, without priorities, which an update writes. Enqueues the
   * conversions.
   */
  inputs(stream: Stream, columns: Columns): Record<string, Floats> {
    const { dones, truncated, terminated, priorities, ...rest } = columns;
    const { actions, rewards, weights = this.#ones } = rest as Record<string, Floats>;
    return {
      ...rest,
      actions: this.#indexed ? this.#vector(this.#floats(stream, actions as Floats)) : actions!,
      rewards: this.#vector(rewards as Floats),
      discounts: this.#vector(this.#discounts.of(stream, columns)),
      weights: this.#vector(weights),
    };
  }

  /** Returns a column as one dimension. */
  #vector(column: Floats): Floats {
    return column.view({ shape: [this.#rows], strides: [column.strides[0] as number] });
  }
  #floats(stream: Stream, indices: Floats): Floats {
    if (indices.dtype === 'float32') return indices;
    convert(stream, this.#indices, indices);
    return this.#indices;
  }
}
