/** Tests iterations of several shapes, and when graphs are dropped. */
import { expect } from 'chai';
import type { IterationFunction, IterationOptions, TensorStruct } from '../../src/entries/graph.ts';
import type { Tensor } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { add, valuesOf } from '../rig/tensors.ts';
import { type Batch, batch, given, WrapperRig } from './wrapper-rig.ts';

describe('graph/full-graph-wrapper', () => {
  const rig = new WrapperRig();
  const { wrap } = rig;

  describe('shapes', () => {
    it('run() throws for another shape after the capture, names the change, and accepts the old shape', async () => {
      const wrapper = wrap();
      // Returns a new object each time. The wrapper compares the model's parameters, not the
      // object.
      const modelOf = (name: string) => ({ namedParameters: () => [[name, rig.sum]] });
      const run = (data: TensorStruct[], more: Partial<IterationOptions> = {}) =>
        wrapper.run(given(data.values(), { model: modelOf('weights'), ...more }));
      run([batch(1, 1)]);
      run([batch(1, 1)]);
      for (const [call, words] of [
        [
          () => run([batch(1, 1, 1)]),
          "'x' of microbatch 0, iterator 0 is float32 3 instead of float32 2",
        ],
        [() => run([{ x: new Float64Array(2) }]), 'is float64 2 instead of float32 2'],
        [
          () => run([{ y: new Float32Array(2) }]),
          "'x' of microbatch 0, iterator 0 is missing instead of float32 2",
        ],
        [
          () => run([batch(1, 1), batch(1, 1)], { numMicrobatches: 2 }),
          '2 microbatches of sequence length 2 instead of 1',
        ],
        [() => run([batch(1, 1)], { seqLength: 4 }), 'sequence length 4 instead of'],
        [() => wrapper.run(given(null)), 'data iterators null instead of data iterators given'],
        [() => run([batch(1, 1)], { model: modelOf('other') }), 'another model'],
      ] as const) {
        const error = refusal(call as () => unknown);
        expect([error.code, error.message.includes(words)], error.message).to.deep.equal([
          'ERR_HOTSLOT_RANGE',
          true,
        ]);
        expect(error.message).to.include("resetGraph('training')");
      }
      run([{ ...batch(1, 1), more: new Float32Array(3) }]);
      expect([wrapper.currIter('training'), await valuesOf(rig.sum)]).to.deep.equal([3, [3, 3]]);
      expect(rig.calls).to.equal(2);
    });

    it('maxGraphs keeps graphs and buffers of several shapes, and run() throws for one more', async () => {
      const wrapper = wrap(
        ({ dataIterator, numMicrobatches }, context) => {
          rig.calls++;
          for (let i = 0; i < numMicrobatches; i++) {
            const { x } = (dataIterator as Iterator<Batch>).next().value as Batch;
            add(context.stream, rig.sum, x.view({ shape: [2] }));
          }
          return null;
        },
        { maxGraphs: 2 },
      );
      for (let i = 0; i < 3; i++) {
        wrapper.run(given([batch(1, 1)].values()));
        wrapper.run(given([batch(10, 10, 10)].values()));
      }
      // The first shape's iteration was a warm-up. The second shape is captured, and replaces the
      // first shape, which has no graph.
      expect(await valuesOf(rig.sum)).to.deep.equal([33, 33]);
      expect(rig.calls).to.equal(3);
      const error = refusal(() => wrapper.run(given([batch(1, 1, 1, 1)].values())));
      expect(error.message).to.include('2 graphs are kept, which is the maximum');
      wrapper.run(given([batch(100, 100)].values()));
      expect(await valuesOf(rig.sum)).to.deep.equal([133, 133]);
    });

    it('a shape change in a later microbatch gets its own buffers, and keeps the earlier microbatches', async () => {
      const wrapper = wrap(
        ({ dataIterator, numMicrobatches }, { stream }) => {
          for (let i = 0; i < numMicrobatches; i++) {
            const { x } = (dataIterator as Iterator<Batch>).next().value as Batch;
            add(stream, rig.sum, x.view({ shape: [2] }));
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
      for (const long of [false, true, false, true])
        wrapper.run(given(data(long), { numMicrobatches: 2 }));
      expect(await valuesOf(rig.sum)).to.deep.equal([44, 44]);
    });

    it('a key that was added later can be omitted again while no graph reads it', async () => {
      const wrapper = wrap(undefined, { warmupSteps: 3 });
      const more = { ...batch(1, 1), more: new Float32Array(3) };
      for (const data of [batch(1, 1), more, batch(1, 1), batch(1, 1), more, batch(1, 1)])
        wrapper.run(given([data].values()));
      expect(wrapper.graph.training).to.not.equal(null);
      wrapper.resetGraph();
      wrapper.run(given([batch(1, 1)].values()));
      expect(await valuesOf(rig.sum)).to.deep.equal([7, 7]);
    });

    const withOptionalY: IterationFunction<unknown, unknown> = ({ dataIterator }, { stream }) => {
      const { x, y } = (dataIterator as Iterator<Batch & { y?: Tensor }>).next().value as Batch & {
        y?: Tensor;
      };
      add(stream, rig.sum, x);
      if (y) add(stream, rig.sum, y);
      return null;
    };
    const withY = (y: number) => ({ ...batch(1, 1), y: new Float32Array([y, y]) });

    it('a key that was captured is read at every launch, and run() throws if it is missing', async () => {
      const wrapper = wrap(withOptionalY);
      wrapper.run(given([batch(1, 1)].values()));
      wrapper.run(given([withY(10)].values()));
      expect(await valuesOf(rig.sum)).to.deep.equal([12, 12]);
      for (const data of [batch(1, 1), { ...batch(1, 1), y: null }])
        expect(refusal(() => wrapper.run(given([data].values()))).message).to.include(
          "'y' of microbatch 0, iterator 0 is missing instead of float32 2",
        );
      expect([wrapper.currIter('training'), await valuesOf(rig.sum)]).to.deep.equal([2, [12, 12]]);
      wrapper.run(given([withY(1000)].values()));
      expect(await valuesOf(rig.sum)).to.deep.equal([1013, 1013]);
    });

    it('maxGraphs of 2 allows batches with and without a key, and each graph reads its captured keys', async () => {
      for (const first of [withY(10), batch(1, 1)]) {
        const wrapper = wrap(withOptionalY, { maxGraphs: 2, warmupSteps: 0 });
        rig.sum.write(new Float32Array(2));
        wrapper.run(given([first].values()));
        wrapper.run(given([batch(1, 1)].values()));
        wrapper.run(given([withY(100)].values()));
        // The graph that was captured without y ignores y. A key that is new after the capture does
        // not change the shape.
        const second = 'y' in first ? 1 + 10 + 1 + 1 + 100 : 1 + 1 + 1;
        expect(await valuesOf(rig.sum)).to.deep.equal([second, second]);
      }
    });

    it('run() accepts another shape while iterations are eager', async () => {
      const wrapper = wrap(
        ({ dataIterator }, { stream }) => {
          add(
            stream,
            rig.sum,
            ((dataIterator as Iterator<Batch>).next().value as Batch).x.view({ shape: [2] }),
          );
          return null;
        },
        { warmupSteps: 2 },
      );
      wrapper.run(given([batch(1, 1)].values()));
      wrapper.run(given([batch(1, 1, 1)].values()));
      wrapper.run(given([batch(1, 1, 1)].values()));
      expect([wrapper.graph.training === null, await valuesOf(rig.sum)]).to.deep.equal([
        false,
        [3, 3],
      ]);
    });
  });

  describe('resetGraph', () => {
    it('clears graph, result and counter of one stage, keeps its buffers, and run() captures again', async () => {
      const wrapper = wrap();
      for (let i = 0; i < 2; i++)
        for (const forwardOnly of [false, true])
          wrapper.run(given([batch(1, 1)].values(), { forwardOnly }));
      const buffers = wrapper.dataRead.training;
      wrapper.resetGraph('training');
      expect([
        wrapper.currIteration,
        wrapper.graph.training,
        wrapper.result.training,
      ]).to.deep.equal([{ training: 0, validation: 2 }, null, null]);
      expect(wrapper.graph.validation).to.not.equal(null);
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1)].values()));
      expect(wrapper.dataRead.training, 'the same tensors').to.deep.equal(buffers);
      expect([rig.calls, await valuesOf(rig.sum)]).to.deep.equal([6, [7, 7]]);
      wrapper.resetGraph();
      expect(wrapper.currIteration).to.deep.equal({ training: 0, validation: 0 });
    });

    it('allows the capture of another shape', async () => {
      const wrapper = wrap();
      for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
      wrapper.resetGraph('training');
      for (let i = 0; i < 3; i++)
        wrapper.run(given([batch(1, 1), batch(2, 2)].values(), { numMicrobatches: 2 }));
      expect([wrapper.graph.training === null, await valuesOf(rig.sum)]).to.deep.equal([
        false,
        [11, 11],
      ]);
    });

    it('can be called while a launch is pending', async () => {
      const wrapper = wrap();
      using stream = rig.device.createStream();
      for (let i = 0; i < 2; i++) wrapper.run(given([batch(1, 1)].values()));
      await rig.device.currentStream.synchronize();
      using latch = new Latch(rig.device).hold(stream);
      rig.device.withStream(stream, () => wrapper.run(given([batch(1, 1)].values())));
      wrapper.resetGraph();
      wrapper.close();
      latch.open();
      expect(await valuesOf(rig.sum, stream)).to.deep.equal([3, 3]);
    });
  });
});
