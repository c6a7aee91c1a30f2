/**
 * Reads columns of a data set from an npz file or from memory. A column is found by its name,
 * checked by its shape, and converted in pieces to its field's dtype.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { NpzArrays } from '../../base/arrays/npz.ts';
import type { NamedTensors, TensorData } from '../../base/arrays/tensors.ts';
import { checkCount, checkKeys, checkPath, describeValue } from '../../base/checks.ts';
import { type ArrayOf, type DType, dtypes, elementCount } from '../../base/dtype.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import type { RateLimiter } from '../rate-limiter.ts';
import type { LoadedActions } from './action-check.ts';
import { exactly } from './exact.ts';
import { notFinite, numberAt } from './field-roles.ts';
import { withMinari } from './minari.ts';
import { rowsAddon } from './rows-addon.ts';

/** Options of a buffer's load(). */
export interface LoadOptions {
  /**
   * column names in the data set, by field, such as `{ obs: 'observations' }`. Default: the fields'
   * names
   */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * range of rows, counted in the file from 0: from `from` (default 0) to before `to` (default: the
   * number of rows)
   */
  readonly rows?: { readonly from?: number; readonly to?: number };
  /**
   * the learner's action space, `{ n }` or `{ low, high }`. load() rejects an action outside of it.
   * Default: every action is accepted
   */
  readonly actionSpace?: LoadedActions;
}

/** The dtype and shape that a field requires of its column. */
export interface Wanted {
  readonly key: string;
  readonly dtype: DType;
  /** shape of one row's value */
  readonly shape: readonly number[];
}

/** Bytes of the rows that are converted and added at once, as one piece. */
const PIECE_BYTES = 1 << 22;
/** Returns the number of rows in a piece, at least 1. */
export const pieceOf = (rowBytes: number): number =>
  Math.max(1, Math.floor(PIECE_BYTES / rowBytes));

/** A column of the data set, converted to the dtype of its field. */
export class Column {
  readonly rows: number;
  readonly name: string;
  readonly #tensor: TensorData;
  readonly #wanted: Wanted;
  readonly #elements: number;

  constructor(name: string, tensor: TensorData, wanted: Wanted) {
    const [rows, ...each] = tensor.shape;
    const elements = elementCount(wanted.shape);
    const plain = (shape: readonly number[]) => shape.filter((d) => d !== 1).join();
    // [n, 1] and [n] have the same elements, so dimensions of length 1 are ignored.
    if (rows === undefined || plain(each) !== plain(wanted.shape))
      throw rangeError(
        `load: column '${name}' is [${tensor.shape}]; for the field '${wanted.key}' it must be [${['rows', ...wanted.shape].join(', ')}]`,
      );
    this.rows = rows;
    this.name = name;
    this.#tensor = tensor;
    this.#wanted = wanted;
    this.#elements = elements;
  }

