/**
 * Heads of critics: they compute values, targets, losses and gradients from a critic's output. For
 * each row this output is one number or a distribution over atoms.
 */
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { checkWithin, rowStride } from '../checks.ts';
import { checkKind } from '../distribution.ts';
import { ops } from '../ops/index.ts';

type Floats = Tensor<'float32'>;

/** A critic's output for each row: one number, or a distribution over atoms. */
export type CriticKind =
  | { kind: 'scalar' }
  | {
      kind: 'categorical';
      /** number of values of a distribution, evenly spaced from `min` to `max`, default 101 */
      atoms?: number;
      /** smallest value of a distribution */
      min: number;
      /** largest value of a distribution */
      max: number;
      /**
       * lower limit of the log-probabilities in the loss. Default: −30 for SAC, no limit for TD3
       */
      logFloor?: number;
    };

/** Terms of a target, each [rows, 1]. The target is reward + discount · (next value − cost). */
export interface Aim {
  rewards: Floats;
  discounts: Floats;
  cost: Floats | undefined;
}

export interface Head extends Owner {
  /** number of outputs of a critic for each row */
  readonly width: number;
  /**
   * enqueues the computation of all critics' targets. `next(j)` enqueues the pass of target critic
   * j over the next rows, and returns its output. aim() calls it once for each j, in order
   */
  aim(stream: Stream, next: (j: number) => Floats, aim: Aim): void;
  /**
   * enqueues the loss of critic j. Writes the gradient at the critic's output to `dOutput`, and
   * rows of (loss, value) to `terms`. Writes each row's absolute TD error or cross-entropy to `off`
   */
  miss(
    stream: Stream,
    j: number,
    output: Floats,
    into: { dOutput: Floats; terms: Floats; off: Floats; weights: Floats },
  ): void;
  /** writes each row's value, computed from a critic's output, to a column */
  value(stream: Stream, output: Floats, into: Floats): void;
  /**
   * writes the gradient at the output, computed from the gradient at the value. `dValue` is a
   * column, or one number for all rows
   */
  pull(stream: Stream, output: Floats, dOutput: Floats, value: Floats, dValue: Floats): void;
}

export function headOf(
  device: Device,
  how: { rows: number; critics: number; clipped: boolean; kind: CriticKind; logFloor: number },
): Head {
  const { kind } = how;
  const atoms = checkKind('critic', kind, 101, ['logFloor']);
  if (atoms === null) return new ScalarHead(device, how);
  const { logFloor = how.logFloor } = kind as CriticKind & { kind: 'categorical' };
  checkWithin('critic.logFloor', logFloor, Number.NEGATIVE_INFINITY, 0);
  return new CategoricalHead(device, { ...how, ...atoms, logFloor: Math.max(logFloor, -1e30) });
}

class ScalarHead extends Owner implements Head {
  readonly width = 1;
  readonly #rows: number;
  readonly #goals: readonly Floats[];
  /** each target critic's values of the next rows, from which aim() subtracts the cost */
  readonly #values: readonly Floats[];
  readonly #critics: number;
  /**
   * indices of the rows' actions, for kernels of Q networks. All are 0, because a critic has one
   * output. `#one` is 1, and a multiplication by it repeats a number over rows
   */
  readonly #nought: Floats;
  readonly #one: Floats;

  constructor(device: Device, how: { rows: number; critics: number; clipped: boolean }) {
    super('this head');
    const { rows, critics, clipped } = how;
    this.#rows = rows;
    this.#critics = critics;
    const column = () => own(this, device.allocate({ shape: [rows, 1] }));
    using construction = guardConstruction(this);
    this.#nought = column();
    this.#one = own(this, device.allocate({ shape: [1, 1] })).write(Float32Array.of(1));
    this.#goals = Array.from({ length: clipped ? 1 : critics }, column);
    this.#values = this.#goals.map(column);
    construction.done();
  }

