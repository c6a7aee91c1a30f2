/**
 * Tests random numbers on the device. They are counter-based, so replays draw new numbers and a
 * checkpoint continues the sequence.
 */
import { expect } from 'chai';
import { captureGraph } from '../../src/device/graph/shared.ts';
import { DeviceGenerator } from '../../src/entries/graph.ts';
import { type Device, openDevice } from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import { valuesOf } from '../rig/tensors.ts';
import { TESTED } from '../rig/tested-device.ts';

describe('graph/generator', () => {
  let device: Device;
  before(() => {
    device = openDevice(TESTED);
  });
  after(() => device.close());

  it('1,000 launches of a graph draw different numbers, equal to eager runs with the same seed', async () => {
    const runs = 1000;
    const draws = 24;
    using eager = new DeviceGenerator(device, { seed: 2 ** 40 + 5 });
    using captured = new DeviceGenerator(device, { seed: 2n ** 40n + 5n });
    await device.currentStream.synchronize(); // waits until the seeds are written
    using history = device.allocate({ shape: [runs, draws] });
    using out = device.allocate({ shape: [draws] });
    using stream = device.createStream();
    const draw = (generator: DeviceGenerator) => {
      generator.uniform(device.currentStream, out.view({ shape: [13] }));
      generator.normal(device.currentStream, out.view({ shape: [11], offset: 13 }), {
        mean: 1,
        deviation: 2,
      });
    };
    const row = (i: number) => history.view({ shape: [draws], offset: i * draws });
    for (let i = 0; i < runs; i++)
      device.withStream(stream, () => {
        draw(eager);
        stream.copy(row(i), out);
      });
    const wanted = await valuesOf(history, stream);
    using exec = captureGraph(device, { what: 'the test', pool: null }, () => draw(captured)).exec;
    stream.fill(history, 0);
    for (let i = 0; i < runs; i++) {
      stream.replay(exec);
      stream.copy(row(i), out);
    }
    const replayed = await valuesOf(history, stream);
    expect(replayed).to.deep.equal(wanted);
    const rows = new Set(
      Array.from({ length: runs }, (_, i) => replayed.slice(i * draws, (i + 1) * draws).join()),
    );
    expect(rows.size, 'number of different runs').to.equal(runs);
    const state = { seed: 2n ** 40n + 5n, offset: BigInt(runs * (4 + 3)) };
    expect([await captured.state(stream), await eager.state(stream)]).to.deep.equal([state, state]);
  });

  it('restore() resumes from a saved state inside a captured graph', async () => {
    using generator = new DeviceGenerator(device, { seed: 3 });
    using out = device.allocate({ shape: [5] });
    const stream = device.currentStream;
    using exec = captureGraph(device, { what: 'the test', pool: null }, (on) =>
      generator.uniform(on, out),
    ).exec;
    stream.replay(exec);
    const kept = await generator.state();
    expect(kept).to.deep.equal({ seed: 3n, offset: 2n });
    stream.replay(exec);
    const next = await valuesOf(out);
    stream.replay(exec);
    generator.restore(kept);
    stream.replay(exec);
    expect(await valuesOf(out)).to.deep.equal(next);
    generator.restore({ seed: 2n ** 64n - 1n, offset: 2n ** 64n - 1n });
    stream.replay(exec);
    expect(await generator.state()).to.deep.equal({ seed: 2n ** 64n - 1n, offset: 1n });
  });

  it('uniform() and normal() draw numbers of the requested range, mean and deviation', async () => {
    using generator = new DeviceGenerator(device);
    using out = device.allocate({ shape: [40_000] });
    generator.uniform(device.currentStream, out, { low: -2, high: 6 });
    const uniform = await valuesOf(out);
    expect(Math.min(...uniform)).to.be.within(-2, -1.98);
    expect(Math.max(...uniform)).to.be.within(5.98, 6);
    generator.normal(device.currentStream, out, { mean: 5, deviation: 3 });
    const normal = await valuesOf(out);
    const mean = normal.reduce((sum, x) => sum + x, 0) / normal.length;
    const variance = normal.reduce((sum, x) => sum + (x - mean) ** 2, 0) / normal.length;
    expect(mean).to.be.within(4.9, 5.1);
    expect(variance).to.be.within(8.7, 9.3);
    using none = device.allocate({ shape: [0] });
    generator.normal(device.currentStream, none);
    expect((await generator.state()).offset).to.equal(20_000n);
  });

  it('DeviceGenerator throws for invalid seeds, ranges and tensors, with the value', () => {
    for (const [seed, words] of [
      [-1, 'got -1'],
      [0.5, 'got 0.5'],
      [2n ** 64n, 'got 18446744073709551616'],
      ['1', "string ('1')"],
    ] as const)
      expect(
        refusal(() => new DeviceGenerator(device, { seed: seed as number })).message,
      ).to.include(words);
    using generator = new DeviceGenerator(device);
    using out = device.allocate({ shape: [4] });
    using whole = device.allocate({ shape: [4], dtype: 'int32' });
    const stream = device.currentStream;
    const refuses = (call: () => void, words: string) =>
      expect(refusal(call).message).to.include(words);
    refuses(
      () => generator.uniform(stream, out, { low: 1, high: 1 }),
      'low must be below high, got 1 and 1',
    );
    refuses(
      () => generator.normal(stream, out, { deviation: -1 }),
      'deviation must be within [0, 1e+30], got -1',
    );
    refuses(() => generator.normal(stream, out, { std: 1 } as never), "unknown option 'std'");
    refuses(() => generator.uniform(stream, whole as never), 'got int32');
    refuses(() => generator.uniform(stream, out.view({ shape: [2], strides: [2] })), 'strides [2]');
    refuses(
      () => generator.restore({ seed: 1n } as never),
      'offset must be a whole number, got undefined',
    );
    generator.close();
    expect(refusal(() => generator.uniform(stream, out)).code).to.equal('ERR_HOTSLOT_STATE_CLOSED');
  });
});
