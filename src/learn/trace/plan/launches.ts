/** Launches of a plan before they have memory, and the memory that they read and write. */
import type { DType } from '../../../base/dtype.ts';
import type { Stream, Tensor } from '../../../device/device.ts';
import type { Node } from '../tape.ts';

/**
 * Row stride of an input while a plan is made. Inputs are rows of a batch, which may be strided, and
 * get their memory when the plan is emitted. A stride or offset of an input is a multiple of this
 * number plus a part that does not depend on the row stride. No length reaches this number, so no
 * decision of the plan depends on the row stride.
 */
export const ROW = 2 ** 32;

/** Splits a stride or offset into its multiple of the row stride, and the rest. */
export function rowsIn(value: number): { rows: number; rest: number } {
  const rows = Math.round(value / ROW);
  return { rows, rest: value - rows * ROW };
}

/** Memory that launches read and write. */
export interface Buffer {
  readonly kind: 'arena' | 'constants' | 'input' | 'memory';
  /** number of elements, or 0 for an input */
  readonly size: number;
  /** name of an input or of memory that the plan does not own */
  readonly name: string;
  readonly dtype: DType;
  /**
   * contiguous memory that the plan does not own. A result that has it is computed there, instead of
   * in the plan's memory
   */
  tensor: Tensor | null;
  /** whether the value must stay until the plan's end */
  output: boolean;
  /** number of ops that have not yet read the value */
  readers: number;
}

/** The elements of an expression in a buffer, from an offset on, with one stride per dimension. */
export interface Value {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly strides: readonly number[];
}

/** Rows of contiguous elements of several members of an ensemble. */
export interface Rows {
  /** the first row of the first member */
  readonly value: Value;
  readonly columns: number;
  /** elements from a row to the next */
  readonly distance: number;
  /** elements from a member to the next, or 0 if all members have the same rows */
  readonly batch: number;
}

/**
 * Rows that a product reads from one or two places. `split` is the number of columns in the first
 * place, or minus the number of its rows.
 */
export interface ProductSource {
  readonly first: Rows;
  readonly second?: Rows;
  readonly split: number;
}

/** The parameters of neighboring members in a dense vector, or their gradients. */
export interface ParameterVector {
  readonly value: Value;
  /** number of parameters of a member */
  readonly batch: number;
}

/** Memory of a normalized layer: its matrix product, and mean and deviation of each row. */
export interface NormPass {
  readonly product: Rows;
  readonly kept: Rows;
}

/** Memory of one layer in a forward pass. */
export interface StagePass {
  readonly y: Rows;
  /** input of the activation, if its slope needs it, or `y` */
  readonly z: Rows;
  readonly norm: NormPass | null;
  /** memory that a layer other than a linear one keeps for its backward pass */
  readonly kept: Rows | null;
}

/** Neighboring members of an ensemble. */
export interface Run {
  readonly from: number;
  readonly count: number;
}

/** Memory of a network's forward pass that its backward pass reads. */
export interface NetworkPass {
  readonly source: ProductSource;
  readonly runs: readonly (Run & { readonly stages: readonly StagePass[] })[];
}

/** A view of a buffer, as an operand of a launch. */
export interface View {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  /** whether the kernel gets the view as one run from its first element to its last */
  readonly flat?: boolean;
}

/** A whole number of a launch. `of` is the index of the operand whose stride it is, if any. */
export type Whole = number | { readonly of: number; readonly stride: number };

/** The tensor of a layer that a launch writes. */
export interface LayerPlace {
  /** index of the network in its ensemble */
  readonly member: number;
  /** index and name of the layer: '2: linear(64, 1)' */
  readonly layer: string;
  /** 'output', 'gradient at the output', 'gradient of weight', … */
  readonly what: string;
}

/** A part of a layer's tensor that a launch writes, or overwrites. */
export interface LaunchResult {
  readonly view: View;
  /** the op that has the result */
  readonly node: Node;
  readonly place: LayerPlace;
}

/** A launch of a kernel, or a fill, or a draw of random numbers, or the launches of a layer. */
export interface Launch {
  readonly kernel: string;
  /** operands in the kernel's order. Those that the kernel writes come first */
  readonly views: readonly View[];
  readonly writes: number;
  /** operands whose memory the first operand may take over, if the launch is their last reader */
  readonly inPlace: readonly number[];
  readonly wholes: readonly Whole[];
  readonly reals: readonly number[];
  /** the op that the launch computes, or a part of it */
  readonly node: Node;
  /** enqueues the launches of a layer, whose operands are `views`. Undefined for a kernel */
  readonly call?: (stream: Stream, tensors: readonly Tensor<'float32'>[]) => void;
  /** for the launches of a layer: its index and name, and its members if there are several */
  readonly layer?: string;
  /** for the launches of a layer: the parts of its tensors that they write. Others are scratch */
  readonly results?: readonly LaunchResult[];
  /** the reason why the launch is apart from the one before it or after it, or null */
  readonly note?: string | null;
  /** section of the plan, or the number of sections for a launch after all of them */
  readonly section: number;
  /** section whose value a launch after the last section sums */
  readonly late?: number;
  /** the ops of a chain, in the order of its steps */
  readonly chain?: readonly Node[];
}
