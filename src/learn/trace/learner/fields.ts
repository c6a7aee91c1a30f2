/**
 * Fields of a learner's batch: how a description names them, how they become inputs of the trace, and
 * how an update checks and converts the tensors of a batch.
 */
import { describeValue } from '../../../base/checks.ts';
import { type DType, dtypes } from '../../../base/dtype.ts';
import { checkMaskSize } from '../../../base/mask-bits.ts';
import type { Device, Stream } from '../../../device/device.ts';
import { Tensor } from '../../../device/device.ts';
import { DiscountColumn, endsOf, given } from '../../batch.ts';
import { checkColumn, checkRows } from '../../checks.ts';
import { convert } from '../../convert.ts';
import { checkMask, maskFloats } from '../../masks.ts';
import { checkedShape, type Shape, shown, sizeOf } from '../shapes.ts';
import {
  checkedNumber,
  checkOptions,
  type Node,
  refuseRange,
  refuseType,
  type Tape,
  withLine,
} from '../tape.ts';

type Floats = Tensor<'float32'>;

/**
 * A field of a learner's batch:
 *
 * - the shape of a row, such as [84], for float32. A field of shape [] may have any dtype,
 * - 'index' for one whole number a row, of any dtype,
 * - an object with a shape and a dtype. The update computes scale · element + shift in float32,
 * - { mask: n } for n conditions a row, at most 4,096, as bits in uint32 [rows, ⌈n / 32⌉], or as bool,
 *   uint8 or float32 [rows, n],
 * - { gamma } for the factor of the bootstrap, [], as built-in learners compute it: from `discounts`, or
 *   from `terminated`, or from `dones` and `truncated`, whichever the batch has. Default 0.99
 */
export type FieldDescription =
  | Shape
  | 'index'
  | {
      readonly shape: Shape;
      readonly dtype: DType;
      readonly scale?: number;
      readonly shift?: number;
    }
  | { readonly mask: number }
  | { readonly gamma: number | undefined };

/** A checked field. */
export interface BatchField {
  readonly name: string;
  /** shape of a row */
  readonly shape: Shape;
  /** dtype of the input of the trace. The update converts other dtypes if `any` is true */
  readonly dtype: DType;
  readonly scale: number;
  readonly shift: number;
  readonly any: boolean;
  /** discount of one step, or undefined for the default. Null for other fields */
  readonly gamma: number | undefined | null;
  /** whether the field is a mask, whose elements may be bits */
  readonly mask: boolean;
}

export function checkField(name: string, described: unknown): BatchField {
  const what = `learner: batch field '${name}'`;
  const plain = { name, dtype: 'float32' as DType, scale: 1, shift: 0, gamma: null, mask: false };
  if (described === 'index') return { ...plain, shape: [], any: true };
  if (Array.isArray(described)) {
    const shape = checkedShape(what, described, refuseRange);
    return { ...plain, shape, any: shape.length === 0 };
  }
  if (typeof described !== 'object' || described === null)
    refuseType(
      `${what} is described by a shape such as [84], by 'index', { mask: n } or { shape, dtype }, got ${describeValue(described)}`,
    );
  if ('mask' in (described as object)) {
    checkOptions(what, described, ['mask'], 'pass { mask: n }');
    const { mask } = described as { mask: number };
    withLine(what, () => checkMaskSize('mask', mask));
    return { ...plain, shape: [mask], any: true, mask: true };
  }
  if ('gamma' in (described as object)) {
    checkOptions(what, described, ['gamma'], 'pass { gamma }');
    const { gamma } = described as { gamma: unknown };
    if (
      gamma !== undefined &&
      !(checkedNumber(`${what}: gamma`, gamma) >= 0 && (gamma as number) <= 1)
    )
      refuseRange(`${what}: gamma must be from 0 to 1, got ${gamma}`);
    return { ...plain, shape: [], any: false, gamma: gamma as number | undefined };
  }
  checkOptions(what, described, ['shape', 'dtype', 'scale', 'shift'], 'pass { shape, dtype }');
  const of = described as { shape: unknown; dtype?: unknown; scale?: number; shift?: number };
  const { dtype = 'float32', scale = 1, shift = 0 } = of;
  if (typeof dtype !== 'string' || !Object.hasOwn(dtypes, dtype))
    refuseType(
      `${what} has an unknown dtype ${describeValue(dtype)}; known: ${Object.keys(dtypes).join(', ')}`,
    );
  return {
    name,
    shape: checkedShape(what, of.shape, refuseRange),
    dtype: dtype as DType,
    scale: checkedNumber(`${what}: scale`, scale),
    shift: checkedNumber(`${what}: shift`, shift),
    any: false,
    gamma: null,
    mask: false,
  };
}

