/**
 * Captures the learner's update once per slot. Each graph contains the work that the caller
 * enqueues, then the copies of the mark and the scalars to the host.
 */

import { checkFlag, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, stateError, typeError } from '../../base/errors.ts';
import { type GraphExec, type Stream, Tensor } from '../../device/device.ts';
import {
  type Captured,
  captureGraph,
  checkEnqueued,
  type GraphPool,
  getSharedGraphPool,
} from '../../device/graph/shared.ts';
import { allOrNothing } from '../../device/owner.ts';
import type { Fields } from '../../store/rows/fields.ts';
import type { Averages, Learner } from '../ring/run-fields.ts';
import { MAX_SCALARS } from '../ring/slot.ts';
import type { AveragingOptions } from './averaging.ts';
import { type Batch, type Extras, ownBatch } from './batches.ts';
import type { Slots } from './slots.ts';
import { CaptureStream, unwrittenText } from './written-scalars.ts';

export interface CaptureContext extends Extras {
  /** the stream to enqueue on, which is also the device's current stream while the function runs */
  stream: Stream;
  /** float64[32] on the device: tick, sequence + 1, rows, snapshot ptr, snapshot size, seed */
  params: Tensor<'float64'>;
  /**
   * float32[48] on the device: the learner's scalars, which are copied to the host after the tick
   */
  out: Tensor<'float32'>;
  slot: number;
  /**
   * int32[rows], if a ReplayBuffer's rows live on the device: the place in the ring of each row of
   * the batch, see philoxIndices()
   */
  index?: Tensor<'int32'> | undefined;
  /** memory for temporary tensors of the update, shared by the device's graphs */
  pool: GraphPool;
}

/** Enqueues one update on `batch`. It is called once per slot, and may only enqueue device work. */
export type CaptureFunction<F extends Fields = Fields> = (
  batch: Batch<F>,
  context: CaptureContext,
) => void;

export interface CaptureOptions<S extends string = string> extends AveragingOptions {
  /** names of the first elements of `out`, for events and summaries */
  scalars?: readonly S[];
  /**
   * contiguous float32 tensor on the device, which is copied to the mailbox when a tick publishes
   */
  weights?: Tensor<'float32'>;
  /**
   * whether weights with NaN or infinite values are published too. By default neither they nor any
   * later weights are published
   */
  publishNonFinite?: boolean;
}

export function checkCapture(
  fn: unknown,
  options: CaptureOptions,
  mailboxLength: number | null,
  device: string,
): void {
  if (typeof fn !== 'function') throw typeError(`capture needs a function, got ${typeof fn}`);
  checkKeys('capture', options, [
    'scalars',
    'weights',
    'publishNonFinite',
    'sync',
    'parameters',
    'every',
  ]);
  const { scalars = [], weights, publishNonFinite = false } = options;
  checkFlag('publishNonFinite', publishNonFinite);
  if (publishNonFinite && weights === undefined)
    throw rangeError('publishNonFinite needs the option weights');
  if (!Array.isArray(scalars))
    throw typeError(
      `scalars must be an array of names, such as ['loss'], got ${describeValue(scalars)}`,
    );
  if (scalars.length > MAX_SCALARS)
    throw rangeError(`capture takes at most ${MAX_SCALARS} scalars, got ${scalars.length}`);
  for (const [i, name] of scalars.entries()) {
    if (typeof name !== 'string' || name === '')
      throw typeError(`scalars are names of at least one letter, got ${describeValue(name)}`);
    if (scalars.indexOf(name) !== i)
      throw rangeError(`scalars names '${name}' twice: every name is one element of out`);
  }
  if (weights === undefined) return;
  if (!(weights instanceof Tensor))
    throw typeError(`weights must be a tensor, got ${describeValue(weights)}`);
  weights.checkOpen();
  if (weights.device.name !== device)
    throw typeError(`weights must be on ${device}, got a tensor on ${weights.device.name}`);
  if (mailboxLength === null)
    throw stateError(
      'CAPTURE',
      'capture was given weights, but the pipeline was opened without a mailbox',
    );
  if (weights.dtype !== 'float32' || !weights.contiguous)
    throw typeError('weights must be a contiguous float32 tensor');
  if (weights.size !== mailboxLength) {
    throw rangeError(`weights has ${weights.size} elements, the mailbox holds ${mailboxLength}`);
  }
}

/** Returns the description of a captured learner for the ring's run fields. */
export function learnerOf(
  graphs: readonly GraphExec[],
  { scalars = [], weights, publishNonFinite = false }: CaptureOptions,
  mailbox: { readonly handle: number } | null,
  averages: Averages | null = null,
): Learner {
  const published = weights &&
    mailbox && {
      weights: weights.handle,
      weightsOffset: weights.byteOffset,
      weightsBytes: weights.bytes,
      mailbox: mailbox.handle,
    };
  return {
    graphs: graphs.map((graph) => graph.handle),
    scalars: scalars.length,
    published: published ?? null,
    nonFinite: publishNonFinite,
    averages,
  };
}

/**
 * Captures one graph per slot, or none: on an error it ends the capture and closes the graphs that
 * exist. Calls `warn` once if the update does not write some of `scalars`.
 */
export function captureSlots(
  slots: Slots,
  fn: CaptureFunction,
  bring: (stream: Stream) => void = () => {},
  scalars: readonly string[] = [],
  warn: (text: string) => void = () => {},
): GraphExec[] {
  let unwritten: string[] = [];
  const graphs = allOrNothing((own) => {
    let nodes = -1;
    return slots.batches.map((batch, slot) => {
      const { nodeCount, exec, result } = captureSlot(slots, slot, batch, fn, bring);
      own(exec);
      unwritten = result.unwritten(scalars);
      if (nodes >= 0 && nodeCount !== nodes) {
        throw stateError(
          'CAPTURE',
          `the capture enqueued ${nodes} operations for slot 0 and ${nodeCount} for slot ${slot}; the function must enqueue the same for every slot`,
        );
      }
      nodes = nodeCount;
      return exec;
    });
  });
  if (unwritten.length > 0) warn(unwrittenText(unwritten));
  return graphs;
}

function captureSlot(
  slots: Slots,
  slot: number,
  batch: Batch,
  fn: CaptureFunction,
  bring: (stream: Stream) => void,
): Captured<CaptureStream> {
  const pool = getSharedGraphPool(slots.device);
  return captureGraph(slots.device, { what: `the capture for slot ${slot}`, pool }, (stream) => {
    const [params, out] = [slots.params[slot]!, slots.scalars[slot]!];
    // The function cannot close this stream.
    const lent = new CaptureStream(stream, out);
    const context = {
      ...slots.extras(slot),
      stream: lent,
      params,
      out,
      slot,
      pool,
      index: slots.index,
    };
    slots.beginUpdate(slot, stream);
    checkEnqueued(
      'the captured function',
      slots.device.withStream(lent, () => fn(ownBatch(batch), context)),
    );
    bring(stream);
    slots.finishCapture(slot, stream);
    return lent;
  });
}
