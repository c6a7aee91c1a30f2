/**
 * Critics of equal shape whose parameters are in one flat vector. They share one optimizer, and
 * compute targets, losses and the gradient for an actor.
 */

import { arrayOf } from '../../base/dtype.ts';
import type { Device, Stream, Tensor } from '../../device/device.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { ACTOR_CRITIC_RATE, Adam, type AdamOptions } from '../adam.ts';
import type { Network, NetworkWorkspace } from '../network/network.ts';
import { ops } from '../ops/index.ts';
import { adamParts, networkParts, type Part } from '../state.ts';
import type { Watched } from '../watch.ts';
import type { Aim, Head } from './heads.ts';

type Floats = Tensor<'float32'>;

/**
 * Value that an actor maximizes: that of the first critic, or the minimum or mean over all critics.
 */
export type ActorValue = 'first' | 'min' | 'mean';

export class Critics extends Owner {
  readonly network: Network;
  readonly count: number;
  /**
   * flat vectors of all critics, one after another. `targets` contains those of the target critics
   */
  readonly parameters: Floats;
  readonly targets: Floats;
  readonly gradient: Floats;
  readonly optimizer: Adam;
  /**
   * float32 [2] of the last minibatch: the sum of the critics' losses, and the mean of their values
   */
  readonly numbers: Floats;
  /** float32 [rows, 1]: values that the last pull() computed */
  readonly value: Floats;
  readonly #rows: number;
  readonly #head: Head;
  readonly #actorValue: ActorValue;
  readonly #online: readonly Floats[][][];
  readonly #behind: readonly Floats[][][];
  readonly #slopes: readonly Floats[][][];
  readonly #passes: readonly NetworkWorkspace[];
  readonly #targetPass: NetworkWorkspace;
  readonly #terms: Floats;
  readonly #off: Floats;
  readonly #one: Floats;
  readonly #share: Floats;
  readonly #values: Floats;
  readonly #pulls: Floats;
  readonly #up: Floats;
  readonly #dInput: Floats;
  readonly #more: Floats;

  constructor(
    device: Device,
    how: {
      network: Network;
      head: Head;
      critics: number;
      rows: number;
      actorValue: ActorValue;
      /** float32 [2], which the caller must close */
      numbers: Floats;
      seed: number;
    },
    optimizer: AdamOptions,
  ) {
    super('these critics');
    const { network, head, critics, rows, seed } = how;
    this.network = network;
    this.count = critics;
    this.#rows = rows;
    this.#actorValue = how.actorValue;
    const size = network.parameterCount;
    const first = arrayOf('float32', critics * size);
    for (let j = 0; j < critics; j++) first.set(network.initialize(seed + j), j * size);
    const allocate = (...shape: number[]) => own(this, device.allocate({ shape }));
    const each = <T>(make: (j: number) => T): T[] =>
      Array.from({ length: critics }, (_, j) => make(j));
    const over = (flat: Floats) =>
      each((j) => network.over(flat.view({ shape: [size], offset: j * size })));
    using construction = guardConstruction(this);
    this.#head = head;
    this.parameters = allocate(critics * size).write(first);
    this.targets = allocate(critics * size).write(first);
    this.gradient = allocate(critics * size);
    this.optimizer = own(this, new Adam(device, this.parameters, optimizer, ACTOR_CRITIC_RATE));
    [this.#online, this.#behind, this.#slopes] = [
      over(this.parameters),
      over(this.targets),
      over(this.gradient),
    ];
    this.#passes = each(() => own(this, network.workspace(device, rows, { backward: true })));
    this.#targetPass = own(this, network.workspace(device, rows));
    this.numbers = how.numbers;
    this.value = allocate(rows, 1);
    this.#terms = allocate(rows, 2);
    this.#off = allocate(rows, critics);
    this.#one = allocate(1, 1).write(Float32Array.of(1));
    this.#share = allocate(1).write(Float32Array.of(1 / critics));
    this.#values = allocate(rows, critics);
    this.#pulls = allocate(rows, critics);
    const parts = how.actorValue === 'mean' ? critics : 1;
    this.#up = allocate(1, 1).write(Float32Array.of(-1 / (rows * parts)));
    this.#dInput = allocate(rows, network.inputs);
    this.#more = allocate(rows, network.inputs);
    construction.done();
  }

