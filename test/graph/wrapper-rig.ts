/**
 * Helpers of the tests of FullGraphWrapper: a sum on the device, a function that adds to it, and
 * wrappers that are closed after each test.
 */
import { expect } from 'chai';
import { captureGraph } from '../../src/device/graph/shared.ts';
import {
  type FullGraphOptions,
  FullGraphWrapper,
  getSharedGraphPool,
  type IterationFunction,
  type IterationOptions,
  type TensorStruct,
} from '../../src/entries/graph.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { add } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';

export type Batch = { x: Tensor };

export const batch = (...x: number[]): TensorStruct => ({ x: new Float32Array(x) });

export const given = (
  dataIterator: IterationOptions['dataIterator'],
  more: Partial<IterationOptions> = {},
) => ({
  model: null,
  dataIterator,
  numMicrobatches: 1,
  seqLength: 2,
  forwardOnly: false,
  ...more,
});

/**
 * Create it in a describe(). Each test gets a new device and sum, and must leave as many open
 * handles as it found.
 */
export class WrapperRig {
  #device: Device | undefined;
  #sum: Tensor | undefined;
  /** calls of the test's function */
  calls = 0;
  readonly #wrappers: FullGraphWrapper<unknown, unknown>[] = [];

  constructor() {
    let held: Device;
    let openBefore: Record<string, number>;
    // The capture stream and the pool belong to the device and stay open as long as any thread has
    // it open. So they are created before the handles are counted.
    before(() => {
      held = openDevice(TESTED);
      const pool = getSharedGraphPool(held);
      captureGraph(held, { what: 'nothing', pool }, () =>
        pool.allocate({ shape: [200_000] }),
      ).exec.close();
    });
    after(() => held.close());
    beforeEach(() => {
      this.#device = openDevice(TESTED);
      openBefore = openHandles();
      this.#sum = this.device.allocate({ shape: [2] });
      this.calls = 0;
    });
    afterEach(() => {
      for (const each of this.#wrappers.splice(0)) each.close();
      this.sum.close();
      this.device.close();
      expect(openHandles()).to.deep.equal(openBefore);
    });
  }

  get device(): Device {
    return this.#device!;
  }
  get sum(): Tensor {
    return this.#sum!;
  }

  /** Adds x to the sum for every microbatch of every iterator. */
  readonly addAll: IterationFunction<unknown, unknown> = ({ dataIterator }, { stream }) => {
    this.calls++;
    for (const each of Array.isArray(dataIterator) ? dataIterator : [dataIterator])
      for (let next = each?.next(); next && !next.done; next = each.next())
        add(stream, this.sum, (next.value as Batch).x);
    return { sum: this.sum };
  };

  readonly wrap = (
    fn: IterationFunction<unknown, unknown> = this.addAll,
    options: FullGraphOptions = {},
  ) => {
    const wrapper = new FullGraphWrapper<unknown, unknown>(fn, { device: this.device, ...options });
    this.#wrappers.push(wrapper);
    return wrapper;
  };
}
