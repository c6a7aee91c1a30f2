/** Tests that every function with options rejects a misspelt option, and lists the valid names. */
import { expect } from 'chai';
import { DeviceGenerator } from '../../src/entries/graph.ts';
import { Adam, DqnLearner, Mlp } from '../../src/entries/learner.ts';
import {
  CpuTensor,
  type Device,
  openDevice,
  ReplayBuffer,
  uniformIndices,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';

describe('checks of options and tensors', () => {
  let device: Device;
  before(() => {
    device = openDevice('host:0');
  });
  after(() => device.close());

  it('calls throw for an unknown option, with its name and the known names', () => {
    using tensor = device.allocate({ shape: [4] });
    using buffer = ReplayBuffer.offPolicy({ capacity: 4, obsDim: 1, actionDim: 1 });
    using generator = new DeviceGenerator(device);
    const mlp = new Mlp({ sizes: [1, 2] });
    const stream = device.defaultStream;
    const calls: Record<string, (wrong: object) => unknown> = {
      Adam: (wrong) => new Adam(device, tensor, { ...wrong }),
      Mlp: (wrong) => new Mlp({ sizes: [1, 2], ...wrong }),
      workspace: (wrong) => mlp.workspace(device, 2, { ...wrong }),
      DqnLearner: (wrong) =>
        new DqnLearner(device, {
          obsDim: 1,
          actions: 2,
          hidden: [2],
          batchSize: 1,
          ...wrong,
        } as never),
      DeviceGenerator: (wrong) => new DeviceGenerator(device, { ...wrong }),
      uniform: (wrong) => generator.uniform(stream, tensor, { ...wrong }),
      view: (wrong) => tensor.view({ shape: [1], ...wrong }),
      sample: (wrong) => buffer.sample({ seed: 1, count: 1, ...wrong }),
      uniformIndices: (wrong) => uniformIndices({ seed: 1, size: 2, count: 1, ...wrong }),
    };
    for (const [what, call] of Object.entries(calls)) {
      const error = refusal(() => call({ ofset: 1 }));
      expect([error.code, error.message.split('; ')[0]], what).to.deep.equal([
        'ERR_HOTSLOT_ARGUMENT',
        `${what}: unknown option 'ofset'`,
      ]);
      expect(error.message).to.match(/; it takes \w+/);
    }
  });

  it('DqnLearner accepts optimizer options, and throws for an invalid learningRate or hidden', () => {
    const options = { obsDim: 1, actions: 2, hidden: [2], batchSize: 1 };
    new DqnLearner(device, { ...options, learningRate: 0.1, maxGradNorm: 2 }).close();
    expect(
      refusal(() => new DqnLearner(device, { ...options, learningRate: 2e6 })).message,
    ).to.include('learningRate');
    expect(
      refusal(() => new DqnLearner(device, { ...options, hidden: 3 } as never)).message,
    ).to.include('hidden must be');
  });

  it('view() and CpuTensor throw for an invalid shape, and view() for an unknown dtype', () => {
    using tensor = device.allocate({ shape: [4] });
    for (const shape of [[-4], [1.5], [Number.NaN], ['2'], 4, '4', null, undefined]) {
      for (const call of [
        () => tensor.view({ shape: shape as never }),
        ...(shape === undefined ? [] : [() => new CpuTensor(new Float32Array(4), shape as never)]),
      ])
        expect(refusal(call).code, String(shape)).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE)$/);
    }
    for (const shape of [
      [-2, -2],
      [0.5, 8],
    ])
      expect(refusal(() => new CpuTensor(new Float32Array(4), shape)).message).to.include(
        'whole number',
      );
    expect(
      refusal(() => tensor.view({ shape: [1], dtype: 'complex64' as never })).message,
    ).to.include('unknown dtype');
  });

  it('CpuTensor takes its dtype from the array, and throws if array and dtype do not fit', () => {
    expect(new CpuTensor(new Uint8Array(4)).dtype).to.equal('uint8');
    expect(new CpuTensor(new Uint8Array(4), [4], 'bool').dtype).to.equal('bool');
    const made = (dtype: string) => () => new CpuTensor(new Uint8Array(4), [4], dtype as never);
    expect(refusal(made('float16')).message).to.include(
      'of float16 must be made from a Uint16Array, got a Uint8Array of 4',
    );
    expect(refusal(made('half')).message).to.include("unknown dtype 'half'");
    expect(refusal(() => new CpuTensor([] as never)).message).to.match(
      /^a cpu tensor must be made from one of \w+(, \w+){9}; got/,
    );
  });
});
