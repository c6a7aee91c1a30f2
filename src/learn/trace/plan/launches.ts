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
  /** for the launches of a layer: the tensor that each written operand is. Others are scratch */
  readonly places?: readonly (LayerPlace | undefined)[];
  /** section of the plan */
  readonly section: number;
  /** the ops of a chain, in the order of its steps */
  readonly chain?: readonly Node[];
}
