/**
 * Reads a trajectory buffer in one thread. It opens native views, creates the tree of a prioritized
 * sampler, and allocates the arrays of samples.
 */
import { checkCount, describeValue } from '../../base/checks.ts';
import type { TypedArray } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { allocateShared } from '../../shm/memory.ts';
import { checkBeta, internalsOfSampler, PrioritizedSampler } from '../prioritized.ts';
import {
  arraysOf,
  type BatchLayout,
  columnsOf,
  placeColumns,
  viewNumbers,
  type Weighted,
} from '../views/columns.ts';
import { specOf, View, type ViewSpec } from '../views/views.ts';
import { type LanesHandle, lanesAddon, type ViewHandle } from './lanes-addon.ts';
import type { FieldColumns } from './samples.ts';
import type { StepFields, StepLayout } from './schema.ts';

/** Steps and final observations as they were added. */
export type PlacesRead<S extends StepFields = StepFields> = FieldColumns<S> & {
  readonly rewards: Float32Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  /**
   * index of the step in its episode, from 0. For a final observation it is the episode's length
   */
  readonly episodeStep: Uint32Array;
  /** 1 for an episode's final observation */
  readonly final: Uint8Array;
  readonly ids: Float64Array;
};

interface Source {
  readonly memory: SharedArrayBuffer;
  readonly layout: StepLayout;
  readonly lanes: number;
  readonly perLane: number;
}

/** A native view, and the layout of its columns for batches of `rows` rows. */
interface Open {
  readonly handle: ViewHandle;
  rows: number;
  layout: BatchLayout;
}

export class BufferReader {
  readonly #handle: LanesHandle;
  readonly #source: Source;
  readonly #signature: string;
  readonly #views = new WeakMap<View, Open>();
  #sampler: PrioritizedSampler | null = null;
  /**
   * the view to which the sampler is bound. The sampler's tree has leaves only for the steps that
   * are drawable in this view
   */
  #drawn: Open | null = null;

  constructor(handle: LanesHandle, source: Source) {
    this.#handle = handle;
    this.#source = source;
    this.#signature = JSON.stringify([source.layout.fields, source.perLane]);
  }