/** Adds the input of a field to the trace. */
export function inputOf(tape: Tape, rows: number, field: BatchField): Node {
  const { name, dtype, scale, shift } = field;
  const shape = checkedShape(`learner: batch field '${name}'`, [rows, ...field.shape], refuseRange);
  const attributes = { name, dtype, contiguous: false, scale, shift };
  return tape.add('input', attributes, [], shape) as Node;
}

/** Reads the fields of batches, and converts those of other dtypes. */
export class Fields {
  readonly #what: string;
  readonly #fields: readonly BatchField[];
  readonly #rows: number;
  readonly #ones: Floats | null;
  readonly #converted = new Map<string, Floats>();
  readonly #discounts = new Map<string, DiscountColumn>();

  constructor(
    what: string,
    device: Device,
    rows: number,
    fields: readonly BatchField[],
    own: <T extends Floats | DiscountColumn>(made: T) => T,
  ) {
    this.#what = what;
    this.#fields = fields;
    this.#rows = rows;
    for (const { name, any, shape, gamma } of fields)
      if (gamma !== null) this.#discounts.set(name, own(new DiscountColumn(device, rows, gamma)));
      else if (any) this.#converted.set(name, own(device.allocate({ shape: [rows, ...shape] })));
    const weighted = fields.some(({ name }) => name === 'weights');
    this.#ones = weighted
      ? own(device.allocate({ shape: [rows] })).write(new Float32Array(rows).fill(1))
      : null;
  }

