/**
 * Groups the moves of one direction into as few kernel launches as possible. A launch has a limited
 * number of arrays and of elements. Its kernel reads the moves from a table in device memory.
 */

import { dtypes } from '../../base/dtype.ts';
import { rangeError } from '../../base/errors.ts';
import type { Device, DeviceEvent, Stream, Tensor } from '../../device/device.ts';
import { Handle } from '../../device/handle.ts';
import { nativeHalos, nativeShared } from '../../device/native.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import { count, encode, encodeWritten, type Move } from './moves.ts';
import type { HaloExchangeSpec } from './spec.ts';

/**
 * Maximum number of elements of one launch. HaloLaunches begins another launch before the sum of
 * its moves exceeds this limit, and throws if one move alone exceeds it.
 */
const MAX_ELEMENTS = 2 ** 32 - 1;

interface Launch {
  /**
   * handle, byte offset and number of bytes of the buffer's part, then of the table, then of each
   * array. run() sets the handles and offsets of the arrays
   */
  readonly spans: Float64Array;
  /**
   * number of moves, number of elements, and the number of elements of each array. If the moves
   * write into arrays, the result of encodeWritten() follows
   */
  readonly wholes: Float64Array;
  /** index of each array in the list that run() gets */
  readonly arrays: readonly number[];
}

export class HaloLaunches extends Owner {
  readonly #itemsize: number;
  readonly #launches: Launch[] = [];

  /**
   * `specs` has the specification of each array, at the array's index in the moves. The device owns
   * the tables, and stores equal tables once.
   */
  constructor(
    device: Device,
    specs: readonly HaloExchangeSpec[],
    moves: readonly Move[],
    direction: 'pack' | 'unpack',
    buffer: Tensor,
  ) {
    super('these launches');
    this.#itemsize = dtypes[buffer.dtype].bytes;
    using construction = guardConstruction(this);
    const { arrays: most } = nativeHalos().layout;
    let [some, total]: [Move[], number] = [[], 0];
    const launch = () => {
      if (total > 0)
        this.#launches.push(this.#launch(device, specs, some, total, direction, buffer));
      [some, total] = [[], 0];
    };
    for (const move of moves) {
      const elements = count(move);
      if (elements > MAX_ELEMENTS)
        throw rangeError(
          `a part of ${elements} elements is more than a launch can move: at most ${MAX_ELEMENTS}`,
        );
      if (some.length === most || total + elements > MAX_ELEMENTS) launch();
      some.push(move);
      total += elements;
    }
    launch();
    construction.done();
  }

  /**
   * Enqueues the launches on `stream`, after all work that is already on `after`. If
   * `after` is null, the launches do not wait. `mark` is the event for that wait.
   */
  run(stream: Stream, after: Stream | null, mark: DeviceEvent, arrays: readonly Tensor[]): void {
    let first = after?.handle ?? 0;
    for (const { spans, wholes, arrays: which } of this.#launches) {
      for (let i = 0; i < which.length; i++) {
        const tensor = arrays[which[i] as number] as Tensor;
        spans[6 + 3 * i] = tensor.handle;
        spans[7 + 3 * i] = tensor.byteOffset;
      }
      nativeHalos().launchHalo(stream.handle, first, mark.handle, this.#itemsize, spans, wholes);
      first = 0;
    }
  }

  #launch(
    device: Device,
    specs: readonly HaloExchangeSpec[],
    moves: readonly Move[],
    total: number,
    direction: 'pack' | 'unpack',
    buffer: Tensor,
  ): Launch {
    const arrays = moves.map(({ array }) => array);
    const elements = arrays.map((array) => (specs[array] as HaloExchangeSpec).specification.span);
    // Here `array` is the array's position among the kernel's arguments.
    const numbered = moves.map((move, i) => ({ ...move, array: i }));
    const table = encode(numbered, direction);
    const { handle } = own(this, new Handle(nativeShared().deviceTable(device.handle, table)));
    const size = this.#itemsize;
    const start = buffer.byteOffset + (moves[0] as Move).buffer * size;
    const spans = [buffer.handle, start, total * size, handle, 0, table.byteLength];
    for (const each of elements) spans.push(0, 0, each * size);
    const written = direction === 'unpack' ? encodeWritten(table, numbered) : new BigInt64Array();
    const { arrays: most } = nativeHalos().layout;
    const words = new BigInt64Array(2 + most + written.length);
    words.set(written, 2 + most);
    const wholes = new Float64Array(words.buffer);
    wholes.set([moves.length, total, ...elements]);
    return { spans: Float64Array.from(spans), wholes, arrays };
  }
}
