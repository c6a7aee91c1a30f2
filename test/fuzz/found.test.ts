/**
 * Tests the calls in which fuzzing once found a fault. Each call is refused with this code and
 * changes nothing.
 */
import { expect } from 'chai';
import { Calling } from './calling.ts';
import { kinds } from './kinds.ts';

type Found = readonly [code: string, call: string];

const found: readonly Found[] = [
  // The engine ends the process if a list is too large for memory.
  ['RANGE', 'new learner.SquashedGaussian(w.device, { actionDim: 2 ** 31 - 1, rows: 3 })'],
  [
    'RANGE',
    'collect.evaluate({ environments: [{}], policy: () => new Int32Array(1), episodes: 2 ** 32 - 1 })',
  ],
  ['RANGE', 'halo.periodicTopology({ layout: [3, 2 ** 40] })'],
  // These threw errors without a code: of the engine, or because a called member is missing.
  ['MEMORY', 'new learner.SacPolicy({ obsDim: 2 ** 32 - 1, actionDim: 1 })'],
  [
    'RANGE',
    'new learner.DqnLearner(w.host, { obsDim: 2 ** 52, actions: 2, hidden: [3], batchSize: 3 })',
  ],
  [
    'MEMORY',
    'hotslot.prioritizedIndices({ leaves: new Float64Array(1), seed: 0, count: 2 ** 40 })',
  ],
  ['MEMORY', 'w.buffer.sample({ seed: 0, count: 2 ** 32 - 1 })'],
  ['ARGUMENT', 'hotslot.ReplayBuffer.create({ capacity: 4, fields: { a: 2n } })'],
  ['ARGUMENT', 'collect.showProgress(Promise.resolve(1))'],
  [
    'ARGUMENT',
    'collect.evaluate({ environments: [{}], policy: () => new Int32Array(1), signal: 0 })',
  ],
  ['ARGUMENT', 'graph.copyTensorsInStruct({ a: w.tensor }, w.device, new Float32Array(1))'],
  ['ARGUMENT', 'graph.cloneTensorsInStruct({ a: w.tensor }, { a: w.tensor }, {})'],
  ['ARGUMENT', 'learner.ops.gt(w.stream, w.tensor, { ...w.tensor }, w.tensor)'],
  ['ARGUMENT', 'w.bytes.toArray({ ...w.stream })'],
  ['ARGUMENT', 'w.device.allocate({ shape: [Symbol("s"), 1] })'],
  ['ARGUMENT', 'w.matrix.view({ shape: [1], offset: odd.detached(Uint8Array) })'],
  ['ARGUMENT', 'w.matrix.view({ shape: [1], offset: 2n })'],
  ['ARGUMENT', 'w.random.loadState([1, 2, odd.detached(Uint8Array), 3])'],
  ['ARGUMENT', 'formats.decodeNpy(odd.detached(Uint8Array))'],
  [
    'ARGUMENT',
    'memory.adviseManagedTensorPreferredLocation(Object.create(w.filled), { device: 0 })',
  ],
  [
    'ARGUMENT',
    "w.host.loadKernels({ kernels: { k: { tensors: ['float32'] } }, images: { host: new Array(3) } })",
  ],
  ['ARGUMENT', 'learner.ops.clamp(w.stream, w.matrix, w.matrix, 0, odd.shrunk(Uint8Array))'],
  ['RANGE', 'w.group.average(odd.shrunk(Float32Array))'],
  ['ARGUMENT', 'formats.encodeOnnx(Object.create(w.sacPolicy))'],
  ['RANGE', 'w.device.allocate({ shape: [0, 2, 2 ** 53 - 1] })'],
  // A proxy of a device has none of its private members.
  ['ARGUMENT', 'new graph.StaticBufferLoader(odd.proxied(w.device))'],
  ['ARGUMENT', 'w.trajectories.drawable(Object.create(w.transitions))'],
  ['ARGUMENT', 'memory.createUnifiedMempool(odd.proxied(w.device))'],
  ['ARGUMENT', 'w.device.withStream(Object.create(w.stream), () => 1)'],
  ['ARGUMENT', 'w.spec.p2pSetup(Object.create(w.device))'],
  // These were refused, and yet left memory open or began an exchange.
  [
    'ARGUMENT',
    "new learner.Td3Learner(w.device, { obsDim: 1, actionDim: 1, batchSize: 1, activation: 'none' })",
  ],
  ['ARGUMENT', 'w.updater.updateSync([{ data: new Float32Array(20) }], undefined, { nope: 1 })'],
];

describe('invalid calls that fuzzing found', () => {
  for (const [code, form] of found)
    it(form, async () => {
      const calling = new Calling(await kinds.door('host:0'));
      expect(await calling.call({ form, values: [] })).to.equal(null);
      expect(await calling.fresh()).to.equal(null);
      expect(calling.counts).to.deep.include({ answers: 0, refusals: 1 });
      expect(calling.refusedWith).to.equal(`ERR_HOTSLOT_${code}`);
    });
});