  /**
   * Adds to a view's options the signature of the fields and lane capacity for which the view is
   * valid.
   */
  signed<T extends object>(spec: T): T & { signature: string } {
    return { ...spec, signature: this.#signature };
  }

  count(view: View): number {
    return lanesAddon().viewCount(this.#open(view).handle);
  }

  ids(view: View): Float64Array {
    const { handle } = this.#open(view);
    const ids = new Float64Array(lanesAddon().viewCount(handle));
    // The number of drawable steps may change between the two calls of viewCount(). The second call
    // writes at most `ids.length` ids.
    return ids.subarray(0, Math.min(ids.length, lanesAddon().viewCount(handle, ids)));
  }

  sample(options: {
    view: View;
    word: number;
    count: number;
    sampler?: PrioritizedSampler;
    beta?: number;
  }) {
    const { view, word, count, sampler, beta = 0.4 } = options;
    checkBeta(beta);
    this.checkView(view);
    const open = sampler === undefined ? this.#open(view) : this.#bound(sampler, view);
    const out = this.#columns(open, view, count, sampler === undefined ? 'no' : 'host');
    const normalize = sampler === undefined ? 0 : internalsOfSampler(sampler).normalize;
    const again = lanesAddon().sampleView(
      open.handle,
      word,
      count,
      new Uint8Array(out),
      beta,
      normalize,
    );
    if (again < 0) throw stateError('EMPTY', this.#why(open));
    return arraysOf(open.layout, out, count);
  }

  take(options: {
    view: View;
    ids: Float64Array | readonly number[];
    goalIds?: Float64Array | readonly number[];
  }) {
    const { view, goalIds } = options;
    const open = this.#open(view);
    const ids = this.#checkIds('ids', options.ids, 0);
    const goals = goalIds === undefined ? undefined : this.#checkIds('goalIds', goalIds, -1);
    if (goals !== undefined && specOf(view).relabel === null)
      throw rangeError(
        'goalIds need a view with hindsight: transitions({ relabel: hindsight(…) })',
      );
    if (goals !== undefined && goals.length !== ids.length)
      throw rangeError(`goalIds must be as many as ids, ${ids.length}, got ${goals.length}`);
    const out = this.#columns(open, view, ids.length, 'no');
    const wrong = lanesAddon().takeView(open.handle, ids, goals, ids.length, new Uint8Array(out));
    if (wrong >= 0) {
      const goal = goals === undefined || goals[wrong]! < 0 ? '' : ` with goal ${goals[wrong]}`;
      throw rangeError(
        `ids[${wrong}] = ${ids[wrong]}${goal} is not drawable by this view: ${this.#whyNot(ids[wrong]!)}`,
      );
    }
    return arraysOf(open.layout, out, ids.length);
  }

  read(given: Float64Array | readonly number[]): Record<string, TypedArray> {
    const ids = this.#checkIds('ids', given, 0);
    const count = ids.length;
    const { fields } = this.#source.layout;
    const placed = placeColumns(
      fields.map((field) => ({
        key: field.key,
        dtype: field.dtype,
        shape: field.shape,
        kind: 0,
        field,
        frames: 1,
        zero: false,
        goal: null,
      })),
      count,
    );
    const out = new ArrayBuffer(placed.bytes);
    const table = Float64Array.from(
      fields.flatMap(({ offset, bytes, observation }, i) => [
        offset,
        bytes,
        placed.columns[i]!.at,
        observation ? 1 : 0,
      ]),
    );
    const [rewards, steps, flags] = [
      new Float32Array(count),
      new Uint32Array(count),
      new Uint8Array(3 * count),
    ];
    const wrong = lanesAddon().readPlaces(
      ...([this.#handle, ids, count, table, new Uint8Array(out), rewards, steps, flags] as const),
    );
    if (wrong >= 0)
      throw rangeError(
        `ids[${wrong}] = ${ids[wrong]} does not exist: ${this.#whyNot(ids[wrong]!)}`,
      );
    const flag = (n: number) => flags.slice(n * count, (n + 1) * count);
    const arrays = arraysOf(placed, out, count);
    return {
      ...arrays,
      rewards,
      terminated: flag(0),
      truncated: flag(1),
      episodeStep: steps,
      final: flag(2),
      ids,
    };
  }

  update(
    given: Float64Array | readonly number[],
    priorities: Float32Array | Float64Array | readonly number[],
  ): void {
    const ids = this.#checkIds('ids', given, 0);
    const values = checkPriorities(priorities, ids.length);
    if (this.#sampler === null || this.#drawn === null)
      throw stateError(
        'EMPTY',
        'no prioritized sampler was used with this buffer: sample({ sampler }) first',
      );
    this.#checkFree(this.#sampler);
    const beyond = lanesAddon().firstUnwritten(this.#handle, ids);
    if (beyond >= 0)
      throw rangeError(`ids[${beyond}] = ${ids[beyond]} never was: ${this.#whyNot(ids[beyond]!)}`);
    lanesAddon().updateTree(this.#drawn.handle, ids, values, ids.length);
  }

  /** The prioritized sampler that is bound to this buffer, or null before its first use. */
  get sampler(): PrioritizedSampler | null {
    return this.#sampler;
  }
  /**
   * Binds a sampler to this buffer and a view, unless it is bound already. Returns the sampler's
   * tree and the view's handle, for native code.
   */
  bind(sampler: PrioritizedSampler, view: View): { tree: Float64Array; handle: ViewHandle } {
    this.checkView(view);
    const { handle } = this.#bound(sampler, view);
    return { tree: internalsOfSampler(sampler).binding!.tree, handle };
  }

  /**
   * Returns the view's options. Throws unless `view` is a view of these fields and this lane
   * capacity.
   */
  checkView(view: unknown): ViewSpec {
    if (!(view instanceof View))
      throw typeError(
        `view must be a result of transitions() or windows(), got ${describeValue(view)}`,
      );
    const spec = specOf(view);
    if (spec.signature === this.#signature) return spec;
    const [fields] = JSON.parse(spec.signature) as [{ key: string }[]];
    const names = (list: readonly { key: string }[]) => list.map(({ key }) => key).join(', ');
    throw rangeError(
      `this view is of other fields or lanes (${names(fields)}) than this buffer's (${names(this.#source.layout.fields)}); create it with this buffer`,
    );
  }

  #open(view: View): Open {
    const spec = this.checkView(view);
    let open = this.#views.get(view);
    if (open === undefined) {
      open = this.#opened(spec, 'no');
      this.#views.set(view, open);
    }
    return open;
  }

  #opened(spec: ViewSpec, weighted: Weighted, tree?: Float64Array): Open {
    const layout = placeColumns(columnsOf(this.#source.layout, spec, weighted), 0);
    const { rule, columns } = viewNumbers(spec, layout);
    return { handle: lanesAddon().openView(this.#handle, rule, columns, tree), rows: 0, layout };
  }

  #bound(sampler: unknown, view: View): Open {
    if (!(sampler instanceof PrioritizedSampler))
      throw typeError(`sampler must be a result of prioritized(), got ${describeValue(sampler)}`);
    const inside = internalsOfSampler(sampler);
    const { memory, lanes, perLane } = this.#source;
    if (inside.binding !== null) {
      if (inside.binding.memory !== memory || this.#sampler !== sampler)
        throw rangeError(
          'this sampler is bound to another buffer; create a new one with prioritized()',
        );
      if (
        specOf(inside.binding.view) !== specOf(view) &&
        !equal(specOf(inside.binding.view), specOf(view))
      )
        throw rangeError(
          'this sampler is bound to another view of this buffer; create a new one with prioritized()',
        );
      this.#checkFree(sampler);
      return this.#drawn!;
    }
    if (this.#sampler !== null)
      throw rangeError('this buffer has a prioritized sampler already; use that one');
    const leaves = lanes * perLane;
    const bytes = lanesAddon().treeBytes(leaves, lanes);
    const place = allocateShared(`the priorities of ${leaves} steps`, bytes, 64);
    const tree = new Float64Array(place.memory, place.offset, bytes / 8);
    lanesAddon().formatTree(tree, leaves, lanes, sampler.alpha, sampler.epsilon);
    this.#drawn = this.#opened(specOf(view), 'host', tree);
    this.#sampler = sampler;
    inside.binding = { memory, view, handle: this.#drawn.handle, tree, leaves };
    return this.#drawn;
  }

  #checkFree(sampler: PrioritizedSampler): void {
    if (internalsOfSampler(sampler).running)
      throw stateError(
        'RUNNING',
        'a pipeline uses this sampler and updates its priorities; close the pipeline first',
      );
  }

  /**
   * Allocates memory for `rows` rows of the view's columns. If the number of rows changed, sets the
   * columns' new offsets first.
   */
  #columns(open: Open, view: View, rows: number, weighted: Weighted): ArrayBuffer {
    if (open.rows !== rows) {
      open.layout = placeColumns(columnsOf(this.#source.layout, specOf(view), weighted), rows);
      lanesAddon().setColumns(open.handle, viewNumbers(specOf(view), open.layout).columns);
      open.rows = rows;
    }
    const { bytes } = open.layout;
    try {
      return new ArrayBuffer(bytes);
    } catch (error) {
      const what = `a batch of ${rows} rows needs ${bytes} bytes`;
      throw rangeError(
        `${what}, which the engine could not allocate: ${(error as Error).message}`,
        'ERR_HOTSLOT_MEMORY',
      );
    }
  }

  #checkIds(name: string, given: unknown, least: number): Float64Array {
    if (!(given instanceof Float64Array) && !Array.isArray(given))
      throw typeError(
        `${name} must be a Float64Array or an array of numbers, got ${describeValue(given)}`,
      );
    for (let i = 0; i < given.length; i++) checkId(name, i, given[i], least);
    return given instanceof Float64Array ? given : Float64Array.from(given as number[]);
  }

  /** Returns a text that says why the step of an id cannot be read or drawn. */
  #whyNot(id: number): string {
    const { lanes, perLane } = this.#source;
    const where = `place ${Math.floor(id / lanes)} of lane ${id % lanes}`;
    const ids = Float64Array.of(id);
    if (lanesAddon().firstUnwritten(this.#handle, ids) >= 0) return `${where} was never written`;
    const flags = new Uint8Array(3);
    const [rewards, steps, none] = [new Float32Array(1), new Uint32Array(1), new Uint8Array(0)];
    const overwritten =
      lanesAddon().readPlaces(
        this.#handle,
        ids,
        1,
        new Float64Array(0),
        none,
        rewards,
        steps,
        flags,
      ) >= 0;
    if (overwritten) return `${where} was overwritten (a lane has ${perLane} places), or cleared`;
    return flags[2] === 1
      ? `${where} is a final observation`
      : `${where} lacks steps before or after it that the view needs`;
  }

  #why(open: Open): string {
    const steps = lanesAddon().viewCount(open.handle);
    if (steps > 0)
      return `the priorities of all ${steps} drawable steps are zero; update the priorities before sampling`;
    return 'no step is drawable by this view yet; add more steps, or use a view that needs fewer';
  }
}

/** Returns whether two views have equal options. */
const equal = (one: ViewSpec, other: ViewSpec): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

function checkId(name: string, i: number, id: unknown, least: number): void {
  if (Number.isSafeInteger(id) && (id as number) >= least) return;
  checkCount(`${name}[${i}]`, id, least);
}

function checkPriorities(given: unknown, count: number): Float64Array {
  const typed = given instanceof Float32Array || given instanceof Float64Array;
  if (!typed && !Array.isArray(given))
    throw typeError(
      `priorities must be a Float32Array, a Float64Array or an array of numbers, got ${describeValue(given)}`,
    );
  if (given.length !== count)
    throw rangeError(`priorities must be as many as ids, ${count}, got ${given.length}`);
  // Returns before it reads `given`, because a detached array also has length 0, and reading it
  // throws.
  if (count === 0) return new Float64Array();
  const values =
    given instanceof Float64Array ? given : Float64Array.from(given as ArrayLike<number>);
  const wrong = values.findIndex((value) => !(value >= 0 && value < Number.POSITIVE_INFINITY));
  if (wrong >= 0)
    throw rangeError(`priorities[${wrong}] must be finite and at least 0, got ${values[wrong]}`);
  return values;
}
