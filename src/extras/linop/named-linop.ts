/** Defines linear operators with named dimensions, chains of operators, and the identity. */

import { checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { type DeviceEvent, Tensor } from '../../device/device.ts';
import type { DeviceSpec } from './device-spec.ts';
import {
  type Answer,
  checkNames,
  checkOperand,
  type NamedShape,
  named,
  type Operand,
} from './operand.ts';

export interface ForwardOptions {
  /**
   * event after which the input is ready (default: after all work that is already on the current
   * stream of the input's device)
   */
  startEvent?: DeviceEvent;
}

/**
 * Base class of linear operators with named dimensions, the counterpart of torchlinops' NamedLinop.
 * A null shape or device is unknown, and matches every shape or device.
 * @example
 * class Negative extends NamedLinop {
 *   forward(x) {
 *     return negated(x);
 *   }
 *   adjoint() {
 *     return this;
 *   }
 * }
 */
export abstract class NamedLinop {
  readonly ishape: NamedShape | null;
  readonly oshape: NamedShape | null;
  /** whether forward() accepts ForwardOptions */
  readonly takesStart: boolean = false;

  constructor(ishape: NamedShape | null, oshape: NamedShape | null) {
    this.ishape = checkNames('ishape', ishape);
    this.oshape = checkNames('oshape', oshape);
  }
  /** Name of the input's device, 'cpu', or null if unknown. */
  get idevice(): string | null {
    return null;
  }
  get odevice(): string | null {
    return null;
  }
  /**
   * Enqueues the operator and returns its output. The output is the input itself, a view of the
   * input, or a new tensor, which the caller must close. Returns a promise if the host must wait
   * for the output.
   */
  abstract forward(x: Operand, options?: ForwardOptions): Answer;
  abstract adjoint(): NamedLinop;
  /** Returns adjoint ∘ inner ∘ forward or, without `inner`, adjoint ∘ forward. */
  normal(inner?: NamedLinop): NamedLinop {
    return new Chain(...[this, inner, this.adjoint()].filter((each) => each !== undefined));
  }
  toString(): string {
    return `${this.constructor.name}(${named(this.ishape)} -> ${named(this.oshape)})`;
  }
}

/**
 * An operator that returns its input.
 * @example
 * new Identity(['n']).forward(x) === x; // true
 */
export class Identity extends NamedLinop {
  private readonly spec: DeviceSpec | null;
  /** With `spec`, forward() accepts only operands on the spec's device. */
  constructor(ioshape: NamedShape | null = null, spec: DeviceSpec | null = null) {
    super(ioshape, ioshape);
    this.spec = spec;
  }
  override get idevice(): string | null {
    return this.spec?.name ?? null;
  }
  override get odevice(): string | null {
    return this.idevice;
  }
  forward<T extends Operand>(x: T): T {
    checkOperand(this, x);
    return x;
  }
  adjoint(): this {
    return this;
  }
  override normal(inner?: NamedLinop): NamedLinop {
    return inner ?? this;
  }
}

/**
 * Runs operators one after the other, in the given order. The output shape and device of an
 * operator must match the input of the next one. forward() closes the tensor between two operators
 * after it has enqueued the second operator. The device keeps that tensor's memory until the work
 * that uses it is done.
 * @example
 * const chain = new Chain(enter, move, move.adjoint(), enter.adjoint());
 * const x = await chain.forward(new CpuTensor(Float32Array.of(1, 2), [2]));
 */
export class Chain extends NamedLinop {
  readonly linops: readonly NamedLinop[];
  override readonly takesStart = true;

  constructor(...linops: readonly NamedLinop[]) {
    const [first, last] = [linops[0], linops.at(-1)];
    if (!first || !last) throw rangeError('a Chain needs at least one operator, got none');
    for (const each of linops)
      if (!(each instanceof NamedLinop))
        throw typeError(`a Chain is made of NamedLinops, got ${describeValue(each)}`);
    super(first.ishape, last.oshape);
    this.linops = [...linops];
    linops.slice(1).forEach((after, i) => {
      const before = linops[i] as NamedLinop;
      const join = `Chain: ${before} is before ${after}, but`;
      if (before.oshape && after.ishape && named(before.oshape) !== named(after.ishape))
        throw typeError(
          `${join} its output is ${named(before.oshape)}, and the next input is ${named(after.ishape)}`,
        );
      if (before.odevice !== null && after.idevice !== null && before.odevice !== after.idevice)
        throw typeError(
          `${join} its output is on ${before.odevice}; put a ToDevice to ${after.idevice} between them`,
        );
    });
  }
  override get idevice(): string | null {
    return (this.linops[0] as NamedLinop).idevice;
  }
  override get odevice(): string | null {
    return (this.linops.at(-1) as NamedLinop).odevice;
  }

  /**
   * Runs the operators. Only the first operator waits for `startEvent`. If the first operator does
   * not accept this option, the current stream of the input's device waits for the event. A later
   * ToDevice waits for the current stream of its own input device. Returns a promise if an operator
   * returns one.
   */
  forward(x: Operand, options: ForwardOptions = {}): Answer {
    checkKeys('forward', options, ['startEvent']);
    checkOperand(this, x);
    const first = this.linops[0] as NamedLinop;
    if (first.takesStart) return this.#run(0, x, x, options);
    if (options.startEvent) {
      if (!(x instanceof Tensor))
        throw typeError(`${this}: the input is on cpu, and cpu tensors ignore startEvent`);
      x.device.currentStream.wait(options.startEvent);
    }
    return this.#run(0, x, x);
  }
  adjoint(): Chain {
    return new Chain(...this.linops.map((each) => each.adjoint()).reverse());
  }
  override normal(inner?: NamedLinop): NamedLinop {
    return this.linops.reduceRight<NamedLinop | undefined>(
      (within, each) => each.normal(within),
      inner,
    ) as NamedLinop;
  }
  override toString(): string {
    return `Chain(${this.linops.join(', ')})`;
  }

  #run(from: number, given: Operand, input: Operand, options?: ForwardOptions): Answer {
    let x = given;
    for (let i = from; i < this.linops.length; i++) {
      const linop = this.linops[i] as NamedLinop;
      let y: Answer | undefined;
      try {
        y = i === 0 && options ? linop.forward(x, options) : linop.forward(x);
        if (y instanceof Promise) {
          const taken = x;
          return y.then(
            (out) => {
              release(taken, input, out);
              return this.#run(i + 1, out, input);
            },
            (error) => {
              release(taken, input);
              throw error;
            },
          );
        }
      } finally {
        if (!(y instanceof Promise)) release(x, input, y);
      }
      x = y;
    }
    return x;
  }
}

/**
 * Closes an intermediate tensor, unless it shares memory with the chain's input or the operator's
 * output.
 */
function release(x: Operand, input: Operand, output?: Operand): void {
  const storage = (of: Operand | undefined) => (of instanceof Tensor ? of.storage : null);
  if (x instanceof Tensor && x.storage !== storage(input) && x.storage !== storage(output))
    x.close();
}