  /** Checks a batch. Returns the fields, and the output `priorities` if there is one. */
  read(batch: object): { columns: Readonly<Record<string, Floats>>; rows: number } {
    const columns: Record<string, Tensor> = {};
    let rows = -1;
    for (const field of this.#fields) {
      if (field.gamma !== null) continue;
      const tensor = given(batch, field.name);
      if (field.name === 'weights' && tensor === undefined) continue;
      if (!(tensor instanceof Tensor)) {
        const own = Object.keys(batch).join(', ') || 'nothing';
        refuseType(`${this.#what}: a batch needs a tensor '${field.name}'; this one has ${own}`);
      }
      const count = rows < 0 ? undefined : rows;
      columns[field.name] = field.mask
        ? withLine(this.#what, () => checkMask(field.name, tensor, count, field.shape[0] as number))
        : this.#checked(field, tensor, rows);
      rows = tensor.shape[0] as number;
    }
    if (rows < this.#rows || rows % this.#rows !== 0)
      refuseRange(
        `${this.#what}: an update needs a multiple of ${this.#rows} rows, got ${Math.max(rows, 0)}`,
      );
    for (const field of this.#fields)
      if (field.gamma !== null) Object.assign(columns, this.#ends(batch, field, rows));
    const priorities = given(batch, 'priorities');
    if (priorities !== undefined) {
      const field = { name: 'priorities', shape: [], dtype: 'float32', any: false } as const;
      const plain = { scale: 1, shift: 0, gamma: null, mask: false };
      columns.priorities = this.#checked({ ...field, ...plain }, priorities, rows);
    }
    return { columns: columns as Record<string, Floats>, rows };
  }

  /** Returns the columns from which the factors of the bootstrap are computed. */
  #ends(batch: object, { name, gamma }: BatchField, rows: number): Record<string, Tensor> {
    const keys = endsOf(batch);
    const columns = keys.map((key) => {
      const tensor = given(batch, key);
      if (!(tensor instanceof Tensor))
        return refuseType(
          `${this.#what}: a batch needs a tensor '${key}', or 'terminated', or 'discounts'; this one has ${Object.keys(batch).join(', ') || 'nothing'}`,
        );
      if (key === 'discounts' && gamma !== undefined)
        refuseType(
          `${this.#what}: this batch has discounts, which contain gamma; omit the option gamma (${gamma})`,
        );
      const check = key === 'terminated' ? checkRows : checkColumn;
      const column = withLine(this.#what, () => check(key, tensor as Floats, rows));
      return [`${name}/${key}`, column] as const;
    });
    return Object.fromEntries(columns);
  }

  #checked({ name, shape, dtype, any }: BatchField, tensor: unknown, rows: number): Tensor {
    const wanted = [rows < 0 ? 'rows' : String(rows), ...shape.map(String)];
    if (!(tensor instanceof Tensor))
      refuseType(`${this.#what}: ${name} must be a tensor, got ${describeValue(tensor)}`);
    tensor.checkOpen();
    const [r = -1, ...rest] = tensor.shape;
    // A column may have a second dimension of length 1.
    const column = shape.length === 0 && rest.length === 1 && rest[0] === 1;
    const own = column ? [] : rest;
    const fits = own.length === shape.length && own.every((n, d) => n === shape[d]);
    if (!fits || r < 0 || (rows >= 0 && r !== rows))
      refuseRange(
        `${this.#what}: '${name}' must be [${wanted.join(', ')}], got ${shown(tensor.shape)}`,
      );
    if (!any && tensor.dtype !== dtype) {
      const advice =
        name === 'priorities'
          ? `allocate it as ${dtype}`
          : `describe it as { shape: ${shown(shape)}, dtype: '${tensor.dtype}' }`;
      refuseType(`${this.#what}: '${name}' must be ${dtype}, got ${tensor.dtype}; ${advice}`);
    }
    const inner = shape.map((_, d) => sizeOf(shape.slice(d + 1)));
    const step = r > 1 ? (tensor.strides[0] as number) : Math.max(sizeOf(shape), 1);
    const gaps =
      !column && tensor.strides.slice(1).some((s, d) => shape[d] !== 1 && s !== inner[d]);
    if (gaps || step < sizeOf(shape))
      refuseRange(
        `${this.#what}: '${name}' must be rows of contiguous elements, got strides [${tensor.strides}]`,
      );
    return tensor.view({ shape: [r, ...shape], strides: [step, ...inner] });
  }

  /** Returns the inputs of one minibatch. Enqueues conversions. */
  inputs(stream: Stream, columns: Readonly<Record<string, Tensor>>): Record<string, Tensor> {
    const inputs: Record<string, Tensor> = {};
    for (const { name, any, gamma, mask } of this.#fields) {
      if (gamma !== null) {
        const own = Object.entries(columns).filter(([key]) => key.startsWith(`${name}/`));
        const ends = Object.fromEntries(
          own.map(([key, column]) => [key.slice(name.length + 1), column as Floats]),
        );
        const factors = this.#discounts.get(name)!.of(stream, ends);
        inputs[name] = factors.view({
          shape: [this.#rows],
          strides: [factors.strides[0] as number],
        });
        continue;
      }
      const column = columns[name] ?? (this.#ones as Floats);
      inputs[name] = column;
      if (!any || column.dtype === 'float32') continue;
      const into = this.#converted.get(name) as Floats;
      inputs[name] = into;
      if (mask) maskFloats(stream, into, column);
      else convert(stream, into, column);
    }
    return inputs;
  }
}