  #column(of: Floats, j: number): Floats {
    return of.view({ shape: [this.#rows, 1], offset: j, strides: [this.count, 1] });
  }

  /**
   * Enqueues the computation of the critics' targets. `next` [rows, inputs] contains the next
   * observations and actions.
   */
  aim(stream: Stream, next: Floats, aim: Aim): void {
    this.#head.aim(
      stream,
      (j) => this.network.forward(stream, this.#behind[j]!, next, this.#targetPass),
      aim,
    );
  }

  /**
   * Enqueues the gradient of the sum of all critics' mean losses. `input` is [rows, inputs], and
   * the targets are those of the last aim(). Also writes `numbers`, and `priorities` unless it is
   * undefined.
   */
  measure(
    stream: Stream,
    input: Floats,
    weights: Floats | undefined,
    priorities: Floats | undefined,
  ): void {
    const { network, numbers } = this;
    for (let j = 0; j < this.count; j++) {
      const pass = this.#passes[j]!;
      const output = network.forward(stream, this.#online[j]!, input, pass);
      const into = {
        dOutput: pass.outputGradient,
        terms: this.#terms,
        off: this.#column(this.#off, j),
      };
      this.#head.miss(stream, j, output, { ...into, weights: weights ?? this.#one });
      const reals = [1 / this.#rows, j === 0 ? 0 : 1] as const;
      stream.launch('column_sums', {
        tensors: [numbers, this.#terms],
        wholes: [this.#rows, 2, 2],
        reals,
      });
      network.backward(stream, this.#online[j]!, input, pass, this.#slopes[j]!);
    }
    const mean = numbers.view({ shape: [1], offset: 1 });
    ops.mul(stream, mean, mean, this.#share);
    if (priorities) ops.mean(stream, priorities, this.#off);
  }

  step(stream: Stream): void {
    this.optimizer.step(stream, this.gradient);
  }

  /**
   * Enqueues the value of `input` into this.value. Returns the gradient [rows, inputs] of the
   * negated mean value at `input`. An actor's step descends this gradient.
   */
  pull(stream: Stream, input: Floats): Floats {
    const { network, count } = this;
    const used = this.#actorValue === 'first' ? 1 : count;
    const own = (j: number) => (used === 1 ? this.value : this.#column(this.#values, j));
    for (let j = 0; j < used; j++)
      this.#head.value(
        stream,
        network.forward(stream, this.#online[j]!, input, this.#passes[j]!),
        own(j),
      );
    if (used > 1) ops[this.#actorValue as 'min' | 'mean'](stream, this.value, this.#values);
    const least = used > 1 && this.#actorValue === 'min';
    // For each row, the mask selects the critics that have the smallest value. If several critics
    // have it, their gradients are added.
    if (least) ops.eq(stream, this.#pulls, this.#values, this.value);
    if (least) ops.mul(stream, this.#pulls, this.#pulls, this.#up);
    for (let j = 0; j < used; j++) {
      const pass = this.#passes[j]!;
      const dValue = least ? this.#column(this.#pulls, j) : this.#up;
      this.#head.pull(stream, pass.output, pass.outputGradient, own(j), dValue);
      network.backward(
        stream,
        this.#online[j]!,
        input,
        pass,
        null,
        j === 0 ? this.#dInput : this.#more,
      );
      if (j > 0) ops.add(stream, this.#dInput, this.#dInput, this.#more);
    }
    return this.#dInput;
  }

  /** Enqueues target ← tau · critic + (1 − tau) · target for all critics. */
  follow(stream: Stream, tau: number): void {
    const { targets, parameters } = this;
    stream.launch('axpby', {
      tensors: [targets, parameters],
      wholes: [targets.size],
      reals: [tau, 1 - tau],
    });
  }

  watched(): Watched[] {
    const { network, gradient, optimizer } = this;
    const size = network.parameterCount;
    return this.#passes.map((pass, j) => ({
      event: 'q',
      name: `critics.${j}`,
      network,
      pass,
      steps: optimizer.steps,
      gradient: gradient.view({ shape: [size], offset: j * size }),
    }));
  }

  parts(): [string, Part][] {
    const { network } = this;
    const named = (name: string, flat: Floats) =>
      this.#online.flatMap((_, j) =>
        networkParts(`${name}.${j}`, network, flat, j * network.parameterCount),
      );
    return [
      ...named('critics', this.parameters),
      ...named('targets', this.targets),
      ...adamParts('criticOptimizer', this.optimizer),
    ];
  }
}
