/**
 * Heads of a Q network: they compute targets, losses and gradients from the network's output. For
 * each action this output is one number or a distribution over atoms.
 */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { type Columns, discountsOf } from '../batch.ts';
import { rowStride } from '../checks.ts';
import { checkKind } from '../distribution.ts';
import { expectation } from '../network/heads.ts';
import type { Layer } from '../network/layers.ts';
import { ops } from '../ops/index.ts';

type Floats = Tensor<'float32'>;

/** A Q network's output for each action: one number, or a distribution over atoms. */
export type QHead =
  | { kind: 'scalar' }
  | {
      kind: 'categorical';
      /** number of values of a distribution, evenly spaced from `min` to `max`, default 51 */
      atoms?: number;
      /** smallest value of a distribution */
      min: number;
      /** largest value of a distribution */
      max: number;
    };

export interface Q extends Owner {
  /** number of outputs of the network for each action */
  readonly width: number;
  /**
   * computes each row's target from the target network's output. It uses the action with the
   * largest value in `choice`
   */
  aim(stream: Stream, target: Floats, choice: Floats, columns: Columns): void;
  /**
   * writes the gradient at the network's output to `dOutput`, and rows of (loss, value of the
   * action taken) to `terms`
   */
  miss(stream: Stream, output: Floats, dOutput: Floats, terms: Floats, columns: Columns): void;
}

export interface QOptions {
  rows: number;
  actions: number;
  gamma: number;
  huberDelta: number;
}

export function headOf(device: Device, how: QOptions, head: QHead): Q {
  const atoms = checkKind('head', head, 51);
  return atoms === null ? new ScalarQ(device, how) : new CategoricalQ(device, how, atoms);
}

class ScalarQ extends Owner implements Q {
  readonly width = 1;
  readonly #how: QOptions;
  readonly #goal: Floats;
  /** discounts of a batch that has `terminated` instead of `discounts` */
  readonly #discounts: Floats;
  /**
   * float32 [1] with the element 1, which is the weight of every row if the batch has no weights
   */
  readonly #one: Floats;
  readonly #unread: Floats;

  constructor(device: Device, how: QOptions) {
    super('this head');
    this.#how = how;
    using construction = guardConstruction(this);
    this.#goal = own(this, device.allocate({ shape: [how.rows] }));
    this.#discounts = own(this, device.allocate({ shape: [how.rows, 1] }));
    this.#one = own(this, device.allocate({ shape: [1] })).write(Float32Array.of(1));
    this.#unread = own(this, device.allocate({ shape: [how.rows, 1] }));
    construction.done();
  }

