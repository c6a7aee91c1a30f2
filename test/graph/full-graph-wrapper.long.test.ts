/**
 * Tests a whole iteration as one graph: warm-up, one capture, replays, and their order with other
 * work.
 */
import { expect } from 'chai';
import { newReplayer } from '../../src/device/transfer/native.ts';
import {
  DeviceGenerator,
  FullGraphWrapper,
  getSharedCaptureStream,
  getSharedGraphPool,
  type IterationFunction,
  type TensorStruct,
} from '../../src/entries/graph.ts';
import type { GraphExec, Tensor } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { Latch } from '../rig/latch.ts';
import { itAll } from '../rig/setting.ts';
import { add, valuesOf } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';
import { type Batch, batch, given, WrapperRig } from './wrapper-rig.ts';

describe('graph/full-graph-wrapper', () => {
  const rig = new WrapperRig();
  const { wrap, addAll } = rig;

  for (const warmupSteps of [0, 1, 3])
    it(`applies exactly one update per run with ${warmupSteps} warm-up steps, and captures once`, async () => {
      const wrapper = wrap(addAll, { warmupSteps });
      for (let i = 0; i < 6; i++) {
        const result = wrapper.run(given([batch(1, 10 ** i)].values()));
        expect(result).to.equal(wrapper.result.training);
        expect(wrapper.graph.training === null, `run ${i} is eager`).to.equal(i < warmupSteps);
        expect(wrapper.currIter('training')).to.equal(i + 1);
      }
      expect(rig.calls, 'calls of the function').to.equal(warmupSteps + 1);
      expect(await valuesOf(rig.sum)).to.deep.equal([6, 111_111]);
      expect(wrapper.currIteration).to.deep.equal({ training: 6, validation: 0 });
    });

  for (const warmupSteps of [0, 1, 3])
    it(`a function can delete and swap keys of its batch with no effect on later runs, ${warmupSteps} warm-up steps`, async () => {
      const wrapper = wrap(
        ({ dataIterator }, { stream }) => {
          const each = (dataIterator as Iterator<TensorStruct>).next().value as Record<
            string,
            Tensor | undefined
          >;
          [each.x, each.y] = [each.y, each.x];
          add(stream, rig.sum, each.y as Tensor);
          delete each.y;
          return null;
        },
        { warmupSteps },
      );
      for (let i = 1; i <= 5; i++) {
        const data = { x: new Float32Array([i, 0]), y: new Float32Array([0, 0]) };
        wrapper.run(given([data].values()));
        const read = wrapper.dataRead.training?.[0]?.[0] as Record<string, unknown>;
        for (const key of Object.keys(read)) delete read[key];
      }
      expect(await valuesOf(rig.sum)).to.deep.equal([15, 0]);
    });

  it('returns the same result object after every launch, and separates training from validation', async () => {
    const wrapper = wrap();
    const run = (forwardOnly: boolean, x: number) =>
      wrapper.run(given([batch(x, x)].values(), { forwardOnly })) as { sum: Tensor };
    run(false, 1);
    const captured = run(false, 1);
    expect(run(false, 1)).to.equal(captured);
    expect([wrapper.graph.training === null, wrapper.graph.validation]).to.deep.equal([
      false,
      null,
    ]);
    run(true, 10);
    const validation = run(true, 10);
    expect(run(true, 10)).to.equal(validation);
    expect(validation).to.not.equal(captured);
    expect(wrapper.currIteration).to.deep.equal({ training: 3, validation: 3 });
    expect(await valuesOf(rig.sum)).to.deep.equal([33, 33]);
    expect(wrapper.dataRead.training).to.not.deep.equal(wrapper.dataRead.validation);
  });

  it('reads microbatches of several models and iterators, which can be null', async () => {
    const wrapper = wrap();
    for (let i = 0; i < 3; i++)
      wrapper.run(
        given([[batch(1, 0), batch(2, 0)], null, [batch(0, 5), batch(0, 6)].values()], {
          model: ['a', 'b', 'c'],
          numMicrobatches: 2,
        }),
      );
    expect(await valuesOf(rig.sum)).to.deep.equal([9, 33]);
    expect(rig.calls).to.equal(2);
    expect(wrapper.dataRead.training?.map((each) => each?.length ?? null)).to.deep.equal([
      2,
      null,
      2,
    ]);
    const alone = wrap();
    for (let i = 0; i < 3; i++) alone.run(given(null));
    expect(alone.graph.training, 'an iteration without an iterator is captured too').to.not.equal(
      null,
    );
  });

  it('passes model, counts, stream and pool to the function', () => {
    const seen: unknown[] = [];
    const wrapper = wrap((args, context) => {
      seen.push([
        args.model,
        args.numMicrobatches,
        args.seqLength,
        args.forwardOnly,
        context.stream.handle,
      ]);
      expect(context.device.currentStream.handle).to.equal(context.stream.handle);
      expect(context.pool.allocate({ shape: [3] }).shape).to.deep.equal([3]);
      return null;
    });
    for (let i = 0; i < 3; i++) wrapper.run(given(null, { model: 'm', forwardOnly: true }));
    const stream = getSharedCaptureStream(rig.device).handle;
    expect(seen, 'warm-up and capture on the shared stream').to.deep.equal([
      ['m', 1, 2, true, stream],
      ['m', 1, 2, true, stream],
    ]);
  });

  it('executes after earlier work of the current stream and before its later work, on any stream', async () => {
    const wrapper = wrap();
    using stream = rig.device.createStream();
    using out = rig.device.allocate({ shape: [2] });
    for (let i = 0; i < 4; i++) {
      using latch = new Latch(rig.device).hold(stream);
      rig.device.withStream(stream, () => {
        stream.fill(rig.sum, i);
        wrapper.run(given([batch(1, 2)].values()));
        stream.copy(out, rig.sum);
        stream.fill(rig.sum, 99);
      });
      latch.open();
      expect(await valuesOf(out, stream), `run ${i}`).to.deep.equal([i + 1, i + 2]);
    }
    // The caller changes the stream without synchronizing. The second run still follows the first.
    using latch = new Latch(rig.device).hold(stream);
    await stream.query();
    rig.device.withStream(stream, () => wrapper.run(given([batch(1, 1)].values())));
    wrapper.run(given([batch(1, 1)].values()));
    latch.open();
    expect(await valuesOf(rig.sum)).to.deep.equal([101, 101]);
  });

  it('run() copies its input data when called, so the caller can change the data at once', async () => {
    const wrapper = wrap();
    using stream = rig.device.createStream();
    const x = new Float32Array(2);
    using latch = new Latch(rig.device).hold(stream);
    rig.device.withStream(stream, () => {
      for (let i = 1; i <= 4; i++) wrapper.run(given([{ x: x.fill(i) }].values()));
    });
    latch.open();
    expect(await valuesOf(rig.sum, stream)).to.deep.equal([10, 10]);
  });

  it('an iterator can reuse its memory on the CPU and the device for the next microbatch', async () => {
    const wrapper = wrap();
    const array = new Float32Array(2);
    using tensor = rig.device.allocate({ shape: [2] });
    const refilled = function* (): Generator<TensorStruct> {
      for (let i = 1; ; i = (i % 3) + 1) {
        rig.device.currentStream.fill(tensor, 10 * i);
        yield i === 3 ? { x: tensor } : { x: array.fill(i) };
      }
    };
    const iterator = refilled();
    for (let i = 0; i < 4; i++) wrapper.run(given(iterator, { numMicrobatches: 3 }));
    expect(await valuesOf(rig.sum)).to.deep.equal([132, 132]);
  });

  it('memory that a graph uses is not allocated again while the graph is open', async () => {
    const wrapper = wrap(({ dataIterator }, { stream, pool }) => {
      const temporary = pool.allocate({ shape: [2] });
      const { x } = (dataIterator as Iterator<Batch>).next().value as Batch;
      stream.copy(temporary, x);
      using own = rig.device.allocate({ shape: [2], zeroed: false });
      stream.copy(own, temporary);
      add(stream, rig.sum, own);
      return null;
    });
    for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
    using other = rig.device.allocate({ shape: [2], zeroed: false });
    for (let i = 0; i < 8; i++) {
      using taken = rig.device.allocate({ shape: [2], zeroed: false });
      rig.device.currentStream.fill(taken, 50);
      wrapper.run(given([batch(1, 1)].values()));
    }
    rig.device.currentStream.fill(other, 50);
    expect(await valuesOf(rig.sum)).to.deep.equal([10, 10]);
  });

  it('draws new random numbers at every launch, equal to those of eager runs', async () => {
    const draws = async (warmupSteps: number) => {
      using generator = new DeviceGenerator(rig.device, { seed: 11 });
      using out = rig.device.allocate({ shape: [2] });
      using wrapper = new FullGraphWrapper(
        (_, { stream }) => {
          generator.uniform(stream, out);
          return out;
        },
        { device: rig.device, warmupSteps },
      );
      const seen: number[][] = [];
      for (let i = 0; i < 5; i++) seen.push(await valuesOf(wrapper.run(given(null))));
      return seen;
    };
    const eager = await draws(100);
    expect(await draws(1)).to.deep.equal(eager);
    expect(new Set(eager.map(String)).size).to.equal(5);
  });

  it('useSingleMempool shares one pool between graphs, and by default each graph has its own', async () => {
    const withTemporary: IterationFunction<unknown, unknown> = (args, context) => {
      context.stream.fill(context.pool.allocate({ shape: [100_000] }), 1);
      addAll(args, context);
      return context.pool.handle;
    };
    const shared = wrap(withTemporary, { useSingleMempool: true });
    const pools = [false, true].map((forwardOnly) =>
      shared.run(given([batch(1, 1)].values(), { forwardOnly })),
    );
    const { handle } = getSharedGraphPool(rig.device);
    expect(pools).to.deep.equal([handle, handle]);
    shared.run(given([batch(1, 1)].values()));
    const { bytes } = getSharedGraphPool(rig.device);
    expect(bytes).to.be.at.least(400_000);
    for (let i = 0; i < 3; i++)
      shared.run(given([batch(1, 1)].values(), { forwardOnly: i % 2 === 0 }));
    expect(getSharedGraphPool(rig.device).bytes, 'all graphs use the same memory').to.equal(bytes);
    const apart = wrap(withTemporary);
    const [training, validation] = [false, true].map((forwardOnly) =>
      apart.run(given([batch(1, 1)].values(), { forwardOnly })),
    );
    expect(training).to.not.equal(validation);
    expect([training, validation]).to.not.include(handle);
  });

  itAll(
    'close() closes a graph that an actor pins, and the graph is freed when the actor closes',
    async () => {
      const before = openHandles();
      const wrapper = wrap(addAll, { warmupSteps: 0 });
      for (const forwardOnly of [false, true])
        wrapper.run(given([batch(1, 1)].values(), { forwardOnly }));
      using stream = rig.device.createStream();
      using spent = rig.device.createEvent();
      const { handle } = wrapper.graph.training as GraphExec;
      const times = new Float64Array(2);
      const replayer = newReplayer({
        stream: stream.handle,
        spent: [spent.handle],
        graphs: [handle],
        times,
      });
      // The actor's stream is not ordered after the runs above, which write the same sum.
      await rig.device.currentStream.synchronize();
      wrapper.close();
      expect(wrapper.closed).to.equal(true);
      expect(openHandles().exec, 'only the pinned graph is open').to.equal(
        (before.exec as number) + 1,
      );
      replayer.launch(0, -1);
      replayer.close();
      expect(openHandles().exec).to.equal(before.exec);
    },
  );

  it("uses the device of the model's first parameter, or the device option", () => {
    const wrapper = new FullGraphWrapper((_, context) => context.device.name);
    const model = { namedParameters: () => [['w', rig.sum]] as [string, Tensor][] };
    expect(wrapper.run({ ...given(null), model })).to.equal(TESTED);
    wrapper.close();
    using named = new FullGraphWrapper((_, context) => context.device.name, { device: TESTED });
    expect(named.run(given(null))).to.equal(TESTED);
  });
});
