/**
 * Tests FullGraphWrapper with calls at the wrong moment, and with functions, iterators and streams
 * that fail.
 */
import { expect } from 'chai';
import {
  FullGraphWrapper,
  getSharedCaptureStream,
  type IterationFunction,
} from '../../src/entries/graph.ts';
import { Latch } from '../rig/latch.ts';
import { refusal } from '../rig/refusal.ts';
import { add, valuesOf } from '../rig/tensors.ts';
import { ON_HOST } from '../rig/tested-device.ts';
import { until } from '../rig/until.ts';
import { batch, given, WrapperRig } from './wrapper-rig.ts';

describe('graph/full-graph-wrapper', () => {
  const rig = new WrapperRig();
  const { wrap, addAll } = rig;

  describe('failures', () => {
    const warnings: string[] = [];
    const listen = (warning: Error) => warnings.push(warning.message);
    beforeEach(() => {
      warnings.length = 0;
      process.on('warning', listen);
    });
    afterEach(() => void process.off('warning', listen));

    it('a capture that fails emits one warning, and iterations run eagerly until resetGraph()', async () => {
      let allowed = false;
      const wrapper = wrap((args, context) => {
        if (!allowed) rig.device.createEvent().close();
        // Captures do not allow allocations.
        if (!allowed) rig.device.allocate({ shape: [1] }).close();
        return addAll(args, context);
      });
      for (let i = 0; i < 4; i++) wrapper.run(given([batch(1, 1)].values()));
      expect(await valuesOf(rig.sum)).to.deep.equal([4, 4]);
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
      expect([wrapper.graph.training === null, wrapper.reason.training]).to.deep.equal([
        false,
        null,
      ]);
      expect(await valuesOf(rig.sum)).to.deep.equal([6, 6]);
    });

    it('a function that throws during the capture runs again eagerly, and the next call works', async () => {
      let broken = 0;
      const wrapper = wrap((args, context) => {
        if (rig.calls === 1 && broken++ === 0) {
          add(context.stream, rig.sum, rig.sum);
          throw new Error('once');
        }
        return addAll(args, context);
      });
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1)].values()));
      expect([broken, wrapper.currIter('training'), await valuesOf(rig.sum)]).to.deep.equal([
        2,
        3,
        [3, 3],
      ]);
      expect((wrapper.reason.training?.cause as Error).message).to.equal('once');
    });

    it('run() throws the error of an eager function, and does not count the iteration', async () => {
      let broken = true;
      const wrapper = wrap((args, context) => {
        if (broken) throw new Error('mine');
        return addAll(args, context);
      });
      expect(refusal(() => wrapper.run(given([batch(1, 1)].values()))).message).to.equal('mine');
      expect(wrapper.currIter('training')).to.equal(0);
      broken = false;
      for (let i = 0; i < 3; i++) wrapper.run(given([batch(1, 1)].values()));
      expect(await valuesOf(rig.sum)).to.deep.equal([3, 3]);
    });

    it('work enqueued before the function throws executes before later work of the caller', async () => {
      using big = rig.device.allocate({ shape: [1 << 16] });
      const wrapper = wrap((_, { stream }) => {
        for (let i = 0; i < 50; i++) add(stream, big, big);
        stream.fill(rig.sum, 1);
        throw new Error('mine');
      });
      expect(refusal(() => wrapper.run(given(null))).message).to.equal('mine');
      rig.device.currentStream.fill(rig.sum, 7);
      expect(await valuesOf(rig.sum)).to.deep.equal([7, 7]);
      await getSharedCaptureStream(rig.device).synchronize();
      expect(await valuesOf(rig.sum)).to.deep.equal([7, 7]);
    });

    it('a function that waits inside a capture sets reason, and still runs once', async () => {
      const waits: Promise<void>[] = [];
      const wrapper = wrap(
        (args, context) => {
          waits.push(context.stream.synchronize().catch(() => {}));
          return addAll(args, context);
        },
        { warmupSteps: 0 },
      );
      wrapper.run(given([batch(1, 1)].values()));
      expect(wrapper.reason.training).to.be.instanceOf(Error);
      expect(await valuesOf(rig.sum)).to.deep.equal([1, 1]);
      // A pending wait keeps the stream open.
      await Promise.all(waits);
    });

    it('a failed current stream leaves the wrapper and other streams usable', async function () {
      if (!ON_HOST) this.skip(); // on a GPU, a failed stream loses the device
      for (const warmupSteps of [100, 0]) {
        const wrapper = wrap(addAll, { warmupSteps });
        wrapper.run(given([batch(1, 1)].values()));
        using bad = rig.device.createStream();
        using latch = new Latch(rig.device).hold(bad);
        bad.launch('fail');
        rig.device.withStream(bad, () => wrapper.run(given([batch(1, 1)].values())));
        latch.open();
        await until('the stream has failed', () => {
          try {
            bad.query();
            return false;
          } catch {
            return true;
          }
        });
        rig.device.currentStream.fill(rig.sum, 0);
        for (let i = 0; i < 3; i++) {
          using good = rig.device.createStream();
          rig.device.withStream(good, () => wrapper.run(given([batch(1, 1)].values())));
          await good.synchronize();
        }
        using other = rig.device.createStream();
        expect((await valuesOf(rig.sum, other))[0], `${warmupSteps} warm-up steps`).to.be.within(
          3,
          4,
        );
        const innocent = wrap(() => null, { warmupSteps: 0 });
        innocent.run(given(null));
        expect(innocent.reason.training).to.equal(null);
      }
    });

    it('close() and resetGraph() throw when the wrapped function calls them', () => {
      for (const act of ['close', 'resetGraph'] as const) {
        const wrapper: FullGraphWrapper<unknown, unknown> = wrap(() => wrapper[act]());
        expect(refusal(() => wrapper.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_RUNNING');
        wrapper.close();
      }
    });

    it('run() throws if the function returns a promise, and inside another run()', () => {
      const later = wrap((async () => null) as unknown as IterationFunction<unknown, unknown>);
      expect(refusal(() => later.run(given(null))).message).to.include('promise');
      const inner = wrap();
      const outer = wrap(() => inner.run(given([batch(1, 1)].values())));
      expect(refusal(() => outer.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_BUSY');
      const self: FullGraphWrapper<unknown, unknown> = wrap(() => self.run(given(null)));
      expect(refusal(() => self.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_RUNNING');
    });

    it('run() throws if an iterator ends early, with the microbatch, and applies no update', async () => {
      const wrapper = wrap();
      const error = refusal(() =>
        wrapper.run(given([batch(1, 1)].values(), { numMicrobatches: 3 })),
      );
      expect([error.code, error.message]).to.deep.equal([
        'ERR_HOTSLOT_RANGE',
        'the data iterator ended at microbatch 1 of 3 (training): it must give 3 for every iteration',
      ]);
      const endless = function* () {
        for (;;) yield batch(1, 1);
      };
      const iterator = endless();
      for (let i = 0; i < 3; i++) wrapper.run(given(iterator, { numMicrobatches: 3 }));
      expect([wrapper.currIter('training'), await valuesOf(rig.sum)]).to.deep.equal([3, [9, 9]]);
    });

    it('run() and the constructor throw for positional, misspelled and invalid arguments', () => {
      const wrapper = wrap();
      const run = wrapper.run.bind(wrapper) as unknown as (...args: unknown[]) => void;
      const all = given(null);
      for (const [args, words] of [
        [[null, null, 1, 2, false], 'got 5 arguments'],
        [[all, 1], 'got 2 arguments'],
        [[], 'got 0 arguments'],
        [[null], 'got null'],
        [[{ ...all, seqLen: 3 }], "'seqLen' is unknown"],
        [
          [{ model: null, dataIterator: null, numMicrobatches: 1, seqLength: 2 }],
          "'forwardOnly' is missing",
        ],
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
      expect(refusal(() => wrapper.currIter('testing' as never)).message).to.include(
        "got 'testing'",
      );
      wrapper.close();
      wrapper.close();
      expect(refusal(() => wrapper.run(given(null))).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
    });
  });
});