  /**
   * Returns rows `from` to before `to` in the field's dtype. Throws for the first value that the
   * dtype cannot hold.
   */
  take(from: number, to: number): ArrayOf<DType> {
    const { data, dtype } = this.#tensor;
    const piece = data.subarray(from * this.#elements, to * this.#elements) as ArrayOf<DType>;
    const { key, dtype: wanted } = this.#wanted;
    const made = exactly(piece, dtype, wanted);
    if ('data' in made) return made.data;
    const row = from + Math.floor(made.lost / this.#elements);
    throw rangeError(
      `load: column '${this.name}' is ${dtype}, the field '${key}' ${wanted}, which cannot hold the ${piece[made.lost]} in row ${row}`,
    );
  }

  /**
   * Throws if take() would throw for one of these rows. Also throws for a NaN or infinity in a row
   * for which `finite` returns true.
   */
  check(from: number, to: number, finite?: (row: number) => boolean): void {
    const { dtype } = this.#tensor;
    const { key, dtype: wanted } = this.#wanted;
    const checks = finite !== undefined && wanted.includes('float');
    if (dtype === wanted && !checks) return;
    const piece = pieceOf(this.#elements * dtypes[dtype].bytes);
    for (let at = from; at < to; at += piece) {
      const values = this.take(at, Math.min(at + piece, to));
      const isNonFinite = (element: number) => !Number.isFinite(numberAt(values, wanted, element));
      if (
        !checks ||
        (wanted === 'float32' && rowsAddon().firstNotFinite(values, 0, values.length) < 0)
      )
        continue;
      for (let i = 0; i < values.length; i++) {
        const row = at + Math.floor(i / this.#elements);
        if (isNonFinite(i) && finite(row))
          throw notFinite(
            key,
            i % this.#elements,
            numberAt(values, wanted, i),
            `row ${row} of '${this.name}'`,
            false,
          );
      }
    }
  }
}

/** The columns of a data set, by name. */
export class DataSet {
  readonly #tensors: NamedTensors;
  /**
   * errors of columns that Hotslot cannot read, by name. find() throws one if a field needs its
   * column
   */
  readonly #foreign: ReadonlyMap<string, TypeError>;
  readonly #names: Readonly<Record<string, string>>;
  #first: Column | null = null;

  private constructor({ tensors, foreign }: Source, names: Readonly<Record<string, string>>) {
    this.#tensors = tensors;
    this.#foreign = foreign;
    this.#names = names;
  }

  /** Reads a data set. `known`: the keys that `options.columns` may have. */
  static async of(from: unknown, options: LoadOptions, known: readonly string[]): Promise<DataSet> {
    checkKeys('load', options, ['columns', 'rows', 'actionSpace']);
    const { columns = {}, rows = {} } = options;
    checkKeys('load: columns', columns, known);
    checkKeys('load: rows', rows, ['from', 'to']);
    for (const [key, name] of Object.entries(columns))
      if (typeof name !== 'string')
        throw typeError(`load: columns.${key} must be a column's name, got ${describeValue(name)}`);
    const source = await sourceOf(from);
    const { tensors, foreign } = source;
    for (const [key, name] of Object.entries(columns))
      if (!Object.hasOwn(tensors, name) && !foreign.has(name))
        throw rangeError(
          `load: columns.${key} names '${name}', which is missing; the columns are ${listed(tensors)}`,
        );
    return new DataSet({ tensors: withMinari(tensors, columns), foreign }, columns);
  }

  /**
   * Returns the column of a field, or undefined if it is missing. Looks for the name in `columns`,
   * then for the field's own name, then for `other`.
   */
  find(wanted: Wanted, other?: string): Column | undefined {
    const name = [this.#names[wanted.key], wanted.key, other].find(
      (each) =>
        each !== undefined && (Object.hasOwn(this.#tensors, each) || this.#foreign.has(each)),
    );
    const refusal = name === undefined ? undefined : this.#foreign.get(name);
    if (refusal) throw refusal;
    return name === undefined
      ? undefined
      : new Column(name, this.#tensors[name] as TensorData, wanted);
  }

  /** Does find(), and throws unless the column has as many rows as the columns found before. */
  ask(wanted: Wanted, other?: string): Column | undefined {
    const column = this.find(wanted, other);
    if (column === undefined) return undefined;
    this.#first ??= column;
    const { rows, name } = this.#first;
    if (column.rows !== rows)
      throw rangeError(
        `load: columns must be of one length; '${name}' has ${rows} rows, '${column.name}' ${column.rows}`,
      );
    return column;
  }

  /** Does ask(), and throws if the column is missing. */
  need(wanted: Wanted, other?: string): Column {
    const column = this.ask(wanted, other);
    if (column) return column;
    const also = other === undefined ? '' : ` or '${other}'`;
    throw rangeError(
      `load: column '${wanted.key}' is missing${also}; the columns are ${listed(this.#tensors)}; name it with columns: { ${wanted.key}: '…' }`,
    );
  }

  /** Number of rows of the columns that ask() has found, 0 before the first. */
  get rows(): number {
    return this.#first?.rows ?? 0;
  }

  /** Returns the range of rows that the options select. */
  span({ rows = {} }: LoadOptions): { from: number; to: number } {
    const from = checkCount('load: rows.from', rows.from ?? 0, 0, this.rows);
    return { from, to: checkCount('load: rows.to', rows.to ?? this.rows, from, this.rows) };
  }
}

const listed = (tensors: NamedTensors): string => {
  const names = Object.keys(tensors);
  return names.length === 0
    ? 'none at all'
    : names.slice(0, 20).join(', ') + (names.length > 20 ? ', …' : '');
};

type Source = Pick<NpzArrays, 'tensors' | 'foreign'>;

/**
 * Reads a data set from a path or from arrays. The code that opens files is imported only for a
 * path, because few programs load files.
 */
async function sourceOf(from: unknown): Promise<Source> {
  if (typeof from === 'string' || from instanceof URL) {
    const path = checkPath('load', from);
    const { arraysOf } = await import('../../base/arrays/npz.ts');
    return arraysOf(path);
  }
  const { checkTensors, recordOf } = await import('../../base/arrays/tensors.ts');
  if (typeof from !== 'object' || from === null)
    throw typeError(
      `load takes a path, a file: URL or an object of arrays as readNpz() gives it, got ${describeValue(from)}`,
    );
  return { tensors: recordOf(checkTensors('load', from as NamedTensors)), foreign: new Map() };
}

/** Writes columns as an npz file. */
export async function writeColumns(
  path: string | URL,
  columns: () => NamedTensors | Promise<NamedTensors>,
) {
  const to = checkPath('dump', path);
  const { writeNpz } = await import('../../base/arrays/npz.ts');
  await writeNpz(to, await columns());
}

/**
 * Throws unless the limiter admits `rows` rows now. load() does not wait for the limiter, because
 * perhaps no thread is sampling.
 */
export function checkAdmitted(limiter: RateLimiter | null, rows: number): void {
  const waits = rows > 0 ? limiter?.addWaitingFor(rows) : null;
  if (waits) throw gated(waits, 'no row was added');
}

/**
 * Returns the error for rows that a gating limiter does not admit. `waits`: a text that says what
 * the limiter waits for. `arrived`: a text that says how many rows were added before.
 */
export const gated = (waits: string, arrived: string) =>
  stateError(
    'BUSY',
    `load: the buffer's limiter gates add() and accepts no more rows now (${waits}); ${arrived}. ` +
      'For offline data make the buffer without a limiter, or its limiter with gateAdd: false',
  );

/** Lets this thread run other work between two pieces. */
export const pause = (): Promise<void> => turn();

/** Throws if rows were added while dump() read the buffer. */
export function checkStill(before: number, now: number): void {
  if (before !== now)
    throw stateError(
      'BUSY',
      `dump: ${now - before} rows were added while it read, so nothing was written; pause the writers first`,
    );
}
