/** The pen of some lanes: the only one that writes them while its thread lives. */

import { checkInternal, checkKeys, describeValue } from '../../base/checks.ts';
import { dtypes, type TypedArray } from '../../base/dtype.ts';
import { closedError, rangeError, typeError } from '../../base/errors.ts';
import { toBfloat16, toFloat16 } from '../../base/float16.ts';
import type { BellBoard } from '../../shm/bell.ts';
import { giveWord } from '../../shm/claim.ts';
import { internalsOfLimiter, type RateLimiter } from '../rate-limiter.ts';
import { notFinite, numberAt } from '../rows/field-roles.ts';
import { checkPacked, type Mark } from '../rows/packed.ts';
import { lanesAddon, type WriterHandle } from './lanes-addon.ts';
import { packedFault, rowBytesOf, stepsAmong } from './packed-rows.ts';
import {
  finalKey,
  type StepField,
  type StepFields,
  type StepLayout,
  type Steps,
} from './schema.ts';

/** What a buffer gives its writer. */
export interface WriterSetup {
  readonly firstLane: number;
  readonly lanes: number;
  readonly layout: StepLayout;
  readonly handle: WriterHandle;
  readonly limiter: RateLimiter | null;
  readonly bells: BellBoard;
  /** the claim of each lane */
  readonly claims: {
    readonly words: Int32Array;
    readonly at: (lane: number) => number;
    readonly claim: number;
  };
}

export class TrajectoryWriter<S extends StepFields = StepFields> {
  readonly firstLane: number;
  readonly lanes: number;
  readonly #setup: WriterSetup;
  readonly #known: readonly string[];
  /** of the last add(), by field: made once, so that adding makes no garbage */
  readonly #sources: TypedArray[] = [];
  readonly #finals: (TypedArray | undefined)[] = [];
  /** what native code refused: lane, field and element */
  readonly #odd = new Float64Array(3);
  readonly #limiting: ReturnType<typeof internalsOfLimiter> | null;
  #open = true;

