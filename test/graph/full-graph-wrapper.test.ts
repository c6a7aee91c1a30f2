/** A whole iteration as one graph: warm-up, one capture, replays; and everything that may be asked of it at a wrong moment. */
import { expect } from 'chai';
import { captureGraph } from '../../src/graph/shared.ts';
import {
  type Device,
  DeviceGenerator,
  type FullGraphOptions,
  FullGraphWrapper,
  getSharedCaptureStream,
  getSharedGraphPool,
  type IterationFunction,
  type IterationOptions,
  openDevice,
  type Tensor,
  type TensorStruct,
} from '../../src/index.ts';
import { add, Latch, openHandles, refusal, until, valuesOf } from '../device/rig.ts';
import { ON_HOST, TESTED } from '../tested-device.ts';

type Batch = { x: Tensor };

describe('graph/full-graph-wrapper', () => {
  let device: Device;
  let sum: Tensor;
  let openBefore: Record<string, number>;
  let calls: number;
  const wrappers: FullGraphWrapper<unknown, unknown>[] = [];
  let held: Device;
  // What belongs to the device itself stays as long as anybody has it open: made before handles are counted.
  before(() => {
    held = openDevice(TESTED);
    const pool = getSharedGraphPool(held);
    captureGraph(held, { what: 'nothing', pool }, () => pool.allocate({ shape: [200_000] })).exec.close();
  });
  after(() => held.close());
  beforeEach(() => {
    device = openDevice(TESTED);
    openBefore = openHandles();
    sum = device.allocate({ shape: [2] });
    calls = 0;
  });
  afterEach(() => {
    for (const each of wrappers.splice(0)) each.close();
    sum.close();
    device.close();
    expect(openHandles()).to.deep.equal(openBefore);
  });

  /** sum += x for every microbatch of every iterator. */
  const addAll: IterationFunction<unknown, unknown> = ({ dataIterator }, { stream }) => {
    calls++;
    for (const each of Array.isArray(dataIterator) ? dataIterator : [dataIterator])
      for (let next = each?.next(); next && !next.done; next = each.next()) add(stream, sum, (next.value as Batch).x);
    return { sum };
  };
  const wrap = (fn: IterationFunction<unknown, unknown> = addAll, options: FullGraphOptions = {}) => {
    const wrapper = new FullGraphWrapper<unknown, unknown>(fn, { device, ...options });
    wrappers.push(wrapper);
    return wrapper;
  };
  const batch = (...x: number[]): TensorStruct => ({ x: new Float32Array(x) });
  const given = (dataIterator: IterationOptions['dataIterator'], more: Partial<IterationOptions> = {}) => ({
    model: null,
    dataIterator,
    numMicrobatches: 1,
    seqLength: 2,
    forwardOnly: false,
    ...more,
  });

  for (const warmupSteps of [0, 1, 3])
    it(`applies exactly one update per run with ${warmupSteps} warm-up steps, and captures once`, async () => {
      const wrapper = wrap(addAll, { warmupSteps });
      for (let i = 0; i < 6; i++) {
        const result = wrapper.run(given([batch(1, 10 ** i)].values()));
        expect(result).to.equal(wrapper.result.training);
        expect(wrapper.graph.training === null, `run ${i} is eager`).to.equal(i < warmupSteps);
        expect(wrapper.currIter('training')).to.equal(i + 1);
      }
      expect(calls, 'calls of the function').to.equal(warmupSteps + 1);
      expect(await valuesOf(sum)).to.deep.equal([6, 111_111]);
      expect(wrapper.currIteration).to.deep.equal({ training: 6, validation: 0 });
    });

  it('gives the same result object after every replay, and keeps training and validation apart', async () => {
    const wrapper = wrap();
    const run = (forwardOnly: boolean, x: number) =>
      wrapper.run(given([batch(x, x)].values(), { forwardOnly })) as { sum: Tensor };
    run(false, 1);
    const captured = run(false, 1);
    expect(run(false, 1)).to.equal(captured);
    expect([wrapper.graph.training === null, wrapper.graph.validation]).to.deep.equal([false, null]);
    run(true, 10);
    const validation = run(true, 10);
    expect(run(true, 10)).to.equal(validation);
    expect(validation).to.not.equal(captured);
    expect(wrapper.currIteration).to.deep.equal({ training: 3, validation: 3 });
    expect(await valuesOf(sum)).to.deep.equal([33, 33]);
    expect(wrapper.dataRead.training).to.not.deep.equal(wrapper.dataRead.validation);
  });

  it('reads microbatches of several models and iterators, null where one reads nothing', async () => {
    const wrapper = wrap();
    for (let i = 0; i < 3; i++)
      wrapper.run(
        given([[batch(1, 0), batch(2, 0)], null, [batch(0, 5), batch(0, 6)].values()], {
          model: ['a', 'b', 'c'],
          numMicrobatches: 2,
        }),
      );
    expect(await valuesOf(sum)).to.deep.equal([9, 33]);
    expect(calls).to.equal(2);
    expect(wrapper.dataRead.training?.map((each) => each?.length ?? null)).to.deep.equal([2, null, 2]);
    const alone = wrap();
    for (let i = 0; i < 3; i++) alone.run(given(null));
    expect(alone.graph.training, 'an iterator that is null gives null, and is captured like others').to.not.equal(null);
  });

  it('hands model, counts, stream and pool to the function', () => {
    const seen: unknown[] = [];
    const wrapper = wrap((args, context) => {
      seen.push([args.model, args.numMicrobatches, args.seqLength, args.forwardOnly, context.stream.handle]);
      expect(context.device.currentStream.handle).to.equal(context.stream.handle);
      expect(context.pool.allocate({ shape: [3] }).shape).to.deep.equal([3]);
      return null;
    });
    for (let i = 0; i < 3; i++) wrapper.run(given(null, { model: 'm', forwardOnly: true }));
    const stream = getSharedCaptureStream(device).handle;
    expect(seen, 'warm-up and capture on the shared stream').to.deep.equal([
      ['m', 1, 2, true, stream],
      ['m', 1, 2, true, stream],
    ]);
  });

  it('orders itself behind the current stream, and the current stream behind itself, whichever that is', async () => {
    const wrapper = wrap();
    using stream = device.createStream();
    using out = device.allocate({ shape: [2] });
    for (let i = 0; i < 4; i++) {
      using latch = new Latch(device).hold(stream);
      device.withStream(stream, () => {
        stream.fill(sum, i);
        wrapper.run(given([batch(1, 2)].values()));
        stream.copy(out, sum);
        stream.fill(sum, 99);
      });
      latch.open();
      expect(await valuesOf(out, stream), `run ${i}`).to.deep.equal([i + 1, i + 2]);
    }
    // From one stream to another, without a word from the caller.
    using latch = new Latch(device).hold(stream);
    await stream.query();
    device.withStream(stream, () => wrapper.run(given([batch(1, 1)].values())));
    wrapper.run(given([batch(1, 1)].values()));
    latch.open();
    expect(await valuesOf(sum)).to.deep.equal([101, 101]);
  });

  it('data may change at once: it is copied when run is called', async () => {
    const wrapper = wrap();
    using stream = device.createStream();
    const x = new Float32Array(2);
    using latch = new Latch(device).hold(stream);
    device.withStream(stream, () => {
      for (let i = 1; i <= 4; i++) wrapper.run(given([{ x: x.fill(i) }].values()));
    });
    latch.open();
    expect(await valuesOf(sum, stream)).to.deep.equal([10, 10]);
  });

  it('an iterator may use its memory again for the next microbatch, on the cpu and on the device', async () => {
    const wrapper = wrap();
    const array = new Float32Array(2);
    using tensor = device.allocate({ shape: [2] });
    const refilled = function* (): Generator<TensorStruct> {
      for (let i = 1; ; i = (i % 3) + 1) {
        device.currentStream.fill(tensor, 10 * i);
        yield i === 3 ? { x: tensor } : { x: array.fill(i) };
      }
    };
    const iterator = refilled();
    for (let i = 0; i < 4; i++) wrapper.run(given(iterator, { numMicrobatches: 3 }));
    expect(await valuesOf(sum)).to.deep.equal([132, 132]);
  });

  it('everything the graph touches stays until the graph is gone', async () => {
    const wrapper = wrap(({ dataIterator }, { stream, pool }) => {
      const temporary = pool.allocate({ shape: [2] });
      const { x } = (dataIterator as Iterator<Batch>).next().value as Batch;
      stream.copy(temporary, x);
      using own = device.allocate({ shape: [2], zeroed: false });
      stream.copy(own, temporary);
      add(stream, sum, own);
      return null;
    });
    for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
    using other = device.allocate({ shape: [2], zeroed: false });
    for (let i = 0; i < 8; i++) {
      using taken = device.allocate({ shape: [2], zeroed: false });
      device.currentStream.fill(taken, 50);
      wrapper.run(given([batch(1, 1)].values()));
    }
    device.currentStream.fill(other, 50);
    expect(await valuesOf(sum)).to.deep.equal([10, 10]);
  });

  it('draws new random numbers at every replay, as the eager run does', async () => {
    const draws = async (warmupSteps: number) => {
      using generator = new DeviceGenerator(device, { seed: 11 });
      using out = device.allocate({ shape: [2] });
      using wrapper = new FullGraphWrapper(
        (_, { stream }) => {
          generator.uniform(stream, out);
          return out;
        },
        { device, warmupSteps },
      );
      const seen: number[][] = [];
      for (let i = 0; i < 5; i++) seen.push(await valuesOf(wrapper.run(given(null))));
      return seen;
    };
    const eager = await draws(100);
    expect(await draws(1)).to.deep.equal(eager);
    expect(new Set(eager.map(String)).size).to.equal(5);
  });

  it('shares one pool between graphs that do not run at once, or gives each its own', async () => {
    const withTemporary: IterationFunction<unknown, unknown> = (args, context) => {
      context.stream.fill(context.pool.allocate({ shape: [100_000] }), 1);
      addAll(args, context);
      return context.pool.handle;
    };
    const shared = wrap(withTemporary, { useSingleMempool: true });
    const pools = [false, true].map((forwardOnly) => shared.run(given([batch(1, 1)].values(), { forwardOnly })));
    const { handle } = getSharedGraphPool(device);
    expect(pools).to.deep.equal([handle, handle]);
    shared.run(given([batch(1, 1)].values()));
    const { bytes } = getSharedGraphPool(device);
    expect(bytes).to.be.at.least(400_000);
    for (let i = 0; i < 3; i++) shared.run(given([batch(1, 1)].values(), { forwardOnly: i % 2 === 0 }));
    expect(getSharedGraphPool(device).bytes, 'every graph finds the same memory').to.equal(bytes);
    const apart = wrap(withTemporary);
    const [training, validation] = [false, true].map((forwardOnly) =>
      apart.run(given([batch(1, 1)].values(), { forwardOnly })),
    );
    expect(training).to.not.equal(validation);
    expect([training, validation]).to.not.include(handle);
  });

  describe('shapes', () => {
    it('refuses another one after the capture, with what changed, and goes on with the old one', async () => {
      const wrapper = wrap();
      // A new object each time: its parameters are what counts.
      const modelOf = (name: string) => ({ namedParameters: () => [[name, sum]] });
      const run = (data: TensorStruct[], more: Partial<IterationOptions> = {}) =>
        wrapper.run(given(data.values(), { model: modelOf('weights'), ...more }));
      run([batch(1, 1)]);
      run([batch(1, 1)]);
      for (const [call, words] of [
        [() => run([batch(1, 1, 1)]), "'x' of microbatch 0, iterator 0 is float32 3 instead of float32 2"],
        [() => run([{ x: new Float64Array(2) }]), 'is float64 2 instead of float32 2'],
        [() => run([{ y: new Float32Array(2) }]), "'x' of microbatch 0, iterator 0 is missing instead of float32 2"],
        [
          () => run([batch(1, 1), batch(1, 1)], { numMicrobatches: 2 }),
          '2 microbatches of sequence length 2 instead of 1',
        ],
        [() => run([batch(1, 1)], { seqLength: 4 }), 'sequence length 4 instead of'],
        [() => wrapper.run(given(null)), 'data iterators null instead of data iterators given'],
        [() => run([batch(1, 1)], { model: modelOf('other') }), 'another model'],
      ] as const) {
        const error = refusal(call as () => unknown);
        expect([error.code, error.message.includes(words)], error.message).to.deep.equal(['ERR_HOTSLOT_RANGE', true]);
        expect(error.message).to.include("resetGraph('training')");
      }
      run([{ ...batch(1, 1), more: new Float32Array(3) }]);
      expect([wrapper.currIter('training'), await valuesOf(sum)]).to.deep.equal([3, [3, 3]]);
      expect(calls).to.equal(2);
    });

    it('keeps graphs of several when asked, up to a bound, and buffers of each', async () => {
      const wrapper = wrap(
        ({ dataIterator, numMicrobatches }, context) => {
          calls++;
          for (let i = 0; i < numMicrobatches; i++) {
            const { x } = (dataIterator as Iterator<Batch>).next().value as Batch;
            add(context.stream, sum, x.view({ shape: [2] }));
          }
          return null;
        },
        { maxGraphs: 2 },
      );
      for (let i = 0; i < 3; i++) {
        wrapper.run(given([batch(1, 1)].values()));
        wrapper.run(given([batch(10, 10, 10)].values()));
      }
      // The first warms up; the second, captured, finds the first uncaptured and takes its place.
      expect(await valuesOf(sum)).to.deep.equal([33, 33]);
      expect(calls).to.equal(3);
      const error = refusal(() => wrapper.run(given([batch(1, 1, 1, 1)].values())));
      expect(error.message).to.include('2 graphs are kept, the most allowed');
      wrapper.run(given([batch(100, 100)].values()));
      expect(await valuesOf(sum)).to.deep.equal([133, 133]);
    });

    it('changes in a later microbatch find or make their own buffers, and what was read before moves over', async () => {
      const wrapper = wrap(
        ({ dataIterator, numMicrobatches }, { stream }) => {
          for (let i = 0; i < numMicrobatches; i++) {
            const { x } = (dataIterator as Iterator<Batch>).next().value as Batch;
            add(stream, sum, x.view({ shape: [2] }));
          }
          return null;
        },
        { maxGraphs: 2, warmupSteps: 0 },
      );
      const array = new Float32Array(2);
      const data = function* (long: boolean): Generator<TensorStruct> {
        yield { x: array.fill(1) };
        array.fill(50);
        yield batch(...(long ? [10, 10, 10] : [10, 10]));
      };
      for (const long of [false, true, false, true]) wrapper.run(given(data(long), { numMicrobatches: 2 }));
      expect(await valuesOf(sum)).to.deep.equal([44, 44]);
    });

    it('a key that came later may go again', async () => {
      const wrapper = wrap();
      const more = { ...batch(1, 1), more: new Float32Array(3) };
      for (const data of [batch(1, 1), more, batch(1, 1), more, batch(1, 1)]) wrapper.run(given([data].values()));
      wrapper.resetGraph();
      wrapper.run(given([batch(1, 1)].values()));
      expect(await valuesOf(sum)).to.deep.equal([6, 6]);
    });

    it('may change while iterations are eager', async () => {
      const wrapper = wrap(
        ({ dataIterator }, { stream }) => {
          add(stream, sum, ((dataIterator as Iterator<Batch>).next().value as Batch).x.view({ shape: [2] }));
          return null;
        },
        { warmupSteps: 2 },
      );
      wrapper.run(given([batch(1, 1)].values()));
      wrapper.run(given([batch(1, 1, 1)].values()));
      wrapper.run(given([batch(1, 1, 1)].values()));
      expect([wrapper.graph.training === null, await valuesOf(sum)]).to.deep.equal([false, [3, 3]]);
    });
  });

  describe('resetGraph', () => {
    it('forgets graph, result and counter of one stage, keeps its buffers, and captures anew', async () => {
      const wrapper = wrap();
      for (let i = 0; i < 2; i++)
        for (const forwardOnly of [false, true]) wrapper.run(given([batch(1, 1)].values(), { forwardOnly }));
      const buffers = wrapper.dataRead.training;
      wrapper.resetGraph('training');
      expect([wrapper.currIteration, wrapper.graph.training, wrapper.result.training]).to.deep.equal([
        { training: 0, validation: 2 },
        null,
        null,
      ]);
      expect(wrapper.graph.validation).to.not.equal(null);
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1)].values()));
      expect(wrapper.dataRead.training, 'the same tensors').to.deep.equal(buffers);
      expect([calls, await valuesOf(sum)]).to.deep.equal([6, [7, 7]]);
      wrapper.resetGraph();
      expect(wrapper.currIteration).to.deep.equal({ training: 0, validation: 0 });
    });

    it('lets another shape be captured', async () => {
      const wrapper = wrap();
      for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
      wrapper.resetGraph('training');
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1), batch(2, 2)].values(), { numMicrobatches: 2 }));
      expect([wrapper.graph.training === null, await valuesOf(sum)]).to.deep.equal([false, [11, 11]]);
    });

    it('may come while replays run', async () => {
      const wrapper = wrap();
      using stream = device.createStream();
      for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
      await device.currentStream.synchronize();
      using latch = new Latch(device).hold(stream);
      device.withStream(stream, () => wrapper.run(given([batch(1, 1)].values())));
      wrapper.resetGraph();
      wrapper.close();
      latch.open();
      expect(await valuesOf(sum, stream)).to.deep.equal([3, 3]);
    });
  });

  describe('failures', () => {
    const warnings: string[] = [];
    const listen = (warning: Error) => warnings.push(warning.message);
    beforeEach(() => {
      warnings.length = 0;
      process.on('warning', listen);
    });
    afterEach(() => void process.off('warning', listen));

    it('a capture that cannot be made says why, once, and iterations run eagerly until the reset', async () => {
      let allowed = false;
      const wrapper = wrap((args, context) => {
        if (!allowed) device.createEvent().close();
        // What a capture forbids: reading memory sizes, allocating, asking.
        if (!allowed) using_(device.allocate({ shape: [1] }));
        return addAll(args, context);
      });
      for (let i = 0; i < 4; i++) wrapper.run(given([batch(1, 1)].values()));
      expect(await valuesOf(sum)).to.deep.equal([4, 4]);
      expect([wrapper.graph.training, wrapper.currIter('training')]).to.deep.equal([null, 4]);
      expect(wrapper.reason.training?.message).to.include('the capture of training failed');
      expect((wrapper.reason.training?.cause as { status?: number }).status).to.equal(900);
      await new Promise((resolve) => setImmediate(resolve));
      expect(warnings).to.deep.equal([
        `${wrapper.reason.training?.message}; iterations run eagerly until resetGraph()`,
      ]);
      allowed = true;
      wrapper.resetGraph('training');
      for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
      expect([wrapper.graph.training === null, wrapper.reason.training]).to.deep.equal([false, null]);
      expect(await valuesOf(sum)).to.deep.equal([6, 6]);
    });

    it('a function that throws in the capture runs eagerly once more, and the next call works', async () => {
      let broken = 0;
      const wrapper = wrap((args, context) => {
        if (calls === 1 && broken++ === 0) {
          add(context.stream, sum, sum);
          throw new Error('once');
        }
        return addAll(args, context);
      });
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1)].values()));
      expect([broken, wrapper.currIter('training'), await valuesOf(sum)]).to.deep.equal([2, 3, [3, 3]]);
      expect((wrapper.reason.training?.cause as Error).message).to.equal('once');
    });

    it('a function that throws eagerly passes its error on and is not counted', async () => {
      let broken = true;
      const wrapper = wrap((args, context) => {
        if (broken) throw new Error('mine');
        return addAll(args, context);
      });
      expect(refusal(() => wrapper.run(given([batch(1, 1)].values()))).message).to.equal('mine');
      expect(wrapper.currIter('training')).to.equal(0);
      broken = false;
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1)].values()));
      expect(await valuesOf(sum)).to.deep.equal([3, 3]);
    });

    it('what a function enqueued before it threw comes before what the caller does next', async () => {
      using big = device.allocate({ shape: [1 << 16] });
      const wrapper = wrap((_, { stream }) => {
        for (let i = 0; i < 50; i++) add(stream, big, big);
        stream.fill(sum, 1);
        throw new Error('mine');
      });
      expect(refusal(() => wrapper.run(given(null))).message).to.equal('mine');
      device.currentStream.fill(sum, 7);
      expect(await valuesOf(sum)).to.deep.equal([7, 7]);
      await getSharedCaptureStream(device).synchronize();
      expect(await valuesOf(sum)).to.deep.equal([7, 7]);
    });

    it('waiting inside a capture is told', async () => {
      const wrapper = wrap(
        (args, context) => {
          context.stream.synchronize().catch(() => {});
          return addAll(args, context);
        },
        { warmupSteps: 0 },
      );
      wrapper.run(given([batch(1, 1)].values()));
      expect(wrapper.reason.training).to.be.instanceOf(Error);
      expect(await valuesOf(sum)).to.deep.equal([1, 1]);
    });

    it('a current stream that failed spoils neither the wrapper nor other streams', async function () {
      if (!ON_HOST) this.skip(); // on a GPU a failure is the whole device's
      for (const warmupSteps of [100, 0]) {
        const wrapper = wrap(addAll, { warmupSteps });
        wrapper.run(given([batch(1, 1)].values()));
        using bad = device.createStream();
        using latch = new Latch(device).hold(bad);
        bad.launch('fail');
        device.withStream(bad, () => wrapper.run(given([batch(1, 1)].values())));
        latch.open();
        await until('the stream has failed', () => {
          try {
            bad.query();
            return false;
          } catch {
            return true;
          }
        });
        device.currentStream.fill(sum, 0);
        for (let i = 0; i < 3; i++) {
          using good = device.createStream();
          device.withStream(good, () => wrapper.run(given([batch(1, 1)].values())));
          await good.synchronize();
        }
        using other = device.createStream();
        expect((await valuesOf(sum, other))[0], `${warmupSteps} warm-up steps`).to.be.within(3, 4);
        const innocent = wrap(() => null, { warmupSteps: 0 });
        innocent.run(given(null));
        expect(innocent.reason.training).to.equal(null);
      }
    });

    it('cannot be closed or reset by its own function', () => {
      for (const act of ['close', 'resetGraph'] as const) {
        const wrapper: FullGraphWrapper<unknown, unknown> = wrap(() => wrapper[act]());
        expect(refusal(() => wrapper.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_RUNNING');
        wrapper.close();
      }
    });

    it('refuses a function that answers with a promise, and iterations inside iterations', () => {
      const later = wrap((async () => null) as unknown as IterationFunction<unknown, unknown>);
      expect(refusal(() => later.run(given(null))).message).to.include('promise');
      const inner = wrap();
      const outer = wrap(() => inner.run(given([batch(1, 1)].values())));
      expect(refusal(() => outer.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
      const self: FullGraphWrapper<unknown, unknown> = wrap(() => self.run(given(null)));
      expect(refusal(() => self.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_RUNNING');
    });

    it('an iterator that ends early is told with its microbatch, and nothing has run', async () => {
      const wrapper = wrap();
      const error = refusal(() => wrapper.run(given([batch(1, 1)].values(), { numMicrobatches: 3 })));
      expect([error.code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_RANGE',
        'the data iterator ended at microbatch 1 of 3 (training): it must give 3 for every iteration',
      ]);
      const endless = function* () {
        for (;;) yield batch(1, 1);
      };
      const iterator = endless();
      for (let i = 0; i < 3; i++) wrapper.run(given(iterator, { numMicrobatches: 3 }));
      expect([wrapper.currIter('training'), await valuesOf(sum)]).to.deep.equal([3, [9, 9]]);
    });

    it('refuses positional and misspelt arguments, and what is none, with the values', () => {
      const wrapper = wrap();
      const run = wrapper.run.bind(wrapper) as unknown as (...args: unknown[]) => void;
      const all = given(null);
      for (const [args, words] of [
        [[null, null, 1, 2, false], 'got 5 arguments'],
        [[all, 1], 'got 2 arguments'],
        [[], 'got 0 arguments'],
        [[null], 'got null'],
        [[{ ...all, seqLen: 3 }], "there is no 'seqLen'"],
        [[{ model: null, dataIterator: null, numMicrobatches: 1, seqLength: 2 }], "'forwardOnly' is missing"],
        [[{ ...all, numMicrobatches: 0 }], 'got 0'],
        [[{ ...all, seqLength: 1.5 }], 'got 1.5'],
        [[{ ...all, forwardOnly: 1 }], 'got 1'],
        [[{ ...all, dataIterator: 5 }], 'got 5'],
        [[{ ...all, dataIterator: [batch(1, 1)] }], 'array.values()'],
        [[{ ...all, dataIterator: [5] }], 'got 5'],
        [[{ ...all, dataIterator: new Set([7]) }], 'object of named tensors'],
        [[{ ...all, dataIterator: [null, null] }], '1 models need as many data iterators'],
        [[{ ...all, model: [1, 2], dataIterator: null }], '2 models need as many data iterators'],
      ] as const)
        expect(refusal(() => run(...args)).message).to.include(words);
      for (const [options, words] of [
        [{ warmupSteps: -1 }, 'got -1'],
        [{ useSingleMempool: 1 }, 'got 1'],
        [{ maxGraphs: 0 }, 'got 0'],
        [{ warmup: 1 }, "unknown option 'warmup'"],
      ] as const)
        expect(refusal(() => wrap(addAll, options as never)).message).to.include(words);
      expect(refusal(() => new FullGraphWrapper(null as never)).message).to.include('got null');
      expect(refusal(() => wrapper.currIter('testing' as never)).message).to.include("got 'testing'");
      wrapper.close();
      wrapper.close();
      expect(refusal(() => wrapper.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    });
  });

  it("takes the device of the model's first parameter, or the one named", () => {
    const wrapper = new FullGraphWrapper((_, context) => context.device.name);
    const model = { namedParameters: () => [['w', sum]] as [string, Tensor][] };
    expect(wrapper.run({ ...given(null), model })).to.equal(TESTED);
    wrapper.close();
    using named = new FullGraphWrapper((_, context) => context.device.name, { device: TESTED });
    expect(named.run(given(null))).to.equal(TESTED);
  });
});

const using_ = (tensor: Tensor) => tensor.close();
