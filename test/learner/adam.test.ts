/**
 * Tests Adam on the device against float64 over ten steps, with and without clipping by the global
 * norm.
 */
import { expect } from 'chai';
import type { Device } from '../../src/device/device.ts';
import { openDevice } from '../../src/device/open.ts';
import { Adam } from '../../src/learn/adam.ts';
import { TESTED } from '../rig/tested-device.ts';
import { expectClose, ReferenceAdam, randomRows, rounded } from './reference.ts';

describe('Adam', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });
  const n = 1031;
  const start = rounded(randomRows(1, 1, n))[0] as number[];
  const gradients = rounded(randomRows(2, 10, n, 3));
  const normOf = (g: readonly number[]) => Math.sqrt(g.reduce((s, v) => s + v * v, 0));

  for (const maxGradNorm of [undefined, 20, 1000]) {
    it(`step() agrees with a float64 reference when maxGradNorm is ${maxGradNorm ?? 'omitted'}`, async () => {
      using parameters = device.allocate({ shape: [n] }).write(Float32Array.from(start));
      using gradient = device.allocate({ shape: [n] });
      const limit = maxGradNorm === undefined ? {} : { maxGradNorm };
      using adam = new Adam(device, parameters, { learningRate: 0.01, epsilon: 1e-6, ...limit });
      const want = [...start];
      const reference = new ReferenceAdam(n);
      for (const g of gradients) {
        gradient.write(Float32Array.from(g));
        adam.step(device.currentStream, gradient);
        const clip = maxGradNorm === undefined ? 1 : Math.min(1, maxGradNorm / (normOf(g) + 1e-6));
        reference.step(
          want,
          g.map((v) => v * clip),
          0.01,
          1e-6,
        );
      }
      expectClose(await parameters.toArray(), want, 3e-6, 'parameters');
      expect([...(await adam.steps.toArray())]).to.deep.equal([10]);
      if (maxGradNorm === undefined) return;
      const norm = normOf(gradients[9] as number[]);
      expectClose(await adam.gradientNorm.toArray(), [norm], 1e-5, 'norm');
      expectClose(await adam.clip.toArray(), [Math.min(1, maxGradNorm / norm)], 1e-5, 'clip');
    });
  }

  it('step() counts on the device, so that each launch of a captured step adds one', async () => {
    using parameters = device.allocate({ shape: [n] }).write(Float32Array.from(start));
    using gradient = device
      .allocate({ shape: [n] })
      .write(Float32Array.from(gradients[0] as number[]));
    using adam = new Adam(device, parameters);
    using stream = device.createStream();
    await device.currentStream.synchronize();
    stream.beginCapture();
    adam.step(stream, gradient);
    using graph = stream.endCapture();
    using exec = graph.instantiate();
    for (let i = 0; i < 5; i++) stream.replay(exec);
    expect([...(await adam.steps.toArray(stream))]).to.deep.equal([5]);
  });

  it('throws a RangeError for options out of range and for a gradient of another size', () => {
    using parameters = device.allocate({ shape: [4] });
    using other = device.allocate({ shape: [5] });
    const make = (options: object) => () => new Adam(device, parameters, options);
    expect(make({ beta2: 1 })).to.throw(RangeError, 'beta2 must be within [0, 0.999999999], got 1');
    expect(make({ learningRate: Number.NaN })).to.throw(RangeError, 'learningRate');
    expect(make({ maxGradNorm: 0 })).to.throw(RangeError, 'maxGradNorm');
    using adam = new Adam(device, parameters);
    expect(() => adam.step(device.currentStream, other)).to.throw(
      RangeError,
      'gradient must be 4 contiguous floats, got 5',
    );
  });
});