  aim(stream: Stream, next: (j: number) => Floats, { rewards, discounts, cost }: Aim): void {
    const [least] = this.#values as [Floats];
    for (let j = 0; j < this.#critics; j++) {
      const value = this.#values[j] ?? least;
      if (j === 0 || value !== least) stream.copy(value, next(j));
      else ops.min(stream, least, least, next(j));
    }
    for (const [g, value] of this.#values.entries()) {
      if (cost) ops.sub(stream, value, value, cost);
      stream.launch('td_target_discounts', {
        tensors: [this.#goals[g] as Floats, value, value, rewards, discounts],
        wholes: [this.#rows, 1, 1, 1, rowStride(rewards), rowStride(discounts)],
      });
    }
  }

  miss(stream: Stream, j: number, output: Floats, into: Parameters<Head['miss']>[3]): void {
    const { dOutput, terms, off, weights } = into;
    const goal = this.#goals[j] ?? (this.#goals[0] as Floats);
    stream.launch('td_loss_weighted', {
      tensors: [dOutput, terms, off, output, goal, this.#nought, weights],
      wholes: [this.#rows, 1, 1, rowStride(off), 1, 1, weights.size === 1 ? 0 : rowStride(weights)],
      reals: [0, 1 / this.#rows],
    });
  }

  value(stream: Stream, output: Floats, into: Floats): void {
    ops.convert(stream, into, output);
  }

  pull(stream: Stream, _output: Floats, dOutput: Floats, _value: Floats, dValue: Floats): void {
    ops.mul(stream, dOutput, dValue, this.#one);
  }
}

class CategoricalHead extends Owner implements Head {
  readonly width: number;
  readonly #how: { rows: number; critics: number; min: number; max: number; logFloor: number };
  readonly #zero: Floats;
  readonly #probs: Floats;
  readonly #scratch: Floats;
  readonly #goals: readonly Floats[];
  readonly #means: readonly Floats[];
  readonly #other: Floats;
  readonly #less: Floats;

  constructor(
    device: Device,
    how: {
      rows: number;
      critics: number;
      clipped: boolean;
      atoms: number;
      min: number;
      max: number;
      logFloor: number;
    },
  ) {
    super('this head');
    const { rows, critics, clipped, atoms } = how;
    this.width = atoms;
    this.#how = how;
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    const some = (n: number, make: () => Floats) => Array.from({ length: n }, make);
    using construction = guardConstruction(this);
    this.#zero = allocate(1, 1);
    this.#probs = allocate(rows, atoms);
    this.#scratch = allocate(rows, atoms);
    this.#goals = some(clipped ? 1 : critics, () => allocate(rows, atoms));
    this.#means = some(clipped ? 1 : critics, () => allocate(rows, 1));
    this.#other = allocate(rows, 1);
    this.#less = allocate(rows, 1);
    construction.done();
  }

  aim(
    stream: Stream,
    next: (j: number) => Floats,
    { rewards, discounts, cost = this.#zero }: Aim,
  ): void {
    const { critics, rows, min, max } = this.#how;
    const [goal, mean] = [this.#goals[0] as Floats, this.#means[0] as Floats];
    for (let j = 0; j < critics; j++) {
      const probs = this.#probs;
      ops.softmax(stream, probs, next(j));
      const sharesGoal = j > 0 && this.#goals[j] === undefined;
      const [to, toMean] = sharesGoal
        ? [this.#scratch, this.#other]
        : [this.#goals[j] as Floats, this.#means[j] as Floats];
      stream.launch('categorical_project', {
        tensors: [to, toMean, probs, rewards, discounts, cost],
        wholes: [
          rows,
          this.width,
          rowStride(rewards),
          rowStride(discounts),
          cost.size === 1 ? 0 : rowStride(cost),
        ],
        reals: [min, max],
      });
      if (!sharesGoal) continue;
      ops.lt(stream, this.#less, toMean, mean);
      ops.where(stream, goal, this.#less, to, goal);
      ops.where(stream, mean, this.#less, toMean, mean);
    }
  }

  miss(stream: Stream, j: number, output: Floats, into: Parameters<Head['miss']>[3]): void {
    const { rows, min, max, logFloor } = this.#how;
    const { dOutput, terms, off, weights } = into;
    stream.launch('categorical_loss', {
      tensors: [dOutput, terms, off, output, this.#goals[j] ?? (this.#goals[0] as Floats), weights],
      wholes: [
        ...([rows, this.width, rowStride(dOutput), rowStride(off), rowStride(output)] as const),
        weights.size === 1 ? 0 : rowStride(weights),
      ],
      reals: [logFloor, 1 / rows, min, max],
    });
  }

  value(stream: Stream, output: Floats, into: Floats): void {
    const { rows, min, max } = this.#how;
    const wholes = [rows, this.width, rowStride(into), rowStride(output)] as const;
    stream.launch('categorical_mean', { tensors: [into, output], wholes, reals: [min, max] });
  }

  pull(stream: Stream, output: Floats, dOutput: Floats, value: Floats, dValue: Floats): void {
    const { rows, min, max } = this.#how;
    const above = dValue.size === 1 ? 0 : rowStride(dValue);
    stream.launch('categorical_mean_backward', {
      tensors: [dOutput, dValue, output, value],
      wholes: [rows, this.width, rowStride(dOutput), above, rowStride(output), rowStride(value)],
      reals: [min, max],
    });
  }
}
