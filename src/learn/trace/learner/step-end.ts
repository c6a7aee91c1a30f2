/**
 * Ends the gradient steps of a program by one launch of the kernel `step_end`. It sums the scalars that
 * only a report needs, adds all scalars to the report, and advances the counters and the generator.
 */
import type { Device, Stream, Tensor } from '../../../device/device.ts';
import { generatorState } from '../../../device/graph/generator.ts';
import { guardConstruction, Owner, own } from '../../../device/owner.ts';
import type { Plan } from '../plan/plan.ts';
import { refuseRange } from '../tape.ts';
import type { Program } from './program.ts';

type Floats = Tensor<'float32'>;

/** Numbers of a scalar in a table, as in native/kernels/step_end.gk: a kind, a group, a sum. */
const SUM_WORDS = 6;
/** Most groups of a table, because a launch gets their bits as an int32. */
const MAX_GROUPS = 31;

/** A step that has run: its due launches and drawn numbers, and the memory for its scalars. */
export interface EndedStep {
  /** contiguous float32 that receives the scalars, or has no elements */
  readonly out: Floats;
  /** factor of the scalars */
  readonly share: number;
  /** whether the scalars replace those in `out` */
  readonly first: boolean;
  /** bits of the groups of launches that the step has run, as bitOf() returns them */
  readonly due: number;
  /** blocks of random numbers that the step has drawn since the generator advanced */
  readonly blocks: number;
}

const bitsOf = (value: number): number => new Int32Array(Float32Array.of(value).buffer)[0]!;

/** The table of a program, and the memory that `step_end` reads and writes. */
export class StepEnd extends Owner {
  readonly #program: Program;
  readonly #plan: Plan;
  readonly #periods: readonly number[];
  readonly #table: Tensor<'int32'>;
  readonly #state: Tensor<'int32'>;
  /** takes the place of scalars that a program does not have */
  readonly #unused: Floats | undefined;

  /**
   * @param counted the index of each counter that advances by 1, and the period of the steps that advance
   *   it. Several entries of a counter add up
   * @throws {RangeError} for more than 31 periods
   */
  constructor(
    device: Device,
    program: Program,
    plan: Plan,
    counted: readonly { readonly counter: number; readonly every: number }[],
  ) {
    super('the end of a step');
    this.#program = program;
    this.#plan = plan;
    const { sections, scalars, numbers, counters, name } = program;
    // Period 1 has bit 0, which every step sets.
    const periods = [1, ...sections.map(({ every = 1 }) => every)];
    this.#periods = [...new Set(periods)];
    const groups = this.#periods.length;
    if (groups > MAX_GROUPS)
      refuseRange(
        `${name}: phases have ${groups} different periods, and at most ${MAX_GROUPS} are possible; use fewer values of every`,
      );
    const sums = scalars.length === 0 ? [[0]] : scalars.map((_, i) => this.#sumOf(i));
    const words = new Int32Array(sums.length * SUM_WORDS + counters.size * groups);
    for (const [i, sum] of sums.entries()) words.set(sum, i * SUM_WORDS);
    for (const { counter, every } of counted)
      words[sums.length * SUM_WORDS + counter * groups + this.#periods.indexOf(every)]! += 1;
    using construction = guardConstruction(this);
    const ints = (size: number) => own(this, device.allocate({ shape: [size], dtype: 'int32' }));
    this.#table = ints(words.length).write(words);
    const { generator } = plan;
    this.#state = generator ? generatorState(generator) : ints(4);
    if (scalars.length === 0) this.#unused = own(this, device.allocate({ shape: [numbers.size] }));
    construction.done();
  }

  /** Returns the numbers of a scalar in the table. */
  #sumOf(i: number): number[] {
    const { numbers } = this.#program;
    const place = numbers.byteOffset + 4 * i;
    const sum = this.#plan.sums.find(
      ({ result: { tensor } }) => tensor!.handle === numbers.handle && tensor!.byteOffset === place,
    );
    if (!sum) return [0];
    const { kind, section, offset, rows, columns, factor } = sum;
    const group = this.#periods.indexOf(this.#program.sections[section]!.every ?? 1);
    return [kind, group, offset, rows, columns, bitsOf(factor)];
  }

  /** Returns the bit of the launches that run in every `every`-th step, or 0 for another period. */
  bitOf(every: number): number {
    const group = this.#periods.indexOf(every);
    return group < 0 ? 0 : 1 << group;
  }

  /** Enqueues the end of a step. */
  launch(stream: Stream, { out, share, first, due, blocks }: EndedStep): void {
    const { numbers, counters } = this.#program;
    const { memory } = this.#plan;
    stream.launch('step_end', {
      tensors: [this.#unused ?? out, numbers, counters, this.#state, memory, this.#table],
      wholes: [numbers.size, counters.size, this.#periods.length, due, blocks, memory.size],
      reals: [share, first ? 0 : 1],
    });
  }
}