  aim(stream: Stream, target: Floats, choice: Floats, columns: Columns): void {
    const { rows, actions: n, gamma } = this.#how;
    const { rewards, dones, truncated } = columns as Record<string, Floats>;
    if (columns.discounts || columns.terminated) {
      const discounts = discountsOf(stream, this.#discounts, columns, gamma);
      stream.launch('td_target_discounts', {
        tensors: [this.#goal, target, choice, rewards!, discounts],
        wholes: [rows, n, n, n, rowStride(rewards!), rowStride(discounts)],
      });
    } else {
      stream.launch('td_target', {
        tensors: [this.#goal, target, choice, rewards!, dones!, truncated!],
        wholes: [rows, n, n, n, rowStride(rewards!), rowStride(dones!), rowStride(truncated!)],
        reals: [gamma],
      });
    }
  }

  miss(stream: Stream, output: Floats, dOutput: Floats, terms: Floats, columns: Columns): void {
    const { rows, actions: n, huberDelta } = this.#how;
    const { weights, priorities } = columns;
    const chosen = columns.actions as Floats;
    const reals = [huberDelta, 1 / rows] as const;
    if (!weights && !priorities) {
      const tensors = [dOutput, terms, output, this.#goal, chosen] as const;
      stream.launch('td_loss', { tensors, wholes: [rows, n, n, n, rowStride(chosen)], reals });
      return;
    }
    const [off, weight] = [priorities ?? this.#unread, weights ?? this.#one];
    stream.launch('td_loss_weighted', {
      tensors: [dOutput, terms, off, output, this.#goal, chosen, weight],
      wholes: [rows, n, n, rowStride(off), n, rowStride(chosen), weights ? rowStride(weights) : 0],
      reals,
    });
  }
}

class CategoricalQ extends Owner implements Q {
  readonly width: number;
  /** layer that computes each action's value from the network's output */
  readonly #expectation: Layer;
  readonly #how: QOptions;
  readonly #min: number;
  readonly #max: number;
  readonly #values: Floats;
  readonly #best: Floats;
  readonly #mask: Floats;
  readonly #picked: Floats;
  readonly #dPicked: Floats;
  readonly #goal: Floats;
  readonly #mean: Floats;
  readonly #discounts: Floats;
  readonly #numbers: Floats;
  readonly #one: Floats;
  readonly #unread: Floats;

  constructor(
    device: Device,
    how: QOptions,
    { atoms, min, max }: { atoms: number; min: number; max: number },
  ) {
    super('this head');
    const { rows, actions } = how;
    this.#how = how;
    [this.width, this.#min, this.#max] = [atoms, min, max];
    this.#expectation = expectation(actions, { atoms, min, max });
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    using construction = guardConstruction(this);
    this.#values = allocate(rows, actions);
    [this.#best, this.#mask, this.#mean, this.#discounts] = [1, 1, 1, 1].map((n) =>
      allocate(rows, n),
    ) as [...[Floats, Floats], ...[Floats, Floats]];
    this.#unread = allocate(rows, 1);
    this.#picked = allocate(rows, atoms);
    this.#dPicked = allocate(rows, atoms);
    this.#goal = allocate(rows, atoms);
    // The indices of the actions, followed by 0. The 0 has two uses: it is the cost of every row,
    // and the gradient of actions that were not taken.
    this.#numbers = allocate(actions + 1).write(
      Float32Array.from({ length: actions + 1 }, (_, a) => (a < actions ? a : 0)),
    );
    this.#one = allocate(1).write(Float32Array.of(1));
    construction.done();
  }

  #of(x: Floats, action: number): Floats {
    const { rows, actions } = this.#how;
    const { width } = this;
    return x.view({ shape: [rows, width], offset: action * width, strides: [actions * width, 1] });
  }
  #number(action: number): Floats {
    return this.#numbers.view({ shape: [1, 1], offset: action });
  }

  /** Copies the atoms of each row's action to #picked. A row with an invalid action gets NaN. */
  #pick(stream: Stream, x: Floats, action: Floats): void {
    stream.fill(this.#picked, Number.NaN);
    for (let a = 0; a < this.#how.actions; a++) {
      ops.eq(stream, this.#mask, action, this.#number(a));
      ops.where(stream, this.#picked, this.#mask, this.#of(x, a), this.#picked);
    }
  }

  aim(stream: Stream, target: Floats, choice: Floats, columns: Columns): void {
    const { rows, actions, gamma } = this.#how;
    const rewards = columns.rewards as Floats;
    this.#expectation.forward(stream, {
      parameters: [],
      x: choice,
      y: this.#values,
      kept: undefined,
    });
    ops.argmax(stream, this.#best, this.#values);
    this.#pick(stream, target, this.#best);
    ops.softmax(stream, this.#picked, this.#picked);
    const discounts = discountsOf(stream, this.#discounts, columns, gamma);
    stream.launch('categorical_project', {
      tensors: [this.#goal, this.#mean, this.#picked, rewards, discounts, this.#number(actions)],
      wholes: [rows, this.width, rowStride(rewards), rowStride(discounts), 0],
      reals: [this.#min, this.#max],
    });
  }

  miss(stream: Stream, output: Floats, dOutput: Floats, terms: Floats, columns: Columns): void {
    const { rows, actions } = this.#how;
    const { weights = this.#one, priorities: off = this.#unread } = columns;
    const chosen = columns.actions as Floats;
    this.#pick(stream, output, chosen);
    stream.launch('categorical_loss', {
      tensors: [this.#dPicked, terms, off, this.#picked, this.#goal, weights],
      wholes: [
        rows,
        this.width,
        this.width,
        rowStride(off),
        this.width,
        weights.size === 1 ? 0 : rowStride(weights),
      ],
      reals: [-1e30, 1 / rows, this.#min, this.#max],
    });
    for (let a = 0; a < actions; a++) {
      ops.eq(stream, this.#mask, chosen, this.#number(a));
      ops.where(stream, this.#of(dOutput, a), this.#mask, this.#dPicked, this.#number(actions));
    }
  }
}
