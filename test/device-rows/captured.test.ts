/**
 * Tests the graphs of a pipeline with rows on the device. Each slot has one graph, which draws rows,
 * gathers them and trains on them. A tick launches only this graph.
 */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import { nativeGraphs, nativeKernels } from '../../src/device/native.ts';
import { DqnLearner, type Learner, SacLearner } from '../../src/entries/learner.ts';
import {
  type Batch,
  type Device,
  openDevice,
  philoxIndices,
  ReplayBuffer,
  ReplayPipeline,
  type Tensor,
} from '../../src/index.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

const [ROWS, DEPTH, SEED, CAPACITY] = [16, 2, 2, 200];

/** A learner of the test, with the widths of observations and actions. */
interface Case {
  readonly obs: number;
  readonly actions: number;
  make(device: Device): Learner;
}
const cases: Readonly<Record<string, Case>> = {
  'double DQN': {
    ...{ obs: 3, actions: 1 },
    make: (device) =>
      new DqnLearner(device, { obsDim: 3, actions: 2, hidden: [8], batchSize: ROWS }),
  },
  SAC: {
    ...{ obs: 4, actions: 2 },
    make: (device) =>
      new SacLearner(device, {
        ...{ obsDim: 4, actionDim: 2, batchSize: ROWS },
        ...{ actorHidden: [8, 7], criticHidden: [8, 7] },
      }),
  },
};

/** Records the kernels that this thread launches, and the nodes of each graph that it captures. */
class Watched implements Disposable {
  readonly kernels: string[] = [];
  readonly nodes: number[] = [];
  readonly #undo: () => void;

  constructor() {
    const [kernels, graphs] = [nativeKernels(), nativeGraphs()];
    const [{ launch }, { endCapture }] = [kernels, graphs];
    kernels.launch = (stream, kernel, ...rest) => {
      this.kernels.push(kernel);
      launch(stream, kernel, ...rest);
    };
    graphs.endCapture = (stream) => {
      const graph = endCapture(stream);
      this.nodes.push(graphs.nodeCount(graph));
      return graph;
    };
    this.#undo = () => {
      kernels.launch = launch;
      graphs.endCapture = endCapture;
    };
  }
  [Symbol.dispose](): void {
    this.#undo();
  }
}

function filled({ obs, actions }: Case) {
  const buffer = ReplayBuffer.offPolicy({ capacity: CAPACITY, obsDim: obs, actionDim: actions });
  const numbers = new Random(5);
  const field = (width: number, of = () => numbers.between(-1, 1)) =>
    Float32Array.from({ length: CAPACITY * width }, of);
  buffer.add({
    ...{ obs: field(obs), nextObs: field(obs), rewards: field(1) },
    actions: actions === 1 ? field(1, () => numbers.below(2)) : field(actions),
    ...{ dones: field(1, () => numbers.below(2)), truncated: field(1, () => 0) },
  });
  return buffer;
}

/** Captures a learner's update, and returns the kernels and the nodes of the graph of each slot. */
async function captured(each: Case, learner: Learner, rows: 'host' | 'device') {
  const made = await ReplayPipeline.open({
    ...{ buffer: filled(each), device: TESTED, rows, sampleCount: ROWS, depth: DEPTH },
    ...{ baseSeed: SEED, placement: 'inline' },
  });
  const seen: { batch?: Batch; index?: Tensor<'int32'> | undefined } = {};
  using watched = new Watched();
  made.capture((batch, { stream, out, index }) => {
    Object.assign(seen, { batch, index });
    learner.update(stream, batch, out);
  });
  const { kernels, nodes } = watched;
  return { made, kernels, nodes, batch: seen.batch!, index: seen.index! };
}

describe('a pipeline with rows on the device', () => {
  for (const [name, each] of Object.entries(cases)) {
    it(`captures the draw, the gather and the update of ${name} in one graph for each slot`, async () => {
      using device = openDevice(TESTED);
      using learner = each.make(device);
      await learner.ready;
      const onDevice = await captured(each, learner, 'device');
      await using _device = onDevice.made;
      const onHost = await captured(each, learner, 'host');
      await using _host = onHost.made;
      // The update alone, on the batch of the pipeline.
      using out = device.allocate({ shape: [learner.scalars.length] });
      using watched = new Watched();
      device.currentStream.beginCapture();
      learner.update(device.currentStream, onDevice.batch, out);
      device.currentStream.endCapture().close();
      const { kernels, nodes } = watched;
      expect(onDevice.kernels).to.deep.equal(
        Array.from({ length: DEPTH }, () => ['draw_places', 'gather_places', ...kernels]).flat(),
      );
      // Each graph ends with copies of the mark and of the scalars.
      const ends = 2;
      if (ON_HOST) expect(nodes).to.deep.equal([kernels.length]);
      expect(onHost.nodes).to.deep.equal(Array(DEPTH).fill(nodes[0]! + ends));
      expect(onDevice.nodes).to.deep.equal(Array(DEPTH).fill(2 + nodes[0]! + ends));
    });

    it(`draws other rows in each tick of ${name}, and launches no kernel outside of the graph`, async () => {
      using device = openDevice(TESTED);
      using learner = each.make(device);
      await learner.ready;
      const { made, index } = await captured(each, learner, 'device');
      await using _made = made;
      const stateOf = async () =>
        Object.values(await learner.state()).map(({ data }) => Array.from(data, String));
      const before = await stateOf();
      using watched = new Watched();
      const ring = made.ring!;
      let tick = 0;
      // Ticks copy rows span by span, and later ticks draw from all rows.
      for (; tick < 100 && ring.stats().ingestedRows < CAPACITY; tick++)
        await made.run({ ticks: 1 });
      const { visible, drawable } = ring.stats();
      const range = { low: visible - drawable, span: drawable, capacity: CAPACITY };
      const seen: string[] = [];
      // Two ticks launch the graph of each slot.
      for (const end = tick + 2 * DEPTH; tick < end; tick++) {
        await made.run({ ticks: 1 });
        const drawn = [...(await index.toArray())];
        const wanted = philoxIndices({ seed: SEED, tick, ...range, count: ROWS });
        expect(drawn, `tick ${tick}`).to.deep.equal([...wanted]);
        seen.push(String(drawn));
      }
      expect(new Set(seen).size).to.equal(2 * DEPTH);
      expect([watched.kernels, watched.nodes]).to.deep.equal([[], []]);
      expect(await stateOf()).to.not.deep.equal(before);
    });
  }
});
