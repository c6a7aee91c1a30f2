/** Inputs of a built-in learner's program, which are made of the checked columns of a batch. */
import type { Device, Stream, Tensor } from '../../../device/device.ts';
import { guardConstruction, Owner, own } from '../../../device/owner.ts';
import { type Columns, DiscountColumn } from '../../batch.ts';
import { convert } from '../../convert.ts';
import { maskFloats } from '../../masks.ts';

type Floats = Tensor<'float32'>;

/** Converts the columns of a minibatch to the inputs of a program. */
export class InputColumns extends Owner {
  readonly #rows: number;
  readonly #discounts: DiscountColumn;
  /** importance weights of a batch that has none */
  readonly #ones: Floats;
  /** indices of actions as float32, or undefined if actions are rows of numbers */
  readonly #indices: Floats | undefined;
  /** [rows, actions] of each mask, by name */
  readonly #masks = new Map<string, Floats>();

  /**
   * `indexed` says whether actions are indices. `masks` has the number of actions of each mask, by
   * name.
   */
  constructor(
    device: Device,
    how: {
      rows: number;
      gamma: number | undefined;
      indexed: boolean;
      masks?: Readonly<Record<string, number>>;
    },
  ) {
    super('these columns');
    const { rows, gamma, indexed, masks = {} } = how;
    this.#rows = rows;
    const column = () => own(this, device.allocate({ shape: [rows, 1] }));
    using construction = guardConstruction(this);
    this.#discounts = own(this, new DiscountColumn(device, rows, gamma));
    this.#ones = column().write(new Float32Array(rows).fill(1));
    if (indexed) this.#indices = column();
    for (const [name, n] of Object.entries(masks))
      this.#masks.set(name, own(this, device.allocate({ shape: [rows, n] })));
    construction.done();
  }

  /**
   * Returns the inputs of a minibatch, without priorities, which an update writes. Enqueues the
   * conversions.
   */
  inputs(stream: Stream, columns: Columns): Record<string, Floats> {
    const { dones, truncated, terminated, priorities, ...rest } = columns;
    const { actions, rewards, weights = this.#ones } = rest as Record<string, Floats>;
    const masks = [...this.#masks].map(([name, into]) => [
      name,
      maskFloats(stream, into, rest[name] as Floats),
    ]);
    return {
      ...rest,
      ...Object.fromEntries(masks),
      actions: this.#actions(stream, actions as Floats),
      rewards: this.#vector(rewards as Floats),
      discounts: this.#vector(this.#discounts.of(stream, columns)),
      weights: this.#vector(weights),
    };
  }

  /** Returns a column as one dimension. */
  #vector(column: Floats): Floats {
    return column.view({ shape: [this.#rows], strides: [column.strides[0] as number] });
  }
  /** Returns actions as rows of numbers, or their indices as one dimension of float32. */
  #actions(stream: Stream, actions: Floats): Floats {
    if (!this.#indices) return actions;
    if (actions.dtype === 'float32') return this.#vector(actions);
    convert(stream, this.#indices, actions);
    return this.#vector(this.#indices);
  }
}