  /** The package's own: see WriterSetup. */
  constructor(key: unknown, given: object) {
    checkInternal(key, 'TrajectoryWriter', 'buffer.writer()');
    const setup = given as WriterSetup;
    this.firstLane = setup.firstLane;
    this.lanes = setup.lanes;
    this.#setup = setup;
    this.#limiting = setup.limiter && internalsOfLimiter(setup.limiter);
    const { fields } = setup.layout;
    const finals = fields
      .filter(({ observation }) => observation)
      .map(({ key: name }) => finalKey(name));
    this.#known = [
      ...fields.map(({ key: name }) => name),
      ...finals,
      'rewards',
      'terminated',
      'truncated',
      'skip',
    ];
  }

  /**
   * Adds one step of each lane, all committed when this returns. Where `terminated` or `truncated`
   * is set the episode ends: the final observations are read there, and the next step begins an
   * episode. Returns how many lanes this writer has, or 0 when the limiter gates it and says not
   * yet: nothing was taken then, offer the same again. A final observation that is not finite is
   * stored as 0 where the episode terminated. Anywhere else a number of an observation, of
   * `actions` or of the rewards that is NaN or infinite is a RangeError with lane and field, and
   * nothing is added; other fields are stored as they are. Throws TypeError or RangeError by field.
   */
  add(given: Steps<S>): number {
    this.#checkOpen();
    checkKeys('add', given, this.#known);
    const { handle, layout, bells } = this.#setup;
    const values = given as Readonly<Record<string, unknown>>;
    const rewards = values.rewards;
    if (!(rewards instanceof Float32Array))
      throw typeError(`rewards must be a Float32Array, got ${describeValue(rewards)}`);
    this.#checkLength('rewards', rewards.length, 1);
    const terminated = this.#flags('terminated', values.terminated);
    const truncated = this.#flags('truncated', values.truncated);
    const skip = values.skip === undefined ? undefined : this.#flags('skip', values.skip);
    let steps = 0;
    let ending = -1;
    for (let lane = 0; lane < this.lanes; lane++) {
      if (skip?.[lane]) continue;
      steps++;
      if (terminated[lane] || truncated[lane]) ending = lane;
    }
    const sources = this.#sources;
    const finals = ending < 0 ? undefined : this.#finals;
    for (let i = 0; i < layout.fields.length; i++) {
      const field = layout.fields[i]!;
      sources[i] = this.#elements(field, field.key, values[field.key]);
      if (finals !== undefined) finals[i] = this.#final(field, values, ending);
    }
    const limiter = this.#limiting?.handle;
    const odd = this.#odd;
    const flags = [terminated, truncated, skip] as const;
    const added = lanesAddon().addSteps(
      handle,
      sources,
      finals,
      rewards,
      ...flags,
      steps,
      limiter,
      odd,
    );
    if (added < 0) throw this.#refused(sources, finals, rewards);
    if (added > 0) bells.ringAll();
    else {
      this.#limiting?.checkAdd(steps);
      return 0;
    }
    return this.lanes;
  }

  /**
   * Adds `rows` rows, each a step or a final observation, of any of this writer's lanes (counted
   * from `firstLane`), in order; all are committed when this returns, and `mark`, if any, has moved
   * behind them in the same native call, also with no rows. A row is `u16 lane · u16 kind · f32
   * reward · the place`, little endian, 8 + layout.placeBytes bytes in all. Kind 0 is a step, 1 one
   * that terminated its episode, 2 truncated, 3 both, each 8 more where it is its episode's first
   * whatever ran there before; 4 is the final observation, which comes directly behind a step of
   * its lane that ended, and there only. Of more rows than a lane has places the last ones stay.
   * Returns `rows`, or 0 when the limiter, which counts steps alone, gates it and says not yet:
   * nothing was taken then, and the mark is where it was; without a step it never says so. Throws
   * TypeError or RangeError as add() does, for bytes that are not rows × a row's, and naming the
   * first row that is wrong, while nothing is taken.
   */
  addPacked(bytes: Uint8Array, rows: number, mark?: Mark): number {
    this.#checkOpen();
    const { handle, layout, bells } = this.#setup;
    checkPacked(bytes, rows, rowBytesOf(layout), mark);
    const limiter = this.#limiting?.handle;
    const added = lanesAddon().addPackedSteps(
      handle,
      bytes,
      rows,
      limiter,
      mark?.words,
      mark?.index,
      mark?.value,
    );
    if (added < 0) {
      const row = -1 - added;
      throw Object.assign(packedFault(bytes, layout, row, this.lanes), { row });
    }
    if (added > 0) bells.ringAll();
    else if (rows > 0) this.#limiting?.checkAdd(stepsAmong(bytes, rowBytesOf(layout)));
    return added;
  }

  /**
   * Leaves the episodes that run unended: the next step of each lane begins another. For who knows
   * that steps between are lost. Only a writer that was opened with `resume` behind it, before that
   * step, still goes on with what was left.
   */
  cutEpisodes(): void {
    this.#checkOpen();
    lanesAddon().cutEpisodes(this.#setup.handle);
  }

  /** Gives the lanes back. An episode that has not ended stays unended. Twice is fine. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const { words, at, claim } = this.#setup.claims;
    for (let lane = this.firstLane; lane < this.firstLane + this.lanes; lane++)
      giveWord(words, at(lane), claim);
  }
  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    if (!this.#open) throw closedError('this writer', 'take the lanes again with buffer.writer()');
  }

  #refused(
    sources: readonly TypedArray[],
    finals: readonly (TypedArray | undefined)[] | undefined,
    rewards: Float32Array,
  ): Error {
    const { layout, firstLane } = this.#setup;
    const [lane, which, element] = this.#odd as unknown as [number, number, number];
    const { length } = layout.fields;
    const name = `lane ${firstLane + lane}`;
    if (which === 2 * length) return notFinite('rewards', 0, rewards[lane] as number, name, false);
    const { key, dtype, elements } = layout.fields[which % length] as StepField;
    const values = (which < length ? sources : (finals as readonly TypedArray[]))[
      which % length
    ] as TypedArray;
    const value = numberAt(values, dtype, lane * elements + element);
    return notFinite(which < length ? key : finalKey(key), element, value, name, which >= length);
  }

  #final(
    field: StepField,
    values: Readonly<Record<string, unknown>>,
    ending: number,
  ): TypedArray | undefined {
    if (!field.observation) return undefined;
    const key = finalKey(field.key);
    if (values[key] !== undefined) return this.#elements(field, key, values[key]);
    throw typeError(
      `lane ${this.firstLane + ending} ends its episode, and ${key} is not given: the observation behind the last step`,
    );
  }

  #elements(field: StepField, key: string, value: unknown): TypedArray {
    const { dtype } = field;
    const { array } = dtypes[dtype];
    const half = dtype === 'float16' || dtype === 'bfloat16';
    const rounded = half && value instanceof Float32Array;
    if (!rounded && !(value instanceof array)) {
      const also = half ? ' of bits, or a Float32Array' : '';
      throw typeError(
        `${key} must be a ${array.name}${also} (${dtype}), got ${describeValue(value)}`,
      );
    }
    this.#checkLength(key, (value as TypedArray).length, field.elements);
    if (!rounded) return value as TypedArray;
    return dtype === 'float16' ? toFloat16(value) : toBfloat16(value);
  }

  #flags(key: string, value: unknown): Uint8Array {
    if (value instanceof Uint8Array || Array.isArray(value)) {
      this.#checkLength(key, value.length, 1);
      return value instanceof Uint8Array
        ? value
        : Uint8Array.from(value as readonly boolean[], (flag) => (flag ? 1 : 0));
    }
    throw typeError(
      `${key} must be a Uint8Array or an array of booleans, got ${describeValue(value)}`,
    );
  }

  #checkLength(key: string, length: number, elements: number): void {
    if (length === elements * this.lanes) return;
    throw rangeError(
      `${key} must hold ${elements} elements × ${this.lanes} lanes = ${elements * this.lanes}, got ${length}`,
    );
  }
}
