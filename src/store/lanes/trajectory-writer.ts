/** The writer of some lanes. A lane has only one writer while that writer's thread lives. */

import { checkInternal, checkKeys, describeValue } from '../../base/checks.ts';
import { dtypes, type TypedArray } from '../../base/dtype.ts';
import { closedError, rangeError, typeError } from '../../base/errors.ts';
import { toBfloat16, toFloat16 } from '../../base/float16.ts';
import { packMasks } from '../../base/mask-bits.ts';
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

/** The parts of a buffer that its writer uses. */
export interface WriterSetup {
  readonly firstLane: number;
  readonly lanes: number;
  readonly layout: StepLayout;
  readonly handle: WriterHandle;
  readonly limiter: RateLimiter | null;
  readonly bells: BellBoard;
  /** the claim words, the index of each lane's word, and this writer's claim */
  readonly claims: {
    readonly words: Int32Array;
    readonly at: (lane: number) => number;
    readonly claim: number;
  };
}

/**
 * Writes the steps of some lanes. A lane has one writer while that writer's thread lives.
 * buffer.writer() creates it.
 * @example
 * const writer = buffer.writer();
 * writer.add({ obs, actions, rewards, terminated, truncated, finalObs });
 * writer.close();
 */
export class TrajectoryWriter<S extends StepFields = StepFields> {
  /** the first lane of this writer */
  readonly firstLane: number;
  /** number of lanes of this writer */
  readonly lanes: number;
  readonly #setup: WriterSetup;
  readonly #known: readonly string[];
  /**
   * arrays of the last add(), by field. They are allocated once, so that add() creates no garbage
   */
  readonly #sources: TypedArray[] = [];
  readonly #finals: (TypedArray | undefined)[] = [];
  /** words of the masks of the last add(), by the name of the array that add() got */
  readonly #words: Readonly<Record<string, Uint32Array>>;
  /** location of the value that native code rejected: lane, field and element */
  readonly #nonFinite = new Float64Array(3);
  readonly #limiting: ReturnType<typeof internalsOfLimiter> | null;
  #open = true;

  /** buffer.writer() calls it, with a WriterSetup. */
  constructor(key: unknown, given: object) {
    checkInternal(key, 'TrajectoryWriter', 'buffer.writer()');
    const setup = given as WriterSetup;
    this.firstLane = setup.firstLane;
    this.lanes = setup.lanes;
    this.#setup = setup;
    this.#limiting = setup.limiter && internalsOfLimiter(setup.limiter);
    const { fields } = setup.layout;
    this.#words = Object.fromEntries(
      fields.flatMap(({ key: name, elements, mask }) =>
        mask === undefined
          ? []
          : [name, finalKey(name)].map((each) => [each, new Uint32Array(this.lanes * elements)]),
      ),
    );
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
   * Adds one step to each lane and commits all of them. If add() throws, it has added no step. If
   * `terminated` or `truncated` is set for a lane, its episode ends, and its next step begins
   * another episode.
   *
   * A non-finite final observation is stored as 0 if the episode terminated. Any other NaN or
   * infinity in observations, in `actions` or in `rewards` throws. Other fields are stored as they
   * are.
   *
   * @param given for each field a typed array, lanes × its elements, one lane after the other.
   *   `rewards`: float32 [lanes]. `terminated` and `truncated`: bytes or booleans [lanes]. `finalX`
   *   for each observation `x`: like `x`, read only for lanes whose episode ends. `skip` (default:
   *   none): lanes without a step
   * @returns the number of this writer's lanes, or 0 if a gating limiter admits no steps now. After
   *   0 no step was added: call add() again with the same steps
   * @throws {TypeError} for a missing or unknown field, or an array of another type. The text names
   *   the field
   * @throws {RangeError} for a wrong length, a non-finite value, and more steps than a gating
   *   limiter could ever admit. The text names lane and field
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
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
    const nonFinite = this.#nonFinite;
    const flags = [terminated, truncated, skip] as const;
    const added = lanesAddon().addSteps(
      handle,
      sources,
      finals,
      rewards,
      ...flags,
      steps,
      limiter,
      nonFinite,
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
   * Adds packed rows in order. Each row is a step or a final observation of one of this writer's
   * lanes. All rows are committed when this call returns. If a lane gets more rows than it has
   * places, its last rows stay.
   *
   * A row is `u16 lane · u16 kind · f32 reward · the place`, little endian, 8 + layout.placeBytes
   * bytes in all. `lane` counts from `firstLane`. Kind 0 is a step, 1 a step that terminated its
   * episode, 2 a step that truncated it, and 3 both. The kind is 8 more if the step begins an
   * episode. An episode that was running in the lane then stays without an end. Kind 4 is a final
   * observation. It must directly follow the step of its lane that ended the episode.
   *
   * @param bytes `rows` × the bytes of a row
   * @param rows at least 0
   * @param mark the word that the same native call sets after the commit, also with 0 rows
   * @returns `rows`, or 0 if a gating limiter admits no steps now. After 0 no row was added, and
   *   the mark did not move. The limiter counts only steps, so rows without a step are always
   *   admitted
   * @throws {TypeError|RangeError} for other bytes, a wrong mark, and as add(). No row is added
   *   then. If a row is wrong, its index is the error's `row`
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
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
   * Leaves the running episodes without an end, and makes the next step of each lane begin another
   * episode. Call it if steps between the last step and the next one are lost. A writer that is
   * opened with `resume` after this call and before that next step still continues the running
   * episodes.
   *
   * @throws {ERR_HOTSLOT_STATE_CLOSED} after close()
   */
  cutEpisodes(): void {
    this.#checkOpen();
    lanesAddon().cutEpisodes(this.#setup.handle);
  }

  /** Releases the lanes. An episode that has not ended stays without an end. Idempotent. */
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
    const [lane, which, element] = this.#nonFinite as unknown as [number, number, number];
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
      `lane ${this.firstLane + ending} ends its episode, but ${key} is missing; give the observation after the last step`,
    );
  }

  #elements(field: StepField, key: string, value: unknown): TypedArray {
    const { dtype, mask } = field;
    if (mask !== undefined) {
      if (!(value instanceof Uint8Array))
        throw typeError(
          `${key} must be a Uint8Array of 0 and 1, one for each of ${mask} actions, got ${describeValue(value)}`,
        );
      this.#checkLength(key, value.length, mask);
      return packMasks(value, mask, this.#words[key]);
    }
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
